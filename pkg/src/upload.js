// Content on its way to a node. Bytes and blobs go to `fetch` as they are. A stream is sent piece by piece in Node, and
// collected first in a browser, because browsers send streams over HTTP/2 only.
import { CellsError } from './error.js';
import { bytesOf, ContentSource, problem, tooLarge, UPLOAD_MAX_BYTES } from './content.js';

/** Says, once, whether `fetch` sends streams here. */
export function setStreaming(value) {
  streaming = value;
}

/**
 * Sends `data` with `put(body, size, options)`. `defaultMs` is the time budget if the options name none; collecting a
 * stream is part of it.
 */
export async function sendUpload(data, options, defaultMs, put) {
  let source;
  try {
    const whole = wholeOf(data);
    const size = checkedSize(whole, options);
    if (whole !== undefined && !(streaming && options?.onProgress)) return await sendWhole(whole.body, size, options, put);
    source = new ContentSource(whole?.open() ?? data);
    if (streaming) return await sendStream(source, size, options, put);
    return await sendCollected(source, size, options, defaultMs, put);
  } catch (error) {
    throw error instanceof CellsError && error.outcome === undefined ? withOutcome(error, 'not-started') : error;
  } finally {
    source?.end();
  }
}

/** Content that is there as a whole: what `fetch` takes, its size, and a stream of it. */
function wholeOf(data) {
  if (typeof data?.stream === 'function' && typeof data.size === 'number') {
    return { body: data, size: data.size, open: () => data.stream() };
  }
  const bytes = bytesOf(data);
  if (bytes === undefined) return undefined;
  const { buffer } = bytes;
  if (buffer.resizable || buffer.detached || Object.prototype.toString.call(buffer) !== '[object ArrayBuffer]') {
    throw problem('EINVAL', 'the bytes are in memory that can be shared, resized or taken away; pass a copy');
  }
  const open = async function* () {
    yield bytes;
  };
  return { body: bytes, size: bytes.length, open };
}

function checkedSize(whole, options) {
  const { size, timeoutMs, onProgress, onDispatch } = options ?? {};
  for (const [name, value] of Object.entries({ onProgress, onDispatch })) {
    if (value != null && typeof value !== 'function') throw problem('EINVAL', `${name} must be a function`);
  }
  for (const [name, value] of Object.entries({ size, timeoutMs })) {
    if (value != null && !(Number.isSafeInteger(value) && value >= 0)) {
      throw problem('EINVAL', `${name} must be an integer from 0 to 9007199254740991`);
    }
  }
  if (whole !== undefined && size != null && size !== whole.size) {
    throw problem('EINVAL', `the content has ${whole.size} bytes, but size is ${size}`);
  }
  const known = whole?.size ?? size ?? undefined;
  if (known > UPLOAD_MAX_BYTES) throw tooLarge();
  return known;
}

async function sendWhole(body, size, options, put) {
  const tell = teller(options?.onProgress);
  const started = (recovery) => {
    tell(0, size);
    options.onDispatch?.(recovery);
  };
  try {
    const stat = await put(body, size, tell ? { ...options, onDispatch: started } : options);
    tell?.(size, size);
    return stat;
  } catch (error) {
    await addEvidence(error, body, size);
    throw error;
  }
}

async function sendStream(source, size, options, put) {
  const tell = teller(options?.onProgress);
  const pieces = source.pieces(size);
  let taken = 0;
  let broken;
  let isOver = false;
  const pull = async (controller) => {
    let step;
    try {
      step = await pieces.next();
    } catch (error) {
      if (!isOver) broken = error;
      return controller.error(error);
    }
    if (isOver) return undefined;
    if (step.done) return controller.close();
    taken += step.value.length;
    controller.enqueue(step.value);
    return tell?.(taken, size);
  };
  const cancel = () => {
    isOver = true;
    source.end();
  };
  // Nothing is read ahead of what the connection takes.
  const body = new ReadableStream({ pull, cancel }, { highWaterMark: 0 });
  try {
    return await put(body, size, options);
  } catch (error) {
    // A body that broke off was never whole, so that no node can have done what it asks.
    if (broken !== undefined && error.outcome === 'unknown') {
      throw withOutcome(broken, 'not-committed', error.operationId);
    }
    throw error;
  }
}

async function sendCollected(source, size, options, defaultMs = DEFAULT_TIMEOUT_MS, put) {
  const deadline = Date.now() + (options?.timeoutMs ?? defaultMs);
  const blob = await collect(source.pieces(size), options?.signal, deadline);
  const timeoutMs = Math.max(0, deadline - Date.now());
  return sendWhole(blob, blob.size, { ...options, timeoutMs }, put);
}

/** All pieces as a blob, which the browser may keep on its disk. */
async function collect(pieces, signal, deadline) {
  let timer;
  let abort;
  const ended = new Promise((_, reject) => {
    abort = () => reject(problem('ECANCELLED', 'the caller cancelled the call', { cause: signal.reason }));
    const late = () => reject(problem('ETIMEDOUT', 'the time budget of the call is used up'));
    timer = setTimeout(late, Math.min(deadline - Date.now(), TIMER_MAX_MS));
    signal?.addEventListener?.('abort', abort);
    if (signal?.aborted) abort();
  });
  try {
    let blob = new Blob();
    let held = [];
    let heldBytes = 0;
    for (;;) {
      const { done, value } = await Promise.race([ended, pieces.next()]);
      if (!done) {
        held.push(value);
        heldBytes += value.length;
      }
      if (done || heldBytes >= HELD_MAX_BYTES) {
        blob = new Blob([blob, ...held]);
        held = [];
        heldBytes = 0;
      }
      if (done) return blob;
    }
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener?.('abort', abort);
    ended.catch(() => {}); // it may have been late
  }
}

/** Adds the hash of the content to a `recovery`: it can prove that the write happened when the node cannot tell. */
async function addEvidence(error, body, size) {
  const change = error.outcome === 'unknown' ? error.recovery?.change : undefined;
  if (change?.kind !== 'replace' || change.sha256 !== undefined || size > HASHED_MAX_BYTES) return;
  try {
    const bytes = bytesOf(body) ?? (await body.arrayBuffer());
    const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
    change.sha256 = Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('');
  } catch {
    // Pages without TLS have no hash, and a file may be gone: then there is no such evidence.
  }
}

/** Calls `onProgress`. What it throws is printed and harms nobody. */
function teller(onProgress) {
  if (onProgress == null) return undefined;
  return (done, total) => {
    try {
      onProgress(done, total);
    } catch (error) {
      console.error(error);
    }
  };
}

function withOutcome(error, outcome, operationId) {
  const details = { operation: 'replace', outcome, operationId };
  if ('cause' in error) details.cause = error.cause;
  return new CellsError(error.code, error.message, details);
}

let streaming = false;

const DEFAULT_TIMEOUT_MS = 30_000;
/** Longest delay a timer takes; a longer one would fire at once. */
const TIMER_MAX_MS = 2_147_483_647;
/** What is collected in the memory of the page before it goes to the blob. */
const HELD_MAX_BYTES = 1_048_576;
/** Content is hashed if it is not larger than this. */
const HASHED_MAX_BYTES = 33_554_432;
