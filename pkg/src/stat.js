// Stat calls without options. One turn may hold thousands of them, so they cross into the wasm together, each path once,
// and the callers of a path share a promise. Calls with options go there one by one and join the same requests.

/** Replaces the methods of the wasm classes that must know of calls that did not cross yet. */
export function gatherStats(CellsDriver, FileClient) {
  const { stat, close, statMany } = FileClient.prototype;
  const isClosed = Object.getOwnPropertyDescriptor(FileClient.prototype, 'isClosed').get;
  // Not for callers.
  delete FileClient.prototype.statMany;
  delete FileClient.prototype.isClosed;
  FileClient.prototype.stat = function (path, options) {
    if (options != null || typeof path !== 'string') return stat.call(this, path, options);
    let asked = this[ASKED];
    let call = asked?.get(path);
    if (call === undefined) {
      if (UNFIT.test(path) || (asked === undefined && isClosed.call(this))) return stat.call(this, path); // an error
      if (asked === undefined) {
        asked = this[ASKED] = new Map();
        if (clients.push({ client: this, statMany }) === 1) queueMicrotask(cross);
      }
      call = {};
      call.promise = new Promise((resolve, reject) => {
        call.resolve = resolve;
        call.reject = reject;
      });
      asked.set(path, call);
    }
    return call.promise;
  };
  // What was asked before these calls is asked.
  FileClient.prototype.close = function () {
    cross();
    return close.call(this);
  };
  const { dispose } = CellsDriver.prototype;
  CellsDriver.prototype.dispose = function () {
    cross();
    return dispose.call(this);
  };
}

function cross() {
  for (const { client, statMany } of clients.splice(0)) {
    const asked = client[ASKED];
    client[ASKED] = undefined;
    const calls = [...asked.values()];
    try {
      statMany.call(
        client,
        [...asked.keys()].join('\0'),
        (numbers, revisions) => {
          let end = 0;
          for (let at = 0; at < numbers.length; at += 6) {
            const start = end;
            end += numbers[at + 5] || 0;
            calls[numbers[at]].resolve(statOf(numbers, at, revisions, start, end));
          }
        },
        (index, error) => calls[index].reject(error),
      );
    } catch (error) {
      for (const { reject } of calls) reject(error);
    }
  }
}

function statOf(numbers, at, revisions, start, end) {
  if (numbers[at + 1] === 0) return null;
  const stat = { kind: KINDS[numbers[at + 1]] };
  if (numbers[at + 2] >= 0) stat.size = numbers[at + 2];
  if (numbers[at + 3] >= 0) stat.modifiedAt = numbers[at + 3];
  if (numbers[at + 4] >= 0) stat.createdAt = numbers[at + 4];
  if (numbers[at + 5] >= 0) stat.revision = revisions.slice(start, end);
  return Object.freeze(stat);
}

const KINDS = [null, 'file', 'directory', 'symlink'];

/** The clients with calls that did not cross yet; each has them by path. */
const clients = [];
const ASKED = Symbol('asked');

/** NUL, and surrogates that stand alone. */
const UNFIT = /[\0\ud800-\udfff]/u;
