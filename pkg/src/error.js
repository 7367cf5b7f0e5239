/** The one error class of the package. See `error.d.ts` for what each member means. */
export class CellsError extends Error {
  constructor(code, message, details = {}) {
    super(message, 'cause' in details ? { cause: details.cause } : undefined);
    this.code = code;
    for (const name of DETAILS) {
      if (details[name] !== undefined) this[name] = details[name];
    }
  }
}

// On the prototype and not enumerable, as for the error classes of the language.
Object.defineProperty(CellsError.prototype, 'name', { value: 'CellsError', configurable: true, writable: true });

const DETAILS = [
  'operation',
  'outcome',
  'requestId',
  'operationId',
  'processId',
  'recovery',
  'remoteCode',
  'reason',
  'status',
  'retryAfterMs',
];
