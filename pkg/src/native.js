// Native items, events and requests, read by the wasm. Pure functions.
import * as wasm from './cells_driver.js';
import { checkLoaded } from './driver.js';

export function harnessItems(turns) {
  checkLoaded('harnessItems');
  return wasm.harnessItems(turns);
}

export function harnessEvent(message) {
  checkLoaded('harnessEvent');
  return wasm.harnessEvent(message);
}

export function harnessRequest(message) {
  checkLoaded('harnessRequest');
  return wasm.harnessRequest(message);
}
