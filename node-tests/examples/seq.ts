// Counts in a SeqFile, as often as it takes when somebody else is faster; then asks the node for something by its route.
import { CellsError, HttpSeqClient, HttpTransport, init } from '@itookit/cells-driver';

await init(); // loads the wasm in a browser; in Node it is there already
const transport = new HttpTransport({ endpoint: process.env.CELLS_URL!, credential: () => process.env.CELLS_API_KEY! });
const seq = new HttpSeqClient(transport, 'scratch');

/** Adds one to the entry `visits`. */
async function count(): Promise<number> {
  for (;;) {
    const { revision, entries } = await seq.snapshot('counter.seq');
    const visits = 1 + Number(entries.find(({ key }) => key === 'visits')?.value ?? 0);
    try {
      await seq.transaction('counter.seq', revision, [{ action: 'set', key: 'visits', value: visits }]);
      return visits;
    } catch (error) {
      if (!(error instanceof CellsError) || error.code !== 'ECONFLICT') throw error;
    }
  }
}

const counted = await Promise.all([count(), count(), count()]);
console.log('counted', counted.sort((a, b) => a - b).join(' '));

const { status } = await transport.jsonReply('v1/fs/scratch/operations/no-such-write');
console.log('status', status);
const { operationId } = await transport.mutate('v1/fs/scratch/mutate', { action: 'remove', path: 'counter.seq' });
console.log('removed', operationId.length > 0);
await transport.close();
