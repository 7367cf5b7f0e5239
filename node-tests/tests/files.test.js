import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Stage, recordingFetch, rejection } from '../support/stage.js';

const BIG = randomBytes(9 * 1024 * 1024);

let stage;
before(async () => {
  stage = await Stage.start();
  mkdirSync(join(stage.folder, 'many'));
  for (let n = 0; n < 1200; n += 1) writeFileSync(join(stage.folder, 'many', `f${n}.txt`), `${n}`);
  writeFileSync(join(stage.folder, 'grüße 日本.txt'), 'hello');
  writeFileSync(join(stage.folder, 'big.bin'), BIG);
  writeFileSync(join(stage.folder, 'empty'), '');
});
after(() => stage.close());

/** Files of the export, and the requests they make. */
function open() {
  const fetch = recordingFetch();
  const driver = stage.driver(fetch);
  const files = driver.files({ ...stage.connection, alias: 'home' });
  return { driver, files, requests: (part) => fetch.calls.filter(({ url }) => url.includes(part)), calls: fetch.calls };
}

test('stats of one turn share requests of 256 distinct paths, in whatever order they are awaited', async () => {
  const { files, requests } = open();
  const paths = Array.from({ length: 300 }, (_, n) => `many/f${n % 200}.txt`);
  const stats = await Promise.all(paths.map((path) => files.stat(path)));
  assert.equal(requests('/stat').length, 1);
  assert.deepEqual(
    stats.map((stat) => stat.size),
    paths.map((_, n) => `${n % 200}`.length),
  );

  const started = Array.from({ length: 600 }, (_, n) => files.stat(`many/f${n}.txt`));
  for (const stat of started) assert.equal((await stat).kind, 'file');
  assert.equal(requests('/stat').length, 1 + 3);
});

test('stats that continuations of the same turn ask for join the batch', async () => {
  const { files, requests } = open();
  const later = async (n) => {
    await undefined;
    return files.stat(`many/f${n}.txt`);
  };
  await Promise.all([files.stat('empty'), ...[1, 2, 3].map(later)]);
  assert.equal(requests('/stat').length, 1);
});

test('a stat is frozen, is null for what is missing, and is not cached', async () => {
  const { files, requests } = open();
  const [file, folder, missing] = await Promise.all(['grüße 日本.txt', 'many', 'nothing'].map((path) => files.stat(path)));
  assert.equal(file.kind, 'file');
  assert.equal(file.size, 5);
  assert.ok(file.modifiedAt > 1_600_000_000_000);
  assert.match(file.revision, /^".+"$/);
  assert.ok(Object.isFrozen(file));
  assert.equal(folder.kind, 'directory');
  assert.equal(missing, null);

  writeFileSync(join(stage.folder, 'appears'), 'x');
  assert.equal((await files.stat('appears')).size, 1);
  assert.equal((await files.stat('appears')).size, 1);
  assert.equal(requests('/stat').length, 3);
});

test('a caller that leaves the batch takes nobody with it, and the last one out ends the request', async () => {
  const { files, calls } = open();
  const [first, second] = [new AbortController(), new AbortController()];
  const left = files.stat('empty', { signal: first.signal });
  const stays = files.stat('empty');
  first.abort(new Error('changed my mind'));
  const error = await rejection(left);
  assert.equal(error.code, 'ECANCELLED');
  assert.equal(error.cause.message, 'changed my mind');
  assert.equal((await stays).size, 0);

  let sent;
  const held = (url, init) => {
    sent = init;
    return new Promise((_, reject) => init.signal.addEventListener('abort', () => reject(init.signal.reason)));
  };
  const driver = stage.driver((url, init) => (url.includes('/stat') ? held(url, init) : fetch(url, init)));
  const alone = driver.files({ ...stage.connection, alias: 'home' }).stat('empty', { signal: second.signal });
  while (sent === undefined) await new Promise(setImmediate);
  assert.ok(!sent.signal.aborted);
  second.abort();
  assert.equal((await rejection(alone)).code, 'ECANCELLED');
  while (!sent.signal.aborted) await new Promise(setImmediate);
  assert.equal(calls.length, 1);
});

