// Content on its way to a node: what may be sent, how far it is, how much of it is held, and what happens when it breaks.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import diagnostics from 'node:diagnostics_channel';
import { createReadStream, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, before, beforeEach, test } from 'node:test';
import { HOSTS, NODES, World } from '../support/hosts.js';
import { rejection } from '../support/stage.js';

let world;
before(async () => {
  world = await World.start();
});
after(() => world.close());

let names = 0;
let name;
beforeEach(() => (name = `file-${++names}`));

const NEW = { kind: 'create-only' };

/** Defines a test for each host and node. `check(seen, node, host)` looks at what the task saw. */
function everywhere(title, task, check, nodes = NODES) {
  for (const host of HOSTS) {
    for (const node of nodes) {
      test(`${title}: ${host}, ${node}`, async () => {
        await check(await world.run(host, node, task, { given: name }), world.nodes[node], host);
      });
    }
  }
}

/** Nothing of an upload is left: neither the file nor a staged part of it. */
function assertNothingThere({ folder }) {
  const left = readdirSync(folder).filter((file) => file === name || file.startsWith('.itookit-upload-'));
  assert.deepEqual(left, []);
}

everywhere(
  'every kind of content arrives as it is',
  async ({ storage: { mutations } }, name) => {
    const bytes = new Uint8Array(300_001).map((_, index) => index % 251);
    const pieces = async function* () {
      yield bytes.subarray(0, 1);
      yield bytes.subarray(1, 1);
      yield bytes.buffer.slice(1, 290_000);
      yield bytes.subarray(290_000);
    };
    const stream = (iterator) =>
      new ReadableStream({
        pull: async (controller) => {
          const { done, value } = await iterator.next();
          if (done) controller.close();
          else controller.enqueue(value);
        },
      });
    const nothing = async function* () {};
    const sources = {
      bytes,
      view: new DataView(bytes.buffer),
      'part of a buffer': new Uint8Array([9, ...bytes, 9]).subarray(1, bytes.length + 1),
      buffer: bytes.buffer,
      blob: new Blob([bytes], { type: 'text/plain' }),
      stream: stream(pieces()),
      'stream of a blob': new Blob([bytes]).stream(),
      iterable: pieces(),
    };
    if (globalThis.File) sources.file = new File([bytes], 'x.txt');
    const empty = { bytes: new Uint8Array(), blob: new Blob([]), stream: stream(nothing()), iterable: nothing() };
    const sizes = {};
    for (const [kind, source] of Object.entries(sources)) {
      sizes[kind] = (await mutations.replace(`${name}-${kind}`, source, { kind: 'create-only' })).size;
    }
    const emptySizes = {};
    for (const [kind, source] of Object.entries(empty)) {
      emptySizes[kind] = (await mutations.replace(`${name}-no-${kind}`, source, { kind: 'create-only' })).size;
    }
    return { sizes, emptySizes };
  },
  ({ sizes, emptySizes }, { folder }) => {
    const expected = Buffer.from(new Uint8Array(300_001).map((_, index) => index % 251));
    assert.ok(Object.keys(sizes).length >= 8);
    for (const [kind, size] of Object.entries(sizes)) {
      assert.equal(size, expected.length, kind);
      assert.ok(readFileSync(join(folder, `${name}-${kind}`)).equals(expected), kind);
    }
    assert.deepEqual(emptySizes, { bytes: 0, blob: 0, stream: 0, iterable: 0 });
  },
);

everywhere(
  'progress counts what the connection takes in Node, and is told of start and end in a browser',
  async ({ storage: { mutations } }, name) => {
    const bytes = new Uint8Array(600_000);
    const seen = {};
    for (const [kind, source, size] of [
      ['bytes', bytes],
      ['blob', new Blob([bytes])],
      ['stream', new Blob([bytes]).stream(), bytes.length],
      ['endless', new Blob([bytes]).stream()],
    ]) {
      const told = (seen[kind] = []);
      const onProgress = (done, total) => told.push([done, total ?? null]);
      await mutations.replace(`${name}-${kind}`, source, { kind: 'create-only' }, { size, onProgress });
    }
    return seen;
  },
  (seen, _, host) => {
    for (const [kind, told] of Object.entries(seen)) {
      const total = kind === 'endless' && host === 'Node' ? null : 600_000;
      assert.ok(told.every((step) => step[1] === total), `${kind}: ${JSON.stringify(told)}`);
      const done = told.map((step) => step[0]);
      assert.deepEqual(done, done.toSorted?.((a, b) => a - b) ?? done);
      if (host === 'Chromium') assert.deepEqual(done, [0, 600_000], kind);
      else assert.ok(done.length >= 3 && done[0] > 0 && done[0] <= 262_144 && done.at(-1) === 600_000, `${kind}: ${done}`);
    }
  },
);

