#!/usr/bin/env node
// Copies a file of a Cells node to standard output, whatever its size:
//
//   CELLS_URL=http://127.0.0.1:4477 CELLS_API_KEY=... node cells-cat.js ALIAS PATH > FILE
//
// Exit codes: 0 done, 1 the node or the network said no, 2 wrong arguments, 130 interrupted.
import { pipeline } from 'node:stream/promises';
import { CellsError, createCellsDriver } from '@itookit/cells-driver';

const [alias, path] = process.argv.slice(2);
const { CELLS_URL: endpoint, CELLS_API_KEY: apiKey } = process.env;
if (path === undefined || !endpoint || !apiKey) {
  console.error('usage: CELLS_URL=... CELLS_API_KEY=... cells-cat ALIAS PATH');
  process.exit(2);
}

const interrupt = new AbortController();
process.once('SIGINT', () => interrupt.abort());
const driver = createCellsDriver(() => apiKey);
try {
  const files = driver.files({ endpoint, credentialRef: 'environment', alias });
  const { stream } = await files.readStream(path, { signal: interrupt.signal });
  await pipeline(stream, process.stdout);
} catch (error) {
  if (!(error instanceof CellsError)) throw error;
  console.error(`cells-cat: ${error.message}`);
  process.exitCode = error.code === 'ECANCELLED' ? 130 : 1;
} finally {
  await driver.dispose();
}
