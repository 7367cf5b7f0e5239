// SeqFiles of one export, through a transport.
import { CellsError } from './error.js';
import { SEQ } from './transport.js';

export class HttpSeqClient {
  #seq;

  constructor(transport, alias) {
    if (typeof transport?.[SEQ] !== 'function') {
      throw new CellsError('EINVAL', 'transport must be an HttpTransport', { operation: 'request' });
    }
    this.#seq = transport[SEQ](alias);
  }

  snapshot(path, options) {
    return this.#seq.snapshot(path, options);
  }

  transaction(path, expectedRevision, changes, options) {
    return this.#seq.transaction(path, expectedRevision, changes, options);
  }
}
