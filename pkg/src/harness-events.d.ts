import type { CellsError } from './error.js';

/** A position in the events of a profile. */
export interface EventCursor {
  /** Sequence number of the last event seen. */
  after: number;
  /** The event ring; new when the agent's process is. */
  eventEpoch: string;
}

/** A native notification (`method`, `params`), or a request when it has an `id`. */
export interface NativeMessage {
  /** Identity of a request; hand it to `HarnessClient.respond` as it is. */
  id?: string | number;
  /** For example `turn/started`, `item/agentMessage/delta` or `item/commandExecution/requestApproval`. */
  method: string;
  /** The native parameters. */
  params: any;
}

/** One event of a profile. */
export interface HarnessEvent {
  /** Its sequence number. */
  seq: number;
  /** When it happened, in Unix milliseconds. */
  timestamp?: number;
  /** What happened. */
  message: NativeMessage;
}

/**
 * State of an event subscription. `closed`: nobody subscribes. `connecting`: on its way. `online`: events arrive.
 * `offline`: broken, it reconnects by itself. `failed`: it does not reconnect; see `error`, then subscribe anew.
 */
export type TopicState = 'closed' | 'connecting' | 'online' | 'offline' | 'failed';

/** What a listener is told. Bodies are read with `HarnessClient.eventSnapshot`. */
export interface TopicNotification {
  /** State of the subscription. */
  state: TopicState;
  /** Events were lost since the last notification: read the history again. */
  gap: boolean;
  /** The set of open requests changed. */
  requestsChanged: boolean;
  /** The newest position. */
  cursor: EventCursor | null;
}

/** The events of a profile that are held locally. */
export interface EventSnapshot {
  /** The event ring. */
  epoch: string | null;
  /** The newest position; pass it to the next call. */
  cursor: EventCursor | null;
  /** The cursor that was passed cannot be continued: read the history again. */
  gap: boolean;
  /** The events after the cursor that was passed; none without a cursor. */
  events: HarnessEvent[];
  /** Every open request of the profile. */
  requests: NativeMessage[];
  /** State of the subscription. */
  state: TopicState;
  /** Why it is `failed`, or what broke it last. */
  error?: CellsError;
}

/** One subscription. */
export interface Subscription {
  /** Resolves when the node accepted the topic; rejects with its final error. */
  readonly ready: Promise<void>;
  /** Ends this subscription. May be called again. The last one of a stream closes it. */
  close(): void;
}

/** Answer to a native request; what an agent expects depends on the request's method. */
export type NativeResponse =
  | { decision: 'accept' | 'acceptForSession' | 'decline' | 'cancel' }
  | { answers: Record<string, { answers: string[] }> }
  | Record<string, unknown>;
