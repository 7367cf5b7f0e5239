// The caller of a fault run. It takes and gives plain JSON, so that it can act in a page as well as in Node.

/** Acts through one driver of `module`, the package. */
export class Actor {
  #module;
  #driver;
  #connection;
  #storage;
  #session;

  constructor(module) {
    this.#module = module;
  }

  /** Starts anew, with a node where nothing is wrong. */
  async open({ endpoint, apiKey }) {
    await this.close();
    this.#driver = this.#module.createCellsDriver();
    this.#driver.setCredential('node', apiKey);
    this.#connection = { endpoint, credentialRef: 'node' };
    this.#storage = await this.#driver.fileStorage({ ...this.#connection, alias: 'work' });
  }

  async close() {
    await this.#driver?.dispose();
  }

  /** The revision that a mutation expects. */
  async look({ mutation, path }) {
    if (mutation === 'put-match') return (await this.#storage.files.stat(`${path}/a`)).revision;
    if (mutation === 'seq-transaction') return (await this.#storage.seq.snapshot(`${path}/a.seq`)).revision;
    return undefined;
  }

  /** The mutation of a file; how it was reported. `sent` is the recovery that was handed out before the request left. */
  async write(task) {
    let sent;
    const options = { timeoutMs: task.timeoutMs, onDispatch: (recovery) => (sent = recovery) };
    return { ...(await this.#reported(() => this.#mutate(task, options))), sent };
  }

  /** What became of a write. */
  async settle(recovery) {
    return this.#storage.settle(recovery);
  }

  /** A session whose commands see only the directory of the run, which is `folder` at the node. */
  async begin({ path, folder }) {
    const { serverId, processEpoch, pathModel } = await this.#driver.capabilities(this.#connection);
    const at = pathModel === 'virtual-root' ? '/workspace' : folder;
    const mounts = [{ alias: 'work', path, at, access: 'rw' }];
    this.#session = this.#driver.process(this.#connection, { serverId, epoch: processEpoch, cwd: at, mounts });
  }

  /** Runs a script; how it was reported. */
  async execute({ script, timeoutMs }) {
    return this.#reported(() => this.#session.nativeShell.exec('/bin/sh', ['-c', script], { timeoutMs }));
  }

  /** Ends the session; how that was reported. */
  async release() {
    return this.#reported(() => this.#session.release());
  }

  async #reported(call) {
    try {
      await call();
      return { outcome: 'committed', words: 'ok' };
    } catch (error) {
      if (!(error instanceof this.#module.CellsError)) throw error;
      const { code, message, outcome, operationId, recovery } = error;
      return { outcome, words: `${code}: ${message}`, operationId, recovery };
    }
  }

  async #mutate({ mutation, path, revision, content, as }, options) {
    const { mutations, seq } = this.#storage;
    const a = `${path}/a`;
    switch (mutation) {
      case 'put-create':
        return mutations.replace(a, upload(content, as), { kind: 'create-only' }, options);
      case 'put-match':
        return mutations.replace(a, upload(content, as), { kind: 'match', revision }, options);
      case 'mkdir':
        return mutations.mkdir(a, options);
      case 'rename':
        return mutations.rename(a, `${path}/b`, options);
      case 'remove':
        return mutations.remove(a, options);
      case 'seq-transaction':
        return seq.transaction(`${path}/a.seq`, revision, CHANGES, options);
      default:
        throw new Error(`there is no mutation ${mutation}`);
    }
  }
}

/** What {@link Actor} changes in a SeqFile. */
const CHANGES = [
  { action: 'set', key: 'a', value: 2 },
  { action: 'delete', key: 'b' },
  { action: 'set', key: 'c', value: 'new' },
];

/** Content, base64, as one of the things that can be uploaded. */
function upload(content, as) {
  const bytes = Uint8Array.from(atob(content), (character) => character.charCodeAt(0));
  switch (as) {
    case 'bytes':
      return bytes;
    case 'blob':
      return new Blob([bytes]);
    case 'stream':
      return new Blob([bytes]).stream();
    case 'pieces':
      return pieces(bytes);
    default:
      throw new Error(`nothing is uploaded as ${as}`);
  }
}

async function* pieces(bytes) {
  for (let at = 0; at < bytes.length; at += 1_000) yield bytes.subarray(at, at + 1_000);
}
