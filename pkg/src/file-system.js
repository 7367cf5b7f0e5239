// Exports as the file systems of a VFS: virtual paths such as `/notes/todo.md`, nodes, whole listings.
import { CellsError } from './error.js';
import { partsOf } from './storage.js';

/** What `driver.open` resolves to, for a source of the wasm. */
export function ownerOf(source) {
  const state = { isOver: false, changes: 0 };
  const driver = new FileStorageAdapter(partsOf(source.storage()), state);
  const dispose = async () => {
    state.isOver = true;
    source.dispose();
  };
  return Object.freeze({ fs: new FileSystem(source.viewId(), driver, state), dispose });
}

class FileSystem {
  #state;

  constructor(viewId, driver, state) {
    this.#state = state;
    this.viewId = viewId;
    this.driver = driver;
    this.external = true;
    const write = driver.access === 'rw';
    this.capabilities = Object.freeze({ read: true, write, readonly: !write, partialRead: true });
    this.meta = Object.freeze({
      tags: Object.freeze({ getAllTags: () => driver.getAllTags(), setTags: () => driver.setTags() }),
    });
  }

  get revision() {
    return this.#state.changes;
  }

  openFile(path) {
    const { driver } = this;
    return Object.freeze({
      path,
      read: (options) => driver.read(path, options),
      stat: (options) => driver.stat(path, options),
      replace: (data, condition, options) => driver.replace(path, data, condition, options),
    });
  }

  async capabilitiesAt() {
    return this.capabilities;
  }

  discoveryRoot() {
    return '/';
  }
}

/** The path-style backend of a VFS. Its errors are those of the driver. */
class FileStorageAdapter {
  #parts;
  #state;

  constructor(parts, state) {
    this.#state = state;
    this.#parts = parts;
    this.name = 'http';
    this.access = parts.mutations ? 'rw' : 'ro';
  }

  async init() {
    this.#files('open');
  }

  /** The owner of the source disposes of it. */
  async close() {}

  async stat(path, options) {
    const stat = await this.#files('stat').stat(relative('stat', path), options);
    return stat && nodeOf(path, stat);
  }

  async statType(path, options) {
    const stat = await this.#files('stat').stat(relative('stat', path), options);
    return stat && { type: stat.kind };
  }

  async list(path, options) {
    const files = this.#files('list');
    const directory = relative('list', path);
    const prefix = directory === '' ? '/' : `${path}/`;
    const nodes = [];
    let cursor;
    do {
      const page = await files.list(directory, { ...options, cursor });
      if (page.warnings.length > 0) {
        const message = `${page.warnings.length} entries of the directory cannot be shown; list it page by page`;
        throw new CellsError('ECAPABILITY', message, { operation: 'list' });
      }
      for (const { name, stat } of page.entries) nodes.push(nodeOf(prefix + name, stat));
      if (page.nextCursor === cursor || nodes.length > DIRECTORY_MAX_ENTRIES) {
        throw new CellsError('EIO', 'the pages of the directory do not end', { operation: 'protocol' });
      }
      cursor = page.nextCursor;
    } while (cursor !== null);
    return nodes;
  }

  async read(path, options) {
    const { data, revision } = await this.#files('read').read(relative('read', path), options);
    options?.onRevision?.(revision);
    return data;
  }

  replace(path, data, condition, options) {
    return this.#write('replace', path, async (writes, at) =>
      nodeOf(path, await writes.replace(at, data, condition, options)),
    );
  }

  mkdir(path, options) {
    return this.#write('mkdir', path, async (writes, at) => nodeOf(path, await writes.mkdir(at, options)));
  }

  rename(from, to, options) {
    return this.#write('rename', from, (writes, at) => writes.rename(at, relative('rename', to, NOT_STARTED), options));
  }

  delete(path, options) {
    return this.#write('delete', path, (writes, at) => writes.remove(at, options));
  }

  async write() {
    throw unsupported('write', 'a node writes only under a condition: call replace');
  }

  async updateMetadata() {
    throw unsupported('updateMetadata', 'a node keeps no metadata');
  }

  async setTags() {
    throw unsupported('setTags', 'a node keeps no tags');
  }

  async getAllTags() {
    return [];
  }

  #files(operation, details) {
    if (this.#state.isOver) {
      throw new CellsError('EACCES', 'the source was disposed of; open it again', { operation, ...details });
    }
    return this.#parts.files;
  }

  async #write(operation, path, run) {
    this.#files(operation, NOT_STARTED);
    const { mutations } = this.#parts;
    if (mutations === undefined) {
      const message = 'the export cannot be written with this credential';
      throw new CellsError('EROFS', message, { operation, ...NOT_STARTED });
    }
    const result = await run(mutations, relative(operation, path, NOT_STARTED));
    this.#state.changes += 1;
    return result;
  }
}

/** Makes `driver.open` give what users see, and keeps what only this package calls from others. */
export function offerSources(CellsDriver) {
  const { openShared, openUnshared } = CellsDriver.prototype;
  delete CellsDriver.prototype.openShared;
  delete CellsDriver.prototype.openUnshared;
  CellsDriver.prototype.open = async function (connection, options) {
    return ownerOf(await openShared.call(this, connection, options));
  };
  openAlone = async (driver, connection, viewId) => ownerOf(await openUnshared.call(driver, connection, viewId));
}

/** Opens a source that nobody shares. */
export let openAlone;

function nodeOf(path, { kind, size, createdAt = 0, modifiedAt = 0, revision }) {
  const end = path.lastIndexOf('/');
  const parentPath = path === '/' ? null : path.slice(0, end) || '/';
  const node = { path, parentPath, name: path.slice(end + 1), type: kind, createdAt, modifiedAt, version: 0 };
  return Object.freeze({ ...node, size, revision, tags: NO_TAGS, metadata: NO_METADATA });
}

function relative(operation, path, details) {
  if (typeof path === 'string' && path.startsWith('/')) return path.slice(1);
  throw new CellsError('EINVAL', 'a path must be a string that starts with `/`', { operation, ...details });
}

function unsupported(operation, message) {
  return new CellsError('ECAPABILITY', message, { operation, ...NOT_STARTED });
}

const NOT_STARTED = { outcome: 'not-started' };
const NO_TAGS = Object.freeze([]);
const NO_METADATA = Object.freeze({});
const DIRECTORY_MAX_ENTRIES = 100_000;
