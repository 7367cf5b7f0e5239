// Runs whose fault is one of the network, or none: one node, and a proxy before it for each lane.
import { FaultProxy } from '../fault-proxy.js';
import { program } from '../stage.js';
import { Direct } from './direct.js';
import { judgeCommand, judgeWrite } from './judge.js';
import { Place } from './place.js';
import { SCRIPT } from './scene.js';

/** A caller, and what is between it and the node. */
export class NetworkLane {
  /** `host` gives actors; `place` has a node that runs. */
  static async open(host, place) {
    const lane = new NetworkLane();
    lane.host = host;
    lane.place = place;
    lane.node = new Direct(place);
    lane.proxy = await FaultProxy.start(program('CELLS_FAULT_PROXY'), place.node.address);
    lane.actor = await host.actor();
    await lane.actor.open({ endpoint: lane.proxy.url, apiKey: place.apiKey });
    return lane;
  }

  async close() {
    await this.actor.close();
    await this.proxy.close();
  }

  async run(run) {
    let timeoutMs = run.fault === 'delayed' ? FIRST_PATIENCE_MS : PATIENCE_MS;
    for (let attempt = 1; ; attempt++) {
      const scene = this.place.scene(run, attempt);
      const revision = await this.actor.look(scene.task);
      const passed = await this.#attempt(run, scene, { ...scene.task, revision, timeoutMs });
      if (passed) return passed;
      // The machine was so slow that the deadline came before the fault: once more, with more patience.
      if (timeoutMs > PATIENCE_MS) throw new Error('the planned fault did not take effect in time');
      timeoutMs *= 4;
    }
  }

  /** Undefined when the deadline came before the fault. */
  async #attempt(run, scene, task) {
    const { actor, node } = this;
    const isCommand = run.mutation === 'process-start';
    if (isCommand) await actor.begin(scene);
    await this.#arm(run);
    const reported = await (isCommand ? actor.execute({ script: SCRIPT, timeoutMs: task.timeoutMs }) : actor.write(task));
    const fired = await this.#disarm(run, reported.outcome);
    const judged = isCommand
      ? await judgeCommand({ run, scene, actor, reported })
      : await judgeWrite({ run, scene, actor, node, reported });
    return fired ? judged : undefined;
  }

  async #arm({ fault, rule }) {
    await this.proxy.setPlan({ rules: rule ? [rule] : [] });
    await this.proxy.resetCounts();
    if (fault === 'refused') await this.proxy.refuse();
  }

  /** Stops the fault. False when it was a delay and came too late; throws when any other did not take effect. */
  async #disarm({ fault, mutation }, outcome) {
    const counts = await this.proxy.counts();
    await this.proxy.setPlan({ rules: [] });
    await this.proxy.listen();
    const sent = counts.paths[REQUESTS[mutation]] ?? 0;
    // Browsers do not tell that there was no connection, and send a request again by themselves when an old one breaks.
    const { isBrowser } = this.host;
    const refused = sent === 0 && (outcome === 'not-started' || (isBrowser && outcome === 'unknown'));
    const took = { none: sent === 1 && counts.faults === 0, refused };
    const isSent = sent === 1 || (sent === 2 && isBrowser);
    if (took[fault] ?? (isSent && counts.faults === 1)) return true;
    if (fault === 'delayed' && counts.faults === 0 && sent <= 1 && outcome !== 'committed') return false;
    throw new Error(`the planned fault did not take effect: ${JSON.stringify(counts)}, reported ${outcome}`);
  }
}

/** All these runs on one fresh node. `report` does each with the function it gets. */
export async function runNetwork(host, runs, report) {
  const place = await Place.create();
  try {
    await place.start();
    const waiting = [...runs];
    const lane = async () => {
      const lane = await NetworkLane.open(host, place);
      while (waiting.length > 0) await report(waiting.shift(), (run) => lane.run(run));
      await lane.close();
    };
    await Promise.all(Array.from({ length: Math.min(LANES, runs.length) }, lane));
  } finally {
    await place.close();
  }
}

/** Method and path of the request of each mutation. */
const REQUESTS = {
  'put-create': 'PUT /v1/fs/work/content',
  'put-match': 'PUT /v1/fs/work/content',
  mkdir: 'POST /v1/fs/work/mutate',
  rename: 'POST /v1/fs/work/mutate',
  remove: 'POST /v1/fs/work/mutate',
  'seq-transaction': 'POST /v1/fs/work/seq/transaction',
  'process-start': 'POST /v1/processes',
};

const LANES = 4;
/** What a caller waits that must not give up. */
export const PATIENCE_MS = 25_000;
/** What a caller waits that must give up. */
const FIRST_PATIENCE_MS = 300;
