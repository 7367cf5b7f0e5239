import type { FileRecovery } from './error.js';
import type { FileClient, FileStat } from './files.js';
import type { OperationOptions } from './harness.js';
import type { SeqClient } from './seq.js';
import type { HttpConnectionOptions } from './transport.js';

/**
 * Content of a file that is to be written, of at most 256 MiB. It is sent once.
 *
 * Bytes, a `Blob` and a `File` go to `fetch` as they are: do not change them before the write has ended. A stream (also one
 * of Node) is sent piece by piece in Node, as fast as the connection takes it, with at most 1 MiB held. In a browser it
 * is collected into a `Blob` first, because browsers send streams over HTTP/2 only. It is read by this call only, and
 * cancelled when the write ends before it does.
 */
export type UploadSource =
  | Uint8Array
  | ArrayBuffer
  | ArrayBufferView
  | Blob
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>;

/** What must hold for a file to be written: it is new, or it still has the revision that it had when it was read. */
export type ReplaceCondition = { kind: 'create-only' } | { kind: 'match'; revision: string };

/** Options of a write. */
export interface FileMutationOptions extends OperationOptions {
  /**
   * The identity of the write: 1 to 128 characters of A-Z, a-z, 0-9, _ and -. Default: a new one. A node never does
   * anything twice with one identity.
   */
  operationId?: string;
  /**
   * Called once, right before the only request of the write is sent. Store the value, and `settle(recovery)` can find out
   * what became of the write, also in another process. What it throws is printed and harms nobody.
   */
  onDispatch?: (recovery: FileRecovery) => void;
}

/** Options of {@link FileMutations.replace}. */
export interface UploadOptions extends FileMutationOptions {
  /** How many bytes the content has. A stream that gives another number fails the write with `EINVAL`. */
  size?: number;
  /**
   * SHA-256 of the content in hexadecimal. It can prove later that the write happened, when the node cannot tell. The
   * driver finds it out by itself for bytes and blobs of at most 32 MiB, except on pages without TLS.
   */
  sha256?: string;
  /**
   * Is told how many bytes the connection has taken, and how many there are in all, if that is known. In a browser only at
   * the start and, when the write was committed, at the end. What it throws is printed and harms nobody.
   */
  onProgress?: (done: number, total: number | undefined) => void;
}

/** Options of {@link FileMutations.remove}. */
export interface RemoveOptions extends FileMutationOptions {
  /** Trees are not removed by nodes: `true` is `ECAPABILITY`, and nothing is sent. */
  recursive?: false;
}

/**
 * What is known of a write.
 *
 * - `committed`: it happened; `result` describes the new file, if it made one.
 * - `not-committed`: it had no effect, for the reason `code`.
 * - `running`: it runs, or waits to run; ask again.
 * - `unknown`: nothing proves what became of it. It cannot happen any more.
 */
export type FileReceipt =
  | { outcome: 'committed'; result?: FileStat }
  | { outcome: 'not-committed'; code: string }
  | { outcome: 'running' }
  | { outcome: 'unknown'; code?: string };

/**
 * Writes of one export. Each gets an identity and is sent in one request, ever. One that fails says by its `outcome` what is
 * known:
 *
 * - `not-started`: nothing was sent.
 * - `not-committed`: the node refused, or did not get all of the content; nothing has changed.
 * - `committed`: it happened, only the node's description of the result cannot be read.
 * - `unknown`: the reply is missing or damaged. Hand the `recovery` of the error to {@link FileStorageBackend.settle}.
 *
 * A write whose signal is aborted is stopped at the node, and reported with what became of it: it resolves when it was too
 * late, else it fails with `ECANCELLED` and its outcome. That takes at most 5 seconds. One whose time is up is `unknown` at
 * once. A node gives one write at most 30 seconds.
 */
export interface FileMutations {
  /**
   * Puts content in place as a file, all of it or nothing. The result describes the new file; its revision is the one to
   * match next time.
   *
   * @throws {CellsError} `ECONFLICT` when the condition does not hold; `ENOENT` when the directory of the file does not
   *   exist; `EFBIG` above 256 MiB; `EIO`, `not-committed`, when the source failed, with what it threw as `cause`.
   */
  replace(path: string, data: UploadSource, condition: ReplaceCondition, options?: UploadOptions): Promise<FileStat>;
  /**
   * Makes a directory, in a directory that exists.
   *
   * @throws {CellsError} `EEXIST` when something has that name; `ENOENT` when its parent does not exist.
   */
  mkdir(path: string, options?: FileMutationOptions): Promise<FileStat>;
  /**
   * Gives an entry another path, in the same export. Never overwrites.
   *
   * @throws {CellsError} `ENOENT` when `from` does not exist; `EEXIST` when `to` does.
   */
  rename(from: string, to: string, options?: FileMutationOptions): Promise<void>;
  /**
   * Removes a file, a link or an empty directory.
   *
   * @throws {CellsError} `ENOENT` when it does not exist; `ENOTEMPTY` when the directory holds something.
   */
  remove(path: string, options?: RemoveOptions): Promise<void>;
}

