import type { OutputRef } from './harness-commands.js';
import type { NativeMessage } from './harness-events.js';
import type { Turn } from './harness-history.js';

/** What every item tells. */
export interface ItemBase {
  /** Native identity, if it has one. */
  id: string | null;
  /** The turn, if the item or what holds it says so. */
  turnId: string | null;
  /** When, in Unix milliseconds. */
  timestamp: number | null;
  /** `inProgress`, `completed`, `failed`, `declined`, or a word of a newer agent. */
  status: string | null;
  /** The type as the agent calls it, for example `agentMessage`. */
  nativeType: string;
}

/** What the user sent, and what was sent with it. */
export interface UserItem extends ItemBase {
  /** Tells the items apart. */
  kind: 'user';
  /** The parts, with a line end between them. */
  text: string;
  /** The parts in their order. */
  contentParts: string[];
  /**
   * What each part is, as many as there are parts: `prompt`, `context`, `attachment`, `command`, `unknown`, or a word of a
   * newer node. Absent = the node does not say.
   */
  contentPartKinds?: string[];
}

/** What the agent says or plans (`agent`), or thinks (`reasoning`, may be empty). */
export interface TextItem extends ItemBase {
  /** Tells the items apart. */
  kind: 'agent' | 'reasoning';
  /** Its text. */
  text: string;
}

/** What a tool does, without its input and output. */
export interface ToolItem extends ItemBase {
  /** A command, a change of files, a tool of an MCP server, or any other tool. */
  kind: 'commandExecution' | 'fileChange' | 'mcpToolCall' | 'tool';
  /** Name of the tool, at most 256 characters. */
  name: string;
  /** What it does. */
  operation: 'read' | 'write' | 'search' | 'list' | 'execute';
  /** The first line of its command that is not blank, at most 240 characters and then `…`; empty without a command. */
  commandPreview: string;
  /** What it works on: at most 32 different paths of at most 1024 characters, sorted. */
  paths: string[];
}

/** The result of a slash command. */
export interface CommandResultItem extends ItemBase {
  /** Tells the items apart. */
  kind: 'commandResult';
  /** Identity of the command. */
  commandId: string;
  /** Its name. */
  name: string;
  /** How far it is. */
  state: 'running' | 'completed' | 'failed';
  /** The beginning of its output, at most 64 KiB. */
  preview: string;
  /** The preview is shorter than the output. */
  truncated: boolean;
  /** Where the whole output is. */
  outputRef?: OutputRef;
}

/** Something that this version does not know. */
export interface UnknownItem extends ItemBase {
  /** Tells the items apart. */
  kind: 'unknown';
}

/** An item of a turn, in one form for all agents. */
export type HarnessItem = UserItem | TextItem | ToolItem | CommandResultItem | UnknownItem;

/** What the agent asks its user. */
export interface HarnessRequest {
  /** Its identity; hand it to `HarnessClient.respond` as it is. */
  id: string | number;
  /**
   * How it is answered: `approval` with `{decision}`, `input` with `{answers: {[question id]: {answers: [text]}}}` for every
   * question. `unsupported` cannot be answered here; it ends only natively, for example when the turn is interrupted.
   */
  kind: 'approval' | 'input' | 'unsupported';
  /** What the agent calls it, for example `item/fileChange/requestApproval`. */
  method: string;
  /** What it is about, for people: the whole command, the file, the questions, or the method where it says no more. */
  detail: string;
  /** Why the agent wants it, in its own words. */
  reason?: string;
  /** The questions of an `input`, at least one. */
  questions?: HarnessQuestion[];
  /** The session that asks. */
  sessionId: string | null;
  /** The turn that asks. */
  turnId: string | null;
  /** The item that it is about. */
  itemId: string | null;
}

/** One question. */
export interface HarnessQuestion {
  /** Its identity in the request. */
  id: string;
  /** Its text. */
  question: string;
  /** The answers that are offered; absent = any text. */
  options?: { label: string; description?: string }[];
  /** Another answer than those that are offered may be given. */
  isOther: boolean;
  /** The answer must not be shown. */
  isSecret: boolean;
}

/**
 * What a native message tells. Messages of all sessions of a profile come in one stream; `sessionId` tells them apart. New
 * kinds may come: leave alone what you do not know.
 */
export type NativeEvent =
  | { kind: 'turnStarted'; sessionId: string; turnId: string }
  | {
      kind: 'turnCompleted';
      sessionId: string;
      turnId: string;
      result: 'completed' | 'failed' | 'cancelled' | null;
      error: string | null;
    }
  | { kind: 'itemStarted' | 'itemCompleted'; sessionId: string; turnId: string | null; item: HarnessItem }
  | {
      kind: 'textDelta' | 'reasoningDelta';
      sessionId: string;
      turnId: string | null;
      itemId: string | null;
      delta: string;
    }
  | { kind: 'toolOutput'; sessionId: string; turnId: string | null; itemId: string | null }
  | { kind: 'requested'; request: HarnessRequest }
  | { kind: 'requestResolved'; sessionId: string | null; requestId: string | number }
  | { kind: 'disconnected'; sessionId: string | null }
  | { kind: 'statusChanged'; sessionId: string; status: string; activeFlags: string[] }
  | { kind: 'titleChanged'; sessionId: string; title: string }
  | { kind: 'archivedChanged'; sessionId: string; archived: boolean }
  | { kind: 'deleted'; sessionId: string }
  | { kind: 'other'; method: string; sessionId: string | null; turnId: string | null };

/**
 * The items of the turns of a history page, in one form for all agents. Items that do not name their turn are given the
 * identity of the one they stand in. Output of tools is left out. Pure; needs `init()` in a browser.
 */
export declare function harnessItems(turns: Turn[]): HarnessItem[];

/** What a message of an event tells. Pure; needs `init()` in a browser. */
export declare function harnessEvent(message: NativeMessage): NativeEvent;

/** What an open request asks; `null` for a notification. Pure; needs `init()` in a browser. */
export declare function harnessRequest(message: NativeMessage): HarnessRequest | null;
