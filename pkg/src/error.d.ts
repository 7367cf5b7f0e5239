/** What went wrong, in one word. The same words on the wire, in Rust and here. */
export type ErrorCode =
  | 'ECANCELLED'
  | 'ETIMEDOUT'
  | 'ENOENT'
  | 'EEXIST'
  | 'EISDIR'
  | 'ENOTDIR'
  | 'ENOTEMPTY'
  | 'EACCES'
  | 'EROFS'
  | 'ENOSPC'
  | 'EINVAL'
  | 'EFBIG'
  | 'EIO'
  | 'ECAPABILITY'
  | 'ECONFLICT'
  | 'EBUSY';

/**
 * What is known about the effect of a mutation.
 *
 * - `not-started`: nothing was sent.
 * - `not-committed`: the node proved that it had no effect.
 * - `committed`: it happened.
 * - `partial`: part of it happened.
 * - `unknown`: hand the error's `recovery` to `HarnessClient.operation` or `FileStorageBackend.settle`, which ask; never
 *   send it again.
 */
export type Outcome = 'not-started' | 'not-committed' | 'committed' | 'partial' | 'unknown';

/** Projects scope of a mutation. */
export interface Scope {
  /** The server-side project. */
  projectId: string;
  /** Its revision. */
  revision: number;
  /** Whether the client was made read-only. */
  readOnly: boolean;
}

/**
 * What another process needs to ask for the receipt of a mutation. Plain JSON: store it, send it, and hand it to
 * `HarnessClient.operation`.
 */
export interface Recovery {
  /** The profile the mutation was for. */
  profileId: string;
  /** The epoch of the node when the mutation was sent. */
  epoch: string;
  /** The identity of the mutation. */
  requestId: string;
  /** The project scope, if the client had one. */
  scope?: Scope;
}

/**
 * What another process needs to find out how a write ended. Plain JSON, without content and secrets: store it, send it, and
 * hand it to `FileStorageBackend.settle`.
 */
export interface FileRecovery {
  /** The identity of the write. */
  operationId: string;
  /** The export. */
  alias: string;
  /** When it was sent, in Unix milliseconds. */
  sentAtMs: number;
  /** Whether the node said that its receipts survive a restart. */
  durable: boolean;
  /** The epoch of the node's process when the export was opened, if the node said so. */
  processEpoch?: string;
  /** What was written. */
  change: FileChange;
}

/** What a write changes. Paths are relative to the export. */
export type FileChange =
  | {
      /** The content of a file. */
      kind: 'replace';
      /** The file. */
      path: string;
      /** The revision that it had to have; absent if it had to be new. */
      revision?: string;
      /** Size of the new content in bytes, if it was known. */
      size?: number;
      /** SHA-256 of the new content in hexadecimal, if it was known. */
      sha256?: string;
    }
  | {
      /** Entries of a SeqFile. */
      kind: 'transaction';
      /** The SeqFile. */
      path: string;
      /** The revision that it had to have; absent if it had to be new. */
      revision?: string;
    }
  | {
      /** A new directory, or a removal. */
      kind: 'mkdir' | 'remove';
      /** The entry. */
      path: string;
    }
  | {
      /** Another name. */
      kind: 'rename';
      /** The old path. */
      path: string;
      /** The new path. */
      to: string;
    }
  | {
      /** Something that the driver does not know; sent with `HttpTransport.mutate`. */
      kind: 'other';
      /** Where it was sent, below the export. */
      route: string;
    };

/** The members of a {@link CellsError} beside its code and message. All are optional. */
export interface CellsErrorDetails {
  /**
   * What was being done. One name a call, in every layer: that of the tool for a call of `HarnessClient` (`turn` is
   * `harness_turn`), else that of the method in snake case (`readStream` is `read_stream`). `connect`, `protocol` and
   * `credential` say what failed in it: the network, the reply, the secret; the message then names the call.
   */
  operation?: string;
  /** Mutations: what is known about the effect. */
  outcome?: Outcome;
  /** Harness mutations: the identity of the mutation, which is the identity of its receipt. */
  requestId?: string;
  /** Writes that were sent: the identity of the write, which is the identity of its receipt. */
  operationId?: string;
  /** Commands: the process that may have begun. */
  processId?: string;
  /**
   * What finds out how a mutation ended, also in another process. Harness mutations that were sent: for
   * `HarnessClient.operation`. Writes whose outcome is `unknown`: for `FileStorageBackend.settle`.
   */
  recovery?: Recovery | FileRecovery;
  /** The node's own code, for example `HARNESS_SESSION_BUSY`. */
  remoteCode?: string;
  /** A detail found by the driver, for example `NOT_INITIALISED` or `NODE_UPGRADE_REQUIRED`. */
  reason?: string;
  /** The HTTP status, when the node answered with one. */
  status?: number;
  /** The same call may succeed after this many milliseconds. Absent = it will not by itself. */
  retryAfterMs?: number;
  /** What caused it, for example the reason of an aborted signal. */
  cause?: unknown;
}

/**
 * The one error class of the package. No secret, request body or path of the node's machine ever enters it.
 *
 * @example
 * try {
 *   await harness.turn('main', sessionId, 'hello');
 * } catch (error) {
 *   if (error instanceof CellsError && error.recovery && 'requestId' in error.recovery) {
 *     const receipt = await harness.operation(error.recovery);
 *   }
 * }
 */
export declare class CellsError extends Error {
  /** @param code What went wrong. @param message One line for people. @param details The other members. */
  constructor(code: ErrorCode, message: string, details?: CellsErrorDetails);
  /** Always `CellsError`. */
  readonly name: 'CellsError';
  /** What went wrong, in one word. */
  readonly code: ErrorCode;
  /** What was being done. */
  readonly operation?: string;
  /** Mutations: what is known about the effect. */
  readonly outcome?: Outcome;
  /** Harness mutations: the identity of the mutation. */
  readonly requestId?: string;
  /** Writes that were sent: the identity of the write. */
  readonly operationId?: string;
  /** Commands: the process that may have begun. */
  readonly processId?: string;
  /** What finds out how a mutation ended; see {@link CellsErrorDetails.recovery}. */
  readonly recovery?: Recovery | FileRecovery;
  /** The node's own code. */
  readonly remoteCode?: string;
  /** A detail found by the driver. */
  readonly reason?: string;
  /** The HTTP status. */
  readonly status?: number;
  /** The same call may succeed after this many milliseconds. */
  readonly retryAfterMs?: number;
}
