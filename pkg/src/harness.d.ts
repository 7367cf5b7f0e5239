// Types of agent sessions. Each concept has a file; this one has the client, and gives them all.
import type { Recovery } from './error.js';
import type {
  CommandCatalog,
  CommandResult,
  OutputLoadOptions,
  OutputPage,
  OutputReadOptions,
  OutputRef,
} from './harness-commands.js';
import type { EventCursor, EventSnapshot, NativeResponse, Subscription, TopicNotification } from './harness-events.js';
import type { HistoryPage } from './harness-history.js';
import type { HarnessMetrics, HarnessModelCatalog, HarnessUsage } from './harness-models.js';
import type {
  CommandOptions,
  Committed,
  HistoryOptions,
  InterruptOptions,
  ListOptions,
  MutationOptions,
  OperationOptions,
  Receipt,
  SteerOptions,
  TurnOptions,
} from './harness-options.js';
import type { DigestOptions, DigestPage, HarnessSearchQuery, HarnessSearchResult } from './harness-search.js';
import type { Profiles, Session, SessionInfo, SessionPage, SessionsDeleted, TurnStarted, TurnSteered } from './harness-sessions.js';

export { CellsError } from './error.js';
export type { Recovery } from './error.js';
export type * from './harness-commands.js';
export type * from './harness-events.js';
export type * from './harness-history.js';
export type * from './harness-models.js';
export type * from './harness-options.js';
export type * from './harness-search.js';
export type * from './harness-sessions.js';

/**
 * Agent sessions of a node. Made by `CellsDriver.harness`.
 *
 * Mutations (`create`, `resume`, `fork`, `rename`, `archive`, `delete`, `turn`, `steer`, `interrupt`, `respond`, `command`) are sent once and never again: when their
 * reply is lost, they fail with `outcome: 'unknown'` and a `recovery`. Cancelling one stops the waiting, not the mutation.
 */
export interface HarnessClient {
  /** The configured agents, and the epoch of the node. */
  profiles(options?: OperationOptions): Promise<Profiles>;
  /** One page of sessions, most recently updated first. */
  list(profileId: string, options?: ListOptions): Promise<SessionPage>;
  /** One page of a session's history, the latest first. Tool output is left out. */
  read(profileId: string, sessionId: string, options?: HistoryOptions): Promise<HistoryPage>;
  /** A session without its history. */
  inspect(profileId: string, sessionId: string, options?: OperationOptions): Promise<SessionInfo>;
  /**
   * Searches titles, or what was said. At most 100 matches, and no next page. `EINVAL`, before anything is sent, for a query
   * that breaks a rule; `ECAPABILITY`, without a search, when the profile does not search, or the mode is `prompt` and the
   * node does not announce `searchPrompts`.
   */
  search(profileId: string, query: HarnessSearchQuery, options?: OperationOptions): Promise<HarnessSearchResult>;
  /**
   * One page of what user and agent said in a session, oldest first, without reasoning and tools. No model is asked.
   * `ECAPABILITY`, without a request, when the profile gives no digests; `ECONFLICT` with `HARNESS_DIGEST_CHANGED` when the
   * session has another revision than expected.
   */
  digest(profileId: string, sessionId: string, options?: DigestOptions): Promise<DigestPage>;
  /** The whole digest of a session as one page: all pages of one revision, at most 10,000 entries of 32 MiB of text. */
  loadDigest(profileId: string, sessionId: string, options?: OperationOptions): Promise<DigestPage>;
  /** Creates a session in a workspace. */
  create(profileId: string, workspaceId: string, options?: MutationOptions): Promise<SessionInfo & Committed>;
  /** Takes control of an existing session. */
  resume(profileId: string, sessionId: string, options?: MutationOptions): Promise<SessionInfo & Committed>;
  /**
   * Makes a session with the history of another one, controlled by this node. `name` is that of the branch, 1 to 256
   * characters without control characters. `ECAPABILITY`, and nothing is sent, when the profile forks nothing.
   */
  fork(profileId: string, sessionId: string, name?: string | null, options?: MutationOptions): Promise<SessionInfo & Committed>;
  /** Names a session: 1 to 512 bytes without control characters. Needs no control of it. */
  rename(profileId: string, sessionId: string, name: string, options?: MutationOptions): Promise<SessionInfo & Committed>;
  /**
   * Puts a session into the archive (`true`), which releases it, or takes it out again (`false`), which neither resumes it
   * nor sends anything. See {@link harnessArchiveAllowed}.
   */
  archive(
    profileId: string,
    sessionId: string,
    archived: boolean,
    options?: MutationOptions,
  ): Promise<SessionInfo & Committed>;
  /** Deletes a session and what descends from it, for good. The files it worked on stay. */
  delete(profileId: string, sessionId: string, options?: MutationOptions): Promise<SessionsDeleted & Committed>;
  /** Sends a message of 1 to 131072 bytes. Resolves when the turn has started; events tell the rest. */
  turn(profileId: string, sessionId: string, text: string, options?: TurnOptions): Promise<TurnStarted & Committed>;
  /**
   * Adds a message of 1 to 131072 bytes to a running turn. `ECAPABILITY`, and nothing is sent, when the profile cannot be
   * steered; `ECONFLICT` with `HARNESS_TURN_NOT_ACTIVE` when that turn does not run; `EINVAL` with reason
   * `SUBMISSION_ID_REUSED` for an id that this client sent before.
   */
  steer(
    profileId: string,
    sessionId: string,
    turnId: string,
    text: string,
    options?: SteerOptions,
  ): Promise<TurnSteered & Committed>;
  /**
   * Asks a turn to stop. Resolves when the node took the request; the event `turn/completed` tells the end. `EINVAL` with
   * reason `OPERATION_ID_REUSED` for an id that this client sent before.
   */
  interrupt(profileId: string, sessionId: string, turnId: string, options?: InterruptOptions): Promise<Committed>;
  /** The models of a profile, and the one that a session uses. `ECAPABILITY`, without a request, when there are none. */
  models(profileId: string, sessionId?: string | null, options?: OperationOptions): Promise<HarnessModelCatalog>;
  /** The tokens that a session has used. `ECAPABILITY`, without a request, when the profile does not tell. */
  usage(profileId: string, sessionId: string, options?: OperationOptions): Promise<HarnessUsage>;
  /** Context, quotas and cost of a session. `ECAPABILITY`, without a request, when the profile does not tell. */
  metrics(profileId: string, sessionId: string, options?: OperationOptions): Promise<HarnessMetrics>;
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
    options?: CommandOptions,
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

/** Options of {@link conversationBranches}. */
export interface BranchOptions extends OperationOptions {
  /** Looks among the archived sessions as well; default: only among the others. */
  archived?: boolean;
}

/**
 * The family of `session`, itself included, in the order of the list: those it was forked from, those that were forked from
 * it, and all that come from them, through `parentSessionId`. Reads the pages of the list, of at most 10,000 sessions
 * (`EFBIG`); each page has the time budget of `options`. A list that goes round in a circle is `EIO` of operation `protocol`.
 */
export declare function conversationBranches(
  client: Pick<HarnessClient, 'list'>,
  profileId: string,
  session: Session,
  options?: BranchOptions,
): Promise<Session[]>;
