// Authorization snapshots in plain JavaScript: importing this entry loads no wasm.
import { CellsError } from './error.js';

export { CellsError };

export function validateAuthorization(value) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalid('an authorization snapshot must be an object');
  }
  const { principalId, anonymous, revision } = value;
  if (!isId(principalId)) throw invalid(`authorization.principalId must be ${ID_FORM}`);
  if (typeof anonymous !== 'boolean') throw invalid('authorization.anonymous must be true or false');
  if (!isId(revision) && !isCount(revision)) {
    throw invalid(`authorization.revision must be ${ID_FORM}, or an integer from 0 to 9007199254740991`);
  }
  return Object.freeze({ principalId, anonymous, revision });
}

export function sameAuthorization(a, b) {
  if (a == null || b == null) return a == null && b == null;
  const [one, other] = [validateAuthorization(a), validateAuthorization(b)];
  return (
    one.principalId === other.principalId && one.anonymous === other.anonymous && one.revision === other.revision
  );
}

export function authorizationHeaders(snapshot) {
  const { principalId, revision } = validateAuthorization(snapshot);
  return { 'x-fsagent-principal': principalId, 'x-fsagent-principal-revision': String(revision) };
}

function isId(value) {
  return typeof value === 'string' && /^[A-Za-z0-9_-]{1,128}$/.test(value);
}

function isCount(value) {
  return Number.isSafeInteger(value) && value >= 0;
}

function invalid(message) {
  return new CellsError('EINVAL', message, { operation: 'authorization' });
}

const ID_FORM = '1 to 128 characters of A-Z, a-z, 0-9, _ and -';
