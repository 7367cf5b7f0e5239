// What a mutation finds, and what can be seen of it on the disk of the node.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** One run in a directory of its own, `folder`; `path` is its path in the export. */
export class Scene {
  #old;
  #new;
  #seqFile;

  /** Makes what the mutation finds, past the node, in the folder of its export. `seqFile` holds {@link OLD_ENTRIES}. */
  constructor(run, attempt, exported, seqFile) {
    this.mutation = run.mutation;
    this.path = `run-${run.seed}-${attempt}`;
    this.folder = join(exported, this.path);
    this.#old = content(run.seed, 'old');
    this.#new = content(run.seed, 'new');
    this.#seqFile = seqFile;
    const as = UPLOADS[number(run.seed, 'upload', UPLOADS.length)];
    /** What the caller needs to know. */
    this.task = { mutation: run.mutation, path: this.path, content: this.#new.toString('base64'), as };
    mkdirSync(this.folder);
    if (['put-match', 'rename', 'remove'].includes(run.mutation)) this.#write('a', this.#old);
    if (run.mutation === 'seq-transaction') this.#write('a.seq', seqFile);
  }

  /**
   * How often the mutation took effect: 0 or 1. Throws when there is anything else. `node` is a {@link Direct} that reads
   * a changed SeqFile; without one it only shows that it changed.
   */
  async effects(node) {
    const [a, b] = [this.#read('a'), this.#read('b')];
    switch (this.mutation) {
      case 'put-create':
        return one([[0, a === undefined], [1, a?.equals(this.#new)]], `a new file has ${size(a)}`);
      case 'put-match':
        return one([[0, a?.equals(this.#old)], [1, a?.equals(this.#new)]], `a replaced file has ${size(a)}`);
      case 'mkdir':
        return Number(statSync(join(this.folder, 'a'), { throwIfNoEntry: false })?.isDirectory() ?? false);
      case 'rename': {
        const before = a?.equals(this.#old) && b === undefined;
        const after = a === undefined && b?.equals(this.#old);
        return one([[0, before], [1, after]], `after a rename there are ${size(a)} and ${size(b)}`);
      }
      case 'remove':
        return one([[0, a?.equals(this.#old)], [1, a === undefined]], `a file that was not removed has ${size(a)}`);
      case 'seq-transaction':
        return this.#seqEffects(node);
      default: {
        const times = this.#read('ran')?.length ?? 0;
        return one([[0, times === 0], [1, times === 1]], `the command ran ${times} times`);
      }
    }
  }

  /** Whether the command has begun, and whether {@link SCRIPT} is over. */
  trace() {
    return { began: this.#read('ran') !== undefined, isOver: this.#read('over') !== undefined };
  }

  /** Ends a command that waits. */
  letGo() {
    this.#write('go', '');
  }

  /** Names of staging files, of which none may be left. */
  leftOver() {
    return readdirSync(this.folder).filter((name) => name.startsWith('.itookit-upload-'));
  }

  async #seqEffects(node) {
    if (this.#read('a.seq')?.equals(this.#seqFile)) return 0;
    if (node === undefined) return 1;
    const entries = await node.seqEntries(`${this.path}/a.seq`);
    return one([[1, JSON.stringify(entries) === JSON.stringify(NEW_ENTRIES)]], `a SeqFile has ${JSON.stringify(entries)}`);
  }

  /** The bytes of a file; undefined for none, and for a directory. */
  #read(name) {
    const path = join(this.folder, name);
    return statSync(path, { throwIfNoEntry: false })?.isFile() ? readFileSync(path) : undefined;
  }

  #write(name, bytes) {
    writeFileSync(join(this.folder, name), bytes);
  }
}

/** The number whose condition holds. */
function one(cases, otherwise) {
  const found = cases.find(([, holds]) => holds);
  if (!found) throw new Error(otherwise);
  return found[0];
}

function size(bytes) {
  return bytes === undefined ? 'nothing' : `${bytes.length} bytes, neither the old nor the new ones`;
}

/** Longer than what a fault needs, and mostly small. */
function content(seed, which) {
  const bound = number(seed, `${which} is large`, 8) === 0 ? 200_000 : 4_000;
  return bytes(seed, which, 33 + number(seed, `${which} size`, bound));
}

/** A number below `bound` that the seed decides. */
function number(seed, what, bound) {
  return bytes(seed, what, 4).readUInt32LE() % bound;
}

function bytes(seed, what, count) {
  return createHash('shake256', { outputLength: count }).update(`${seed} ${what}`).digest();
}

const UPLOADS = ['bytes', 'blob', 'stream', 'pieces'];

/** What SeqFiles hold before and after the mutation. */
export const OLD_ENTRIES = [{ key: 'a', value: 1 }, { key: 'b', value: 'old' }];
const NEW_ENTRIES = [{ key: 'a', value: 2 }, { key: 'c', value: 'new' }];

/** A command that leaves a trace each time it runs. */
export const SCRIPT = 'printf x >> ran; : > over';
/** One that stays until it is let go, and ends by itself in the end. */
export const WAITING_SCRIPT =
  'printf x >> ran; n=0; while [ ! -e go ] && [ $n -lt 400 ]; do n=$((n + 1)); sleep 0.05; done';
