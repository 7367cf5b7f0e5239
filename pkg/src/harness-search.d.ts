import type { OperationOptions } from './harness-options.js';

/** What is searched for, and where. */
export interface HarnessSearchQuery {
  /**
   * 1 to 1024 bytes, not blank, without NUL; letters count in either case. Words between spaces and tabs must all be in a
   * title or message, in any order, and are at most 16 different ones; a query of several lines is found as it stands.
   */
  query: string;
  /** In titles; in what users and agents said; or in what users typed (only where the node announces `searchPrompts`). */
  mode: 'title' | 'content' | 'prompt';
  /** In the archived sessions; default: in the others. */
  archived?: boolean;
}

/** What a search found. */
export interface HarnessSearchResult {
  /** At most 100. */
  matches: HarnessSearchMatch[];
  /** There may be more than was found: search for something narrower. */
  truncated: boolean;
  /** There is no next page. */
  nextCursor: null;
  /** The node does not know keywords: it looked for the query as it stands, spaces and tabs included. */
  literal?: true;
}

/** One title or message that was found. */
export interface HarnessSearchMatch {
  /** The session. */
  sessionId: string;
  /** Its title; may be empty. */
  title: string;
  /** What stands around the hit; for titles the title. */
  summary: string;
  /** Last change of the session, in Unix milliseconds. */
  updatedAt: number | null;
  /** The turn of the message. */
  turnId?: string;
  /** The message. */
  itemId?: string;
}

/** Options of `HarnessClient.digest`. */
export interface DigestOptions extends OperationOptions {
  /** `nextCursor` of the page before. Needs `expectedRevision`. */
  cursor?: string;
  /** `revision` of the pages before. */
  expectedRevision?: string;
  /** Only revision, title and times; no history is read. */
  metadataOnly?: boolean;
}

/** What user and agent said in a session, oldest first. */
export interface DigestPage {
  /** Always 1. */
  version: 1;
  /** The session. */
  sessionId: string;
  /** Version of what the digest was made from. */
  revision: string;
  /** Title of the session; may be empty. */
  title: string;
  /** Creation of the session, in Unix milliseconds. */
  createdAt: number | null;
  /** Last change of the session, in Unix milliseconds. */
  updatedAt: number | null;
  /** At most 200 on a page. */
  entries: DigestEntry[];
  /** Prompts that are left out, because their origin cannot be told; `null` when only metadata was asked for. */
  omittedUnclassified: number | null;
  /** Asks for the next page; `null` = this was the last. */
  nextCursor: string | null;
}

/** One prompt or answer. */
export interface DigestEntry {
  /** Native identity of the item. */
  id: string;
  /** Who said it. */
  role: 'user' | 'assistant';
  /** The turn. */
  turnId: string | null;
  /** When, in Unix milliseconds. */
  timestamp: number | null;
  /** What was said; at most 256 KiB. */
  text: string;
  /** It was longer. */
  truncated: boolean;
}
