// One export with its writes.
import { CellsError } from './error.js';
import { connect } from './transport.js';
import { sendUpload } from './upload.js';

export class HttpFSBackend {
  #source;
  #storage;
  #parts;
  #closed = false;

  constructor(options) {
    this.#source = options?.[SOURCE] ?? ownSource(options);
    const { driver, connection } = this.#source;
    driver.files(connection); // only checks the connection
  }

  get name() {
    return 'http';
  }

  get access() {
    return this.#opened().isWritable() ? 'rw' : 'ro';
  }

  get files() {
    this.#opened();
    return this.#parts.files;
  }

  get mutations() {
    return this.#parts?.mutations;
  }

  get seq() {
    this.#opened();
    return this.#parts.seq;
  }

  async init(options) {
    if (this.#closed) throw closed();
    if (this.#storage) return;
    const { driver, connection, timeoutMs } = this.#source;
    const storage = await openStorage.call(driver, connection, options);
    if (this.#closed || this.#storage) storage.close();
    if (this.#closed) throw closed();
    // Another call may have been faster.
    if (this.#storage) return;
    this.#storage = storage;
    this.#parts = partsOf(storage, timeoutMs);
  }

  async operationStatus(id, options) {
    return this.#opened().operationStatus(id, options);
  }

  async cancelOperation(id, options) {
    return this.#opened().cancelOperation(id, options);
  }

  async settle(recovery, options) {
    return this.#opened().settle(recovery, options);
  }

  async close() {
    this.#closed = true;
    this.#storage?.close();
    await this.#source.close();
  }

  #opened() {
    if (this.#storage) return this.#storage;
    if (this.#closed) throw closed();
    throw new CellsError('EINVAL', 'the storage is not open: call `await init()` once before', {
      operation: 'open',
      reason: 'NOT_INITIALISED',
    });
  }
}

/** Writes of an export that allows them. */
class Mutations {
  #storage;
  #timeoutMs;

  constructor(storage, timeoutMs) {
    this.#storage = storage;
    this.#timeoutMs = timeoutMs;
  }

  async replace(path, data, condition, options) {
    const isMatch = condition?.kind === 'match';
    if (!isMatch && condition?.kind !== 'create-only') {
      throw notStarted('replace', 'EINVAL', "condition must be {kind: 'create-only'} or {kind: 'match', revision}");
    }
    if (isMatch && typeof condition.revision !== 'string') {
      throw notStarted('replace', 'EINVAL', 'condition.revision must be the revision that the file has');
    }
    const revision = isMatch ? condition.revision : undefined;
    const put = (body, size, known) => this.#storage.replace(path, body, size, revision, known);
    return sendUpload(data, options, this.#timeoutMs, put);
  }

  async mkdir(path, options) {
    return this.#storage.mkdir(path, options);
  }

  async rename(from, to, options) {
    return this.#storage.rename(from, to, options);
  }

  async remove(path, options) {
    if (options?.recursive) {
      throw notStarted('remove', 'ECAPABILITY', 'a directory must be empty to be removed: nodes do not remove trees');
    }
    return this.#storage.remove(path, options);
  }
}

/** What an opened storage of the wasm has. `timeoutMs` is the budget of writes that name none. */
export function partsOf(storage, timeoutMs) {
  const mutations = storage.isWritable() ? new Mutations(storage, timeoutMs) : undefined;
  return { files: storage.files(), seq: storage.seq(), mutations };
}

/** Adds `driver.fileStorage` and `files.statType`, and keeps what only this module calls from others. */
export function offerStorage(CellsDriver, FileClient) {
  openStorage = CellsDriver.prototype.openStorage;
  delete CellsDriver.prototype.openStorage;
  CellsDriver.prototype.fileStorage = async function (connection, options) {
    const backend = new HttpFSBackend({ [SOURCE]: { driver: this, connection: { ...connection }, close() {} } });
    await backend.init(options);
    return backend;
  };
  FileClient.prototype.statType = async function (path, options) {
    const stat = await this.stat(path, options);
    return stat && { kind: stat.kind };
  };
}

function ownSource(options) {
  const { driver, connection } = connect(options);
  const { alias, timeoutMs } = options;
  return { driver, connection: { ...connection, alias }, timeoutMs, close: () => driver.dispose() };
}

function notStarted(operation, code, message) {
  return new CellsError(code, message, { operation, outcome: 'not-started' });
}

function closed() {
  return new CellsError('EACCES', 'the storage was closed; open another one', { operation: 'open' });
}

let openStorage;

const SOURCE = Symbol('source');
