import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { Project } from '../support/project.js';

let entry;
before(async () => {
  const project = await Project.create();
  entry = await project.import('node-authorization.js');
});

const GOOD = { principalId: 'owner', anonymous: false, revision: '3f1c9a7e0b52' };

test('a snapshot becomes a frozen copy of exactly its three members', () => {
  const given = { ...GOOD, more: 1 };
  const snapshot = entry.validateAuthorization(given);
  assert.deepEqual(snapshot, GOOD);
  assert.ok(Object.isFrozen(snapshot));
  assert.notEqual(snapshot, given);
  for (const revision of [0, 7, 9007199254740991, 'a-Z_9', 'x'.repeat(128)]) {
    assert.equal(entry.validateAuthorization({ ...GOOD, revision }).revision, revision);
  }
});

test('anything else is refused with EINVAL and the name of the member', () => {
  const cases = [
    [undefined, 'object'],
    [null, 'object'],
    ['owner', 'object'],
    [[GOOD], 'object'],
    [{ ...GOOD, principalId: undefined }, 'principalId'],
    [{ ...GOOD, principalId: '' }, 'principalId'],
    [{ ...GOOD, principalId: 'a b' }, 'principalId'],
    [{ ...GOOD, principalId: 'owner\n' }, 'principalId'],
    [{ ...GOOD, principalId: 'x'.repeat(129) }, 'principalId'],
    [{ ...GOOD, anonymous: 'false' }, 'anonymous'],
    [{ ...GOOD, anonymous: 0 }, 'anonymous'],
    [{ ...GOOD, revision: null }, 'revision'],
    [{ ...GOOD, revision: -1 }, 'revision'],
    [{ ...GOOD, revision: 1.5 }, 'revision'],
    [{ ...GOOD, revision: 9007199254740992 }, 'revision'],
    [{ ...GOOD, revision: NaN }, 'revision'],
    [{ ...GOOD, revision: 3n }, 'revision'],
    [{ ...GOOD, revision: '' }, 'revision'],
  ];
  for (const [value, part] of cases) {
    assert.throws(
      () => entry.validateAuthorization(value),
      (error) => {
        assert.ok(error instanceof entry.CellsError);
        assert.equal(error.name, 'CellsError');
        assert.equal(error.code, 'EINVAL');
        assert.match(error.message, new RegExp(part));
        return true;
      },
    );
  }
});

test('snapshots are compared by type and value, absent ones too', () => {
  const same = entry.sameAuthorization;
  assert.ok(same(GOOD, { ...GOOD, more: 1 }));
  assert.ok(same(undefined, undefined));
  assert.ok(same(null, undefined));
  assert.ok(!same(GOOD, undefined));
  assert.ok(!same(null, GOOD));
  assert.ok(!same(GOOD, { ...GOOD, principalId: 'other' }));
  assert.ok(!same(GOOD, { ...GOOD, anonymous: true }));
  assert.ok(!same({ ...GOOD, revision: 7 }, { ...GOOD, revision: '7' }));
  assert.throws(() => same(GOOD, {}), { code: 'EINVAL' });
});

test('a snapshot gives the two headers that pin a request', () => {
  assert.deepEqual(entry.authorizationHeaders({ ...GOOD, revision: 7 }), {
    'x-fsagent-principal': 'owner',
    'x-fsagent-principal-revision': '7',
  });
  assert.throws(() => entry.authorizationHeaders(undefined), { code: 'EINVAL' });
});
