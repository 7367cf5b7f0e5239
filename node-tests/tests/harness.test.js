import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { FaultProxy } from '../support/fault-proxy.js';
import { Stage, program, recordingFetch, rejection } from '../support/stage.js';

let stage;
let profile;
before(async () => {
  stage = await Stage.start();
  profile = (await stage.driver().harness(stage.connection).profiles()).profiles[0];
});
after(() => stage.close());

/** A new session, with its events from the beginning. */
async function open(driver = stage.driver()) {
  const harness = driver.harness(stage.connection);
  const { session, recovery } = await harness.create(profile.id, 'home');
  const events = new Events(harness);
  await events.subscription.ready;
  return { driver, harness, session, recovery, events };
}

/** The events of the profile, in order, as they are told. */
class Events {
  notifications = [];
  all = [];
  #waiting = [];

  constructor(harness) {
    this.harness = harness;
    this.subscription = harness.subscribe(profile.id, (notification) => {
      this.notifications.push(notification);
      this.#take();
      for (const check of this.#waiting) check();
    });
  }

  #take() {
    const { cursor, events, requests } = this.harness.eventSnapshot(profile.id, this.cursor);
    this.cursor = cursor;
    this.requests = requests;
    this.all.push(...events.map(({ message }) => message));
  }

  /** The first event or open request for which `wanted` is true. */
  async until(wanted) {
    let found;
    await new Promise((resolve) => {
      const check = () => {
        found = this.all.find(wanted) ?? this.requests?.find(wanted);
        if (found) resolve();
      };
      this.#waiting.push(check);
      check();
    });
    return found;
  }

  completed(turnId) {
    return this.until(({ method, params }) => method === 'turn/completed' && params.turn.id === turnId);
  }
}

/** All items of the history, oldest first. */
async function items(harness, session) {
  const pages = [];
  let cursor;
  do {
    const page = await harness.read(profile.id, session.id, { cursor });
    pages.unshift(page.turns.flatMap((turn) => turn.items));
    cursor = page.nextCursor ?? undefined;
  } while (cursor);
  return pages.flat();
}

test('profiles say what the agents can do', async () => {
  const { epoch, profiles } = await stage.driver().harness(stage.connection).profiles();
  assert.match(epoch, /^[0-9a-f]{64}$/);
  assert.equal(profiles[0].kind, 'scripted');
  assert.deepEqual(profiles[0].workspaces, [{ id: 'home' }]);
  assert.equal(profiles[0].capabilities.slashCommands, true);
  assert.equal(profiles[0].capabilities.fork, true);
});

test('a message is answered in deltas, and the history has it whole', async () => {
  const { harness, session, events } = await open();
  const text = 'say Wörter kommen einzeln an. 😀';
  const { turnId, recovery } = await harness.turn(profile.id, session.id, text);
  assert.equal(recovery.requestId, turnId);
  await events.completed(turnId);
  const deltas = events.all.filter(({ method, params }) => method === 'item/agentMessage/delta' && params.turnId === turnId);
  assert.ok(deltas.length > 1);
  assert.equal(deltas.map(({ params }) => params.delta).join('').trim(), 'Wörter kommen einzeln an. 😀');
  const messages = await items(harness, session);
  assert.equal(messages.find(({ type }) => type === 'agentMessage').text, 'Wörter kommen einzeln an. 😀');
  assert.deepEqual(events.notifications.filter(({ gap }) => gap), []);
  assert.equal(events.notifications.at(-1).state, 'online');

  const { sessions } = await harness.list(profile.id);
  assert.ok(sessions.some(({ id }) => id === session.id));
  const inspected = await harness.inspect(profile.id, session.id);
  assert.equal(inspected.session.status, 'idle');
});

test('a command runs only after it was approved', async () => {
  const { harness, session, events } = await open();
  const { turnId } = await harness.turn(profile.id, session.id, 'run echo really-run > made-by-agent');
  const request = await events.until(({ method, id }) => method === 'item/commandExecution/requestApproval' && id !== undefined);
  assert.throws(() => readFileSync(join(stage.folder, 'made-by-agent')));
  const answer = await harness.respond(profile.id, request.id, { decision: 'accept' });
  assert.match(answer.recovery.requestId, /^[0-9a-f-]{36}$/);
  await events.completed(turnId);
  assert.equal(readFileSync(join(stage.folder, 'made-by-agent'), 'utf8'), 'really-run\n');
  assert.deepEqual(harness.eventSnapshot(profile.id).requests, []);
  const again = await rejection(harness.respond(profile.id, request.id, { decision: 'accept' }));
  assert.equal(again.code, 'ENOENT');
  assert.equal(again.outcome, 'not-committed');
});

test('a question is asked and its answer used', async () => {
  const { harness, session, events } = await open();
  const { turnId } = await harness.turn(profile.id, session.id, 'ask Which way? | left | right');
  const request = await events.until(({ method, id }) => method === 'item/tool/requestUserInput' && id !== undefined);
  await harness.respond(profile.id, request.id, { answers: { answer: { answers: ['left'] } } });
  await events.completed(turnId);
  const messages = await items(harness, session);
  assert.match(messages.filter(({ type }) => type === 'agentMessage').at(-1).text, /left/);
});

