// Storages, uploads, SeqFiles and transports, as users write them.
import { CellsError, createCellsDriver, HttpFSBackend, HttpSeqClient, HttpTransport } from '@itookit/cells-driver';
import type {
  FileReceipt,
  FileRecovery,
  FileStat,
  FileStorageBackend,
  HttpFileSourceOptions,
  SeqSnapshot,
  UploadSource,
} from '@itookit/cells-driver';

const options: HttpFileSourceOptions = { endpoint: 'http://127.0.0.1:1', credential: async () => 'secret', alias: 'home' };
const backend: FileStorageBackend = new HttpFSBackend({ ...options, timeoutMs: 5, maxReadBytes: 0 });
await backend.init({ signal: new AbortController().signal });
const driver = createCellsDriver();
const storage: FileStorageBackend = await driver.fileStorage({ endpoint: 'http://127.0.0.1:1', alias: 'home' });
const kind: 'file' | 'directory' | 'symlink' | undefined = (await storage.files.statType('a'))?.kind;
const sources: UploadSource[] = [
  new Uint8Array(1),
  new ArrayBuffer(1),
  new DataView(new ArrayBuffer(1)),
  new Blob(['a']),
  new ReadableStream<Uint8Array>(),
  (async function* () {
    yield new Uint8Array(1);
  })(),
];
if (storage.mutations) {
  for (const source of sources) {
    let sent: FileRecovery | undefined;
    const stat: FileStat = await storage.mutations.replace('a', source, { kind: 'create-only' }, {
      size: 1,
      operationId: 'one',
      onDispatch: (recovery) => (sent = recovery),
      onProgress: (done, total) => done / (total ?? 1),
    });
    await storage.mutations.replace('a', source, { kind: 'match', revision: stat.revision! }, { timeoutMs: 5 });
    if (sent) await storage.settle(JSON.parse(JSON.stringify(sent)));
  }
  await storage.mutations.mkdir('b');
  await storage.mutations.rename('b', 'c');
  await storage.mutations.remove('c', { recursive: false });
  // @ts-expect-error nodes do not remove trees
  await storage.mutations.remove('c', { recursive: true });
  // @ts-expect-error a write needs a condition
  await storage.mutations.replace('a', new Blob([]));
  // @ts-expect-error text is not bytes
  await storage.mutations.replace('a', 'text', { kind: 'create-only' });
}
try {
  const receipt: FileReceipt = await storage.operationStatus('one');
  if (receipt.outcome === 'committed') receipt.result?.revision?.length;
  else if (receipt.outcome === 'not-committed') receipt.code.length;
} catch (error) {
  if (error instanceof CellsError && error.recovery && 'change' in error.recovery) await storage.settle(error.recovery);
}
const transport = new HttpTransport({ endpoint: 'http://127.0.0.1:1', anonymous: true });
const seq = new HttpSeqClient(transport, 'home');
const { revision, entries }: SeqSnapshot = await seq.snapshot('a.seq');
await seq.transaction('a.seq', revision, [
  { action: 'set', key: 'a', value: { b: [1, null, entries[0]?.value ?? false] } },
  { action: 'delete', key: 'c' },
]);
await storage.seq.snapshot('a.seq');
const { status, json } = await transport.jsonReply('v1/exports', { body: {} });
await transport.mutate('v1/fs/home/mutate', json, { operationId: String(status) });
await transport.close();
export { kind };
