import type { AuthorizationSnapshot } from './authorization.js';
import type { FileContent, FileStat, ReadOptions } from './files.js';
import type { OperationOptions } from './harness.js';
import type { Fetch } from './index.js';
import type { FileMutationOptions } from './storage.js';

/** How to reach a node with a connection that carries its own credential. */
export interface HttpConnectionOptions {
  /** Its root, or the address of its MCP endpoint: http or https, no user name, query or fragment. */
  endpoint: string;
  /** Gives the secret; asked for every request. A rejection ends the call with `EACCES`, operation `credential`. */
  credential?: () => string | Promise<string>;
  /** With it the secret is sent as `Basic`, without it as `Bearer`. */
  username?: string;
  /** Sends no credential at all. */
  anonymous?: boolean;
  /** Pins every request to this identity and these grants. */
  authorization?: AuthorizationSnapshot;
  /** Sends every request, called as `fetch(url, init)`. Default: the global one. */
  fetch?: Fetch;
  /** Time budget of each call that names none, in milliseconds. Default 30000. */
  timeoutMs?: number;
  /** Most bytes of content that come in one buffer; more are `EFBIG`. Default, and at most, 33554432. */
  maxReadBytes?: number;
}

/** Options of {@link HttpTransport.json} and {@link HttpTransport.jsonReply}. */
export interface JsonRequestOptions extends OperationOptions {
  /** What is sent, as JSON. With it the request is a POST, which is sent once; without it a GET. */
  body?: unknown;
}

/** What a node answered. */
export interface JsonReply {
  /** Its status; never that of a redirect, which is an error. */
  status: number;
  /** Its JSON; `null` also when there was none. */
  json: unknown;
}

/** The result of {@link HttpTransport.mutate}. */
export interface Mutated {
  /** The identity of the write. */
  operationId: string;
  /** What the write made, if it made a file. */
  result: FileStat | null;
}

/**
 * Requests to any route of one node, with all that every request of the driver gets: the credential, one time budget from
 * the look-up of the credential to the last byte of the reply, retries of GET, bounds on the reply, and the same errors.
 *
 * A route is relative to the root of the node, and may have a query: `v1/exports`, `v1/fs/notes/entries?path=a`.
 *
 * @example
 * const transport = new HttpTransport({ endpoint: 'http://127.0.0.1:4477', credential: () => apiKey });
 * const { exports } = await transport.json('v1/exports');
 * await transport.close();
 */
export declare class HttpTransport {
  /**
   * Checks the options, sends nothing.
   *
   * @throws {CellsError} `EINVAL`, with reason `NOT_INITIALISED` when `init` has not finished.
   */
  constructor(options: HttpConnectionOptions);
  /**
   * The JSON that a route answers, of at most 4 MiB. A GET is sent up to twice more after a status 429, 502, 503 or 504.
   *
   * @throws {CellsError} The node's, for a status that is not a success; `EIO`, operation `protocol`, for what is no JSON.
   */
  json(route: string, options?: JsonRequestOptions): Promise<unknown>;
  /** As `json`, for a route whose failing statuses are answers too. Sent once. */
  jsonReply(route: string, options?: JsonRequestOptions): Promise<JsonReply>;
  /** The bytes that a route answers, in one buffer; see `FileClient.read`. */
  content(route: string, options?: ReadOptions): Promise<FileContent>;
  /**
   * Sends a write: a POST of JSON to a route of an export, `v1/fs/{alias}/…`. It is sent once, and its outcomes are those
   * of {@link FileMutations}.
   */
  mutate(route: string, body: unknown, options?: FileMutationOptions): Promise<Mutated>;
  /** Ends this transport and all that was made with it: calls under way end with `ECANCELLED`, later ones with `EACCES`. */
  close(): Promise<void>;
}
