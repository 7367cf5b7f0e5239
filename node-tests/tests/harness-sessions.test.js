// What is done to whole sessions, attachments, search, digests and branches, in Node and in Chromium: what is sent, what is
// refused before, what comes back.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HOSTS, World } from '../support/hosts.js';

let world;
before(async () => {
  world = await World.start();
});
after(() => world.close());

/** The calls of this file. Each gets a client and a profile; the second list is what their tools answer. */
const CALLS = {
  fork: (client, profile) => client.fork(profile, 's-1', 'try two'),
  'fork without a name': (client, profile) => client.fork(profile, 's-1', null),
  rename: (client, profile) => client.rename(profile, 's-1', ' Second '),
  archive: (client, profile) => client.archive(profile, 's-1', true),
  unarchive: (client, profile) => client.archive(profile, 's-1', false),
  delete: (client, profile) => client.delete(profile, 's-1'),
  'turn with a text': (client, profile) =>
    client.turn(profile, 's-1', 'look', { attachments: [{ kind: 'text', name: 'notes.md', content: '# Notes\n' }] }),
  'turn with an image': (client, profile) =>
    client.turn(profile, 's-1', 'look', {
      attachments: [{ kind: 'image', name: 'a.png', mimeType: 'image/png', content: 'data:image/png;base64,iVBORw0KGgo=' }],
    }),
};
const SESSION = { id: 's-2', title: 'Second', cwd: null, status: 'idle', createdAt: null, updatedAt: null, resumable: true, archived: false, activeTurnId: null };
const SENT = {
  fork: ['harness_fork', { name: 'try two' }, { session: SESSION }],
  'fork without a name': ['harness_fork', {}, { session: SESSION }],
  rename: ['harness_rename', { name: 'Second' }, { session: SESSION }],
  archive: ['harness_archive', {}, { session: SESSION }],
  unarchive: ['harness_unarchive', {}, { session: SESSION }],
  delete: ['harness_delete', {}, { deletedSessionIds: ['s-1', 's-2'] }],
  'turn with a text': ['harness_turn', { prompt: 'look', attachments: [{ kind: 'text', name: 'notes.md', content: '# Notes\n' }] }, { turnId: 't-1' }],
  'turn with an image': [
    'harness_turn',
    { prompt: 'look', attachments: [{ kind: 'image', name: 'a.png', mimeType: 'image/png', content: 'data:image/png;base64,iVBORw0KGgo=' }] },
    { turnId: 't-1' },
  ],
};

/** Runs every call in a host, on a node that is a function there. */
async function runAll({ cells, endpoint, caught }, { calls, results, mode }) {
  const seen = [];
  const can = { fork: true, search: true, rename: true, archive: true, unarchive: true, delete: true, sessionDigest: true, attachments: ['text', 'image'] };
  const profiles = [
    { id: 'main', kind: 'scripted', capabilities: can },
    { id: 'plain', kind: 'scripted', capabilities: { attachments: ['sound'], fork: 'true', rename: 1 } },
  ];
  for (const [name, call] of calls) {
    const sent = [];
    const fetch = async (url, { body }) => {
      if (url.endsWith('/v1/capabilities')) return new Response('', { status: 404 });
      const { id, params } = JSON.parse(new TextDecoder().decode(body));
      const answer = (value) =>
        new Response(JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', isError: false, structuredContent: value } }), {
          headers: { 'content-type': 'application/json' },
        });
      if (params.name === 'harness_profiles') return answer({ epoch: '0'.repeat(64), profiles });
      sent.push([params.name, params.arguments]);
      if (mode === 'lost') throw new TypeError('fetch failed');
      const result = mode === 'bad' ? { session: 7, deletedSessionIds: ['s-2'], turnId: {} } : results[name];
      return answer({ outcome: 'committed', requestId: params.arguments.requestId, result });
    };
    const driver = cells.createCellsDriver(() => 'key', fetch);
    const client = driver.harness({ endpoint, credentialRef: 'node' });
    const run = new Function('client', 'profile', `return (${call})(client, profile)`);
    const outcome = await caught(run(client, mode === 'plain' ? 'plain' : 'main'));
    seen.push({ name, sent, outcome });
    await driver.dispose();
  }
  return seen;
}

const run = (host, mode) => {
  const calls = Object.entries(CALLS).map(([name, call]) => [name, String(call)]);
  const results = Object.fromEntries(Object.entries(SENT).map(([name, [, , result]]) => [name, result]));
  return world.run(host, 'the local node', runAll, { given: { calls, results, mode } });
};

