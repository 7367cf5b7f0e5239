// Sources outside a driver: one with a credential of its own, and a provider of shared ones.
import { createCellsDriver } from './driver.js';
import { openAlone } from './file-system.js';
import { connect } from './transport.js';

export async function openHttpFileSource(options, viewId) {
  const { driver, connection } = connect(options);
  try {
    const source = await openAlone(driver, { ...connection, alias: options.alias }, viewId);
    const dispose = async () => {
      await source.dispose();
      await driver.dispose();
    };
    return Object.freeze({ fs: source.fs, dispose });
  } catch (error) {
    await driver.dispose();
    throw error;
  }
}

export function createHttpSourceProvider(resolveCredential, fetch) {
  const driver = createCellsDriver(resolveCredential, fetch);
  let disposed = false;
  // Each session has a driver of its own, which the disposal of the provider leaves alone.
  const secretOf = (reference) => {
    if (!disposed) return driver.resolveCredential(reference);
    return resolveCredential?.(reference);
  };
  return Object.freeze({
    open: (connection, options) => driver.open(connection, options),
    process: (connection, spec) => createCellsDriver(secretOf, fetch).process(connection, spec),
    capabilities: (connection, options) => driver.capabilities(connection, options),
    check: (connection, options) => driver.check(connection, options),
    checkDraft: (connection, secret, options) => driver.checkDraft(connection, secret, options),
    browse: (connection, path, cursor, options) => driver.browse(connection, path, cursor, options),
    setCredential: (reference, secret) => driver.setCredential(reference, secret),
    clearCredential: (reference) => driver.clearCredential(reference),
    dispose: async () => {
      disposed = true;
      await driver.dispose();
    },
  });
}
