// Exports opened as file systems, and what is asked of a node before: the local one, and the one of the generation before it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { LocalNode } from '../support/local-node.js';
import { OldNode } from '../support/old-node.js';
import { Stage, program, recordingFetch, rejection } from '../support/stage.js';

let stage;
const nodes = {};
before(async () => {
  stage = await Stage.start();
  nodes['the local node'] = stage;
  nodes['an old node'] = await oldNode();
});
after(async () => {
  for (const node of Object.values(nodes)) await node.close();
});

async function oldNode(options) {
  const folder = scratch();
  const exports = [{ alias: 'home', path: folder, writable: true }];
  const node = await OldNode.start(program('CELLS_OLD_NODE'), { exports, credential: { token: stage.apiKey }, ...options });
  const connection = { ...stage.connection, endpoint: node.endpoint };
  return { folder, connection, driver: (fetch) => stage.driver(fetch), close: () => node.kill() };
}

function scratch() {
  const folder = mkdtempSync(join(tmpdir(), 'cells-sources-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const home = (node = stage) => ({ ...node.connection, alias: 'home' });
const bytes = (text) => new TextEncoder().encode(text);
const text = (data) => new TextDecoder().decode(data);
const CREATE = { kind: 'create-only' };

test('owners of equal connections share a source, and the last one closes it', async () => {
  const fetch = recordingFetch();
  const driver = stage.driver(fetch);
  const asked = () => fetch.calls.filter(({ url }) => url.endsWith('/v1/exports')).length;
  const [first, second, third] = await Promise.all([1, 2, 3].map(() => driver.open(home())));
  assert.equal(asked(), 1);
  assert.deepEqual([first.fs.viewId, second.fs.viewId], ['http:node', 'http:node']);
  assert.notEqual(first.fs, second.fs);

  await first.dispose();
  await first.dispose();
  const error = await rejection(first.fs.driver.stat('/'));
  assert.deepEqual([error.code, error.operation], ['EACCES', 'stat']);
  const write = await rejection(first.fs.driver.mkdir('/never'));
  assert.deepEqual([write.code, write.outcome], ['EACCES', 'not-started']);
  assert.equal((await second.fs.driver.stat('/')).type, 'directory', 'the others go on');
  await second.dispose();
  assert.equal((await third.fs.driver.stat('/')).type, 'directory');
  await third.dispose();

  const again = await driver.open(home());
  assert.equal(asked(), 2, 'the last one closed it');
  await again.dispose();
});

test('the last owner ends the calls under way', async () => {
  let held;
  const hold = (url, init) => {
    if (!url.includes('/stat')) return fetch(url, init);
    held = init;
    return new Promise((_, reject) => init.signal.addEventListener('abort', () => reject(init.signal.reason)));
  };
  const driver = stage.driver(hold);
  const [first, second] = [await driver.open(home()), await driver.open(home())];
  const call = rejection(first.fs.driver.stat('/'));
  while (held === undefined) await new Promise(setImmediate);
  await first.dispose();
  assert.ok(!held.signal.aborted, 'the source is still open');
  await second.dispose();
  assert.equal((await call).code, 'ECANCELLED');
  while (!held.signal.aborted) await new Promise(setImmediate);
});

test('connections that differ in anything have sources of their own', async () => {
  const fetch = recordingFetch();
  const driver = stage.driver(fetch);
  driver.setCredential('other', stage.apiKey);
  const { authorization } = await driver.discover(stage.connection);
  const asked = () => fetch.calls.filter(({ url }) => url.endsWith('/v1/exports')).length;
  const owners = [];
  for (const connection of [
    home(),
    { ...home(), endpoint: `${stage.node.endpoint}/`.replace('127.0.0.1', 'localhost') },
    { ...home(), credentialRef: 'other' },
    { ...home(), authorization },
  ]) {
    const before = asked();
    owners.push(await driver.open(connection), await driver.open({ ...connection }));
    assert.equal(asked(), before + 1, JSON.stringify(connection));
  }
  for (const owner of owners) await owner.dispose();
});

test('an opener that leaves does not disturb the others, and the last one out ends the request', async () => {
  const inits = [];
  let go;
  const going = new Promise((resolve) => (go = resolve));
  const hold = async (url, init) => {
    if (url.endsWith('/v1/exports')) {
      inits.push(init);
      await Promise.race([going, new Promise((_, reject) => init.signal.addEventListener('abort', reject))]);
    }
    return fetch(url, init);
  };
  const driver = stage.driver(hold);
  const controller = new AbortController();
  const left = rejection(driver.open(home(), { signal: controller.signal }));
  const late = rejection(driver.open(home(), { timeoutMs: 30 }));
  const stays = driver.open(home());
  controller.abort(new Error('changed my mind'));
  const error = await left;
  assert.deepEqual([error.code, error.cause.message], ['ECANCELLED', 'changed my mind']);
  assert.equal((await late).code, 'ETIMEDOUT');
  go();
  const owner = await stays;
  assert.equal(inits.length, 1);
  await owner.dispose();

  const alone = new AbortController();
  const abandoned = stage.driver((url, init) => {
    if (!url.endsWith('/v1/exports')) return fetch(url, init);
    inits.push(init);
    return new Promise((_, reject) => init.signal.addEventListener('abort', () => reject(init.signal.reason)));
  });
  const call = rejection(abandoned.open(home(), { signal: alone.signal }));
  while (inits.length < 2) await new Promise(setImmediate);
  alone.abort();
  assert.equal((await call).code, 'ECANCELLED');
  while (!inits[1].signal.aborted) await new Promise(setImmediate);
});

test('a failed start is told to all who wait and is not kept', async () => {
  let fails = true;
  const driver = stage.driver((url, init) => (fails && url.endsWith('/v1/exports') ? Promise.reject(new TypeError('no')) : fetch(url, init)));
  const errors = await Promise.all([1, 2].map(() => rejection(driver.open(home()))));
  assert.deepEqual(errors.map(({ code, operation }) => [code, operation]), [['EIO', 'connect'], ['EIO', 'connect']]);
  fails = false;
  await (await driver.open(home())).dispose();
  const gone = await rejection(driver.open({ ...home(), alias: 'gone' }));
  assert.equal(gone.code, 'EACCES');
  assert.match(gone.message, /gone/);
  assert.equal((await rejection(driver.open(stage.connection))).code, 'EINVAL');
  await driver.dispose();
  assert.equal((await rejection(driver.open(home()))).code, 'EACCES');
});

for (const name of ['the local node', 'an old node']) {
  test(`a source has the shape of a VFS: ${name}`, async () => {
    const node = nodes[name];
    const owner = await node.driver().open(home(node));
    const { fs } = owner;
    const { driver } = fs;
    assert.deepEqual([driver.name, driver.access, fs.external], ['http', 'rw', true]);
    assert.deepEqual(fs.capabilities, { read: true, write: true, readonly: false, partialRead: true });
    assert.deepEqual(await fs.capabilitiesAt('/a'), fs.capabilities);
    await driver.init();

    const started = fs.revision;
    const made = await driver.mkdir('/2024');
    assert.deepEqual([made.path, made.parentPath, made.name, made.type], ['/2024', '/', '2024', 'directory']);
    const file = await driver.replace('/2024/Q1: ü.md', bytes('one'), CREATE);
    assert.deepEqual(
      [file.path, file.parentPath, file.name, file.type, file.size, file.version, file.tags, file.metadata],
      ['/2024/Q1: ü.md', '/2024', 'Q1: ü.md', 'file', 3, 0, [], {}],
    );
    assert.ok(Object.isFrozen(file));
    assert.equal(typeof file.createdAt, 'number');
    assert.equal(fs.revision, started + 2);
    assert.equal(readFileSync(join(node.folder, '2024', 'Q1: ü.md'), 'utf8'), 'one');

    let revision;
    const onRevision = (known) => (revision = known);
    assert.equal(text(await driver.read(file.path, { onRevision })), 'one');
    assert.equal(revision, file.revision);
    assert.equal(text(await driver.read(file.path, { offset: 1, length: 1 })), 'n');
    const opened = fs.openFile(file.path);
    const second = await opened.replace(bytes('second'), { kind: 'match', revision });
    assert.equal(text(await opened.read({ ifRevision: second.revision })), 'second');
    assert.deepEqual(await opened.stat(), second);
    const conflict = await rejection(opened.replace(bytes('third'), { kind: 'match', revision }));
    assert.deepEqual([conflict.code, conflict.outcome], ['ECONFLICT', 'not-committed']);
    assert.equal(fs.revision, started + 3, 'what failed is no change');

    assert.deepEqual((await driver.list('/2024')).map(({ path, name, size }) => [path, name, size]), [['/2024/Q1: ü.md', 'Q1: ü.md', 6]]);
    const root = (await driver.list('/')).find(({ name: found }) => found === '2024');
    assert.deepEqual([root.path, root.parentPath], ['/2024', '/']);
    const [there, missing, type, none] = await Promise.all([
      driver.stat('/'),
      driver.stat('/nothing'),
      driver.statType('/2024'),
      driver.statType('/nothing'),
    ]);
    assert.deepEqual([there.path, there.parentPath, there.name, there.type], ['/', null, '', 'directory']);
    assert.deepEqual([missing, type, none], [null, { type: 'directory' }, null]);

    await driver.rename(file.path, '/moved');
    assert.equal((await rejection(driver.delete('/moved', { recursive: true }))).code, 'ECAPABILITY');
    await driver.delete('/moved');
    await driver.delete('/2024');
    assert.equal(fs.revision, started + 6);
    await owner.dispose();
  });
}

test('what a node has not is refused before anything is sent', async () => {
  const fetch = recordingFetch();
  const owner = await stage.driver(fetch).open(home());
  const { driver, meta } = owner.fs;
  const n = fetch.calls.length;
  for (const call of [driver.write('/a', 'x'), driver.updateMetadata('/a', {}), driver.setTags('/a', ['x']), meta.tags.setTags('/a', [])]) {
    const error = await rejection(call);
    assert.ok(error instanceof stage.module.CellsError);
    assert.deepEqual([error.code, error.outcome], ['ECAPABILITY', 'not-started']);
  }
  assert.deepEqual([await driver.getAllTags(), await meta.tags.getAllTags()], [[], []]);
  for (const path of ['a', '', 7, undefined, '//a', '/../a', '/a\\b']) {
    for (const call of [driver.stat(path), driver.list(path), driver.read(path), driver.mkdir(path), driver.rename('/a', path), driver.delete(path)]) {
      const error = await rejection(call);
      assert.equal(error.code, 'EINVAL', `${path}: ${error}`);
    }
  }
  assert.equal(fetch.calls.length, n);
  await owner.dispose();
});

test('a directory is listed whole, or not at all', async () => {
  mkdirSync(join(stage.folder, 'many'));
  const names = Array.from({ length: 1200 }, (_, n) => `f${n}`);
  for (const name of names) writeFileSync(join(stage.folder, 'many', name), '');
  const owner = await stage.driver().open(home());
  const nodes = await owner.fs.driver.list('/many');
  assert.deepEqual(nodes.map(({ name }) => name), [...names].sort());
  execFileSync('mkfifo', [join(stage.folder, 'many', 'pipe')]);
  const error = await rejection(owner.fs.driver.list('/many'));
  assert.deepEqual([error.code, error.operation], ['ECAPABILITY', 'list']);
  await owner.dispose();
});

test('stats of one turn share requests', async () => {
  const fetch = recordingFetch();
  const owner = await stage.driver(fetch).open(home());
  const paths = Array.from({ length: 300 }, (_, n) => `/none/${n % 200}`);
  assert.ok((await Promise.all(paths.map((path) => owner.fs.driver.stat(path)))).every((node) => node === null));
  assert.equal(fetch.calls.filter(({ url }) => url.endsWith('/stat')).length, 1);
  await owner.dispose();
});

test('a source with a credential of its own asks for it with each request, and is shared with nobody', async () => {
  const { openHttpFileSource } = stage.module;
  const fetch = recordingFetch();
  let n = 0;
  const credential = async () => ((n += 1), stage.apiKey);
  const options = { endpoint: stage.node.endpoint, alias: 'home', credential, fetch };
  const source = await openHttpFileSource(options);
  assert.equal(source.fs.viewId, 'http:home');
  assert.equal(n, fetch.calls.length);
  await source.fs.driver.stat('/');
  assert.equal(n, fetch.calls.length);
  const named = await openHttpFileSource(options, 'mine');
  assert.equal(named.fs.viewId, 'mine');
  assert.equal(fetch.calls.filter(({ url }) => url.endsWith('/v1/exports')).length, 2);
  await source.dispose();
  await source.dispose();
  assert.equal((await rejection(source.fs.driver.stat('/'))).code, 'EACCES');
  assert.equal((await named.fs.driver.stat('/')).type, 'directory');
  await named.dispose();
  assert.equal((await rejection(openHttpFileSource({ ...options, alias: 'gone' }))).code, 'EACCES');
  assert.equal((await rejection(openHttpFileSource({ ...options, credential: () => 'x'.repeat(24) }))).code, 'EACCES');
  assert.equal((await rejection(openHttpFileSource({ ...options, alias: undefined }))).code, 'EINVAL');
});

test('a provider opens, checks and browses, and its disposal closes sources but releases no process', async () => {
  const { createHttpSourceProvider } = stage.module;
  const provider = createHttpSourceProvider(() => stage.apiKey);
  assert.deepEqual(
    Object.keys(provider).sort(),
    ['browse', 'capabilities', 'check', 'checkDraft', 'clearCredential', 'dispose', 'open', 'process', 'setCredential'],
  );
  const restore = provider.setCredential('node', 'wrong');
  assert.equal((await rejection(provider.check(stage.connection))).code, 'EACCES');
  restore();
  await provider.check(stage.connection);
  assert.deepEqual(await provider.browse(stage.connection, '/'), { paths: ['/home'], nextCursor: null });
  const owner = await provider.open(home());
  const { serverId, processEpoch } = await provider.capabilities(stage.connection);
  const mounts = [{ alias: 'home', path: '', at: '/workspace', access: 'ro' }];
  const session = provider.process(stage.connection, { serverId, epoch: processEpoch, cwd: '/workspace', mounts });
  await provider.dispose();
  await provider.dispose();
  assert.equal((await rejection(owner.fs.driver.stat('/'))).code, 'EACCES');
  assert.equal((await rejection(provider.open(home()))).code, 'EACCES');
  await session.nativeShell.exec('true');
  await session.release();
});

for (const name of ['the local node', 'an old node']) {
  test(`a node is checked and browsed before anything is opened: ${name}`, async () => {
    const node = nodes[name];
    mkdirSync(join(node.folder, 'browsed', 'a b'), { recursive: true });
    for (let n = 0; n < 600; n += 1) writeFileSync(join(node.folder, 'browsed', `f${n}`), '');
    const driver = node.driver();
    assert.equal(await driver.check(node.connection), undefined);
    await driver.checkDraft(node.connection, '');
    await driver.checkDraft({ ...node.connection, credentialRef: 'unknown' }, stage.apiKey);
    const wrong = await rejection(driver.checkDraft(node.connection, 'not-the-key-of-this-node'));
    assert.deepEqual([wrong.code, wrong.status], ['EACCES', 401]);
    assert.doesNotMatch(wrong.message, /not-the-key/);
    await driver.check(node.connection);

    assert.deepEqual((await driver.browse(node.connection, '/')).paths, ['/home']);
    const first = await driver.browse(node.connection, '/home/browsed');
    assert.equal(typeof first.nextCursor, 'string');
    const second = await driver.browse(node.connection, '/home/browsed', first.nextCursor, { timeoutMs: 5000 });
    assert.deepEqual([...first.paths, ...second.paths, second.nextCursor], ['/home/browsed/a b', null]);
    for (const path of ['', 'home', '/home/', '//', '/a b']) {
      assert.equal((await rejection(driver.browse(node.connection, path))).code, 'EINVAL', path);
    }
    assert.equal((await rejection(driver.browse(node.connection, '/home/none'))).code, 'ENOENT');
    assert.equal((await rejection(driver.browse(node.connection, '/other'))).code, 'EACCES');
  });
}

test('a node without capabilities is described by its exports, and a refused one by its refusal', async () => {
  const older = await oldNode({ capabilities: false });
  try {
    const driver = older.driver();
    assert.deepEqual(await driver.capabilities(older.connection), {
      version: 1,
      serverId: null,
      files: { read: true, write: true },
      sync: { push: false, protocolVersion: null, discovery: null },
      process: { exec: false },
      terminal: { pty: false },
      executionModel: 'none',
      workspaceConsistency: 'none',
      readOnlyEnforcement: 'none',
      pathModel: 'none',
    });
    await (await driver.open(home(older))).dispose();
    driver.setCredential('node', 'x'.repeat(24));
    assert.equal((await rejection(driver.capabilities(older.connection))).code, 'EACCES');
  } finally {
    await older.close();
  }
});

const TABLET_KEY = 'the-key-of-the-tablet-0123456789';

/** Writes the configuration of a node with principals; `grant` is what `tablet` may do with the export `home`. */
function principals(root, grant) {
  writeFileSync(
    join(root, 'cells.toml'),
    `exports = [
       { path = "${join(root, 'home')}", alias = "home", access = "rw" },
       { path = "${join(root, 'open')}", alias = "open", access = "rw", public = true },
     ]
     [[principals]]
     id = "tablet"
     api_key = "${TABLET_KEY}"
     exports = { home = "${grant}" }
     harnesses = ["scripted"]
     process = true
    `,
  );
}

async function startWithPrincipals() {
  const root = scratch();
  for (const folder of ['home', 'open']) mkdirSync(join(root, folder));
  writeFileSync(join(root, 'open', 'hello'), 'for everyone');
  principals(root, 'rw');
  const args = ['--config', join(root, 'cells.toml')];
  const node = await LocalNode.start({ program: program('CELLS_BIN'), exports: [], state: join(root, 'state'), apiKey: stage.apiKey, args });
  return { root, node };
}

test('changed grants close what is pinned to the old ones, and nothing binds to the new ones by itself', async () => {
  const { root, node } = await startWithPrincipals();
  try {
    const other = stage.driver();
    other.setCredential('tablet', TABLET_KEY);
    const connection = { endpoint: node.endpoint, credentialRef: 'tablet', alias: 'home' };
    const { authorization } = await other.discover(connection);
    assert.equal(authorization.principalId, 'tablet');
    const unpinned = await other.open(connection);

    const fetch = recordingFetch();
    const driver = stage.driver(fetch);
    driver.setCredential('tablet', TABLET_KEY);
    const pinned = { ...connection, authorization };
    const [source, second] = [await driver.open(pinned), await driver.open(pinned)];
    const size = 64 * 1024 * 1024;
    writeFileSync(join(root, 'home', 'big'), Buffer.alloc(size));
    const { stream } = await driver.files(pinned).readStream('big');
    const reader = stream.getReader();
    await reader.read();
    await source.fs.driver.mkdir('/made');
    await driver.harness(pinned).profiles();
    await driver.capabilities(pinned);
    const isPinned = ({ headers }) =>
      headers['x-fsagent-principal'] === 'tablet' && headers['x-fsagent-principal-revision'] === String(authorization.revision);
    assert.deepEqual(fetch.calls.filter((call) => !isPinned(call)).map(({ url, body }) => [url, body]), []);
    for (const part of ['/mcp', '/exports', '/capabilities', '/content', '/mutate']) {
      assert.ok(fetch.calls.some(({ url }) => url.includes(part)), part);
    }

    principals(root, 'ro');
    await node.kill();
    await node.restart();
    const changed = async (call) => {
      const error = await rejection(call);
      assert.deepEqual([error.code, error.remoteCode], ['EACCES', 'AUTHORIZATION_CHANGED'], String(error));
      return error;
    };
    assert.equal((await changed(source.fs.driver.mkdir('/more'))).outcome, 'not-committed');
    await changed(
      (async () => {
        while (!(await reader.read()).done);
      })(),
    );
    const asked = fetch.calls.length;
    await changed(source.fs.driver.stat('/'));
    await changed(second.fs.driver.list('/'));
    assert.equal(fetch.calls.length, asked, 'the source is closed: nothing is sent any more');
    await changed(driver.open(pinned));
    assert.ok(fetch.calls.length > asked, 'a new one asks again');
    assert.equal((await unpinned.fs.driver.stat('/made')).type, 'directory', 'what is not pinned goes on');

    const fresh = (await other.discover(connection)).authorization;
    assert.notEqual(fresh.revision, authorization.revision);
    const rebound = await driver.open({ ...connection, authorization: fresh });
    assert.equal(rebound.fs.driver.access, 'ro');
    const refused = await rejection(rebound.fs.driver.mkdir('/more'));
    assert.deepEqual([refused.code, refused.outcome], ['EROFS', 'not-started']);
    for (const owner of [source, second, unpinned, rebound]) await owner.dispose();
  } finally {
    await node.kill();
  }
});

test('a public export is opened without a credential, and only read', async () => {
  const { node } = await startWithPrincipals();
  try {
    const fetch = recordingFetch();
    const provider = stage.module.createHttpSourceProvider(() => assert.fail('asked for a secret'), fetch);
    const connection = { endpoint: node.endpoint, anonymous: true };
    await provider.check(connection);
    assert.deepEqual((await provider.browse(connection, '/')).paths, ['/open']);
    const { fs, dispose } = await provider.open({ ...connection, alias: 'open' });
    assert.deepEqual([fs.viewId, fs.driver.access, fs.capabilities.write], ['http:anonymous', 'ro', false]);
    assert.equal(text(await fs.driver.read('/hello')), 'for everyone');
    const error = await rejection(fs.driver.replace('/hello', bytes('x'), CREATE));
    assert.deepEqual([error.code, error.outcome], ['EROFS', 'not-started']);
    assert.equal((await rejection(provider.open({ ...connection, alias: 'home' }))).code, 'EACCES');
    assert.ok(fetch.calls.every(({ headers }) => headers.authorization === undefined));
    await dispose();
    assert.equal((await rejection(fs.driver.stat('/'))).code, 'EACCES');
    await provider.dispose();
  } finally {
    await node.kill();
  }
});
