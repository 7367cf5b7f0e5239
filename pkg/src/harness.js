// Agent sessions: pure helpers in plain JavaScript. Importing this entry loads no wasm.
export { CellsError } from './error.js';

export function harnessArchiveAllowed(session) {
  if (session.archived || session.activeTurnId != null) return false;
  if (session.status !== 'idle' && session.status !== 'notLoaded') return false;
  if (typeof session.archiveAllowed === 'boolean') return session.archiveAllowed;
  return session.status === 'notLoaded' || session.owned === true;
}
