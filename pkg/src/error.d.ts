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
 * - `unknown`: ask with `HarnessClient.operation`; never send it again.
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

/** The members of a {@link CellsError} beside its code and message. All are optional. */
export interface CellsErrorDetails {
  /** What was being done, for example `stat`, `connect`, `protocol`, `credential` or `harness_turn`. */
  operation?: string;
  /** Mutations: what is known about the effect. */
  outcome?: Outcome;
  /** Harness mutations: the identity of the mutation, which is the identity of its receipt. */
  requestId?: string;
  /** File mutations: the identity of the operation. */
  operationId?: string;
  /** Harness mutations that were sent: what `HarnessClient.operation` needs, also in another process. */
  recovery?: Recovery;
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
 *   if (error instanceof CellsError && error.outcome === 'unknown') {
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
  /** File mutations: the identity of the operation. */
  readonly operationId?: string;
  /** Harness mutations that were sent: what asking for the receipt needs. */
  readonly recovery?: Recovery;
  /** The node's own code. */
  readonly remoteCode?: string;
  /** A detail found by the driver. */
  readonly reason?: string;
  /** The HTTP status. */
  readonly status?: number;
  /** The same call may succeed after this many milliseconds. */
  readonly retryAfterMs?: number;
}