everywhere(
  'a source that fails leaves nothing behind, and its error is the cause',
  async ({ storage: { mutations }, caught }, name) => {
    const failing = async function* () {
      yield new Uint8Array(400_000);
      throw new Error('the disk is gone');
    };
    const wrong = async function* () {
      yield 'text';
    };
    const put = (source, size) => caught(mutations.replace(name, source, { kind: 'create-only' }, { size }));
    const stream = new ReadableStream({ pull: (controller) => controller.error(new Error('the camera is gone')) });
    return {
      iterable: await put(failing()),
      stream: await put(stream),
      text: await put(wrong()),
      short: await put(new Blob(['12']).stream(), 3),
      long: await put(new Blob(['1234']).stream(), 3),
    };
  },
  (seen, node, host) => {
    const expected = {
      iterable: ['EIO', 'the disk is gone'],
      stream: ['EIO', 'the camera is gone'],
      text: ['EINVAL', undefined],
      short: ['EINVAL', undefined],
      long: ['EINVAL', undefined],
    };
    const outcome = host === 'Node' ? 'not-committed' : 'not-started';
    for (const [kind, [code, cause]] of Object.entries(expected)) {
      const error = seen[kind];
      assert.deepEqual([error.name, error.code, error.cause, error.outcome], ['CellsError', code, cause, outcome], kind);
      assert.equal(error.operationId !== undefined, host === 'Node', kind);
      assert.equal(error.recovery, undefined);
    }
    assert.match(seen.short.message, /has 2 bytes, but size is 3/);
    assert.match(seen.long.message, /more than the 3 bytes/);
    return settled(() => assertNothingThere(node));
  },
);

everywhere(
  'a source is told when its write ends early: cancelled, out of time, or refused',
  async ({ storage: { mutations }, caught }, name) => {
    /** A stream and an iterable without an end, which tell when they are cancelled. */
    const endless = (cancelled) => ({
      stream: new ReadableStream({
        pull: (controller) => new Promise((resolve) => setTimeout(resolve, 5)).then(() => controller.enqueue(new Uint8Array(1_000))),
        cancel: () => cancelled('stream'),
      }),
      iterable: {
        [Symbol.asyncIterator]: () => ({
          next: async () => {
            reads += 1;
            await new Promise((resolve) => setTimeout(resolve, 5));
            return { done: false, value: new Uint8Array(1_000) };
          },
          return: async () => cancelled('iterable'),
        }),
      },
    });
    let reads = 0;
    const seen = {};
    for (const kind of ['stream', 'iterable']) {
      for (const [how, path, options] of [
        ['cancelled', name, () => ({ signal: AbortSignal.timeout(100) })],
        ['before', name, () => ({ signal: AbortSignal.abort() })],
        ['timed out', name, () => ({ timeoutMs: 100 })],
      ]) {
        let told;
        const end = new Promise((resolve) => (told = resolve));
        const error = await caught(mutations.replace(path, endless(told)[kind], { kind: 'create-only' }, options()));
        seen[`${kind} ${how}`] = { error, told: await end };
      }
    }
    const before = reads;
    await new Promise((resolve) => setTimeout(resolve, 50));
    return { seen, readOn: reads - before };
  },
  ({ seen, readOn }, node, host) => {
    assert.ok(readOn <= 1, `${readOn} pieces were read after the end`);
    for (const [what, { error, told }] of Object.entries(seen)) {
      assert.equal(told, what.split(' ')[0], what);
      assert.equal(error.code, what.includes('timed out') ? 'ETIMEDOUT' : 'ECANCELLED', `${what}: ${error.message}`);
      const early = host === 'Chromium' || what.includes('before');
      const outcome = early ? 'not-started' : what.includes('timed out') ? 'unknown' : 'not-committed';
      assert.equal(error.outcome, outcome, what);
    }
    return settled(() => assertNothingThere(node));
  },
);

everywhere(
  'a node that refuses early ends the source',
  async ({ storage: { mutations }, caught }, name) => {
    let n = 0;
    let ended = false;
    const source = {
      [Symbol.asyncIterator]: () => ({
        next: async () => {
          n += 1;
          await new Promise((resolve) => setTimeout(resolve, 1));
          return n > 400 ? { done: true } : { done: false, value: new Uint8Array(65_536) };
        },
        return: async () => (ended = true),
      }),
    };
    const error = await caught(mutations.replace(`${name}/there/is/none`, source, { kind: 'create-only' }));
    return { error, ended, n };
  },
  ({ error, ended, n }, _, host) => {
    assert.deepEqual([error.code, error.outcome], ['ENOENT', 'not-committed'], JSON.stringify(error));
    if (host === 'Node') assert.ok(ended && n < 400, `${n} pieces were read`);
  },
);

everywhere(
  'more than 256 MiB are refused; in a browser nothing of them is sent',
  async ({ open, caught }, name) => {
    const methods = [];
    const storage = open({ fetch: (url, init) => (methods.push(init.method), fetch(url, init)) });
    await storage.init();
    methods.length = 0;
    const block = new Uint8Array(4 * 1024 * 1024);
    let n = 0;
    let ended = false;
    const source = {
      [Symbol.asyncIterator]: () => ({
        next: async () => ({ done: n === 70, value: n++ < 64 ? block : new Uint8Array(1) }),
        return: async () => (ended = true),
      }),
    };
    const error = await caught(storage.mutations.replace(name, source, { kind: 'create-only' }));
    await storage.close();
    return { error, ended, n, methods };
  },
  ({ error, ended, n, methods }, node, host) => {
    const [outcome, sent] = host === 'Node' ? ['not-committed', 'PUT'] : ['not-started', undefined];
    assert.deepEqual([error.code, error.outcome, methods[0]], ['EFBIG', outcome, sent], JSON.stringify(error));
    assert.deepEqual([n, ended], [65, true], 'it is read up to the first byte that is too much');
    return settled(() => assertNothingThere(node));
  },
  ['the local node'],
);