/** One export of a node: its files, and its writes if it allows them. Made by `CellsDriver.fileStorage`, ready for use. */
export interface FileStorageBackend {
  /** The kind of storage. */
  readonly name: 'http';
  /** `rw` if there are `mutations`. */
  readonly access: 'ro' | 'rw';
  /** Attributes, listings and content. */
  readonly files: Omit<FileClient, 'close'>;
  /** Writes; absent unless the export is writable for this credential, has strong revisions and takes names as they are. */
  readonly mutations?: FileMutations | undefined;
  /** SeqFiles. On a read-only export they can be read. */
  readonly seq: SeqClient;
  /**
   * Opens the export. Needed once for a `new HttpFSBackend`; does nothing when it is open. After a failure it may be tried
   * again.
   */
  init(options?: OperationOptions): Promise<void>;
  /**
   * The receipt of a write, as the node has it.
   *
   * @throws {CellsError} `ENOENT`, outcome `unknown`, when the node has none: it never saw the write, or has forgotten it,
   *   which happens after an hour, and on nodes without durable receipts at every restart.
   */
  operationStatus(id: string, options?: OperationOptions): Promise<FileReceipt>;
  /**
   * Asks the node to stop a write, and gives its receipt as it is then: `running` when it still has to stop, and unchanged
   * when it had ended. A write that the node has not seen is refused from then on.
   */
  cancelOperation(id: string, options?: OperationOptions): Promise<FileReceipt>;
  /**
   * Finds out how a write ended whose outcome is unknown: by its receipt, for which it waits while the write runs; else by
   * what the export shows, where that proves it. A write that the node has not seen is stopped for good.
   *
   * @param recovery From the error, or from `onDispatch`; it may have been stored as JSON by another process.
   * @throws {CellsError} `EINVAL` for a write of another export.
   */
  settle(recovery: FileRecovery, options?: OperationOptions): Promise<FileReceipt>;
  /**
   * Ends what was made of this export: calls under way end with `ECANCELLED`, later ones with `EACCES`. A write that was
   * sent goes on at the node, and its caller gets `unknown`.
   */
  close(): Promise<void>;
}

/** How to reach an export with a connection that carries its own credential. */
export interface HttpFileSourceOptions extends HttpConnectionOptions {
  /** Name of the export. */
  alias: string;
}

/**
 * One export of a node, with a connection of its own.
 *
 * @example
 * const storage = new HttpFSBackend({ endpoint: 'http://127.0.0.1:4477', credential: () => apiKey, alias: 'home' });
 * await storage.init();
 * await storage.mutations?.replace('todo.md', new Blob(['- milk\n']), { kind: 'create-only' });
 * await storage.close();
 */
export declare class HttpFSBackend implements FileStorageBackend {
  /**
   * Checks the options, sends nothing.
   *
   * @throws {CellsError} `EINVAL`, with reason `NOT_INITIALISED` when `init` of the package has not finished.
   */
  constructor(options: HttpFileSourceOptions);
  /** Always `http`. */
  get name(): 'http';
  /** See {@link FileStorageBackend.access}. */
  get access(): 'ro' | 'rw';
  /** See {@link FileStorageBackend.files}. */
  get files(): Omit<FileClient, 'close'>;
  /** See {@link FileStorageBackend.mutations}. */
  get mutations(): FileMutations | undefined;
  /** See {@link FileStorageBackend.seq}. */
  get seq(): SeqClient;
  /** Opens the export. @throws {CellsError} `EACCES` when the node has no such export, or hides it from this credential. */
  init(options?: OperationOptions): Promise<void>;
  /** See {@link FileStorageBackend.operationStatus}. */
  operationStatus(id: string, options?: OperationOptions): Promise<FileReceipt>;
  /** See {@link FileStorageBackend.cancelOperation}. */
  cancelOperation(id: string, options?: OperationOptions): Promise<FileReceipt>;
  /** See {@link FileStorageBackend.settle}. */
  settle(recovery: FileRecovery, options?: OperationOptions): Promise<FileReceipt>;
  /** See {@link FileStorageBackend.close}. Also ends what `credential` and `fetch` of the options are used for. */
  close(): Promise<void>;
}
