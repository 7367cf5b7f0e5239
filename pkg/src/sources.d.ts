import type { ReadOptions } from './files.js';
import type { OperationOptions } from './harness.js';
import type {
  BrowsePage,
  CredentialResolver,
  Fetch,
  RemoteConnection,
  RemoteFileConnection,
  ServerCapabilities,
} from './index.js';
import type { HttpProcessSession, RemoteProcessSpec } from './process.js';
import type {
  FileMutationOptions,
  HttpFileSourceOptions,
  RemoveOptions,
  ReplaceCondition,
  UploadOptions,
  UploadSource,
} from './storage.js';

/** An opened export. Each owner disposes of it for itself. */
export interface FileSystemSourceOwner {
  /** Its files. */
  readonly fs: FileSystem;
  /**
   * Lets go of the source: calls through this owner fail with `EACCES` from now on. The last owner closes the source, which
   * ends its calls under way. May be called again.
   */
  dispose(): Promise<void>;
}

/** An export in the shape of a VFS. Paths are virtual: `/` is the export, `/notes/todo.md` a file in it. */
export interface FileSystem {
  /** Names the view: `http:` and the credential reference for a shared source, `http:` and the alias for another. */
  readonly viewId: string;
  /** How many changes were made through this owner. Changes by others do not count. */
  readonly revision: number;
  /** What may be done with every path of it. */
  readonly capabilities: FileSystemCapabilities;
  /** All operations by path; also a backend for a VFS. */
  readonly driver: FileStorageAdapter;
  /** What a node does not keep. */
  readonly meta: {
    /** No tags. */
    readonly tags: Pick<FileStorageAdapter, 'getAllTags' | 'setTags'>;
  };
  /** Always true: the directory belongs to a node, not to the VFS. */
  readonly external: true;
  /** The operations of `driver` on one file. Asks nothing; whether it exists shows at the first call. */
  openFile(path: string): FileSystemFile;
  /** What may be done with a path: the same everywhere. */
  capabilitiesAt(path: string, options?: OperationOptions): Promise<FileSystemCapabilities>;
  /** Where rules of a search end: always `/`. */
  discoveryRoot(path: string): '/';
}

/** What may be done. Everything else that a VFS may ask for cannot be done. */
export interface FileSystemCapabilities {
  /** Always true. */
  readonly read: true;
  /** Files can be replaced, made and removed. */
  readonly write: boolean;
  /** The opposite of `write`. */
  readonly readonly: boolean;
  /** Always true: `read` takes `offset` and `length`. */
  readonly partialRead: true;
}

/** One file of a {@link FileSystem}. */
export interface FileSystemFile {
  /** Its virtual path. */
  readonly path: string;
  /** As {@link FileStorageAdapter.read}. */
  read(options?: NodeReadOptions): Promise<Uint8Array>;
  /** As {@link FileStorageAdapter.stat}. */
  stat(options?: OperationOptions): Promise<FileSystemNode | null>;
  /** As {@link FileStorageAdapter.replace}. */
  replace(data: UploadSource, condition: ReplaceCondition, options?: UploadOptions): Promise<FileSystemNode>;
}

/** What a path names. Frozen. Times are Unix milliseconds; 0 = not available. */
export interface FileSystemNode {
  /** Its virtual path. */
  readonly path: string;
  /** That of its directory; `null` for `/`. */
  readonly parentPath: string | null;
  /** Its name; empty for `/`. */
  readonly name: string;
  /** What it is. Links are never followed. */
  readonly type: 'file' | 'directory' | 'symlink';
  /** Size in bytes. */
  readonly size?: number;
  /** Creation. */
  readonly createdAt: number;
  /** Last modification. */
  readonly modifiedAt: number;
  /** Always 0: nodes count no versions; `revision` tells contents apart. */
  readonly version: 0;
  /** Strong revision, quotes included; only on writable exports. */
  readonly revision?: string;
  /** Always empty. */
  readonly tags: readonly string[];
  /** Always empty. */
  readonly metadata: Readonly<Record<string, never>>;
}

/** Options of {@link FileStorageAdapter.read}. */
export interface NodeReadOptions extends ReadOptions {
  /** Is told the revision of the bytes before `read` resolves; `undefined` on read-only exports. */
  onRevision?: (revision: string | undefined) => void;
}

/**
 * Operations by virtual path. Errors are those of the clients below it; a path that does not start with `/` is `EINVAL`, and
 * every write on an export without writes `EROFS`.
 */
