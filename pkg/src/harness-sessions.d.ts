import type { HarnessExecutionRecovery, HarnessUsage } from './harness-models.js';

/** What `HarnessClient.profiles` returns. */
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
  /** The title, else the native name, else how the first message begins; may be empty. */
  title: string;
  /** Working directory as the agent names it. */
  cwd: string | null;
  /** `notLoaded`, `idle`, `active`, `systemError` or a value of a newer agent. */
  status: string | null;
  /** The native status object. */
  statusDetails?: unknown;
  /** Creation, by the node or else by the agent. */
  createdAt: number | null;
  /** Last change. */
  updatedAt: number | null;
  /** Can be resumed. */
  resumable: boolean;
  /** Controlled by this node. */
  owned?: boolean;
  /** Archived. */
  archived: boolean;
  /** The agent allows archiving now; see `harnessArchiveAllowed`. */
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
  /** Can be forked, as far as the place it works in tells. */
  forkable?: boolean;
  /** Version of the native history; compare for equality only. */
  historyRevision?: string;
  /** Tokens it has used; left out when the node's numbers do not fit together. */
  usage?: HarnessUsage;
  /** Evidence about the process that ran it. */
  executionRecovery?: HarnessExecutionRecovery;
  /** What the agent itself says of the session, as it says it. */
  native?: Record<string, unknown>;
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

/** What a deletion removed. */
export interface SessionsDeleted {
  /** The session that was to be deleted, and those that descend from it; at most 16401, in any order. */
  deletedSessionIds: string[];
}

/** The turn that took a message which was sent to a running one. */
export interface TurnSteered {
  /** The turn that took the message: another one where the target had just ended and the agent opened a new turn for it. */
  turnId: string;
  /** The turn that was asked for. */
  targetTurnId: string;
}

/** The turn that a message started. */
export interface TurnStarted {
  /** Native identity of the turn. */
  turnId: string;
}
