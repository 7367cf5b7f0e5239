// Writes: their conditions, their outcomes, and what settles one whose reply is lost.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { FaultProxy } from '../support/fault-proxy.js';
import { HOSTS, NODES, World } from '../support/hosts.js';
import { OldNode } from '../support/old-node.js';
import { program, recordingFetch, rejection } from '../support/stage.js';

const NEW = { kind: 'create-only' };

let world;
before(async () => {
  world = await World.start();
});
after(() => world.close());

let names = 0;
let name;
beforeEach(() => (name = `file-${++names}`));

/** Defines a test for each host and node. `check(seen, node)` looks at what the task saw. */
function everywhere(title, task, check, { proxied, plan, withEndpoint } = {}) {
  for (const host of HOSTS) {
    for (const node of NODES) {
      test(`${title}: ${host}, ${node}`, async () => {
        const { proxy } = world.nodes[node];
        await proxy.resetCounts();
        await proxy.setPlan({ rules: plan?.() ?? [] });
        const given = withEndpoint ? { name, endpoint: world.nodes[node].endpoint } : name;
        const seen = await world.run(host, node, task, { given, proxied }).finally(() => proxy.setPlan({ rules: [] }));
        await check(seen, world.nodes[node], host);
      });
    }
  }
}

const textOf = (folder, path) => readFileSync(join(folder, path), 'utf8');

everywhere(
  'a file is created once, and replaced while it has the revision that was read',
  async ({ storage: { files, mutations }, caught }, name) => {
    const put = (text, condition) => caught(mutations.replace(name, new Blob([text]), condition));
    const created = await put('one', { kind: 'create-only' });
    const again = await put('two', { kind: 'create-only' });
    const match = { kind: 'match', revision: created.value.revision };
    const replaced = await put('three', match);
    const late = await put('four', match);
    return { created, again, replaced, late, stat: await files.stat(name), frozen: Object.isFrozen(created.value) };
  },
  ({ created, again, replaced, late, stat, frozen }, { folder }) => {
    assert.deepEqual([created.value.kind, created.value.size, frozen], ['file', 3, true]);
    assert.deepEqual(replaced.value, stat);
    assert.notEqual(replaced.value.revision, created.value.revision);
    for (const refused of [again, late]) {
      assert.deepEqual([refused.code, refused.outcome, refused.operation], ['ECONFLICT', 'not-committed', 'replace']);
      assert.match(refused.operationId, /^[0-9a-f-]{36}$/);
      assert.equal(refused.recovery, undefined);
    }
    assert.equal(textOf(folder, name), 'three');
  },
);

everywhere(
  'directories are made, moved and removed',
  async ({ storage: { files, mutations }, caught }, name) => ({
    made: await caught(mutations.mkdir(name)),
    again: await caught(mutations.mkdir(name)),
    orphan: await caught(mutations.mkdir(`${name}/a/b`)),
    moved: await caught(mutations.rename(name, `${name}-moved`)),
    gone: await caught(mutations.rename(name, `${name}-other`)),
    file: (await mutations.replace(`${name}-moved/x`, new Blob(['x']), { kind: 'create-only' })).kind,
    full: await caught(mutations.remove(`${name}-moved`)),
    tree: await caught(mutations.remove(`${name}-moved`, { recursive: true })),
    root: await caught(mutations.remove('')),
    emptied: await caught(mutations.remove(`${name}-moved/x`)),
    removed: await caught(mutations.remove(`${name}-moved`)),
    left: await files.statType(`${name}-moved`),
  }),
  (seen) => {
    assert.deepEqual(seen.made, { value: { kind: 'directory' } });
    assert.deepEqual([seen.moved, seen.emptied, seen.removed, seen.left], [{ value: undefined }, { value: undefined }, { value: undefined }, null]);
    const codes = { again: 'EEXIST', orphan: 'ENOENT', gone: 'ENOENT', full: 'ENOTEMPTY' };
    for (const [call, code] of Object.entries(codes)) {
      assert.deepEqual([seen[call].code, seen[call].outcome], [code, 'not-committed'], call);
    }
    assert.deepEqual([seen.tree.code, seen.tree.outcome], ['ECAPABILITY', 'not-started']);
    assert.deepEqual([seen.root.code, seen.root.outcome], ['EINVAL', 'not-started']);
  },
);