test('one listener is on the signal during a call, and none after it', async () => {
  const { files } = open();
  const { signal } = new AbortController();
  let listeners = 0;
  const [add, remove] = [signal.addEventListener, signal.removeEventListener];
  signal.addEventListener = (...args) => (listeners++, add.apply(signal, args));
  signal.removeEventListener = (...args) => (listeners--, remove.apply(signal, args));
  const calls = [files.stat('empty', { signal }), files.list('', { signal })];
  assert.equal(listeners, 2);
  await Promise.all(calls);
  assert.equal(listeners, 0);
});

test('a call whose time is over, and a signal that was aborted before, send nothing', async () => {
  const { files, calls } = open();
  assert.equal((await rejection(files.stat('empty', { timeoutMs: 0 }))).code, 'ETIMEDOUT');
  assert.equal((await rejection(files.list('', { timeoutMs: 0 }))).code, 'ETIMEDOUT');
  assert.equal((await rejection(files.read('empty', { signal: AbortSignal.abort() }))).code, 'ECANCELLED');
  assert.equal(calls.length, 0);
});

test('a directory is listed page by page', async () => {
  const { files } = open();
  const names = [];
  let cursor;
  let pages = 0;
  do {
    const page = await files.list('many', { cursor });
    assert.deepEqual(page.warnings, []);
    names.push(...page.entries.map(({ name, stat }) => (assert.equal(stat.kind, 'file'), name)));
    cursor = page.nextCursor ?? undefined;
    pages += 1;
  } while (cursor);
  assert.equal(pages, 3);
  assert.deepEqual(new Set(names), new Set(Array.from({ length: 1200 }, (_, n) => `f${n}.txt`)));
  assert.equal((await rejection(files.list('empty'))).code, 'ENOTDIR');
  assert.equal((await rejection(files.list('nothing'))).code, 'ENOENT');
  assert.equal((await rejection(files.list('many', { cursor: 'nonsense' }))).code, 'EINVAL');
});

test('ranges of a file are exactly what was asked for', async () => {
  const { files } = open();
  const cases = [
    [{}, BIG],
    [{ offset: 1000, length: 70_000 }, BIG.subarray(1000, 71_000)],
    [{ offset: BIG.length - 3 }, BIG.subarray(-3)],
    [{ offset: BIG.length - 3, length: 100 }, BIG.subarray(-3)],
    [{ offset: 5, length: 0 }, BIG.subarray(5, 5)],
  ];
  for (const [range, expected] of cases) {
    const { data } = await files.read('big.bin', range);
    assert.ok(data instanceof Uint8Array);
    assert.ok(expected.equals(data), JSON.stringify(range));
  }
  assert.equal((await files.read('empty')).data.length, 0);
  assert.equal((await rejection(files.read('big.bin', { offset: BIG.length + 1 }))).code, 'EINVAL');
  assert.equal((await rejection(files.read('nothing'))).code, 'ENOENT');
});

test('a revision that is not the current one is a conflict', async () => {
  const { files } = open();
  writeFileSync(join(stage.folder, 'changing'), 'one');
  const { revision } = await files.read('changing');
  assert.equal(Buffer.from((await files.read('changing', { ifRevision: revision })).data).toString(), 'one');
  writeFileSync(join(stage.folder, 'changing'), 'two!');
  assert.equal((await rejection(files.read('changing', { ifRevision: revision }))).code, 'ECONFLICT');
});