everywhere(
  'large content does not pass through the memory of the wasm',
  async ({ storage: { mutations } }, name) => {
    const part = new Uint8Array(1024 * 1024);
    const blob = new Blob(Array.from({ length: 64 }, () => part));
    const { size, revision } = await mutations.replace(name, blob, { kind: 'create-only' });
    const again = await mutations.replace(name, new Uint8Array(size), { kind: 'match', revision });
    return [size, again.size];
  },
  async (sizes, _, host) => {
    assert.deepEqual(sizes, [64 * 1024 * 1024, 64 * 1024 * 1024]);
    // Far less than one of its 64 parts for all that this file does; it never shrinks.
    const bytes = await world.wasmBytes(host);
    assert.ok(bytes > 0 && bytes < 6 * 1024 * 1024, `${bytes} bytes`);
  },
  ['the local node'],
);

test('a stream is read only as fast as it is sent: at most 1 MiB is held', async () => {
  // A peer that takes nothing: the buffers of the system fill up, and then nothing more may be read.
  const peer = createServer((request) => request.pause()).listen(0, '127.0.0.1');
  await once(peer, 'listening');
  const sockets = new Set();
  const onHeaders = ({ socket }) => sockets.add(socket);
  diagnostics.subscribe('undici:client:sendHeaders', onHeaders);
  try {
    const { endpoint, apiKey } = world.nodes['the local node'];
    const put = `http://127.0.0.1:${peer.address().port}`;
    const fetchOf = (url, init) => fetch(init.method === 'PUT' ? url.replace(endpoint, put) : url, init);
    const storage = new world.stage.module.HttpFSBackend({ endpoint, credential: () => apiKey, alias: 'home', fetch: fetchOf });
    await storage.init();
    sockets.clear();
    let pulled = 0;
    const source = async function* () {
      for (; pulled < 200 * 1024 * 1024; pulled += 64 * 1024) yield new Uint8Array(64 * 1024);
    };
    const controller = new AbortController();
    const ended = rejection(storage.mutations.replace(name, source(), NEW, { signal: controller.signal }));
    // It stands still once nothing was read for a while.
    for (let last = -1; last !== pulled || pulled === 0; ) {
      last = pulled;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    const [socket] = sockets;
    const taken = socket.bytesWritten - socket.writableLength;
    const held = pulled - taken;
    assert.ok(taken > 0 && pulled < 100 * 1024 * 1024, `${pulled} bytes were read`);
    assert.ok(held <= 1024 * 1024, `${held} bytes are held`);
    controller.abort();
    assert.equal((await ended).code, 'ECANCELLED');
    await storage.close();
  } finally {
    diagnostics.unsubscribe('undici:client:sendHeaders', onHeaders);
    peer.closeAllConnections();
    peer.close();
  }
});

test('a file of Node is sent as a stream, which is destroyed when the write ends early', async () => {
  const { folder } = world.stage;
  const content = randomBytes(3_000_000);
  const path = join(world.root, 'source.bin');
  writeFileSync(path, content);
  const storage = await world.stage.driver().fileStorage({ ...world.stage.connection, alias: 'home' });
  const stat = await storage.mutations.replace(name, createReadStream(path), NEW, { size: content.length });
  assert.equal(stat.size, content.length);
  const hash = (bytes) => createHash('sha256').update(bytes).digest('hex');
  assert.equal(hash(readFileSync(join(folder, name))), hash(content));

  const file = createReadStream(path);
  const refused = await rejection(storage.mutations.replace('no/such/folder', file, NEW));
  assert.equal(refused.code, 'ENOENT');
  await settled(() => assert.ok(file.destroyed));

  const stuck = new Readable({ read() {} });
  const late = await rejection(storage.mutations.replace(`${name}-b`, stuck, NEW, { signal: AbortSignal.timeout(50) }));
  assert.deepEqual([late.code, late.outcome], ['ECANCELLED', 'not-committed']);
  await settled(() => assert.ok(stuck.destroyed));

  const missing = await rejection(storage.mutations.replace(`${name}-c`, createReadStream('/no/such/file'), NEW));
  assert.deepEqual([missing.code, missing.outcome, missing.cause.code], ['EIO', 'not-committed', 'ENOENT']);
  assert.ok(!missing.message.includes('/no/such'));
  assert.ok(!existsSync(join(folder, `${name}-c`)));
  await storage.close();
});

/** Waits until `check` does not throw, which the node needs a moment for after its client is gone. */
async function settled(check) {
  for (let tries = 0; ; tries += 1) {
    try {
      return check();
    } catch (error) {
      if (tries === 100) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
