// Storages: opening, closing, and the files that they share with `driver.files`.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { recordingFetch, rejection, Stage } from '../support/stage.js';

let stage;
before(async () => {
  stage = await Stage.start();
});
after(() => stage.close());

test('init may be called again, also after a failure, and close may be called twice', async () => {
  const { apiKey, node } = stage;
  const { endpoint } = node;
  const { HttpFSBackend } = stage.module;
  let key = 'wrong';
  const recording = recordingFetch();
  const storage = new HttpFSBackend({ endpoint, credential: () => key, alias: 'home', fetch: recording });
  for (const member of ['files', 'access', 'seq']) {
    assert.throws(() => storage[member], { name: 'CellsError', code: 'EINVAL', reason: 'NOT_INITIALISED' });
  }
  assert.equal(storage.mutations, undefined);
  assert.equal((await rejection(storage.settle({}))).reason, 'NOT_INITIALISED');
  assert.equal((await rejection(storage.init())).code, 'EACCES');
  key = apiKey;
  const aborted = rejection(storage.init({ signal: AbortSignal.abort() }));
  await Promise.all([storage.init(), storage.init()]);
  assert.equal((await aborted).code, 'ECANCELLED');
  assert.equal(storage.name, 'http');
  const { files, mutations } = storage;
  const { length } = recording.calls;
  await storage.init();
  assert.equal(recording.calls.length, length);
  assert.equal(storage.files, files);
  await storage.close();
  await storage.close();
  for (const call of [() => storage.init(), () => files.stat(''), () => files.statType(''), () => mutations.mkdir('x')]) {
    assert.equal((await rejection(call())).code, 'EACCES', String(call));
  }
  const unknown = new HttpFSBackend({ endpoint, credential: () => apiKey, alias: 'nothing' });
  assert.equal((await rejection(unknown.init())).code, 'EACCES');
  assert.throws(() => new HttpFSBackend({ endpoint, credential: () => apiKey }), { code: 'EINVAL' });
  assert.throws(() => new HttpFSBackend({ endpoint, credential: () => apiKey, alias: 'a/b' }), { code: 'EINVAL' });
});

test('a storage of a driver ends alone: the driver goes on', async () => {
  const silent = (url, init) => (url.includes('/entries') ? new Promise(() => {}) : fetch(url, init));
  const driver = stage.driver(silent);
  const connection = { ...stage.connection, alias: 'home' };
  const [one, other] = [await driver.fileStorage(connection), await driver.fileStorage(connection)];
  const underWay = rejection(one.files.list(''));
  await new Promise((resolve) => setImmediate(resolve));
  await one.close();
  assert.equal((await underWay).code, 'ECANCELLED');
  assert.equal((await rejection(one.files.stat(''))).code, 'EACCES');
  assert.equal((await other.files.stat('')).kind, 'directory');
  assert.equal((await rejection(driver.fileStorage({ ...connection, alias: 'nothing' }))).code, 'EACCES');
});

test('stat and statType of one turn share requests', async () => {
  const recording = recordingFetch();
  const storage = await stage.driver(recording).fileStorage({ ...stage.connection, alias: 'home' });
  mkdirSync(join(stage.folder, 'shared'));
  writeFileSync(join(stage.folder, 'shared/a'), 'a');
  recording.calls.length = 0;
  const { files } = storage;
  const paths = ['shared', 'shared/a', 'shared/none'];
  const [stats, kinds] = await Promise.all([
    Promise.all(paths.map((path) => files.stat(path))),
    Promise.all(paths.map((path) => files.statType(path))),
  ]);
  assert.deepEqual(stats.map((stat) => stat?.kind), ['directory', 'file', undefined]);
  assert.deepEqual(kinds, [{ kind: 'directory' }, { kind: 'file' }, null]);
  assert.equal(recording.calls.length, 1);
  await storage.close();
});