test('a stream gives all bytes of a file, whatever its size', async () => {
  const { files } = open();
  const { size, revision, stream } = await files.readStream('big.bin');
  assert.equal(size, BIG.length);
  assert.match(revision, /^".+"$/);
  const hash = createHash('sha256');
  for await (const piece of stream) hash.update(piece);
  assert.equal(hash.digest('hex'), createHash('sha256').update(BIG).digest('hex'));

  const part = await files.readStream('big.bin', { offset: 7, length: 100_000 });
  const response = new Response(part.stream);
  assert.ok(BIG.subarray(7, 100_007).equals(Buffer.from(await response.arrayBuffer())));
});

test('cancelling a stream, or its signal, ends the transfer', async () => {
  const { files, requests } = open();
  const { stream } = await files.readStream('big.bin');
  const reader = stream.getReader();
  await reader.read();
  await reader.cancel();
  const transfers = requests('/content');
  while (!transfers[0].signal.aborted) await new Promise(setImmediate);

  const controller = new AbortController();
  const second = await files.readStream('big.bin', { signal: controller.signal });
  const pieces = second.stream.getReader();
  await pieces.read();
  controller.abort(new Error('enough'));
  const error = await rejection(
    (async () => {
      while (!(await pieces.read()).done);
    })(),
  );
  assert.equal(error.code, 'ECANCELLED');
  assert.equal(error.cause.message, 'enough');
});

test('wrong arguments are named, and nothing is sent', async () => {
  const { driver, files, calls } = open();
  const cases = [
    [() => files.stat(7), /path must be a string/],
    [() => files.stat('a\ud800'), /lone surrogates/],
    [() => files.stat('../x'), /\.\./],
    [() => files.stat('/x'), /path/],
    [() => files.list('', 'cursor'), /options must be an object/],
    [() => files.list('', { cursor: 7 }), /cursor must be a string/],
    [() => files.list('', { timeoutMs: -1 }), /timeoutMs must be an integer/],
    [() => files.list('', { timeoutMs: 2 ** 53 }), /timeoutMs must be an integer/],
    [() => files.list('', { signal: {} }), /signal must be an AbortSignal/],
    [() => files.read('x', { offset: 1.5 }), /offset must be an integer/],
    [() => files.readStream('x', { length: '7' }), /length must be an integer/],
    [async () => driver.files({ ...stage.connection }), /connection\.alias must be a string/],
    [async () => driver.files({ ...stage.connection, alias: 'a/b' }), /alias/],
    [async () => driver.harness({ endpoint: 7 }), /connection\.endpoint must be a string/],
    [async () => driver.harness({ endpoint: 'ftp://x', credentialRef: 'a' }), /endpoint/],
    [async () => driver.harness({ endpoint: 'http://x/?a=1', credentialRef: 'a' }), /endpoint/],
    [async () => driver.harness({ endpoint: 'http://x' }), /names no credential/],
    [async () => driver.harness({ ...stage.connection, anonymous: 'yes' }), /anonymous must be true or false/],
    [async () => driver.harness({ ...stage.connection, authorization: {} }), /authorization snapshot/],
    [async () => driver.setCredential('a', 7), /secret must be a string/],
    [async () => stage.module.createCellsDriver('x'), /resolveCredential must be a function/],
    [async () => stage.module.createCellsDriver(undefined, {}), /fetch must be a function/],
  ];
  for (const [call, message] of cases) {
    const error = await rejection(call());
    assert.ok(error instanceof stage.module.CellsError, String(error));
    assert.equal(error.code, 'EINVAL', String(error));
    assert.match(error.message, message);
  }
  assert.equal(calls.length, 0);
});

test('a closed client and a disposed driver refuse further calls', async () => {
  const { driver, files, calls } = open();
  await files.close();
  await files.close();
  assert.equal((await rejection(files.stat('empty'))).code, 'EACCES');
  const other = driver.files({ ...stage.connection, alias: 'home' });
  await driver.dispose();
  await driver.dispose();
  assert.equal((await rejection(other.stat('empty'))).code, 'EACCES');
  assert.throws(() => driver.files({ ...stage.connection, alias: 'home' }), { code: 'EACCES' });
  assert.equal(calls.length, 0);
});
