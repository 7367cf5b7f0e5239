import type { OperationOptions } from './harness-options.js';

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

/** Options of `HarnessClient.readCommandOutput`. */
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

/** Options of `HarnessClient.loadCommandOutput`. */
export interface OutputLoadOptions extends OperationOptions {
  /** Time budget of the whole output in milliseconds. Without it each page has the default, and all of them any time. */
  timeoutMs?: number;
  /** `EFBIG` before reading when the output is larger. Default 8 MiB, at most 32 MiB. */
  maxBytes?: number;
  /** Told while it loads: bytes loaded, bytes in all. What it throws is printed and harms nobody. */
  onProgress?: (loadedBytes: number, totalBytes: number) => void;
}
