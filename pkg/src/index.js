// The package in a browser, a worker or any other place that fetches its wasm: `await init()` comes first.
import load from './cells_driver.js';
import { CellsError } from './error.js';
import { setUp } from './setup.js';

export { createCellsDriver } from './driver.js';
export { conversationBranches, harnessArchiveAllowed } from './harness.js';
export { harnessEvent, harnessItems, harnessRequest } from './native.js';
export { HttpProcessSession } from './process.js';
export { createHttpSourceProvider, openHttpFileSource } from './provider.js';
export { HttpSeqClient } from './seq.js';
export { HttpFSBackend } from './storage.js';
export { HttpTransport } from './transport.js';
export { CellsError, init as default };

export function init(source) {
  if (loading) source?.catch?.(() => {}); // nobody waits for it
  loading ??= start(source).catch((error) => {
    loading = undefined; // so that a later call tries again
    throw error;
  });
  return loading;
}

async function start(source) {
  let wasm;
  try {
    // This very form is what bundlers look for when they copy the file and rewrite its address.
    wasm = (await source) ?? new URL('./cells_driver_bg.wasm', import.meta.url);
    await load({ module_or_path: wasm });
  } catch (cause) {
    throw new CellsError('EIO', `the driver could not be loaded from ${nameOf(wasm)}: ${cause?.message ?? cause}`, {
      operation: 'init',
      cause,
    });
  }
  setUp({ streaming: false });
}

function nameOf(wasm) {
  if (typeof wasm === 'string' || wasm instanceof URL) return String(wasm);
  return wasm?.url || 'the given source';
}

let loading;
