// Connections that carry their own credential, and requests to any route through one.
import { newDriver } from './driver.js';
import { CellsError } from './error.js';
import { START } from './process.js';

/** What `new HttpSeqClient` calls on its first argument: gives the SeqFiles of an export. */
export const SEQ = Symbol('seq');

export class HttpTransport {
  #own;
  #transport;

  constructor(options) {
    this.#own = connect(options);
    const { driver, connection } = this.#own;
    this.#transport = openTransport.call(driver, connection);
  }

  json(route, options) {
    return this.#transport.json(route, options);
  }

  jsonReply(route, options) {
    return this.#transport.jsonReply(route, options);
  }

  content(route, options) {
    return this.#transport.content(route, options);
  }

  mutate(route, body, options) {
    return this.#transport.mutate(route, body, options);
  }

  close() {
    return this.#own.driver.dispose();
  }

  [START](spec) {
    const { driver, connection } = this.#own;
    return driver[START](connection, spec);
  }

  [SEQ](alias) {
    return this.#transport.seq(alias);
  }
}

/** A driver of its own for `options`, and its connection, which has no alias. */
export function connect(options) {
  const { endpoint, credential, username, anonymous, authorization, fetch, timeoutMs, maxReadBytes } = options ?? {};
  if (typeof credential !== 'function' && (credential !== undefined || !anonymous)) {
    throw invalid('credential must be a function that gives the secret; without one, set anonymous');
  }
  const isReadable = Number.isInteger(maxReadBytes) && maxReadBytes >= 0 && maxReadBytes <= READ_MAX_BYTES;
  if (maxReadBytes !== undefined && !isReadable) {
    throw invalid(`maxReadBytes must be an integer from 0 to ${READ_MAX_BYTES}`);
  }
  const driver = newDriver(credential && (() => credential()), fetch, timeoutMs, maxReadBytes);
  return { driver, connection: { endpoint, credentialRef: 'credential', username, anonymous, authorization } };
}

/** Makes the method of the wasm class that only this module calls unreachable for others. */
export function offerTransport(CellsDriver) {
  openTransport = CellsDriver.prototype.transport;
  delete CellsDriver.prototype.transport;
}

function invalid(message) {
  return new CellsError('EINVAL', message, { operation: 'request' });
}

let openTransport;

const READ_MAX_BYTES = 33_554_432;
