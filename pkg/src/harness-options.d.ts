import type { Recovery } from './error.js';
import type { HarnessModelSelection } from './harness-models.js';

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

/** Options of `HarnessClient.list`. */
export interface ListOptions extends OperationOptions {
  /** `nextCursor` of the page before. */
  cursor?: string;
  /** The archived sessions; default: the others. */
  archived?: boolean;
  /** Most sessions on the page, 1 to 100. Default: what the node thinks fit. */
  limit?: number;
}

/** Options of `HarnessClient.read`. */
export interface HistoryOptions extends OperationOptions {
  /** `nextCursor` of the page after the wanted one; default: the latest page. */
  cursor?: string;
  /** Tools in short; there is no other form. */
  toolDetail?: 'summary';
}

/** Options of `HarnessClient.turn`. */
export interface TurnOptions extends MutationOptions {
  /**
   * At most 5, with 512 KiB of content in all, of kinds that the profile takes. One that breaks a rule is `EINVAL`, one
   * that the profile does not take `ECAPABILITY`; nothing is sent then.
   */
  attachments?: HarnessAttachment[];
  /**
   * The model of this turn; without it the agent's current choice. `ECAPABILITY`, and nothing is sent, when the profile has
   * no models; `EINVAL` with reason `HARNESS_SELECTION_INVALID` when the models of the session were read and this is none of
   * them.
   */
  selection?: HarnessModelSelection;
}

/** Options of `HarnessClient.command`. */
export interface CommandOptions extends MutationOptions {
  /** The model of a prompt command; see {@link TurnOptions.selection}. `EINVAL`, and nothing is sent, for an action. */
  selection?: HarnessModelSelection;
}

/** Options of `HarnessClient.steer`. */
export interface SteerOptions extends MutationOptions {
  /** As {@link TurnOptions.attachments}. */
  attachments?: HarnessAttachment[];
  /** Request id of this message, which nothing had before: 1 to 128 of `A-Z a-z 0-9 _ -`. Default: a random one. */
  submissionId?: string;
}

/** Options of `HarnessClient.interrupt`. */
export interface InterruptOptions extends MutationOptions {
  /** Request id of this interrupt, which nothing had before: 1 to 128 of `A-Z a-z 0-9 _ -`. Default: a random one. */
  operationId?: string;
}

/** Text or a picture that is sent with a turn. */
export interface HarnessAttachment {
  /** What it is. */
  kind: 'text' | 'image';
  /** What the agent calls it: 1 to 256 bytes without control characters, `/` and `\\`. */
  name: string;
  /**
   * Text of at most 64 KiB without control characters but tab and line ends, or an image of at most 256 KiB as
   * `data:<mimeType>;base64,<padded base64>`.
   */
  content: string;
  /** Type of an image: `image/png`, `image/jpeg` or `image/webp`. */
  mimeType?: string;
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
