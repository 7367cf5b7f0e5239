// Requests to any route, through a connection that carries its own credential.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { HOSTS, NODES, World } from '../support/hosts.js';
import { recordingFetch, rejection } from '../support/stage.js';

let world;
let stage;
let HttpTransport;
before(async () => {
  world = await World.start();
  ({ stage } = world);
  ({ HttpTransport } = stage.module);
  for (const { folder } of Object.values(world.nodes)) writeFileSync(join(folder, 'hello.txt'), 'Grüße');
});
after(() => world.close());

/** A transport to the node; `options` wins. */
function transport(options) {
  return new HttpTransport({ endpoint: stage.node.endpoint, credential: () => stage.apiKey, ...options });
}

for (const host of HOSTS) {
  for (const node of NODES) {
    test(`every kind of request reaches any route: ${host}, ${node}`, async () => {
      const seen = await world.run(host, node, async ({ cells, endpoint, apiKey }) => {
        const transport = new cells.HttpTransport({ endpoint, credential: () => apiKey });
        const route = 'v1/fs/home/mutate';
        const made = await transport.mutate(route, { action: 'mkdir', path: 'any' });
        const { data, revision } = await transport.content('v1/fs/home/content?path=hello.txt');
        const seen = {
          exports: await transport.json('v1/exports'),
          stat: await transport.json('v1/fs/home/stat', { body: { paths: ['hello.txt'] } }),
          receipt: await transport.jsonReply(`v1/fs/home/operations/${made.operationId}`),
          missing: await transport.jsonReply('v1/fs/home/operations/none'),
          text: new TextDecoder().decode(data),
          revision,
        };
        await transport.mutate(route, { action: 'remove', path: 'any' });
        await transport.close();
        return seen;
      });
      assert.deepEqual(seen.exports.exports.map(({ alias }) => alias), ['home', 'locked']);
      assert.deepEqual([seen.stat.results[0].stat.size, seen.stat.results[0].stat.revision], [7, seen.revision]);
      assert.deepEqual([seen.receipt.status, seen.receipt.json.outcome], [200, 'committed']);
      assert.deepEqual([seen.missing.status, seen.missing.json.code], [404, 'OPERATION_UNKNOWN']);
      assert.equal(seen.text, 'Grüße');
    });
  }
}

test('json asks with GET, and with POST when there is a body', async () => {
  const fetch = recordingFetch();
  const node = transport({ fetch });
  const { exports } = await node.json('v1/exports');
  assert.deepEqual(exports.map(({ alias }) => alias), ['home', 'locked']);
  const { results } = await node.json('v1/fs/home/stat', { body: { paths: ['hello.txt'] } });
  assert.equal(results[0].stat.kind, 'file');
  assert.deepEqual(fetch.calls.map(({ method }) => method), ['GET', 'POST']);
  await node.close();
});

test('the credential is asked for every request, and never quoted', async () => {
  let count = 0;
  const node = transport({ credential: async () => (++count, stage.apiKey) });
  await node.json('v1/exports');
  await node.json('v1/exports');
  assert.equal(count, 2);
  const failing = transport({ credential: () => Promise.reject(new Error(stage.apiKey)) });
  const error = await rejection(failing.json('v1/exports'));
  assert.deepEqual([error.code, error.operation], ['EACCES', 'credential']);
  assert.ok(!String(error.stack).includes(stage.apiKey));
});

test('jsonReply gives failing statuses as answers', async () => {
  const node = transport();
  const missing = await node.jsonReply('v1/fs/home/operations/none');
  assert.deepEqual([missing.status, missing.json.code], [404, 'OPERATION_UNKNOWN']);
  const error = await rejection(node.json('v1/fs/home/operations/none'));
  assert.deepEqual([error.code, error.remoteCode, error.status], ['ENOENT', 'OPERATION_UNKNOWN', 404]);
});

