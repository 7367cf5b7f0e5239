// Copies a folder of this machine into an export, and finds out what became of a write whose reply it did not wait for.
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { CellsError, createCellsDriver, init, type FileRecovery } from '@itookit/cells-driver';

await init(); // loads the wasm in a browser; in Node it is there already
const driver = createCellsDriver(() => process.env.CELLS_API_KEY!);
const storage = await driver.fileStorage({ endpoint: process.env.CELLS_URL!, credentialRef: 'home', alias: 'scratch' });
const { mutations } = storage;
if (!mutations) throw new Error('the export is read-only');

await mutations.mkdir('types');
const folder = 'node_modules/@itookit/cells-driver/';
for (const name of (await readdir(folder)).filter((entry) => entry.startsWith('LICENSE'))) {
  const { size } = await stat(folder + name);
  let sent = 0;
  const written = await mutations.replace(`types/${name}`, createReadStream(folder + name), { kind: 'create-only' }, {
    size,
    onProgress: (done) => (sent = done),
  });
  console.log(name, written.size === size && sent === size ? 'arrived' : 'differs');
}

let stored: string | undefined; // where another process finds it
try {
  await mutations.replace('types/note.md', new Blob(['remember the milk\n']), { kind: 'create-only' }, {
    onDispatch: (recovery) => (stored = JSON.stringify(recovery)),
    timeoutMs: 1,
  });
} catch (error) {
  // Almost always: nothing is done in one millisecond.
  if (!(error instanceof CellsError) || error.code !== 'ETIMEDOUT') throw error;
}
// Asks, and never writes again. A write that was not sent has nothing to ask for.
const receipt = stored === undefined ? undefined : await storage.settle(JSON.parse(stored) as FileRecovery);
const there = await storage.files.stat('types/note.md');
console.log('what it says is what is there:', (receipt?.outcome === 'committed') === (there !== null));

for (const { name } of (await storage.files.list('types')).entries) await mutations.remove(`types/${name}`);
await mutations.rename('types', 'empty');
await mutations.remove('empty');
await storage.close();
await driver.dispose();
