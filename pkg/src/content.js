// Where content comes from, piece by piece.
import { CellsError } from './error.js';

/** A stream or an iterable of bytes, which is read once. */
export class ContentSource {
  #read;
  #cancel;
  #over = false;

  /** @throws {CellsError} `EINVAL` when `data` is neither. */
  constructor(data) {
    if (typeof data?.getReader === 'function') {
      if (data.locked) throw problem('EINVAL', 'the stream is locked: somebody else reads it');
      const reader = data.getReader();
      this.#read = () => reader.read();
      this.#cancel = () => reader.cancel();
    } else if (typeof data?.[Symbol.asyncIterator] === 'function') {
      const iterator = data[Symbol.asyncIterator]();
      this.#read = () => iterator.next();
      // A stream of Node ends at once; its iterator only after the piece that it waits for.
      this.#cancel = () => (typeof data.destroy === 'function' ? data.destroy() : iterator.return?.());
    } else {
      throw problem('EINVAL', 'data must be bytes, a Blob, a ReadableStream, or an async iterable of bytes');
    }
  }

  /**
   * Its bytes in pieces of at most 256 KiB: exactly `size` of them, or at most 256 MiB if that is `undefined`; else it throws
   * a {@link CellsError} without an outcome.
   */
  async *pieces(size) {
    let received = 0;
    for (let piece = await this.#next(); piece !== undefined; piece = await this.#next()) {
      received += piece.length;
      if (received > (size ?? UPLOAD_MAX_BYTES)) {
        throw size === undefined ? tooLarge() : problem('EINVAL', `the content has more than the ${size} bytes of size`);
      }
      for (let at = 0; at < piece.length; at += PIECE_MAX_BYTES) yield piece.subarray(at, at + PIECE_MAX_BYTES);
    }
    if (size !== undefined && received < size) {
      throw problem('EINVAL', `the content has ${received} bytes, but size is ${size}`);
    }
  }

  /** Tells the source that no more is wanted, unless it has ended. */
  end() {
    if (this.#over) return;
    this.#over = true;
    // Nobody is left who could use an error of it.
    Promise.resolve()
      .then(this.#cancel)
      .catch(() => {});
  }

  async #next() {
    // Whoever sends the content may go on reading it after the request has ended.
    if (this.#over) throw problem('ECANCELLED', 'the content is not wanted any more');
    let step;
    try {
      step = await this.#read();
    } catch (cause) {
      this.#over = true;
      throw problem('EIO', 'the source of the content failed; see the cause', { cause });
    }
    if (step.done) {
      this.#over = true;
      return undefined;
    }
    const bytes = bytesOf(step.value);
    if (bytes === undefined) throw problem('EINVAL', 'the source of the content gave something that is not bytes');
    return bytes;
  }
}

/** The bytes of an `ArrayBuffer` or of a view of one, without copying; `undefined` for anything else. */
export function bytesOf(data) {
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  // Not `instanceof`: it may come from another realm.
  return Object.prototype.toString.call(data) === '[object ArrayBuffer]' ? new Uint8Array(data) : undefined;
}

/** The error of content that is larger than a node takes. */
export function tooLarge() {
  return problem('EFBIG', `the content has more than the ${UPLOAD_MAX_BYTES} bytes that a node takes in one write`);
}

/** An error of content; its outcome is added where that is known. */
export function problem(code, message, details) {
  return new CellsError(code, message, { operation: 'replace', ...details });
}

export const UPLOAD_MAX_BYTES = 268_435_456;

/** Larger pieces are cut, so that little is held by the platform at a time. */
const PIECE_MAX_BYTES = 262_144;
