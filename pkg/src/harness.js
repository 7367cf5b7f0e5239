// Agent sessions: pure helpers in plain JavaScript. Importing this entry loads no wasm.
import { CellsError } from './error.js';

export { CellsError };

export function harnessArchiveAllowed(session) {
  if (session.archived || session.activeTurnId != null) return false;
  if (session.status !== 'idle' && session.status !== 'notLoaded') return false;
  if (typeof session.archiveAllowed === 'boolean') return session.archiveAllowed;
  return session.status === 'notLoaded' || session.owned === true;
}

export async function conversationBranches(client, profileId, session, { archived = false, ...options } = {}) {
  const listed = new Map();
  for (const inArchive of archived ? [false, true] : [false]) {
    const cursors = new Set();
    for (let cursor; ; ) {
      const page = await client.list(profileId, { ...options, archived: inArchive, limit: 100, cursor });
      for (const one of page.sessions) if (!listed.has(one.id)) listed.set(one.id, one);
      if (page.nextCursor == null) break;
      cursor = page.nextCursor;
      if (cursors.has(cursor)) throw failed('EIO', 'the list of sessions goes round in a circle', 'protocol');
      cursors.add(cursor);
      if (listed.size > MOST || cursors.size > MOST) throw failed('EFBIG', `there are more than ${MOST} sessions`);
    }
  }
  const sessions = [...(listed.has(session.id) ? [] : [session]), ...listed.values()];
  const relatives = new Map();
  const relate = (one, other) => {
    if (!relatives.has(one)) relatives.set(one, []);
    relatives.get(one).push(other);
  };
  for (const { id, parentSessionId: parent } of sessions) {
    if (parent == null) continue;
    relate(id, parent);
    relate(parent, id);
  }
  const family = new Set();
  for (const toVisit = [session.id]; toVisit.length > 0; ) {
    const id = toVisit.pop();
    if (family.has(id)) continue;
    family.add(id);
    for (const relative of relatives.get(id) ?? []) toVisit.push(relative);
  }
  return sessions.filter(({ id }) => family.has(id));
}

function failed(code, message, operation = 'conversation_branches') {
  return new CellsError(code, message, { operation });
}

const MOST = 10_000;
