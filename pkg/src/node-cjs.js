// The package in Node: the wasm is loaded while this module is. The build turns this file into `node.cjs`, which both
// module systems share, so that there is one instance and one of each class; `node.js` is its ESM face.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { initSync } from './cells_driver.js';
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

// There is nothing left to load; it exists so that one program suits browsers and Node.
export async function init(source) {
  source?.catch?.(() => {}); // nobody waits for it
}

try {
  initSync({ module: readFileSync(join(__dirname, 'cells_driver_bg.wasm')) });
} catch (cause) {
  const advice = 'a bundle for Node needs a copy of it in its own folder, or the package as an external';
  throw new CellsError('EIO', `cells_driver_bg.wasm could not be loaded: ${advice}`, { operation: 'init', cause });
}
setUp({ streaming: true });
