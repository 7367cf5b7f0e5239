import type { CellsError, Recovery } from './error.js';

export { CellsError } from './error.js';
export type { Recovery } from './error.js';

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
  /** The receipt's identity, for {@link HarnessClient.operation}. */
  recovery: Recovery;
}

/** What {@link HarnessClient.profiles} returns. */
export interface Profiles {
  /** Epoch of the node's harness service, new at every start. */
  epoch: string;
  /** The profiles, sorted by id. */
  profiles: Profile[];
}

/** One configured agent. */
export interface Profile {
  /** Its name. */
  id: string;
  /** Kind of the agent, for example `scripted`, `codex` or `claude`. */
  kind: string;
  /** Where sessions can be created. */
  workspaces: { id: string }[];
  /** Usable with a project scope. */
  projectRuntime: boolean;
  /** What it can do. */
  capabilities: HarnessCapabilities;
}

/** What a profile can do. */
export interface HarnessCapabilities {
  /** History can be read. */
  history: boolean;
  /** Sessions can be created. */
  create: boolean;
  /** Sessions can be resumed. */
  resume: boolean;
  /** Turns can be interrupted. */
  interrupt: boolean;
  /** Approvals and questions can be answered. */
  interactions: boolean;
  /** Sessions can be forked. */
  fork: boolean;
  /** Sessions can be searched. */
  search: boolean;
  /** Sessions can be renamed. */
  rename: boolean;
  /** Sessions can be archived. */
  archive: boolean;
  /** Sessions can be unarchived. */
  unarchive: boolean;
  /** Sessions can be deleted. */
  delete: boolean;
  /** Models can be listed and selected. */
  models: boolean;
  /** Slash commands can be listed and run. */
  slashCommands: boolean;
  /** Command output can be kept behind a reference. */
  commandOutputs: boolean;
  /** A running turn can be steered. */
  steer: boolean;
  /** Token usage can be read. */
  usage: boolean;
  /** Metrics can be read. */
  metrics: boolean;
  /** A digest of a session can be read. */
  sessionDigest: boolean;
  /** Evidence about the original runtime is given. */
  executionRecovery: boolean;
  /** Kinds of attachment a turn may carry; absent = none. */
  attachments?: ('text' | 'image')[];
}

/** One session of an agent. Times are Unix milliseconds. */
export interface Session {
  /** Native identity. */
  id: string;
  /** May be empty. */
  title: string;
  /** Working directory as the agent names it. */
  cwd: string | null;
  /** `notLoaded`, `idle`, `active`, `systemError` or a value of a newer agent. */
  status: string | null;
  /** The native status object. */
  statusDetails?: unknown;
  /** Creation. */
  createdAt: number | null;
  /** Last change. */
  updatedAt: number | null;
  /** Can be resumed. */
  resumable: boolean;
  /** Controlled by this node. */
  owned?: boolean;
  /** Archived. */
  archived: boolean;
  /** The agent allows archiving now; see {@link harnessArchiveAllowed}. */
  archiveAllowed?: boolean;
  /** The running turn. */
  activeTurnId: string | null;
  /** The last turn. */
  lastTurnId?: string;
  /** How the last turn ended. */
  lastTurnResult?: 'completed' | 'failed' | 'cancelled';
  /** The session this one was forked from. */
  parentSessionId?: string;
  /** Name of the branch, for forked sessions. */
  branchName?: string;
  /** Version of the native history; compare for equality only. */
  historyRevision?: string;
}

/** One page of sessions. */
export interface SessionPage {
  /** Most recently updated first. A page may be empty while there is a next one. */
  sessions: Session[];
  /** Asks for the next page; `null` = this was the last. */
  nextCursor: string | null;
}

/** A session, and nothing of its history. */
export interface SessionInfo {
  /** The session. */
  session: Session;
}

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
  /** Native items. The set grows with the agent. */
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

/** The turn that a message started. */
export interface TurnStarted {
  /** Native identity of the turn. */
  turnId: string;
}

/** Answer to a native request; what an agent expects depends on the request's method. */
export type NativeResponse =
  | { decision: 'accept' | 'acceptForSession' | 'decline' | 'cancel' }
  | { answers: Record<string, { answers: string[] }> }
  | Record<string, unknown>;

/** The slash commands of a session. */
export interface CommandCatalog {
  /** At most 256, with unique names. */
  commands: Command[];
}

/** One slash command. */
export interface Command {
  /** Without the slash. */
  name: string;
  /** `prompt` starts a turn, `action` does not. */
  kind: 'prompt' | 'action';
  /** One line for people. */
  description?: string;
  /** What to type after the name. */
  argumentHint?: string;
}

/** Result of a slash command. */
export interface CommandResult {
  /** Identity of the command, equal to the request id. */
  commandId: string;
  /** Its name. */
  name: string;
  /** A failed command did run. */
  state: 'running' | 'completed' | 'failed';
  /** The turn of a `prompt` command; `null` for an `action`. */
  turnId: string | null;
  /** The whole text, from nodes without output references. */
  output?: string;
  /** The beginning of the text. */
  preview?: string;
  /** The preview is shorter than the text. */
  truncated?: boolean;
  /** Where the whole text is. */
  outputRef?: OutputRef;
  /** Why the node could not keep the text. */
  outputError?: string;
  /** Why it failed. */
  error?: { code: string };
}