for (const host of HOSTS) {
  test(`each call sends its arguments once and gives its result: ${host}`, async () => {
    for (const { name, sent, outcome } of await run(host, 'good')) {
      const [tool, args, result] = SENT[name];
      assert.ok(outcome.value, `${name}: ${outcome.message}`);
      const { recovery, ...value } = outcome.value;
      assert.deepEqual(value, result, name);
      assert.deepEqual(sent, [[tool, { ...recovery, sessionId: 's-1', ...args }]], name);
    }
  });

  test(`a result that cannot be read is committed all the same: ${host}`, async () => {
    for (const { name, sent, outcome } of await run(host, 'bad')) {
      assert.deepEqual([outcome.outcome, outcome.reason, outcome.code], ['committed', 'HARNESS_RESULT_INVALID', 'EIO'], name);
      assert.equal(outcome.recovery.requestId, sent[0][1].requestId);
      assert.equal(sent.length, 1);
    }
  });

  test(`a lost reply is unknown and says what to ask: ${host}`, async () => {
    for (const { name, sent, outcome } of await run(host, 'lost')) {
      assert.deepEqual([outcome.outcome, outcome.code], ['unknown', 'EIO'], name);
      assert.equal(outcome.recovery.requestId, sent[0][1].requestId);
      assert.equal(sent.length, 1);
    }
  });

  test(`what a profile does not announce is not sent: ${host}`, async () => {
    for (const { name, sent, outcome } of await run(host, 'plain')) {
      assert.deepEqual([outcome.outcome, outcome.code, sent.length], ['not-started', 'ECAPABILITY', 0], name);
    }
  });

  test(`wrong arguments make no request: ${host}`, async () => {
    const task = async ({ cells, endpoint, caught }) => {
      let n_requests = 0;
      const driver = cells.createCellsDriver(() => 'key', async () => {
        n_requests += 1;
        throw new TypeError('fetch failed');
      });
      const client = driver.harness({ endpoint, credentialRef: 'node' });
      const attach = (...attachments) => client.turn('main', 's-1', 'look', { attachments });
      const text = { kind: 'text', name: 'a', content: 'x' };
      const mutations = [
        () => client.fork('main', 's-1', ' '),
        () => client.fork('main', 's-1', 7),
        () => client.rename('main', 's-1', 'x'.repeat(513)),
        () => client.rename('main', 's-1'),
        () => client.archive('main', 's-1'),
        () => client.archive('main', 's-1', 'yes'),
        () => client.delete('main', ''),
        () => attach(text, text, text, text, text, text),
        () => attach({ ...text, name: 'a/b' }),
        () => attach({ ...text, content: 'x'.repeat(65_537) }),
        () => attach({ ...text, kind: 'sound' }),
        () => attach({ kind: 'image', name: 'a', mimeType: 'image/png', content: 'https://example.com/a.png' }),
        () => attach({ kind: 'image', name: 'a', mimeType: 'image/gif', content: 'data:image/gif;base64,R0lGODlh' }),
        () => attach('x'),
        () => client.turn('main', 's-1', 'look', { attachments: {} }),
        () => client.respond('main', 2 ** 53, {}),
        () => client.respond('main', 1.5, {}),
      ];
      const reads = [
        () => client.search('main', 'build'),
        () => client.search('main', { query: ' ', mode: 'title' }),
        () => client.search('main', { query: 'x', mode: 'path' }),
        () => client.search('main', { query: 'é'.repeat(513), mode: 'title' }),
        () => client.digest('main', 's-1', { cursor: '1' }),
        () => client.digest('main', 's-1', { expectedRevision: 'not one' }),
        () => client.list('main', { limit: 0 }),
        () => client.list('main', { limit: 101 }),
        () => client.list('main', { limit: '7' }),
      ];
      const seen = { mutations: [], reads: [] };
      for (const call of mutations) seen.mutations.push(await caught(call()));
      for (const call of reads) seen.reads.push(await caught(call()));
      await driver.dispose();
      return { ...seen, n_requests };
    };
    const { mutations, reads, n_requests } = await world.run(host, 'the local node', task);
    for (const [number, { code, outcome, message }] of mutations.entries()) {
      assert.deepEqual([code, outcome], ['EINVAL', 'not-started'], `mutation ${number}: ${message}`);
    }
    for (const [number, { code, message }] of reads.entries()) assert.equal(code, 'EINVAL', `read ${number}: ${message}`);
    assert.equal(n_requests, 0);
  });

  test(`branches are the family across pages: ${host}`, async () => {
    const task = async ({ cells, caught }) => {
      const session = (id, parentSessionId) => ({ id, parentSessionId });
      const pages = {
        first: { sessions: [session('niece', 'sister'), session('stranger')], nextCursor: '1' },
        1: { sessions: [session('me', 'mother'), session('sister', 'mother'), session('niece', 'sister')], nextCursor: null },
        archived: { sessions: [session('mother', null)], nextCursor: null },
      };
      const asked = [];
      const client = {
        list: async (profileId, { archived, limit, cursor, timeoutMs }) => {
          asked.push([profileId, archived, limit, cursor ?? null, timeoutMs]);
          return pages[archived ? 'archived' : (cursor ?? 'first')];
        },
      };
      const ids = (sessions) => sessions.map(({ id }) => id);
      const me = session('me', 'mother');
      const circle = { list: async (_, { cursor }) => ({ sessions: [], nextCursor: cursor === '1' ? '2' : '1' }) };
      let page = 0;
      const endless = { list: async () => ({ sessions: [], nextCursor: String((page += 1)) }) };
      return {
        family: ids(await cells.conversationBranches(client, 'main', me, { timeoutMs: 7 })),
        all: ids(await cells.conversationBranches(client, 'main', me, { archived: true })),
        stranger: ids(await cells.conversationBranches(client, 'main', session('new'))),
        asked: asked.slice(0, 2),
        circle: await caught(cells.conversationBranches(circle, 'main', me)),
        endless: await caught(cells.conversationBranches(endless, 'main', me)),
        n_pages: page,
      };
    };
    const seen = await world.run(host, 'the local node', task);
    assert.deepEqual(seen.family, ['niece', 'me', 'sister']);
    assert.deepEqual(seen.all, ['niece', 'me', 'sister', 'mother']);
    assert.deepEqual(seen.stranger, ['new']);
    assert.deepEqual(seen.asked, [['main', false, 100, null, 7], ['main', false, 100, '1', 7]]);
    assert.deepEqual([seen.circle.code, seen.circle.operation], ['EIO', 'protocol']);
    assert.deepEqual([seen.endless.code, seen.n_pages], ['EFBIG', 10_001]);
  });
}

