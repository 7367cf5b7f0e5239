// What the classes of the wasm get in plain JavaScript, once, right after loading.
import { CellsDriver, FileClient, setErrorClass } from './cells_driver.js';
import { allowDrivers } from './driver.js';
import { CellsError } from './error.js';
import { offerSources } from './file-system.js';
import { offerProcesses } from './process.js';
import { gatherStats } from './stat.js';
import { offerStorage } from './storage.js';
import { offerTransport } from './transport.js';
import { setStreaming } from './upload.js';

/** `streaming` says whether `fetch` sends streams here. */
export function setUp({ streaming }) {
  setErrorClass(CellsError);
  setStreaming(streaming);
  gatherStats(CellsDriver, FileClient);
  offerProcesses(CellsDriver);
  offerSources(CellsDriver);
  offerStorage(CellsDriver, FileClient);
  offerTransport(CellsDriver);
  allowDrivers();
}