/** Where the node keeps the output of a command. Plain JSON. */
export interface OutputRef {
  /** Always 1. */
  version: 1;
  /** The epoch of the command; the body dies with it. */
  epoch: string;
  /** The identity of the command. */
  requestId: string;
  /** Length of the body in bytes, 1 to 33554432. */
  bytes: number;
  /** SHA-256 of the body, 64 lowercase hex digits. */
  sha256: string;
  /** Always `text/plain`. */
  mimeType: 'text/plain';
}

/** Options of {@link HarnessClient.readCommandOutput}. */
export interface OutputReadOptions extends OperationOptions {
  /** First byte. Default 0. */
  offset?: number;
  /** Largest page, 1 to 65536 bytes. Default 65536. */
  limit?: number;
}

/** One page of a command's output. */
export interface OutputPage {
  /** First byte of the page. */
  offset: number;
  /** 1 to `limit` bytes. */
  data: Uint8Array;
  /** Where to go on; `null` = this was the last page. */
  nextOffset: number | null;
}

/** Options of {@link HarnessClient.loadCommandOutput}. */
export interface OutputLoadOptions extends OperationOptions {
  /** Time budget of the whole output in milliseconds. Without it each page has the default, and all of them any time. */
  timeoutMs?: number;
  /** `EFBIG` before reading when the output is larger. Default 8 MiB, at most 32 MiB. */
  maxBytes?: number;
  /** Told while it loads: bytes loaded, bytes in all. What it throws is printed and harms nobody. */
  onProgress?: (loadedBytes: number, totalBytes: number) => void;
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

/** A position in the events of a profile. */
export interface EventCursor {
  /** Sequence number of the last event seen. */
  after: number;
  /** The event ring; new when the agent's process is. */
  eventEpoch: string;
}

/** A native notification (`method`, `params`), or a request when it has an `id`. */
export interface NativeMessage {
  /** Identity of a request; hand it to {@link HarnessClient.respond} as it is. */
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

/** What a listener is told. Bodies are read with {@link HarnessClient.eventSnapshot}. */
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

/**
 * Agent sessions of a node. Made by `CellsDriver.harness`.
 *
 * Mutations (`create`, `resume`, `turn`, `interrupt`, `respond`, `command`) are sent once and never again: when their
 * reply is lost, they fail with `outcome: 'unknown'` and a `recovery`. Cancelling one stops the waiting, not the mutation.
 */
export interface HarnessClient {
  /** The configured agents, and the epoch of the node. */
  profiles(options?: OperationOptions): Promise<Profiles>;
  /** One page of sessions, most recently updated first. */
  list(profileId: string, options?: OperationOptions & { cursor?: string; archived?: boolean }): Promise<SessionPage>;
  /** One page of a session's history, the latest first. Tool output is left out. */
  read(profileId: string, sessionId: string, options?: OperationOptions & { cursor?: string }): Promise<HistoryPage>;
  /** A session without its history. */
  inspect(profileId: string, sessionId: string, options?: OperationOptions): Promise<SessionInfo>;
  /** Creates a session in a workspace. */
  create(profileId: string, workspaceId: string, options?: MutationOptions): Promise<SessionInfo & Committed>;
  /** Takes control of an existing session. */
  resume(profileId: string, sessionId: string, options?: MutationOptions): Promise<SessionInfo & Committed>;
  /** Sends a message of at most 131072 bytes. Resolves when the turn has started; events tell the rest. */
  turn(profileId: string, sessionId: string, text: string, options?: MutationOptions): Promise<TurnStarted & Committed>;
  /** Asks a turn to stop. Resolves when the node took the request; the event `turn/completed` tells the end. */
  interrupt(profileId: string, sessionId: string, turnId: string, options?: MutationOptions): Promise<Committed>;
  /** Answers an approval or a question. `nativeRequestId` is the `id` of the request. */
  respond(
    profileId: string,
    nativeRequestId: string | number,
    response: NativeResponse,
    options?: MutationOptions,
  ): Promise<Committed>;
  /** The slash commands of a session. */
  commands(profileId: string, sessionId: string, options?: OperationOptions): Promise<CommandCatalog>;
  /** Runs a slash command. `args` is the text after its name, at most 131072 bytes, and may be empty. */
  command(
    profileId: string,
    sessionId: string,
    name: string,
    args: string,
    options?: MutationOptions,
  ): Promise<CommandResult & Committed>;
  /** Asks for the receipt of a mutation, also one of another process. Never executes anything. */
  operation(recovery: Recovery, options?: OperationOptions): Promise<Receipt>;
  /** One page of a command's output, checked against the reference. */
  readCommandOutput(profileId: string, reference: OutputRef, options?: OutputReadOptions): Promise<OutputPage>;
  /** The whole output of a command, its length and SHA-256 verified. */
  loadCommandOutput(profileId: string, reference: OutputRef, options?: OutputLoadOptions): Promise<ArrayBuffer>;
  /**
   * Follows the events of a profile. All subscriptions of a driver to one node share one network stream.
   *
   * @param listener Told after events arrived, at most once per microtask. What it throws is printed and harms nobody.
   */
  subscribe(profileId: string, listener?: (notification: TopicNotification) => void): Subscription;
  /** What is held locally for a profile, events only after `cursor`. Never a network call. */
  eventSnapshot(profileId: string, cursor?: EventCursor | null): EventSnapshot;
  /** Ends the subscriptions of this client. Turns on the node go on. May be called again. */
  close(): Promise<void>;
}

/**
 * Whether a session can be archived now, as far as it tells itself. The host adds: a writable view, the profile's
 * capability, a live connection. The node checks again.
 */
export declare function harnessArchiveAllowed(session: Session): boolean;
