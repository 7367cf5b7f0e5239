import type { AuthorizationSnapshot } from './authorization.js';
import type { FileClient } from './files.js';
import type { HarnessClient, OperationOptions } from './harness.js';
import type { FileStorageBackend } from './storage.js';
import type { HttpProcessSession, RemoteProcessSpec } from './process.js';
import type { FileSystemSourceOwner } from './sources.js';

export { CellsError } from './error.js';
export type { CellsErrorDetails, ErrorCode, FileChange, FileRecovery, Outcome, Recovery, Scope } from './error.js';
export type { AuthorizationSnapshot } from './authorization.js';
export type * from './files.js';
export type * from './harness.js';
export type * from './native.js';
export type * from './process.js';
export type * from './seq.js';
export type * from './sources.js';
export type * from './storage.js';
export type * from './transport.js';
export { HttpProcessSession } from './process.js';
export { HttpSeqClient } from './seq.js';
export { createHttpSourceProvider, openHttpFileSource } from './sources.js';
export { HttpFSBackend } from './storage.js';
export { HttpTransport } from './transport.js';
export { harnessEvent, harnessItems, harnessRequest } from './native.js';
export { conversationBranches, harnessArchiveAllowed } from './harness.js';

/** What the wasm may come from: its address, a response with it, its bytes, or the compiled module. */
export type InitSource = URL | string | Response | ArrayBuffer | ArrayBufferView | CompiledModule;

/** `WebAssembly.Module`, where the program's types know it: those of Node do not. */
type CompiledModule = typeof globalThis extends { WebAssembly: { Module: { prototype: infer Module } } } ? Module : never;

/**
 * Loads the driver. Needed once before {@link createCellsDriver} in a browser; in Node it resolves at once.
 *
 * All calls share one load. After a failure the next call tries again.
 *
 * @param source Where the wasm is, or a promise of it. Default: `cells_driver_bg.wasm` beside this module.
 * @throws {CellsError} `EIO`, operation `init`; the message names the address.
 */
export declare function init(source?: InitSource | Promise<InitSource>): Promise<void>;
export default init;

/**
 * Makes a driver. Credentials live in its memory only.
 *
 * @param resolveCredential Asked for a secret that {@link CellsDriver.setCredential} did not give.
 * @param fetch Sends every request of the driver, called as `fetch(url, init)`. Default: the global one.
 * @throws {CellsError} `EINVAL`, reason `NOT_INITIALISED`, when `init` has not finished.
 *
 * @example
 * await init();
 * const driver = createCellsDriver();
 * driver.setCredential('workstation', apiKey);
 * const connection = { endpoint: 'http://127.0.0.1:4477', credentialRef: 'workstation' };
 * const stat = await driver.files({ ...connection, alias: 'home' }).stat('notes/today.md');
 * await driver.dispose();
 */
export declare function createCellsDriver(resolveCredential?: CredentialResolver, fetch?: Fetch): CellsDriver;

/** Gives the secret with this name; a rejection ends the call with `EACCES`, operation `credential`. */
export type CredentialResolver = (reference: string) => string | Promise<string>;

/** The part of the global `fetch` that the driver needs. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** How to reach a node. */
export interface RemoteConnection {
  /** Its root, or the address of its MCP endpoint: http or https, no user name, query or fragment. */
  endpoint: string;
  /** Names the secret; see {@link CellsDriver.setCredential}. Not used when `anonymous`. */
  credentialRef?: string;
  /** With it the secret is sent as `Basic`, without it as `Bearer`. */
  username?: string;
  /** Sends no credential at all. */
  anonymous?: boolean;
  /** Pins every request to this identity and these grants; from {@link CellsDescriptor.authorization}. */
  authorization?: AuthorizationSnapshot;
}

/** How to reach an export of a node. */
export interface RemoteFileConnection extends RemoteConnection {
  /** Name of the export. */
  alias: string;
}

/** What a node says about itself. */
export interface CellsDescriptor {
  /** Always 1. */
  version: 1;
  /** Absolute address of the file side. */
  httpEndpoint: string;
  /** Absolute address of the MCP side. */
  mcpEndpoint: string;
  /** Identity of the installation. */
  serverId: string | null;
  /** Always `fs-agent-http-v1`. */
  fileProtocol: 'fs-agent-http-v1';
  /** An agent profile is visible to the caller. */
  harness: boolean;
  /** Server-side projects. */
  projects: boolean;
  /** Their protocol. */
  projectProtocol?: string;
  /** Object sync. */
  sync: boolean;
  /** Directory sync. */
  directorySync: boolean;
  /** Its version. */
  directorySyncVersion: number;
  /** Directories can be watched. */
  fileWatch: boolean;
  /** Files can be searched. */
  fileSearch: boolean;
  /** Version of the file search. */
  fileSearchVersion: number;
  /** Searches take several keywords. */
  searchKeywords: boolean;
  /** Prompts can be searched. */
  searchPrompts: boolean;
  /** Projects have execution settings. */
  projectExecutionEnvironment: boolean;
  /** The event stream, with its absolute address. */
  events?: { version: number; endpoint: string };
  /** Receipts that survive a restart of the node. */
  receipts?: { version: number; durable: boolean };
  /** Who the caller is; see {@link RemoteConnection.authorization}. */
  authorization?: AuthorizationSnapshot;
  /** Described under a name of an older protocol. */
  legacy: boolean;
}

