// Models, messages to a running turn, interrupts, tokens and metrics, in Node and in Chromium, on the local node.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HOSTS, World } from '../support/hosts.js';

let world;
before(async () => {
  world = await World.start();
});
after(() => world.close());

for (const host of HOSTS) {
  test(`a turn with a model is steered, interrupted and accounted for: ${host}`, async () => {
    const seen = await world.run(host, 'the local node', async ({ cells, caught, endpoint, apiKey }) => {
      const driver = cells.createCellsDriver(() => apiKey);
      const client = driver.harness({ endpoint, credentialRef: 'node' });
      const profile = (await client.profiles()).profiles[0];
      const { session } = await client.create(profile.id, profile.workspaces[0].id);
      const at = [profile.id, session.id];
      const seen = { capabilities: profile.capabilities, all: await client.models(profile.id) };
      seen.models = await client.models(...at);
      seen.bad = await caught(client.turn(...at, 'say x', { selection: { modelId: 'none' } }));
      const { turnId } = await client.turn(...at, 'listen\nwait', { selection: { modelId: 'scripted-fast' } });
      seen.turnId = turnId;
      seen.running = (await client.inspect(...at)).session.executionRecovery;
      const submissionId = crypto.randomUUID();
      seen.steered = await client.steer(...at, turnId, 'quickly', { submissionId });
      seen.again = await caught(client.steer(...at, turnId, 'quickly', { submissionId }));
      seen.other = await caught(client.steer(...at, 'other', 'x'));
      const operationId = crypto.randomUUID();
      const ended = new Promise((resolve) => {
        let cursor;
        const subscription = client.subscribe(profile.id, () => {
          const snapshot = client.eventSnapshot(profile.id, cursor);
          cursor = snapshot.cursor;
          const over = ({ message }) => message.method === 'turn/completed' && message.params.turn.id === turnId;
          if (snapshot.events.some(over)) resolve(subscription.close());
        });
        subscription.ready.then(() => client.interrupt(...at, turnId, { operationId }));
      });
      await ended;
      seen.interrupted = await caught(client.interrupt(...at, turnId, { operationId }));
      const history = await client.read(...at);
      seen.messages = history.turns.flatMap(({ items }) => items).filter(({ type }) => type === 'agentMessage').map(({ text }) => text);
      seen.embedded = history.session.usage;
      seen.usage = await client.usage(...at);
      seen.metrics = await client.metrics(...at);
      seen.action = await caught(client.command(...at, 'status', '', { selection: { modelId: 'scripted-fast' } }));
      seen.current = (await client.models(...at)).current;
      await driver.dispose();
      return { ...seen, submissionId };
    });
    for (const name of ['models', 'steer', 'usage', 'metrics', 'executionRecovery']) assert.equal(seen.capabilities[name], true, name);
    assert.deepEqual([seen.all.models.length, seen.all.current, seen.models.current], [2, null, seen.models.default]);
    assert.deepEqual([seen.bad.code, seen.bad.reason, seen.bad.outcome], ['EINVAL', 'HARNESS_SELECTION_INVALID', 'not-started']);
    assert.deepEqual([seen.running.state, seen.running.turnId, seen.running.lock], ['running', seen.turnId, 'held']);
    const { recovery, ...steered } = seen.steered;
    assert.deepEqual(steered, { turnId: seen.turnId, targetTurnId: seen.turnId });
    assert.equal(recovery.requestId, seen.submissionId);
    assert.deepEqual([seen.again.code, seen.again.reason, seen.again.outcome], ['EINVAL', 'SUBMISSION_ID_REUSED', 'not-started']);
    assert.deepEqual([seen.other.code, seen.other.remoteCode, seen.other.outcome], ['ECONFLICT', 'HARNESS_TURN_NOT_ACTIVE', 'not-committed']);
    assert.deepEqual([seen.interrupted.reason, seen.interrupted.outcome], ['OPERATION_ID_REUSED', 'not-started']);
    assert.deepEqual(seen.messages, ['You added: quickly']);
    assert.deepEqual(seen.embedded, seen.usage);
    assert.equal(seen.usage.entries[0].modelId, 'scripted-fast');
    const { inputTokens, outputTokens } = seen.usage.totals;
    assert.equal(seen.metrics.context.usedTokens, inputTokens + outputTokens);
    assert.deepEqual([seen.action.code, seen.action.outcome], ['EINVAL', 'not-started']);
    assert.deepEqual(seen.current, { modelId: 'scripted-fast' });
  });

  test(`wrong arguments make no request: ${host}`, async () => {
    const { seen, requests } = await world.run(host, 'the local node', async ({ cells, endpoint, caught }) => {
      let requests = 0;
      const driver = cells.createCellsDriver(() => 'key', async () => {
        requests += 1;
        throw new TypeError('fetch failed');
      });
      const client = driver.harness({ endpoint, credentialRef: 'node' });
      const turn = (selection) => client.turn('main', 's-1', 'x', { selection });
      const calls = [
        () => turn('m'),
        () => turn({}),
        () => turn({ modelId: '' }),
        () => turn({ modelId: 'm', reasoningEffort: 7 }),
        () => client.command('main', 's-1', 'review', '', { selection: [] }),
        () => client.steer('main', 's-1', 't-1', ''),
        () => client.steer('main', 's-1', 't-1'),
        () => client.steer('main', 's-1', '', 'x'),
        () => client.steer('main', 's-1', 't-1', 'x', { submissionId: 'no id!' }),
        () => client.steer('main', 's-1', 't-1', 'x', { attachments: {} }),
        () => client.interrupt('main', 's-1', 't-1', { operationId: 7 }),
      ];
      const reads = [() => client.models('main', ''), () => client.usage('main'), () => client.metrics('main', 7)];
      const seen = [];
      for (const call of [...calls, ...reads]) seen.push(await caught(call()));
      await driver.dispose();
      return { seen, requests };
    });
    for (const [number, { code, outcome, message }] of seen.entries()) {
      assert.deepEqual([code, outcome], ['EINVAL', number < 11 ? 'not-started' : undefined], `${number}: ${message}`);
    }
    assert.equal(requests, 0);
  });
}
