// The package in Node: the wasm is loaded while this module is. The build turns this file into `node.cjs`, which both
// module systems share, so that there is one instance and one of each class; `node.js` is its ESM face.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CellsDriver, createCellsDriver, FileClient, initSync, setErrorClass } from './cells_driver.js';
import { CellsError } from './error.js';
import { offerProcesses } from './process.js';
import { gatherStats } from './stat.js';

export { harnessArchiveAllowed } from './harness.js';
export { CellsError, createCellsDriver, init as default };

// There is nothing left to load; it exists so that one program suits browsers and Node.
export async function init() {}

try {
  initSync({ module: readFileSync(join(__dirname, 'cells_driver_bg.wasm')) });
} catch (cause) {
  const advice = 'a bundle for Node needs a copy of it in its own folder, or the package as an external';
  throw new CellsError('EIO', `cells_driver_bg.wasm could not be loaded: ${advice}`, { operation: 'init', cause });
}
setErrorClass(CellsError);
gatherStats(CellsDriver, FileClient);
offerProcesses(CellsDriver);
