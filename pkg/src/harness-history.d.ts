import type { EventCursor } from './harness-events.js';
import type { Session } from './harness-sessions.js';

/** One page of history. The first page is the latest; `nextCursor` leads to older ones. */
export interface HistoryPage {
  /** The session. */
  session: Session;
  /** Turns in chronological order. */
  turns: Turn[];
  /** Asks for the page before this one; `null` = this is the beginning. */
  nextCursor: string | null;
  /** Every event up to here is contained in this page and those before it. */
  eventCursor?: EventCursor;
}

/** One turn of a history page. */
export interface Turn {
  /** Native identity, if the page knows it. */
  id: string | null;
  /** `inProgress`, `completed`, `failed`, `cancelled` or `interrupted`. */
  status?: string;
  /** What proves that this turn came from one message of a client. */
  submissionEvidence?: SubmissionEvidence;
  /** Native items. The set grows with the agent; `harnessItems` reads them. */
  items: HistoryItem[];
}

/** A native item: its type and whatever the agent tells about it. */
export interface HistoryItem {
  /** For example `userMessage`, `agentMessage` or `commandExecution`. */
  type?: string;
  /** Native identity. */
  id?: string;
  /** Members of the native item. */
  [member: string]: unknown;
}

/** Proof that a turn came from one `harness_turn` mutation and ended natively. */
export interface SubmissionEvidence {
  /** Always 1. */
  version: 1;
  /** The mutation. */
  requestId: string;
  /** SHA-256 of the bytes of its prompt, 64 lowercase hex digits. */
  promptSha256: string;
  /** Position of the record that holds the prompt, in all native records of the session; the first is 1. */
  startSequence: number;
  /** Position of the record that ends the turn. */
  endSequence: number;
}
