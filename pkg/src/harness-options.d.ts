import type { Recovery } from './error.js';

/** Accepted as the last argument of every call. */
export interface OperationOptions {
  /** Ends the call with `ECANCELLED`; the signal's reason becomes `error.cause`. A mutation still tells its outcome. */
  signal?: AbortSignal;
  /** Time budget of the whole call in milliseconds, 0 to 2^53 − 1. Default 30000. Used up: `ETIMEDOUT`. */
  timeoutMs?: number;
}

/** Options of a mutation. */
export interface MutationOptions extends OperationOptions {
  /**
   * Called once, right before the only request of the mutation is sent. Store the value, and `operation(recovery)` can
   * settle the mutation in another process. What it throws is printed and harms nobody.
   */
  onDispatch?: (recovery: Recovery) => void;
}

/** A mutation that was committed also tells its identity. */
export interface Committed {
  /** The receipt's identity, for `HarnessClient.operation`. */
  recovery: Recovery;
}

/**
 * What a receipt says. `committed`: it happened. `not-committed`: it did not, and never will. `unknown` without a code:
 * still running, ask again. `unknown` with a code: the node cannot know; look at the history.
 */
export interface Receipt {
  /** What is known about the effect. */
  outcome: 'committed' | 'not-committed' | 'unknown';
  /** The identity of the mutation. */
  requestId: string;
  /** The epoch it was sent in. */
  epoch: string;
  /** Why it was not committed, or why it is unknown for good. */
  code?: string;
  /** What the mutation returned. */
  result?: unknown;
}
