// Sources and processes in Chromium, as far as a browser differs from Node: live output, aborts, the pool, blobs, and headers
// that a page may send only when the node allows them.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { World } from '../support/hosts.js';

let world;
before(async () => {
  world = await World.start();
});
after(() => world.close());

/** Where commands see the export `home`. */
const AT = '/workspace';

/** Runs a task in a page; see `World.run`. */
const inPage = (node, task) => world.run('Chromium', node, task);

test('output arrives in a page while the command runs', async () => {
  const seen = await world.run(
    'Chromium',
    'the local node',
    async ({ cells, endpoint, apiKey, storage }, at) => {
      const driver = cells.createCellsDriver(() => apiKey);
      const connection = { endpoint, credentialRef: 'node' };
      const { serverId, processEpoch } = await driver.capabilities(connection);
      const mounts = [{ alias: 'home', path: '', at, access: 'rw' }];
      const session = driver.process(connection, { serverId, epoch: processEpoch, cwd: at, mounts });
      let text = '';
      let going;
      const onOutput = (output) => {
        text += output.text;
        // The command ends only after its first line was here.
        if (text === 'früh\n') going = storage.mutations.replace('go', new Blob([]), { kind: 'create-only' });
      };
      const script = 'echo früh; while [ ! -e go ]; do sleep 0.02; done; echo late; rm go; exit 5';
      const exit = await session.nativeShell.exec('sh', ['-c', script], { onOutput });
      await going;
      await session.release();
      await driver.dispose();
      return { exit, text };
    },
    { given: AT },
  );
  const stdout = 'früh\nlate\n';
  assert.deepEqual(seen, { exit: { stdout, stderr: '', code: 5, truncated: false, hasGaps: false }, text: stdout });
});

for (const node of ['the local node', 'an old node']) {
  test(`a page stops a command, and is told when it is over: ${node}`, async () => {
    const seen = await world.run(
      'Chromium',
      node,
      async ({ cells, endpoint, apiKey, caught, storage }, at) => {
        const driver = cells.createCellsDriver(() => apiKey);
        const connection = { endpoint, credentialRef: 'node' };
        const { serverId, processEpoch } = await driver.capabilities(connection);
        const mounts = [{ alias: 'home', path: '', at, access: 'rw' }];
        const session = driver.process(connection, { serverId, epoch: processEpoch, cwd: at, mounts });
        const controller = new AbortController();
        const running = caught(session.nativeShell.exec('sh', ['-c', 'touch began; sleep 60'], { signal: controller.signal }));
        // An old node is busy while a command runs.
        let seen;
        do seen = await caught(storage.files.stat('began'));
        while (seen.code !== 'EBUSY' && !seen.value);
        controller.abort(new Error('enough'));
        const stopped = await running;
        await storage.mutations.remove('began');
        const late = await caught(session.nativeShell.exec('sleep', ['60'], { timeoutMs: 1500 }));
        const done = await session.nativeShell.exec('echo', ['done']);
        await session.release();
        await driver.dispose();
        return { stopped, late, stdout: done.stdout };
      },
      { given: AT },
    );
    assert.deepEqual([seen.stopped.code, seen.stopped.outcome, seen.stopped.cause], ['ECANCELLED', 'partial', 'enough']);
    assert.deepEqual([seen.late.code, seen.late.outcome], ['ETIMEDOUT', 'partial']);
    assert.equal(seen.stdout, 'done\n');
  });

  test(`owners in a page share a source, and an opener that leaves disturbs nobody: ${node}`, async () => {
    const seen = await inPage(node, async ({ cells, endpoint, apiKey, caught }) => {
      let n = 0;
      const counted = (url, init) => {
        if (url.endsWith('/v1/exports')) n += 1;
        return fetch(url, init);
      };
      const provider = cells.createHttpSourceProvider(() => apiKey, counted);
      const connection = { endpoint, credentialRef: 'node', alias: 'home' };
      const controller = new AbortController();
      const left = caught(provider.open(connection, { signal: controller.signal }));
      const calls = [provider.open(connection), provider.open(connection)];
      controller.abort();
      const leaver = await left;
      const [first, second] = await Promise.all(calls);
      await first.dispose();
      await first.dispose();
      const disposed = await caught(first.fs.driver.stat('/'));
      const root = await second.fs.driver.stat('/');
      await second.dispose();
      await (await provider.open(connection)).dispose();
      await provider.dispose();
      return { n, leaver, disposed, type: root.type, viewId: first.fs.viewId };
    });
    assert.deepEqual([seen.leaver.code, seen.disposed.code], ['ECANCELLED', 'EACCES']);
    assert.deepEqual([seen.n, seen.type, seen.viewId], [2, 'directory', 'http:node']);
  });

  test(`a page reads and saves through a source: ${node}`, async () => {
    const { folder } = world.nodes[node];
    for (let n = 0; n < 600; n += 1) writeFileSync(join(folder, `many-${n}`), '');
    const seen = await inPage(node, async ({ cells, endpoint, apiKey, caught }) => {
      const options = { endpoint, credential: () => apiKey, alias: 'home' };
      const { fs, dispose } = await cells.openHttpFileSource(options);
      const file = fs.openFile('/2024: ü.txt');
      const made = await file.replace(new Blob(['one']), { kind: 'create-only' });
      let revision;
      const data = await file.read({ onRevision: (known) => (revision = known) });
      await file.replace(new Blob([data, ' two']), { kind: 'match', revision });
      const conflict = await caught(file.replace(new Blob(['three']), { kind: 'match', revision }));
      const text = new TextDecoder().decode(await file.read());
      const { length } = await fs.driver.list('/');
      await fs.driver.delete('/2024: ü.txt');
      const changes = fs.revision;
      await dispose();
      return { made, conflict, text, length, changes };
    });
    assert.deepEqual([seen.made.name, seen.made.size, seen.made.version], ['2024: ü.txt', 3, 0]);
    assert.deepEqual([seen.conflict.code, seen.conflict.outcome, seen.text], ['ECONFLICT', 'not-committed', 'one two']);
    assert.ok(seen.length > 600);
    assert.equal(seen.changes, 3);
  });
}

test('a page may pin its requests, and a pin that is not current is refused', async () => {
  const seen = await inPage('the local node', async ({ cells, endpoint, apiKey, caught }) => {
    const driver = cells.createCellsDriver(() => apiKey);
    const connection = { endpoint, credentialRef: 'node', alias: 'home' };
    const { authorization } = await driver.discover(connection);
    const source = await driver.open({ ...connection, authorization });
    const { type } = await source.fs.driver.stat('/');
    const old = await caught(driver.open({ ...connection, authorization: { ...authorization, revision: 'another' } }));
    await driver.dispose();
    return { type, old };
  });
  assert.equal(seen.type, 'directory');
  assert.deepEqual([seen.old.code, seen.old.remoteCode], ['EACCES', 'AUTHORIZATION_CHANGED']);
});