everywhere(
  'a write is announced before it leaves, and has a receipt',
  async ({ storage, open, caught }, name) => {
    const order = [];
    const watched = open({ fetch: (url, init) => (order.push(init.method), fetch(url, init)) });
    await watched.init();
    order.length = 0;
    let recovery;
    const onDispatch = (given) => {
      order.push('onDispatch');
      recovery = given;
    };
    const stat = await watched.mutations.replace(name, new Blob(['a']), { kind: 'create-only' }, { onDispatch });
    const receipt = await storage.operationStatus(recovery.operationId);
    const late = await storage.cancelOperation(recovery.operationId);
    const settled = await storage.settle(JSON.parse(JSON.stringify(recovery)));
    const none = await caught(storage.operationStatus('never-seen'));
    const id = `mine-${name}`;
    const fenced = await storage.cancelOperation(id);
    const reused = await caught(storage.mutations.mkdir(`${name}-d`, { operationId: id }));
    await watched.close();
    return { order, recovery, stat, receipt, late, settled, none, fenced, reused };
  },
  ({ order, recovery, stat, receipt, late, settled, none, fenced, reused }, { folder }) => {
    assert.deepEqual(order, ['onDispatch', 'PUT']);
    assert.deepEqual(recovery.change, { kind: 'replace', path: `file-${names}`, size: 1 });
    assert.equal(recovery.alias, 'home');
    for (const told of [receipt, late, settled]) assert.deepEqual(told, { outcome: 'committed', result: stat });
    assert.deepEqual([none.code, none.outcome], ['ENOENT', 'unknown']);
    assert.deepEqual(fenced, { outcome: 'not-committed', code: 'ECANCELLED' });
    assert.deepEqual([reused.outcome, reused.remoteCode], ['unknown', 'OPERATION_ID_REUSED']);
    assert.ok(!existsSync(join(folder, `file-${names}-d`)));
  },
);

everywhere(
  'a write whose reply is lost is unknown, is not sent again, and is settled by its recovery',
  async ({ storage, caught }, name) => {
    let dispatched;
    const data = new TextEncoder().encode('lost');
    const onDispatch = (recovery) => (dispatched = recovery);
    const lost = await caught(storage.mutations.replace(name, data, { kind: 'create-only' }, { onDispatch }));
    return { dispatched, lost };
  },
  async ({ dispatched, lost }, { folder, endpoint, proxy, apiKey }, host) => {
    assert.deepEqual([lost.name, lost.outcome], ['CellsError', 'unknown']);
    // A browser may send a request once more by itself, on a connection that it has used before. The node refuses that.
    if (host === 'Node') assert.deepEqual([lost.code, lost.operation], ['EIO', 'connect']);
    else assert.ok(lost.operation === 'connect' || lost.remoteCode === 'OPERATION_ID_REUSED', JSON.stringify(lost));
    assert.equal(lost.operationId, dispatched.operationId);
    const sha256 = createHash('sha256').update('lost').digest('hex');
    assert.deepEqual(lost.recovery, { ...dispatched, change: { ...dispatched.change, sha256 } });
    assert.equal(textOf(folder, name), 'lost');
    assert.equal((await proxy.counts()).faults, 1);
    // Another process, which has only the JSON.
    world.stage.project.write({
      'settle.mjs': `
        import { HttpFSBackend } from '@itookit/cells-driver';
        const { endpoint, apiKey, recovery } = JSON.parse(process.env.TASK);
        const storage = new HttpFSBackend({ endpoint, credential: () => apiKey, alias: 'home' });
        await storage.init();
        console.log(JSON.stringify(await storage.settle(recovery)));
        await storage.close();`,
    });
    for (const recovery of [lost.recovery, dispatched]) {
      const settled = await world.stage.project.node('settle.mjs', { TASK: JSON.stringify({ endpoint, apiKey, recovery }) });
      assert.deepEqual([settled.outcome, settled.result.size], ['committed', 4]);
    }
  },
  { proxied: true, plan: () => [{ method: 'PUT', when: { nth: 1 }, fault: { kind: 'reset-after' } }] },
);

everywhere(
  'a write that is cancelled in time does not happen, and says so',
  async ({ storage, caught }, name) => {
    const controller = new AbortController();
    const options = { signal: controller.signal, onDispatch: () => setTimeout(() => controller.abort('enough'), 50) };
    const error = await caught(storage.mutations.replace(name, new Blob(['x']), { kind: 'create-only' }, options));
    return { error, receipt: await caught(storage.operationStatus(error.operationId)) };
  },
  ({ error, receipt }, { folder }) => {
    assert.deepEqual([error.code, error.outcome, error.cause], ['ECANCELLED', 'not-committed', 'enough']);
    assert.deepEqual(receipt.value, { outcome: 'not-committed', code: 'ECANCELLED' });
    assert.ok(!existsSync(join(folder, name)));
  },
  { proxied: true, plan: () => [{ method: 'PUT', fault: { kind: 'delay-request', ms: 60_000 } }] },
);