test('content gives bytes and their revision, up to maxReadBytes', async () => {
  const route = 'v1/fs/home/content?path=hello.txt';
  const { data, revision } = await transport().content(route, { offset: 4 });
  assert.deepEqual([Buffer.from(data).toString(), typeof revision], ['\u00dfe', 'string']);
  const small = transport({ maxReadBytes: 6 });
  assert.equal((await rejection(small.content(route))).code, 'EFBIG');
  assert.equal((await small.content(route, { length: 6 })).data.length, 6);
});

test('mutate sends a write once, with an identity', async () => {
  const fetch = recordingFetch();
  const node = transport({ fetch });
  let dispatched;
  const options = { onDispatch: (recovery) => (dispatched = recovery) };
  const made = await node.mutate('v1/fs/home/mutate', { action: 'mkdir', path: 'made' }, options);
  assert.deepEqual(made, { operationId: dispatched.operationId, result: null });
  assert.equal(fetch.calls[0].headers['x-operation-id'], made.operationId);
  mkdirSync(join(stage.folder, 'there'));
  const error = await rejection(node.mutate('v1/fs/home/mutate', { action: 'mkdir', path: 'there' }));
  assert.deepEqual([error.code, error.outcome], ['EEXIST', 'not-committed']);
  assert.match(error.operationId, /^[0-9a-f-]{36}$/);
});

test('the time budget of the connection is that of each call that names none', async () => {
  const fetch = recordingFetch();
  const node = transport({ fetch, timeoutMs: 4_321 });
  await node.json('v1/exports');
  await node.json('v1/exports', { timeoutMs: 9_000 });
  const sent = fetch.calls.map(({ headers }) => Number(headers['x-timeout-ms']));
  assert.ok(sent[0] <= 4_321 && sent[0] > 1_000 && sent[1] > 4_321, String(sent));
  const error = await rejection(transport({ timeoutMs: 0 }).json('v1/exports'));
  assert.equal(error.code, 'ETIMEDOUT');
});

test('close ends calls under way with ECANCELLED and later ones with EACCES', async () => {
  const node = transport({ fetch: () => new Promise(() => {}) });
  const underWay = rejection(node.json('v1/exports'));
  await new Promise((resolve) => setImmediate(resolve));
  await node.close();
  assert.equal((await underWay).code, 'ECANCELLED');
  assert.equal((await rejection(node.json('v1/exports'))).code, 'EACCES');
  await node.close();
});

test('options and routes that cannot be used are refused before anything is sent', async () => {
  const fetch = recordingFetch();
  const refused = (options) => {
    try {
      transport({ fetch, ...options });
    } catch (error) {
      return error;
    }
    throw new Error(`accepted: ${JSON.stringify(options)}`);
  };
  for (const options of [
    { endpoint: 'ftp://x' },
    { endpoint: 7 },
    { credential: 'key-0123' },
    { credential: undefined },
    { username: 'a:b' },
    { timeoutMs: -1 },
    { maxReadBytes: 33_554_433 },
    { maxReadBytes: 1.5 },
    { fetch: 'fetch' },
    { anonymous: true, authorization: { principalId: 'a', anonymous: false, revision: 1 } },
  ]) {
    const error = refused(options);
    assert.deepEqual([error.name, error.code], ['CellsError', 'EINVAL'], JSON.stringify(options));
    assert.ok(!error.message.includes('key-0123'));
  }
  const node = transport({ fetch });
  for (const route of ['', '/v1/exports', '../x', 'v1/./x', 'v1/a b', 'v1/x#y', 7]) {
    assert.equal((await rejection(node.json(route))).code, 'EINVAL', String(route));
  }
  const unsendable = await rejection(node.json('v1/exports', { body: 1n }));
  assert.equal(unsendable.code, 'EINVAL');
  const write = await rejection(node.mutate('v1/exports', {}));
  assert.deepEqual([write.code, write.outcome], ['EINVAL', 'not-started']);
  assert.equal(fetch.calls.length, 0);
});
