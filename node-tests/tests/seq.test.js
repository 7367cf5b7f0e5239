// SeqFiles: snapshots, transactions, conflicts and limits.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { HOSTS, NODES, World } from '../support/hosts.js';
import { recordingFetch, rejection } from '../support/stage.js';

let world;
before(async () => {
  world = await World.start();
});
after(() => world.close());

let names = 0;
let name;
beforeEach(() => (name = `table-${++names}.seq`));

for (const host of HOSTS) {
  for (const node of NODES) {
    test(`a snapshot is followed by transactions on its revision: ${host}, ${node}`, async () => {
      const seen = await world.run(host, node, async ({ cells, storage, caught, endpoint, apiKey }, name) => {
        const transport = new cells.HttpTransport({ endpoint, credential: () => apiKey });
        const seq = new cells.HttpSeqClient(transport, 'home');
        const set = (key, value) => ({ action: 'set', key, value });
        const none = await seq.snapshot(name);
        const value = { text: 'Grüße', list: [1, null, true, 2 ** 53 - 1], none: null };
        const first = await seq.transaction(name, none.revision, [set('b', value), set('a', null), set('c', 1)]);
        const late = await caught(seq.transaction(name, null, [set('x', 1)]));
        let recovery;
        const options = { onDispatch: (known) => (recovery = known) };
        const second = await storage.seq.transaction(name, first.revision, [{ action: 'delete', key: 'c' }, set('B', 'b')], options);
        const settled = await storage.settle(recovery);
        const whole = await storage.seq.snapshot(name);
        const empty = await seq.transaction(name, second.revision, []);
        const frozen = Object.isFrozen(first);
        await transport.close();
        return { none, first, late, second, settled, whole, value, empty, frozen, closed: await caught(seq.snapshot(name)) };
      }, { given: name });
      assert.deepEqual(seen.none, { revision: null, entries: [] });
      assert.deepEqual([seen.first.kind, seen.frozen], ['file', true]);
      assert.deepEqual([seen.late.code, seen.late.outcome, seen.late.operation], ['ECONFLICT', 'not-committed', 'seq_transaction']);
      assert.deepEqual(seen.settled, { outcome: 'committed', result: seen.second });
      const entries = [{ key: 'B', value: 'b' }, { key: 'a', value: null }, { key: 'b', value: seen.value }];
      assert.deepEqual(seen.whole, { revision: seen.second.revision, entries });
      assert.notEqual(seen.empty.revision, undefined);
      assert.equal(seen.closed.code, 'EACCES');
    });
  }
}

test('limits are checked before anything is sent', async () => {
  const recording = recordingFetch();
  const { endpoint, apiKey } = world.nodes['the local node'];
  const transport = new world.stage.module.HttpTransport({ endpoint, credential: () => apiKey, fetch: recording });
  const seq = new world.stage.module.HttpSeqClient(transport, 'home');
  const set = (key, value = 1) => ({ action: 'set', key, value });
  const many = (count) => Array.from({ length: count }, (_, index) => set(`key-${index}`));
  const change = (changes) => seq.transaction(name, null, changes);
  for (const [what, call] of Object.entries({
    'too many changes': () => change(many(257)),
    'an empty key': () => change([set('')]),
    'a long key': () => change([set('ü'.repeat(513))]),
    'a key with a NUL': () => change([set('a\0b')]),
    'too much': () => change([set('a', 'x'.repeat(600_000))]),
    'no value': () => change([{ action: 'set', key: 'a' }]),
    'another action': () => change([{ action: 'rename', key: 'a' }]),
    'no list': () => change('changes'),
    'nothing': () => change(undefined),
    'a value that is no JSON': () => change([set('a', 1n)]),
    'another name': () => seq.transaction('table', null, []),
    'a revision that is none': () => seq.transaction(name, 'x\ny', []),
    'a revision that is no text': () => seq.transaction(name, 7, []),
  })) {
    const error = await rejection(call()).catch((failure) => failure);
    assert.deepEqual([error.name, error.code, error.outcome], ['CellsError', 'EINVAL', 'not-started'], `${what}: ${error}`);
  }
  assert.equal((await rejection(seq.snapshot('table'))).code, 'EINVAL');
  assert.equal((await rejection(seq.snapshot('../table.seq'))).code, 'EINVAL');
  assert.equal(recording.calls.length, 0);
  const full = await change([...many(255), set('ü'.repeat(512))]);
  assert.equal(full.kind, 'file');
  assert.equal((await seq.snapshot(name)).entries.length, 256);
  await transport.close();
  const { HttpSeqClient } = world.stage.module;
  assert.throws(() => new HttpSeqClient({}, 'home'), { name: 'CellsError', code: 'EINVAL' });
  assert.throws(() => new HttpSeqClient(transport, 'a/b'), { name: 'CellsError', code: 'EINVAL' });
});

for (const node of NODES) {
  test(`a transaction whose reply is lost is unknown, and settled: ${node}`, async () => {
    const { proxy } = world.nodes[node];
    await proxy.setPlan({ rules: [{ path: '/v1/fs/home/seq/transaction', when: { nth: 1 }, fault: { kind: 'reset-after' } }] });
    const task = async ({ storage, caught }, name) => {
      const lost = await caught(storage.seq.transaction(name, null, [{ action: 'set', key: 'a', value: 1 }]));
      return { lost, settled: await storage.settle(JSON.parse(JSON.stringify(lost.recovery))) };
    };
    const { lost, settled } = await world.run('Node', node, task, { given: name, proxied: true });
    await proxy.setPlan({ rules: [] });
    assert.deepEqual([lost.outcome, lost.operationId], ['unknown', lost.recovery.operationId]);
    assert.deepEqual(lost.recovery.change, { kind: 'transaction', path: name });
    assert.equal(settled.outcome, 'committed');
  });

  test(`a file that is no SeqFile, and a SeqFile of a read-only export: ${node}`, async () => {
    writeFileSync(join(world.nodes[node].folder, name), 'no database');
    writeFileSync(join(world.locked, 'none.txt'), '');
    const seen = await world.run('Node', node, async ({ storage, open, caught }, name) => {
      const locked = open({ alias: 'locked' });
      await locked.init();
      const snapshot = await locked.seq.snapshot('none.seq');
      await locked.close();
      return { broken: await caught(storage.seq.snapshot(name)), snapshot };
    }, { given: name });
    assert.equal(seen.broken.code, 'EIO');
    assert.deepEqual(seen.snapshot, { revision: null, entries: [] });
  });
}