everywhere(
  'a write that is cancelled too late resolves',
  async ({ storage, open, caught }, { name, endpoint }) => {
    const direct = open({ endpoint });
    await direct.init();
    const controller = new AbortController();
    const written = caught(
      storage.mutations.replace(name, new Blob(['late']), { kind: 'create-only' }, { signal: controller.signal }),
    );
    while ((await direct.files.stat(name)) === null);
    controller.abort();
    await direct.close();
    return written;
  },
  ({ value }) => assert.deepEqual([value.kind, value.size], ['file', 4]),
  { withEndpoint: true, proxied: true, plan: () => [{ method: 'PUT', fault: { kind: 'delay-reply', ms: 60_000 } }] },
);

everywhere(
  'a write whose time is up is unknown at once, and settled later',
  async ({ storage, caught }, name) => {
    const error = await caught(
      storage.mutations.replace(name, new Blob(['slow']), { kind: 'create-only' }, { timeoutMs: 300 }),
    );
    return { error, settled: await storage.settle(error.recovery) };
  },
  ({ error, settled }, { folder }) => {
    assert.deepEqual([error.code, error.outcome], ['ETIMEDOUT', 'unknown']);
    // It was stopped if it was not done.
    assert.equal(settled.outcome, existsSync(join(folder, name)) ? 'committed' : 'not-committed');
  },
  { proxied: true, plan: () => [{ method: 'PUT', fault: { kind: 'delay-reply', ms: 60_000 } }] },
);

everywhere(
  'a read-only export has no writes',
  async ({ cells, open, caught, endpoint, apiKey }) => {
    const locked = open({ alias: 'locked' });
    await locked.init();
    const transport = new cells.HttpTransport({ endpoint, credential: () => apiKey });
    const body = { action: 'mkdir', path: 'made' };
    const seen = {
      access: locked.access,
      mutations: locked.mutations,
      seq: await caught(locked.seq.transaction('a.seq', null, [])),
      sent: await caught(transport.mutate('v1/fs/locked/mutate', body)),
    };
    await locked.close();
    await transport.close();
    return seen;
  },
  ({ access, mutations, seq, sent }) => {
    assert.deepEqual([access, mutations], ['ro', undefined]);
    assert.deepEqual([seq.code, seq.outcome], ['EROFS', 'not-started']);
    assert.deepEqual([sent.code, sent.outcome], ['EROFS', 'not-committed']);
  },
);

everywhere(
  'a write that cannot be sent is unknown, where nothing says that it was not sent',
  async ({ open, caught }, { name, endpoint }) => {
    // What is asked when the export is opened still has an answer.
    let gone = false;
    const nowhere = (url) => (gone ? url.replace(endpoint, 'http://127.0.0.1:9') : url);
    const storage = open({ fetch: (url, init) => fetch(nowhere(url), init) });
    await storage.init();
    gone = true;
    return caught(storage.mutations.mkdir(name));
  },
  ({ code, operation, outcome }) => {
    // A function of the host might have sent it before it failed.
    assert.deepEqual([code, operation, outcome], ['EIO', 'connect', 'unknown']);
  },
  { withEndpoint: true },
);

