import type { OperationOptions } from './harness.js';

/**
 * Attributes of a file. Frozen, because callers that ask for one path at a time may get one object. Times are Unix
 * milliseconds; 0 = not available.
 */
export interface FileStat {
  /** What it is. Links are never followed. */
  readonly kind: 'file' | 'directory' | 'symlink';
  /** Size in bytes. */
  readonly size?: number;
  /** Last modification. */
  readonly modifiedAt?: number;
  /** Creation. */
  readonly createdAt?: number;
  /** Strong revision, quotes included; only on writable exports. */
  readonly revision?: string;
}

/** One entry of a directory. */
export interface FileEntry {
  /** Name without a path. */
  name: string;
  /** Its attributes. */
  stat: FileStat;
}

/** One page of a directory. */
export interface EntriesPage {
  /** At most 512 entries. */
  entries: FileEntry[];
  /** Asks for the next page; `null` = this was the last. */
  nextCursor: string | null;
  /** What the node left out, one line each. */
  warnings: string[];
}

/** Options of {@link FileClient.read} and {@link FileClient.readStream}. */
export interface ReadOptions extends OperationOptions {
  /** First byte. Default 0. */
  offset?: number;
  /** At most this many bytes; there are fewer where the file ends before. Default: to the end. */
  length?: number;
  /** Fail with `ECONFLICT` unless the file still has this revision. */
  ifRevision?: string;
}

/** Content of a file, in one buffer. */
export interface FileContent {
  /** The bytes. */
  data: Uint8Array;
  /** Strong revision, quotes included; only on writable exports. */
  revision?: string;
}

/** Content of a file, as it arrives. */
export interface FileStream {
  /** How many bytes the stream will give; it fails with `EIO` when they are fewer or more. */
  size: number;
  /** Strong revision, quotes included; only on writable exports. */
  revision?: string;
  /** The bytes. Cancelling it ends the transfer. */
  stream: ReadableStream<Uint8Array>;
}

/** Files of one export of a node. Made by `CellsDriver.files`. Paths are relative to the export, with `/` between names. */
export interface FileClient {
  /**
   * Attributes of a path, or `null` when there is nothing. Calls of one microtask batch share requests of at most 256
   * distinct paths; a path that is asked for twice is sent once. Nothing is cached.
   */
  stat(path: string, options?: OperationOptions): Promise<FileStat | null>;
  /** What a path names, or `null` when there is nothing. The call is one of the same batch as `stat`. */
  statType(path: string, options?: OperationOptions): Promise<Pick<FileStat, 'kind'> | null>;
  /** One page of a directory; `''` is the root of the export. */
  list(path: string, options?: OperationOptions & { cursor?: string }): Promise<EntriesPage>;
  /** Content in one buffer of at most 32 MiB, else `EFBIG`. */
  read(path: string, options?: ReadOptions): Promise<FileContent>;
  /** Content of any size. `timeoutMs` is the longest wait for the next bytes, not for the whole file. */
  readStream(path: string, options?: ReadOptions): Promise<FileStream>;
  /** Refuses later calls of this client. May be called again. */
  close(): Promise<void>;
}
