// The node itself, past the driver and past the faults.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

export class Direct {
  #base;
  #authorization;

  constructor({ endpoint, apiKey }) {
    this.#base = `${endpoint}/v1/fs/work`;
    this.#authorization = `Bearer ${apiKey}`;
  }

  /** What the node says became of an operation that does not run any more; undefined when it never saw it. */
  async outcome(id) {
    for (let polls = 0; polls < POLLS; polls++) {
      const { status, json } = await this.#ask(`operations/${id}`);
      if (status === 404) return undefined;
      if (status !== 200) throw new Error(`the node answers ${status} to the question for a receipt`);
      if (json.state !== 'running') return json.outcome;
      await sleep(POLL_MS);
    }
    throw new Error('the operation still runs');
  }

  /** What a SeqFile holds. */
  async seqEntries(path) {
    const { status, json } = await this.#ask('seq/snapshot', { path });
    if (status !== 200) throw new Error(`the SeqFile is damaged: the node answers ${status}`);
    return json.entries;
  }

  /** Makes a SeqFile. */
  async makeSeqFile(path, entries) {
    const changes = entries.map((entry) => ({ action: 'set', ...entry }));
    const { status } = await this.#ask('seq/transaction', { path, expectedRevision: null, changes });
    if (status !== 200) throw new Error(`no SeqFile could be made: the node answers ${status}`);
  }

  async #ask(route, body) {
    const headers = { authorization: this.#authorization, 'content-type': 'application/json', 'x-operation-id': randomUUID() };
    const post = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
    const reply = await fetch(`${this.#base}/${route}`, { headers, ...post });
    return { status: reply.status, json: await reply.json() };
  }
}

const POLLS = 1_000;
const POLL_MS = 10;