test('where the receipt is gone, the hash of the content proves that the write happened, and nothing else does', async () => {
  const { HttpFSBackend } = world.stage.module;
  const { apiKey } = world.stage;
  const folder = mkdtempSync(join(world.root, 'forgetful-'));
  const options = { exports: [{ alias: 'home', path: folder, writable: true }], credential: { token: apiKey } };
  const open = async (endpoint) => {
    const storage = new HttpFSBackend({ endpoint, credential: () => apiKey, alias: 'home' });
    await storage.init();
    return storage;
  };
  const first = await OldNode.start(program('CELLS_OLD_NODE'), options);
  const proxy = await FaultProxy.start(program('CELLS_FAULT_PROXY'), new URL(first.endpoint).host);
  const storage = await open(proxy.url);
  await proxy.setPlan({ rules: [{ method: 'PUT', fault: { kind: 'reset-after' } }] });
  const sha256 = createHash('sha256').update('content').digest('hex');
  const stream = () => new Blob(['content']).stream();
  const contents = {
    bytes: [Buffer.from('content')],
    blob: [new Blob(['content'])],
    'stream with its hash': [stream(), { size: 7, sha256 }],
    'stream without': [stream()],
    'file that somebody changed': [new Blob(['content'])],
  };
  const recoveries = {};
  for (const [what, [data, known]] of Object.entries(contents)) {
    const lost = await rejection(storage.mutations.replace(what, data, NEW, known));
    assert.equal(lost.outcome, 'unknown', what);
    recoveries[what] = JSON.parse(JSON.stringify(lost.recovery));
  }
  await storage.close();
  await first.kill();
  await proxy.close();
  writeFileSync(join(folder, 'file that somebody changed'), 'another');

  const second = await OldNode.start(program('CELLS_OLD_NODE'), options);
  const later = await open(second.endpoint);
  for (const [what, recovery] of Object.entries(recoveries)) {
    const { outcome } = await later.settle(recovery);
    const isProven = !what.includes('without') && !what.includes('changed');
    assert.equal(outcome, isProven ? 'committed' : 'unknown', what);
  }
  await later.close();
  await second.kill();
});

test('a write to a node that refuses the connection did not start, with the fetch of Node', async () => {
  const { proxy, apiKey } = world.nodes['the local node'];
  for (const host of ['127.0.0.1', 'localhost']) {
    const endpoint = proxy.url.replace('127.0.0.1', host);
    const storage = new world.stage.module.HttpFSBackend({ endpoint, credential: () => apiKey, alias: 'home' });
    await storage.init();
    await proxy.refuse();
    const error = await rejection(storage.mutations.mkdir('nowhere')).finally(() => proxy.listen());
    assert.deepEqual([error.code, error.operation, error.outcome], ['EIO', 'connect', 'not-started'], String(error));
    await storage.close();
  }
});

test('what is not valid is not sent', async () => {
  const recording = recordingFetch();
  const storage = await world.stage.driver(recording).fileStorage({ ...world.stage.connection, alias: 'home' });
  const { mutations: writes } = storage;
  recording.calls.length = 0;
  const data = new Uint8Array(1);
  const locked = new Blob(['x']).stream();
  locked.getReader();
  const growing = new Uint8Array(new ArrayBuffer(1, { maxByteLength: 2 }));
  for (const [what, call] of Object.entries({
    'no condition': () => writes.replace('a', data),
    'another condition': () => writes.replace('a', data, { kind: 'any' }),
    'a match without a revision': () => writes.replace('a', data, { kind: 'match' }),
    'a revision that is none': () => writes.replace('a', data, { kind: 'match', revision: 'x\ny' }),
    'a path that leaves the export': () => writes.replace('../a', data, NEW),
    'a path that is no text': () => writes.replace(7, data, NEW),
    'text as content': () => writes.replace('a', 'text', NEW),
    'nothing as content': () => writes.replace('a', undefined, NEW),
    'a list as content': () => writes.replace('a', [1, 2], NEW),
    'a stream that somebody reads': () => writes.replace('a', locked, NEW),
    'shared memory': () => writes.replace('a', new Uint8Array(new SharedArrayBuffer(1)), NEW),
    'memory that grows': () => writes.replace('a', growing, NEW),
    'another size': () => writes.replace('a', data, NEW, { size: 2 }),
    'a size that is none': () => writes.replace('a', data, NEW, { size: -1 }),
    'a hash that is none': () => writes.replace('a', data, NEW, { sha256: 'x' }),
    'an id that is none': () => writes.mkdir('a', { operationId: 'a b' }),
    'a listener that is none': () => writes.replace('a', data, NEW, { onProgress: 1 }),
    'another listener that is none': () => writes.replace('a', data, NEW, { onDispatch: 1, onProgress() {} }),
    'a signal that is none': () => writes.mkdir('a', { signal: 1 }),
    'options that are none': () => writes.mkdir('a', 1),
  })) {
    const error = await rejection(call());
    assert.deepEqual([error.name, error.code, error.outcome], ['CellsError', 'EINVAL', 'not-started'], `${what}: ${error}`);
  }
  const large = await rejection(writes.replace('a', async function* () {}.call(), NEW, { size: 268_435_457 }));
  assert.deepEqual([large.code, large.outcome], ['EFBIG', 'not-started']);
  for (const recovery of [undefined, {}, { operationId: 'a' }, 'text']) {
    assert.equal((await rejection(storage.settle(recovery))).code, 'EINVAL');
  }
  assert.equal(recording.calls.length, 0);
  await storage.close();
});
