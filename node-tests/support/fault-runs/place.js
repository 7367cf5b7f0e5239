// A node with the export `work`, on directories that outlive its process.
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { LocalNode } from '../local-node.js';
import { BASE, program } from '../stage.js';
import { Direct } from './direct.js';
import { OLD_ENTRIES, Scene } from './scene.js';

export class Place {
  #root;
  #work;
  #seqFile;

  /** Directories and a key of its own. */
  static async create() {
    seqFile ??= Place.#makeSeqFile();
    return new Place(await seqFile);
  }

  constructor(bytes) {
    this.#seqFile = bytes;
    mkdirSync(BASE, { recursive: true });
    this.#root = mkdtempSync(join(BASE, 'cells-fault-runs-'));
    this.#work = join(this.#root, 'work');
    mkdirSync(this.#work);
    this.apiKey = randomBytes(24).toString('hex');
  }

  /** Where the node is once it was started. */
  get endpoint() {
    return this.node.endpoint;
  }

  /** `attempt`: a run that is done again is done in another directory. */
  scene(run, attempt = 1) {
    return new Scene(run, attempt, this.#work, this.#seqFile);
  }

  /** Starts the node. Pages of every origin may call it. */
  async start(args = []) {
    this.node = await LocalNode.start({
      program: program('CELLS_BIN'),
      exports: [`work=${this.#work}:rw`],
      state: join(this.#root, 'state'),
      apiKey: this.apiKey,
      args: [...ORIGINS, ...args],
    });
  }

  /** Starts it again at its address, without what ended it. */
  async restart() {
    await this.node.restart(ORIGINS);
  }

  async close() {
    await this.node?.kill();
    rmSync(this.#root, { recursive: true, force: true });
  }

  /** The bytes of a SeqFile with {@link OLD_ENTRIES}, which a node makes. */
  static async #makeSeqFile() {
    const place = new Place();
    try {
      await place.start();
      await new Direct(place).makeSeqFile('a.seq', OLD_ENTRIES);
      return readFileSync(join(place.#work, 'a.seq'));
    } finally {
      await place.close();
    }
  }
}

let seqFile;

const ORIGINS = ['--allow-origin', '*'];