test('a turn is interrupted by its id only', async () => {
  const { harness, session, events } = await open();
  const { turnId } = await harness.turn(profile.id, session.id, 'wait');
  const wrong = await rejection(harness.interrupt(profile.id, session.id, 'another'));
  assert.equal(wrong.code, 'ECONFLICT');
  assert.equal(wrong.remoteCode, 'HARNESS_TURN_NOT_ACTIVE');
  assert.equal(wrong.outcome, 'not-committed');
  const busy = await rejection(harness.turn(profile.id, session.id, 'say no'));
  assert.equal(busy.code, 'EBUSY');
  await harness.interrupt(profile.id, session.id, turnId);
  const end = await events.completed(turnId);
  assert.equal(end.params.turn.status, 'interrupted');
});

test('commands are listed and run, and large output is loaded by reference and verified', async () => {
  const { harness, session } = await open();
  const { commands } = await harness.commands(profile.id, session.id);
  assert.ok(commands.some(({ name, kind }) => name === 'output' && kind === 'action'));
  const bytes = 3 * 1024 * 1024 + 17;
  const result = await harness.command(profile.id, session.id, 'output', `${bytes} seed`);
  assert.equal(result.state, 'completed');
  assert.equal(result.truncated, true);
  assert.equal(result.outputRef.bytes, bytes);
  assert.equal(result.commandId, result.recovery.requestId);

  const told = [];
  const onProgress = (loaded, total) => told.push([loaded, total]);
  const output = await harness.loadCommandOutput(profile.id, result.outputRef, { onProgress });
  assert.ok(output instanceof ArrayBuffer);
  assert.equal(output.byteLength, bytes);
  assert.equal(createHash('sha256').update(Buffer.from(output)).digest('hex'), result.outputRef.sha256);
  assert.deepEqual(told.at(-1), [bytes, bytes]);

  const page = await harness.readCommandOutput(profile.id, result.outputRef, { offset: 100, limit: 1000 });
  assert.equal(page.offset, 100);
  assert.equal(page.nextOffset, 1100);
  assert.ok(Buffer.from(output, 100, 1000).equals(page.data));

  const refused = [
    [{ maxBytes: bytes - 1 }, 'EFBIG'],
    [{ maxBytes: 32 * 1024 * 1024 + 1 }, 'EINVAL'],
    [{ maxBytes: '7' }, 'EINVAL'],
    [{ signal: AbortSignal.abort() }, 'ECANCELLED'],
  ];
  for (const [options, code] of refused) {
    assert.equal((await rejection(harness.loadCommandOutput(profile.id, result.outputRef, options))).code, code);
  }
  const forged = { ...result.outputRef, sha256: '0'.repeat(64) };
  const error = await rejection(harness.loadCommandOutput(profile.id, forged));
  assert.equal(error.code, 'EIO');
  assert.equal(error.operation, 'protocol');
});

test('a mutation with wrong arguments was not started, and no request is made', async () => {
  const fetch = recordingFetch();
  const harness = stage.driver(fetch).harness(stage.connection);
  const calls = [
    () => harness.turn('no profile', 's', 'hello'),
    () => harness.turn(profile.id, '', 'hello'),
    () => harness.turn(profile.id, 's', 7),
    () => harness.turn(profile.id, 's', 'a\udfff'),
    () => harness.create(profile.id, 'a/b'),
    () => harness.command(profile.id, 's', '/help', ''),
    () => harness.respond(profile.id, () => {}, {}),
    () => harness.turn(profile.id, 's', 'hello', { onDispatch: 'x' }),
    () => harness.turn(profile.id, 's', 'hello', { signal: 'x' }),
  ];
  for (const call of calls) {
    const error = await rejection(call());
    assert.equal(error.code, 'EINVAL', String(error));
    assert.equal(error.outcome, 'not-started', String(error));
  }
  assert.equal(fetch.calls.length, 0);
});

test('onDispatch is told right before the request is sent, and what it throws harms nothing', async () => {
  const order = [];
  const driver = stage.driver((url, init) => {
    if (init.body && Buffer.from(init.body).includes('harness_turn')) order.push('sent');
    return fetch(url, init);
  });
  const { harness, session, events } = await open(driver);
  const printed = console.error;
  console.error = () => {};
  const onDispatch = (recovery) => {
    order.push(recovery);
    throw new Error('ignored');
  };
  const { turnId, recovery } = await harness.turn(profile.id, session.id, 'say hello', { onDispatch });
  console.error = printed;
  assert.deepEqual(order, [recovery, 'sent']);
  assert.equal(recovery.profileId, profile.id);
  await events.completed(turnId);
});

test('a mutation that is cancelled before it is sent was not started', async () => {
  const { harness, session } = await open();
  const error = await rejection(harness.turn(profile.id, session.id, 'say no', { signal: AbortSignal.abort() }));
  assert.equal(error.code, 'ECANCELLED');
  assert.equal(error.outcome, 'not-started');
  assert.deepEqual(await items(harness, session), []);
});

