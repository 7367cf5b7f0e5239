// Commands on a node: text instead of bytes, and the shape that agents' shells have.
import { CellsError } from './error.js';

export class HttpProcessSession {
  #session;

  constructor(transport, spec) {
    if (typeof transport?.[START] !== 'function') {
      throw new CellsError('EINVAL', 'transport must be an HttpTransport', { operation: 'process' });
    }
    this.#session = transport[START](spec);
    const exec = (command, args, options) => run(this.#session, command, args, options);
    this.nativeShell = Object.freeze({ capabilities: Object.freeze({ ripgrep: false, fd: false }), exec });
  }

  release(options) {
    return this.#session.release(options);
  }
}

/** What `new HttpProcessSession` calls on its first argument: gives a session of the wasm. */
export const START = Symbol('start');

/** Makes `driver.process` give the session that users see. */
export function offerProcesses(CellsDriver) {
  CellsDriver.prototype[START] = CellsDriver.prototype.process;
  CellsDriver.prototype.process = function (connection, spec) {
    return new HttpProcessSession({ [START]: (wanted) => this[START](connection, wanted) }, spec);
  };
}

async function run(session, command, args, options) {
  const onOutput = options?.onOutput;
  if (onOutput != null && typeof onOutput !== 'function') {
    throw new CellsError('EINVAL', 'onOutput must be a function', { operation: 'exec', outcome: 'not-started' });
  }
  if (onOutput == null) return session.exec(command, args, options);
  const streams = ['stdout', 'stderr'].map((stream) => ({ stream, decoder: new TextDecoder('utf-8', { ignoreBOM: true }) }));
  const tell = ({ stream, decoder }, bytes) => {
    const text = decoder.decode(bytes, { stream: bytes !== undefined });
    if (text === '') return;
    try {
      onOutput({ stream, text });
    } catch (error) {
      console.error(error);
    }
  };
  try {
    return await session.exec(command, args, options, (isStderr, bytes) => tell(streams[Number(isStderr)], bytes));
  } finally {
    for (const stream of streams) tell(stream); // a character that was never completed
  }
}