export interface FileStorageAdapter {
  /** Always `http`. */
  readonly name: 'http';
  /** Read-write if the export allows writes to this credential. */
  readonly access: 'ro' | 'rw';
  /** Does nothing: the source is open. `EACCES` after it was disposed of. */
  init(): Promise<void>;
  /** Does nothing: the owner of the source disposes of it. */
  close(): Promise<void>;
  /** What a path names, or `null`. Calls of one microtask batch share requests, as those of `FileClient.stat`. */
  stat(path: string, options?: OperationOptions): Promise<FileSystemNode | null>;
  /** The same, with nothing but the type. */
  statType(path: string, options?: OperationOptions): Promise<{ type: FileSystemNode['type'] } | null>;
  /**
   * A whole directory, sorted by the bytes of the names. `timeoutMs` is the budget of each page.
   *
   * @throws {CellsError} `ECAPABILITY` when the node had to leave entries out.
   */
  list(path: string, options?: OperationOptions): Promise<FileSystemNode[]>;
  /** Content, or a range of it, of at most 32 MiB, else `EFBIG`. */
  read(path: string, options?: NodeReadOptions): Promise<Uint8Array>;
  /** Puts content in place under a condition; `ECONFLICT` when it does not hold. */
  replace(path: string, data: UploadSource, condition: ReplaceCondition, options?: UploadOptions): Promise<FileSystemNode>;
  /** Makes a directory in one that exists. */
  mkdir(path: string, options?: FileMutationOptions): Promise<FileSystemNode>;
  /** Gives an entry another path; never overwrites. */
  rename(from: string, to: string, options?: FileMutationOptions): Promise<void>;
  /** Removes a file, a link or an empty directory. */
  delete(path: string, options?: RemoveOptions): Promise<void>;
  /** Rejects with `ECAPABILITY`: a node writes only under a condition. */
  write(path: string, data: unknown): Promise<never>;
  /** Rejects with `ECAPABILITY`: a node keeps no metadata. */
  updateMetadata(path: string, metadata: unknown): Promise<never>;
  /** Rejects with `ECAPABILITY`: a node keeps no tags. */
  setTags(path: string, tags: readonly string[]): Promise<never>;
  /** Always empty. */
  getAllTags(): Promise<string[]>;
}

/**
 * Opens an export with a credential of its own, shared with nobody.
 *
 * @param viewId Names the view. Default: `http:` and the alias.
 * @throws {CellsError} `EACCES` when the node has no such export, or hides it from this credential.
 *
 * @example
 * const credential = () => keychain.get('workstation');
 * const source = await openHttpFileSource({ endpoint: 'http://127.0.0.1:4477', alias: 'notes', credential });
 * for (const node of await source.fs.driver.list('/')) console.log(node.path, node.size);
 * await source.dispose();
 */
export declare function openHttpFileSource(
  options: HttpFileSourceOptions,
  viewId?: string,
): Promise<FileSystemSourceOwner>;

/**
 * Makes a provider of shared sources: a driver without agents.
 *
 * @param resolveCredential Asked for a secret that `setCredential` did not give.
 * @param fetch Sends every request. Default: the global one.
 */
export declare function createHttpSourceProvider(resolveCredential?: CredentialResolver, fetch?: Fetch): HttpSourceProvider;

/** Opens exports and runs commands; see the methods of the same names of `CellsDriver`. */
export interface HttpSourceProvider {
  /** Opens an export; see `CellsDriver.open`. */
  open(connection: RemoteFileConnection, options?: OperationOptions): Promise<FileSystemSourceOwner>;
  /**
   * A session in which commands run. The provider's `dispose` does not release it; its secret then has to come from the
   * resolver, because `dispose` forgets those in memory.
   */
  process(connection: RemoteConnection, spec: RemoteProcessSpec): HttpProcessSession;
  /** What the file side of a node offers. */
  capabilities(connection: RemoteConnection, options?: OperationOptions): Promise<ServerCapabilities>;
  /** Checks that the node answers and accepts the credential. */
  check(connection: RemoteConnection, options?: OperationOptions): Promise<void>;
  /** As `check`, with a secret that is not stored anywhere. With `''` the stored secret is checked. */
  checkDraft(connection: RemoteConnection, secret: string, options?: OperationOptions): Promise<void>;
  /** Directories of a node, for choosing one. */
  browse(
    connection: RemoteConnection,
    path: string,
    cursor?: string | null,
    options?: OperationOptions,
  ): Promise<BrowsePage>;
  /** Keeps a secret in memory; the function that is returned puts the one before back. */
  setCredential(reference: string, secret: string): () => void;
  /** Forgets a secret. */
  clearCredential(reference: string): void;
  /** Closes all sources and forgets the secrets. May be called again. */
  dispose(): Promise<void>;
}
