// The steps in which a reply or a node is lost.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { asksNothing, Session, Watch } from './agent.js';

export async function lostReply(stage) {
  const session = await Session.create(stage);
  const watch = await Watch.open(session);
  const prompt = 'say This turn happens once, although nobody hears of it.';
  await stage.proxy.setPlan({ rules: [{ tool: 'harness_turn', when: { nth: 1 }, fault: { kind: 'reset-after' } }] });
  await stage.proxy.resetCounts();
  const lost = await session.harness.turn(session.profile, session.id, prompt).then(
    () => assert.fail('the reply was dropped, but the turn has a result'),
    (error) => error,
  );
  await stage.proxy.setPlan({});
  assert.equal(lost.outcome, 'unknown');
  assert.equal(lost.requestId, lost.recovery.requestId);

  await watch.untilCompleted(asksNothing);
  // Another process would have it from storage: as JSON.
  const receipt = await session.harness.operation(JSON.parse(JSON.stringify(lost.recovery)));
  assert.equal(receipt.outcome, 'committed');
  assert.equal((await stage.proxy.counts()).tools.harness_turn, 1, 'turns sent');
  assert.equal(countReceipts(stage, lost.requestId).ofRequest, 1, 'receipts of the request');
  assert.deepEqual(await session.messages('userMessage'), [prompt]);
  return `unknown ${lost.requestId} → committed; 1 turn sent, 1 receipt, 1 user message`;
}

export async function restart(stage) {
  const session = await Session.create(stage);
  const watch = await Watch.open(session);
  const before = 'say This turn is committed before the node is killed.';
  const kept = await session.harness.turn(session.profile, session.id, before);
  await watch.untilCompleted(asksNothing);

  // Another session, whose turn has no receipt yet when the node dies.
  const open = await Session.create(stage);
  let lost;
  let answered = false;
  const call = open.harness
    .turn(open.profile, open.id, 'slow-receipt 20000\nwait', {
      onDispatch: (recovery) => {
        lost = recovery;
      },
    })
    .then(
      () => assert.fail('the turn has a result although the node was killed'),
      (error) => error,
    )
    .finally(() => {
      answered = true;
    });
  await started(open, () => lost);
  assert.equal(answered, false, 'the turn was answered before the node was killed');
  const rows = countReceipts(stage, lost.requestId);
  await stage.node.kill();
  const error = await call;
  assert.equal(error.outcome, 'unknown');
  assert.deepEqual(error.recovery, lost);

  await stage.node.restart();
  await stage.proxy.resetCounts();
  const receipt = await session.harness.operation(lost);
  assert.equal(receipt.outcome, 'unknown');
  assert.equal(receipt.code, 'HARNESS_RESTARTED');
  assert.equal((await session.harness.operation(kept.recovery)).outcome, 'committed');
  assert.deepEqual(countReceipts(stage, lost.requestId), rows, 'receipts after the restart');
  assert.equal((await stage.proxy.counts()).tools.harness_turn, undefined, 'turns sent after the restart');

  const { sessions } = await session.harness.list(session.profile);
  for (const { id } of [session, open]) {
    const found = sessions.find((listed) => listed.id === id);
    assert.ok(found, `session ${id} is not listed`);
    assert.equal(found.activeTurnId, null, `a turn runs again in session ${id}`);
  }
  assert.deepEqual(await session.messages('userMessage'), [before]);
  return (
    `killed while ${lost.requestId} was open → unknown, HARNESS_RESTARTED; ${kept.recovery.requestId} is still ` +
    `committed; ${sessions.length} sessions listed, nothing ran again`
  );
}

/** Waits until the node says that the turn runs. */
async function started(session, dispatched) {
  for (;;) {
    const recovery = dispatched();
    if (recovery !== undefined) {
      try {
        const receipt = await session.harness.operation(recovery);
        assert.equal(receipt.outcome, 'unknown');
        assert.equal(receipt.code, undefined);
        return;
      } catch (error) {
        if (error.remoteCode !== 'ENOENT') throw error; // else it is not there yet
      }
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Rows of the node's receipts table: `{all, ofRequest}`. */
function countReceipts(stage, requestId) {
  return JSON.parse(execFileSync(stage.demo, ['receipts', stage.state, requestId], { encoding: 'utf8' }));
}