test('a lost reply is unknown, nothing is sent again, and another process settles it', async () => {
  const proxy = await FaultProxy.start(program('CELLS_FAULT_PROXY'), stage.node.address);
  const driver = stage.driver();
  const harness = driver.harness({ ...stage.connection, endpoint: proxy.url });
  const { session } = await harness.create(profile.id, 'home');
  await proxy.setPlan({ rules: [{ tool: 'harness_turn', when: { nth: 1 }, fault: { kind: 'reset-after' } }] });
  const error = await rejection(harness.turn(profile.id, session.id, 'say once'));
  assert.ok(error instanceof stage.module.CellsError);
  assert.equal(error.outcome, 'unknown');
  assert.equal(error.requestId, error.recovery.requestId);
  assert.equal(error.retryAfterMs, undefined);
  assert.equal((await proxy.counts()).tools.harness_turn, 1);
  await proxy.close();

  stage.project.write({
    'settle.mjs': `
      import { createCellsDriver } from '@itookit/cells-driver';
      const { endpoint, key, recovery } = JSON.parse(process.env.TASK);
      const driver = createCellsDriver(() => key);
      const harness = driver.harness({ endpoint, credentialRef: 'any' });
      console.log(JSON.stringify(await harness.operation(recovery)));
      await driver.dispose();`,
  });
  const task = { endpoint: stage.node.endpoint, key: stage.apiKey, recovery: error.recovery };
  const receipt = await stage.project.node('settle.mjs', { TASK: JSON.stringify(task) });
  assert.equal(receipt.outcome, 'committed');
  assert.equal(receipt.requestId, error.requestId);
  assert.equal(receipt.epoch, error.recovery.epoch);
  const sent = (await items(stage.driver().harness(stage.connection), session)).filter(({ type }) => type === 'userMessage');
  assert.equal(sent.length, 1);
});

test('a request that never reached the node is not found, and an id of another epoch is a conflict', async () => {
  const harness = stage.driver().harness(stage.connection);
  const { epoch } = await harness.profiles();
  const recovery = { profileId: profile.id, epoch, requestId: '00000000-0000-4000-8000-000000000000' };
  assert.equal((await rejection(harness.operation(recovery))).code, 'ENOENT');
  const other = await rejection(harness.operation({ ...recovery, epoch: 'f'.repeat(64) }));
  assert.equal(other.code, 'ECONFLICT');
  assert.equal(other.remoteCode, 'HARNESS_EPOCH_CHANGED');
  for (const bad of [undefined, {}, { ...recovery, epoch: 7 }, 'x']) {
    const error = await rejection(harness.operation(bad));
    assert.equal(error.code, 'EINVAL');
    assert.match(error.message, /recovery must be/);
  }
});

test('subscriptions of one profile share a stream, end alone, and may fail unheard', async () => {
  const fetch = recordingFetch();
  const driver = stage.driver(fetch);
  const harness = driver.harness(stage.connection);
  assert.deepEqual(harness.eventSnapshot(profile.id), {
    epoch: null,
    cursor: null,
    gap: false,
    events: [],
    requests: [],
    state: 'closed',
  });
  const first = harness.subscribe(profile.id);
  const second = harness.subscribe(profile.id);
  await Promise.all([first.ready, second.ready]);
  assert.equal(fetch.calls.filter(({ url }) => url.endsWith('/v1/events')).length, 1);
  assert.equal(harness.eventSnapshot(profile.id).state, 'online');
  first.close();
  first.close();
  assert.equal(harness.eventSnapshot(profile.id).state, 'online');
  second.close();
  while (harness.eventSnapshot(profile.id).state !== 'closed') await new Promise(setImmediate);

  // Nobody looks at this promise; its rejection must not end the process.
  harness.subscribe('unknown-profile');
  while (harness.eventSnapshot('unknown-profile').state !== 'failed') await new Promise((done) => setTimeout(done, 5));
  assert.ok(harness.eventSnapshot('unknown-profile').error instanceof stage.module.CellsError);
  assert.throws(() => harness.subscribe(profile.id, 'x'), { code: 'EINVAL' });
  assert.throws(() => harness.eventSnapshot(profile.id, { after: -1 }), { code: 'EINVAL' });
  const pending = harness.subscribe(profile.id);
  pending.close();
  assert.equal((await rejection(pending.ready)).code, 'ECANCELLED');
  await harness.close();
  await harness.close();
});

test('disposing of a driver ends its streams and leaves the turn running', async () => {
  const { driver, harness, session } = await open();
  const { turnId } = await harness.turn(profile.id, session.id, 'wait');
  await driver.dispose();
  assert.equal((await rejection(harness.profiles())).code, 'EACCES');
  const other = await open();
  const inspected = await other.harness.inspect(profile.id, session.id);
  assert.equal(inspected.session.activeTurnId, turnId);
  await other.harness.interrupt(profile.id, session.id, turnId);
});
