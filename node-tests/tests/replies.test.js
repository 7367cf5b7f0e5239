// What the driver makes of replies that no node should give: a typed error, never a partial result, never a crash.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Stage, rejection } from '../support/stage.js';

let stage;
let target;
before(async () => {
  stage = await Stage.start();
  const harness = stage.driver().harness(stage.connection);
  const { profiles } = await harness.profiles();
  const { session } = await harness.create(profiles[0].id, 'home');
  target = { profile: profiles[0].id, session: session.id };
});
after(() => stage.close());

const json = (body, status = 200) =>
  new Response(typeof body === 'string' ? body : JSON.stringify(body), {
    status,
    headers: { 'content-type': 'application/json' },
  });

/** Replies that can be used by no call. */
const NONSENSE = {
  'cut off': () => json('{"results":[{"st'),
  'not JSON': () => json('<html>'),
  'of another shape': () => json({ results: 'none', entries: 7, exports: null, result: 3 }),
  'an array': () => json([]),
  empty: () => json(''),
  null: () => json('null'),
  'deeply nested': () => json('['.repeat(100_000)),
  'a redirect': () => new Response(null, { status: 302, headers: { location: '/' } }),
  'not UTF-8': () => new Response(new Uint8Array([0x7b, 0xff, 0xfe]), { headers: { 'content-type': 'application/json' } }),
  'no response at all': () => undefined,
  'a string': () => 'hello',
  'a response without a status': () => ({ headers: {}, body: null }),
  'a body that breaks': () =>
    new Response(
      new ReadableStream({
        start(controller) {
          controller.enqueue(new TextEncoder().encode('{"res'));
          controller.error(new TypeError('terminated'));
        },
      }),
      { headers: { 'content-type': 'application/json' } },
    ),
  'a body of strings': () => new Response(new ReadableStream({ start: (c) => (c.enqueue('x'), c.close()) })),
  'a promise that is rejected': () => Promise.reject(new TypeError('fetch failed')),
};

/** A driver whose requests to addresses with `part` get `reply`; the others reach the node. */
function answering(part, reply) {
  let count = 0;
  const driver = stage.driver((url, init) => {
    const body = init.body ? Buffer.from(init.body).toString() : '';
    if (!url.includes(part) && !body.includes(`"${part}"`)) return fetch(url, init);
    count += 1;
    return reply(JSON.parse(body || 'null'));
  });
  const files = driver.files({ ...stage.connection, alias: 'home' });
  const harness = driver.harness(stage.connection);
  return { driver, files, harness, sent: () => count };
}

for (const [name, reply] of Object.entries(NONSENSE)) {
  test(`a reply that is ${name} is a typed error that names the call`, async () => {
    const reads = [
      ['/v1/exports', 'exports', ({ driver }) => driver.exports(stage.connection)],
      ['/stat', 'stat', ({ files }) => files.stat('x')],
      ['/entries', 'list', ({ files }) => files.list('')],
      ['harness_sessions', 'harness_sessions', ({ harness }) => harness.list(target.profile)],
      ['harness_session_read', 'harness_session_read', ({ harness }) => harness.read(target.profile, target.session)],
    ];
    for (const [part, operation, call] of reads) {
      const error = await rejection(call(answering(part, reply)));
      assert.ok(error instanceof stage.module.CellsError, `${part}: ${error?.stack}`);
      assert.ok(['EIO', 'EINVAL', 'ECAPABILITY'].includes(error.code), `${part}: ${error}`);
      assert.ok(['protocol', 'connect'].includes(error.operation), String(error.operation));
      assert.match(error.message, new RegExp(`\\b${operation}\\b`));
      assert.equal(error.outcome, undefined);
    }
  });

  test(`a mutation whose reply is ${name} is unknown, has its id, and is not sent again`, async () => {
    const { harness, sent } = answering('harness_turn', reply);
    let dispatched;
    const options = { onDispatch: (recovery) => (dispatched = recovery) };
    const error = await rejection(harness.turn(target.profile, target.session, 'say hello', options));
    assert.ok(error instanceof stage.module.CellsError, error?.stack);
    assert.equal(error.outcome, 'unknown', String(error));
    assert.equal(sent(), 1);
    assert.deepEqual(error.recovery, dispatched);
    assert.equal(error.requestId, dispatched.requestId);
  });
}

test('a stat reply with too few results fails for every caller', async () => {
  const { files } = answering('/stat', () => json({ results: [{ stat: null }] }));
  const errors = await Promise.all(['a', 'b', 'c'].map((path) => rejection(files.stat(path))));
  for (const error of errors) assert.equal(error.operation, 'protocol');
});

test('content that is shorter than announced is never handed out', async () => {
  const headers = { 'content-length': '100', 'content-type': 'application/octet-stream' };
  const { files } = answering('/content', () => new Response('short', { headers }));
  const error = await rejection(files.read('x'));
  assert.equal(error.code, 'EIO');
});

test('the driver works on after all of that', async () => {
  const { files } = answering('nothing', () => undefined);
  assert.equal((await files.stat('')).kind, 'directory');
});