for (const host of HOSTS) {
  test(`the life of a session on the local node: ${host}`, async () => {
    const task = async ({ cells, endpoint, apiKey, caught }) => {
      const driver = cells.createCellsDriver(() => apiKey);
      const client = driver.harness({ endpoint, credentialRef: 'node' });
      const { id: profile } = (await client.profiles()).profiles[0];
      const { session } = await client.create(profile, 'home');
      const image = { kind: 'image', name: 'dot.png', mimeType: 'image/png', content: 'data:image/png;base64,iVBORw0KGgo=' };
      const text = { kind: 'text', name: 'note.md', content: '# A walrus\n' };
      let cursor;
      let wake = () => {};
      const over = new Set();
      const events = client.subscribe(profile, () => {
        const snapshot = client.eventSnapshot(profile, cursor);
        cursor = snapshot.cursor;
        for (const { message } of snapshot.events) {
          const event = cells.harnessEvent(message);
          if (event.kind === 'turnCompleted') over.add(event.turnId);
          if (event.kind === 'requested') void client.respond(profile, event.request.id, { decision: 'accept' });
        }
        wake();
      });
      await events.ready;
      cursor ??= client.eventSnapshot(profile).cursor;
      const { turnId } = await client.turn(profile, session.id, 'run echo a badger', { attachments: [text, image] });
      while (!over.has(turnId)) await new Promise((resolve) => (wake = resolve));

      const items = cells.harnessItems((await client.read(profile, session.id)).turns);
      const user = items.find(({ kind }) => kind === 'user');
      const renamed = await client.rename(profile, session.id, 'Burrow');
      const fork = await client.fork(profile, session.id, 'second try');
      const family = await cells.conversationBranches(client, profile, fork.session);
      const { matches } = await client.search(profile, { query: 'badger run', mode: 'prompt' });
      const digest = await client.loadDigest(profile, session.id);
      const archived = await client.archive(profile, session.id, true);
      const allowed = [cells.harnessArchiveAllowed(fork.session), cells.harnessArchiveAllowed(archived.session)];
      const { sessions } = await client.list(profile, { archived: true, limit: 100 });
      const deleted = await client.delete(profile, session.id);
      const gone = await caught(client.inspect(profile, session.id));
      await driver.dispose();
      return {
        kinds: [...new Set(items.map(({ kind }) => kind))].sort(),
        partKinds: [...new Set(user.contentPartKinds)],
        title: renamed.session.title,
        parent: fork.session.parentSessionId === session.id,
        family: family.length,
        found: matches.some(({ sessionId }) => sessionId === session.id),
        said: digest.entries[0].text,
        allowed,
        listed: sessions.some(({ id }) => id === session.id),
        deleted: deleted.deletedSessionIds.length === 1 && deleted.deletedSessionIds[0] === session.id,
        gone: gone.code,
      };
    };
    assert.deepEqual(await world.run(host, 'the local node', task), {
      kinds: ['agent', 'commandExecution', 'user'],
      partKinds: ['prompt', 'attachment'],
      title: 'Burrow',
      parent: true,
      family: 2,
      found: true,
      said: 'run echo a badger',
      allowed: [true, false],
      listed: true,
      deleted: true,
      gone: 'ENOENT',
    });
  });
}
