// The one way to a driver: not before the wasm is loaded and its classes are what the package says they are.
import { createCellsDriver as create } from './cells_driver.js';
import { CellsError } from './error.js';

export function createCellsDriver(resolveCredential, fetch) {
  return newDriver(resolveCredential, fetch);
}

/** As `createCellsDriver`, with a time budget and a bound of reads for all calls that name none. */
export function newDriver(resolveCredential, fetch, timeoutMs, maxReadBytes) {
  checkLoaded('createCellsDriver');
  return create(resolveCredential, fetch, timeoutMs, maxReadBytes);
}

/** Throws before the wasm is loaded. */
export function checkLoaded(name) {
  if (ready) return;
  throw new CellsError('EINVAL', `the driver is not loaded: call \`await init()\` once before ${name}()`, {
    operation: 'init',
    reason: 'NOT_INITIALISED',
  });
}

/** From now on there may be drivers. */
export function allowDrivers() {
  ready = true;
}

let ready = false;