/** Some directories of a node. */
export interface BrowsePage {
  /** Their full paths: the alias of the export comes first, as in `/notes/2024`. */
  paths: string[];
  /** Asks for the next page; `null` at the end. A page may be empty while there is a next one. */
  nextCursor: string | null;
}

/** What the file side of a node offers. Descriptive, never a grant. */
export interface ServerCapabilities {
  /** Always 1. */
  version: 1;
  /** Identity of the installation. */
  serverId: string | null;
  /** Epoch of the node's processes. */
  processEpoch?: string;
  /** What the caller may do with files. */
  files: { read: boolean; write: boolean };
  /** Object sync. */
  sync: { push: boolean };
  /** Commands; with `output` their output can be read while they run. */
  process: { exec: boolean; output?: { version: number } };
  /** Terminals. */
  terminal: { pty: boolean };
  /** Agent sessions over MCP; absent on old nodes. */
  harness?: { enabled: boolean; endpoint: string | null };
  /** How processes are separated from the host. */
  executionModel: 'none' | 'trusted-cooperative-host' | 'sandbox';
  /** Who else can change files while a process runs. */
  workspaceConsistency: 'none' | 'cooperative' | 'isolated';
  /** How a read-only mount is enforced. */
  readOnlyEnforcement: 'none' | 'best-effort' | 'kernel-enforced';
  /** How a process sees paths. */
  pathModel: 'none' | 'host-mapped' | 'virtual-root';
}

/** The exports that the caller may see. */
export interface Exports {
  /** Always 1. */
  version: 1;
  /** Ordered by alias. */
  exports: Export[];
}

/** One export: a directory that the node shares. */
export interface Export {
  /** Its name. */
  alias: string;
  /** What the caller may do with it. */
  access: 'ro' | 'rw';
  /** `source` for plain names; anything else forbids writes. */
  nameSemantics: string | null;
  /** Writes can be made conditional. */
  strongRevision: boolean;
}

/** Client of Cells nodes. Made by {@link createCellsDriver}. */
export interface CellsDriver {
  /**
   * Keeps a secret in memory. It never enters a connection, an address or a log.
   *
   * @returns Puts the secret back that was there before, or removes this one. Works once.
   */
  setCredential(reference: string, secret: string): () => void;
  /** Forgets a secret. */
  clearCredential(reference: string): void;
  /** The current secret: from memory, else from the resolver, else `EACCES` with operation `credential`. */
  resolveCredential(reference: string, options?: OperationOptions): Promise<string>;
  /**
   * What a node says about itself.
   *
   * @param options `metadata`: the `_meta` of a `server/discover` reply that the caller already has; then the node is
   *   asked only if it says nothing about Cells. Metadata that is not valid is rejected, never bypassed.
   */
  discover(
    connection: RemoteConnection,
    options?: OperationOptions & { metadata?: Record<string, unknown> },
  ): Promise<CellsDescriptor>;
  /** What the file side of a node offers. */
  capabilities(connection: RemoteConnection, options?: OperationOptions): Promise<ServerCapabilities>;
  /** The exports that the caller may see. */
  exports(connection: RemoteConnection, options?: OperationOptions): Promise<Exports>;
  /** Checks that the node answers and accepts the credential. */
  check(connection: RemoteConnection, options?: OperationOptions): Promise<void>;
  /** As `check`, with a secret that is not stored anywhere. With `''` the stored secret is checked. */
  checkDraft(connection: RemoteConnection, secret: string, options?: OperationOptions): Promise<void>;
  /**
   * Directories of a node, for choosing one.
   *
   * @param path `/` gives the exports; any other path, such as `/notes/2024`, the directories in it, page by page.
   * @param cursor `nextCursor` of the page before.
   */
  browse(
    connection: RemoteConnection,
    path: string,
    cursor?: string | null,
    options?: OperationOptions,
  ): Promise<BrowsePage>;
  /** A session in which commands run on a node. Checks the arguments, sends nothing. */
  process(connection: RemoteConnection, spec: RemoteProcessSpec): HttpProcessSession;
  /**
   * Opens an export as a file system. Equal connections share one source, which the last owner closes. The options hold for
   * this caller's wait only: one that gives up does not disturb the others.
   *
   * @throws {CellsError} `EACCES` when the node has no such export, or hides it from this credential. A failure is not kept:
   *   the next call tries again.
   */
  open(connection: RemoteFileConnection, options?: OperationOptions): Promise<FileSystemSourceOwner>;
  /** Files of one export. Checks the arguments, sends nothing. */
  files(connection: RemoteFileConnection): FileClient;
  /**
   * Opens one export: asks the node what may be done with it, and how it keeps the receipts of writes.
   *
   * @throws {CellsError} `EACCES` when the node has no such export, or hides it from this credential.
   */
  fileStorage(connection: RemoteFileConnection, options?: OperationOptions): Promise<FileStorageBackend>;
  /** Agent sessions. Checks the arguments, sends nothing. */
  harness(connection: RemoteConnection): HarnessClient;
  /** Ends what the driver owns and forgets the secrets. Turns and processes on nodes go on. May be called again. */
  dispose(): Promise<void>;
}
