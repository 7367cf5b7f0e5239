// Runs in which the program `cells` is killed with SIGKILL, and started again.
import { setTimeout as sleep } from 'node:timers/promises';
import { FaultProxy } from '../fault-proxy.js';
import { program } from '../stage.js';
import { Direct } from './direct.js';
import { judgeCommand, judgeWrite } from './judge.js';
import { PATIENCE_MS } from './network.js';
import { Place } from './place.js';
import { SCRIPT, WAITING_SCRIPT } from './scene.js';

/** All these runs, each on a node of its own. `report` does each with the function it gets. */
export async function runKilled(host, runs, report) {
  const waiting = [...runs];
  const lane = async () => {
    const actor = await host.actor();
    while (waiting.length > 0) {
      await report(waiting.shift(), (run) => (run.mutation === 'process-start' ? command : write)(actor, run));
    }
    await actor.close();
  };
  await Promise.all(Array.from({ length: Math.min(LANES, runs.length) }, lane));
}

/** The node ends itself at the planned moment of its first write. */
async function write(actor, run) {
  const moment = run.fault.slice('killed-'.length);
  const place = await Place.create();
  try {
    const scene = place.scene(run);
    await place.start(['--fault-kill', moment]);
    await actor.open({ endpoint: place.endpoint, apiKey: place.apiKey });
    const revision = await actor.look(scene.task);
    const reported = await actor.write({ ...scene.task, revision, timeoutMs: PATIENCE_MS });
    const end = await Promise.race([place.node.ended(), sleep(PATIENCE_MS, undefined, { ref: false })]);
    if (end?.signal !== 'SIGKILL') throw new Error(`the planned fault did not take effect: ${JSON.stringify(end)}`);
    const happened = await scene.effects();

    await place.restart();
    const passed = await judgeWrite({ run, scene, actor, node: new Direct(place), reported });
    const expected = moment === 'before' ? 0 : 1;
    const after = await scene.effects(new Direct(place));
    if (happened !== expected || after !== expected) {
      throw new Error(`${expected} effects expected, ${happened} before and ${after} after the restart`);
    }
    return passed;
  } finally {
    await place.close();
  }
}

/**
 * The node is killed at the planned moment of a command: while a proxy holds its request or its reply back, or while the
 * command runs.
 */
async function command(actor, run) {
  const place = await Place.create();
  let proxy;
  try {
    const scene = place.scene(run);
    await place.start();
    proxy = await FaultProxy.start(program('CELLS_FAULT_PROXY'), place.node.address);
    await actor.open({ endpoint: proxy.url, apiKey: place.apiKey });
    await actor.begin(scene);
    const kind = HELD_BACK[run.fault];
    const rule = { method: 'POST', path: '/v1/processes', fault: { kind, ms: HELD_BACK_MS } };
    await proxy.setPlan({ rules: kind ? [rule] : [] });
    const script = run.fault === 'killed-during' ? WAITING_SCRIPT : SCRIPT;
    const [reported] = await Promise.all([
      actor.execute({ script, timeoutMs: PATIENCE_MS }),
      killWhenDue(run, { scene, place, proxy }),
    ]);
    await place.restart();
    await proxy.listen();
    return await judgeCommand({ run, scene, actor, reported, nodeIsNew: true });
  } finally {
    await proxy?.close();
    await place.close();
  }
}

async function killWhenDue({ fault }, { scene, place, proxy }) {
  const isDue = {
    'killed-before': async () => (await proxy.counts()).faults === 1,
    'killed-during': async () => scene.trace().began,
    'killed-after': async () => scene.trace().isOver,
  }[fault];
  try {
    const late = Date.now() + PATIENCE_MS;
    while (!(await isDue())) {
      if (Date.now() > late) throw new Error('the planned fault did not take effect: its moment did not come');
      await sleep(KILL_POLL_MS);
    }
    await place.node.kill();
  } finally {
    // What the proxy holds back for a node that is gone ends with its connections.
    await proxy.setPlan({ rules: [] });
    await proxy.refuse();
    scene.letGo();
  }
}

const HELD_BACK = { 'killed-before': 'delay-request', 'killed-after': 'delay-reply' };
/** Longer than any caller waits. */
const HELD_BACK_MS = 600_000;
const KILL_POLL_MS = 4;
const LANES = 3;
