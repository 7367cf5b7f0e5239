import type { OperationOptions } from './harness.js';
import type { HttpTransport } from './transport.js';

/** Where commands run: on which run of which node, and what they see of its exports. */
export interface RemoteProcessSpec {
  /** The installation: `serverId` of `CellsDriver.capabilities`. */
  serverId: string;
  /** Its present run: `processEpoch` of `CellsDriver.capabilities`. After a restart of the node a new session is needed. */
  epoch: string;
  /** Virtual path of the directory in which commands run, at or below a mount. */
  cwd: string;
  /** What commands see of the exports: 1 to 32 mounts. */
  mounts: readonly RemoteProcessMount[];
}

/** A directory of an export, and where commands see it. */
export interface RemoteProcessMount {
  /** The export. */
  alias: string;
  /** Export-relative path of the directory; `''` is the whole export. */
  path: string;
  /** Virtual path, for example `/workspace`. */
  at: string;
  /** `rw` needs a writable export. */
  access: 'ro' | 'rw';
}

/** Options of {@link NativeShell.exec}. */
export interface ExecOptions extends OperationOptions {
  /** Budget from the call to the end of the command, in milliseconds. Default 120000; the node allows at most 300000. */
  timeoutMs?: number;
  /** Directory of the command: relative to that of the session, or absolute. Default: that of the session. */
  cwd?: string;
  /**
   * Gets the output while the command runs, if the node has `process.output` in its capabilities; else all of it at the
   * end. What it throws is printed and harms nobody.
   */
  onOutput?: (output: ProcessOutput) => void;
}

/** A piece of output. The pieces of a stream make up its text; no character is cut. */
export interface ProcessOutput {
  /** Which output. */
  stream: 'stdout' | 'stderr';
  /** Its next characters, never empty. What is not UTF-8 is U+FFFD. */
  text: string;
}

/** How a command ended that ended by itself. */
export interface ProcessExit {
  /** What it wrote: the newest 8 MiB on nodes with live output, at most 64 KiB on others. */
  stdout: string;
  /** What it wrote to its error stream, likewise. */
  stderr: string;
  /** Its exit code; `null` when a signal ended it. A code other than 0 is no error of the call. */
  code: number | null;
  /** Older output is missing, because there was more than 8 MiB. */
  truncated: boolean;
  /** Pieces of what `onOutput` was told are missing: the command wrote more than 8 MiB faster than it could be fetched. */
  hasGaps: boolean;
}

/** A shell whose commands run on a node. */
export interface NativeShell {
  /** Programs of the caller's machine that are at hand: none, because commands run on the node. */
  readonly capabilities: { readonly ripgrep: false; readonly fd: false };
  /**
   * Runs a command, and resolves when it has ended by itself. It is started in one request, ever.
   *
   * @param command A program in the path of the node, or an absolute path. No shell reads it.
   * @param args Its arguments, as they are.
   * @throws {CellsError} `EINVAL` for a command that cannot be started as described, and `EACCES` after `release`: nothing
   *   is sent. `EBUSY`, `ECONFLICT` (the node was restarted) and `ECAPABILITY`: the node refused it. `ETIMEDOUT` and
   *   `ECANCELLED`: it was stopped, which undoes nothing. `EIO`: it could not be started, wrote more than 64 KiB on a node
   *   without live output, or its end is not proven. Once it may have begun, `processId` names the process, and `outcome`
   *   is `partial` when it is over, `unknown` when that is not proven, `not-committed` when the node refused it.
   */
  exec(command: string, args?: readonly string[], options?: ExecOptions): Promise<ProcessExit>;
}

/**
 * Commands on a node, one process each. `CellsDriver.process` makes the same with the credentials of the driver.
 *
 * @example
 * const transport = new HttpTransport({ endpoint: 'http://127.0.0.1:4477', credential: () => apiKey });
 * const { serverId, processEpoch } = await transport.json('v1/capabilities');
 * const mounts = [{ alias: 'notes', path: 'project', at: '/workspace', access: 'rw' }];
 * const session = new HttpProcessSession(transport, { serverId, epoch: processEpoch, cwd: '/workspace', mounts });
 * const { code } = await session.nativeShell.exec('make', ['test'], { onOutput: ({ text }) => process.stdout.write(text) });
 * await session.release();
 */
export declare class HttpProcessSession {
  /** Checks the arguments, sends nothing. Closing the transport ends what the session still asks the node. */
  constructor(transport: HttpTransport, spec: RemoteProcessSpec);
  /** Runs them. */
  readonly nativeShell: NativeShell;
  /**
   * Ends the session: no command is started any more, those that run are cancelled, and the end of each is confirmed. After
   * a failure some may still run; call it again.
   *
   * @param options `timeoutMs`: default 15000. A process that still runs after 10 seconds is given up before that.
   * @throws {CellsError} `outcome` `unknown`, and `processId` names a process whose end is not proven. `EBUSY`: the node
   *   itself does not know. `ETIMEDOUT`: it still runs. `ECONFLICT`: the node was restarted and cannot be asked any more.
   */
  release(options?: OperationOptions): Promise<void>;
}
