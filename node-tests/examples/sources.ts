// Keeps a list in an export, and saves it only if nobody else has changed it meanwhile.
import { CellsError, createHttpSourceProvider, init } from '@itookit/cells-driver';

await init(); // loads the wasm in a browser; in Node it is there already
const provider = createHttpSourceProvider(() => process.env.CELLS_API_KEY!);
const connection = { endpoint: process.env.CELLS_URL!, credentialRef: 'home' };

await provider.check(connection);
console.log('exports:', (await provider.browse(connection, '/')).paths.join(' '));

const { fs, dispose } = await provider.open({ ...connection, alias: 'scratch' });
console.log(fs.viewId, fs.driver.access);

const list = fs.openFile('/shopping.txt');
await list.replace(new TextEncoder().encode('bread\n'), { kind: 'create-only' });

let revision: string | undefined;
const before = await list.read({ onRevision: (known) => (revision = known) });
const longer = new Blob([before, 'milk\n']);
await list.replace(longer, { kind: 'match', revision: revision! });
for (const { path, size } of await fs.driver.list('/')) console.log(path, size);

try {
  await list.replace(longer, { kind: 'match', revision: revision! });
} catch (error) {
  // Somebody was faster: here it was this program itself.
  if (!(error instanceof CellsError) || error.code !== 'ECONFLICT') throw error;
  console.log('read it again before you save it:', error.outcome);
}

await fs.driver.delete('/shopping.txt');
await dispose();
await provider.dispose();
