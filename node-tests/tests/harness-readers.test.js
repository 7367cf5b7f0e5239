// The golden messages of sessions, items, events and requests, read in Node and in Chromium as the index says.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { HOSTS, World } from '../support/hosts.js';

let world;
before(async () => {
  world = await World.start();
});
after(() => world.close());

const FOLDER = join(import.meta.dirname, '../../crates/cells-protocol/fixtures');
const json = (file) => JSON.parse(readFileSync(join(FOLDER, file), 'utf8'));

/** What reads a message: a pure function, or a call whose reply it is. */
const READERS = ['archive-allowed', 'items', 'native-messages', 'session', 'sessions', 'history', 'search', 'digest'];

const CASES = json('index.json')
  .filter(({ parser }) => READERS.includes(parser))
  .map(({ file, parser, context, error, reads }) => {
    return { file, parser, context, error, message: json(file), reads: reads && json(reads) };
  });

/** Reads every message in a host. */
async function readAll({ cells, endpoint, caught }, cases) {
  const capabilities = { version: 1, files: { read: true, write: true }, sync: { push: false }, process: { exec: false },
    terminal: { pty: false }, executionModel: 'none', workspaceConsistency: 'none', readOnlyEnforcement: 'none', pathModel: 'none' };
  const profiles = { epoch: '0'.repeat(64), profiles: [{ id: 'main', kind: 'scripted', capabilities: { search: true, sessionDigest: true } }] };
  const seen = [];
  for (const { file, parser, context, message } of cases) {
    const fetch = async (url, { body }) => {
      const answer = (value) => new Response(JSON.stringify(value), { headers: { 'content-type': 'application/json' } });
      if (url.endsWith('/v1/capabilities')) return answer(capabilities);
      const { id, params } = JSON.parse(new TextDecoder().decode(body));
      if (params.name === 'harness_profiles') return answer({ jsonrpc: '2.0', id, result: { resultType: 'complete', isError: false, structuredContent: profiles } });
      return answer({ ...message, id });
    };
    const driver = cells.createCellsDriver(() => 'key', fetch);
    const client = driver.harness({ endpoint, credentialRef: 'node' });
    const calls = {
      'archive-allowed': async () => message.map(cells.harnessArchiveAllowed),
      items: async () => cells.harnessItems(message),
      'native-messages': async () => message.map(cells.harnessEvent),
      session: () => client.inspect('main', 's-1'),
      sessions: () => client.list('main'),
      history: () => client.read('main', 's-1'),
      search: () => client.search('main', { query: 'x', mode: 'title' }),
      digest: () => client.digest('main', context.sessionId, context),
    };
    const { value, code, message: text } = await caught(calls[parser]());
    seen.push({ file, value, code, text });
    await driver.dispose();
  }
  return seen;
}

for (const host of HOSTS) {
  test(`golden messages read as the index says: ${host}`, async () => {
    assert.ok(CASES.length > 30);
    const seen = await world.run(host, 'the local node', readAll, { given: CASES });
    for (const [number, { file, value, code, text }] of seen.entries()) {
      const { parser, error, reads, message } = CASES[number];
      if (error) {
        assert.equal(value, undefined, file);
        // The functions are given JavaScript values; what is wrong with them is told in the words of arguments.
        if (parser === 'items' || parser === 'native-messages') assert.equal(code, 'EINVAL', file);
        else assert.ok(code === 'EIO' && text.includes(error), `${file}: ${text}`);
      } else {
        assert.ok(value, `${file}: ${code} ${text}`);
        if (reads) assert.deepEqual(value, reads, file);
        if (parser === 'sessions') assert.equal(value.sessions.length, message.result.structuredContent.sessions.length, file);
      }
    }
  });
}

test('an open request is read as the event that told it', async () => {
  for (const host of HOSTS) {
    const messages = json('events/messages-requests.json');
    const task = async ({ cells }, list) => list.map((message) => [cells.harnessRequest(message), cells.harnessEvent(message)]);
    for (const [request, event] of await world.run(host, 'the local node', task, { given: messages })) {
      assert.deepEqual(request, event.kind === 'requested' ? event.request : null);
    }
  }
});

test('numbers that JavaScript cannot hold are refused, never rounded', async () => {
  const task = async ({ cells, endpoint, caught }) => {
    const seen = [];
    const structured = (n) => [
      `{"session":{"id":"s-1","title":"x","resumable":true,"archived":false,"activeTurnId":null,"native":{"bytes":${n}}},"turns":[],"nextCursor":null}`,
      `{"session":{"id":"s-1","title":"x","resumable":true,"archived":false,"activeTurnId":null},"turns":[{"id":null,"items":[{"type":"x","n":${n}}]}],"nextCursor":null}`,
    ];
    for (const number of ['9007199254740991', '9007199254740993', '18446744073709551615', '-9007199254740993']) {
      for (const value of structured(number)) {
        const fetch = async (url, { body }) => {
          if (url.endsWith('/v1/capabilities')) return new Response('', { status: 404 });
          const { id } = JSON.parse(new TextDecoder().decode(body));
          const text = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"resultType":"complete","isError":false,"structuredContent":${value}}}`;
          return new Response(text, { headers: { 'content-type': 'application/json' } });
        };
        const driver = cells.createCellsDriver(() => 'key', fetch);
        const read = await caught(driver.harness({ endpoint, credentialRef: 'node' }).read('main', 's-1'));
        const exact = read.value?.session.native?.bytes ?? read.value?.turns[0]?.items[0].n;
        seen.push([number, read.code ?? String(exact)]);
        await driver.dispose();
      }
    }
    return seen;
  };
  for (const host of HOSTS) {
    for (const [number, read] of await world.run(host, 'the local node', task)) {
      assert.equal(read, number === '9007199254740991' ? number : 'EIO', `${host} ${number}`);
    }
  }
});
