// Sources, providers and processes, as users write them.
import {
  CellsError,
  createCellsDriver,
  createHttpSourceProvider,
  HttpProcessSession,
  HttpTransport,
  openHttpFileSource,
} from '@itookit/cells-driver';
import type {
  BrowsePage,
  FileStorageAdapter,
  FileSystem,
  FileSystemNode,
  FileSystemSourceOwner,
  HttpSourceProvider,
  NativeShell,
  ProcessExit,
  RemoteFileConnection,
  RemoteProcessSpec,
} from '@itookit/cells-driver';

const driver = createCellsDriver();
const connection: RemoteFileConnection = { endpoint: 'http://127.0.0.1:1', credentialRef: 'a', alias: 'home' };
await driver.check(connection, { timeoutMs: 5 });
await driver.checkDraft(connection, 'secret', { timeoutMs: 5 });
let page: BrowsePage = await driver.browse(connection, '/');
page = await driver.browse(connection, '/home', page.nextCursor, { timeoutMs: 5 });

const owner: FileSystemSourceOwner = await driver.open(connection, { signal: new AbortController().signal });
const fs: FileSystem = owner.fs;
const adapter: FileStorageAdapter = fs.driver;
const nodes: FileSystemNode[] = await adapter.list('/');
const type: 'file' | 'directory' | 'symlink' | undefined = nodes[0]?.type;
let revision: string | undefined;
const data: Uint8Array = await fs.openFile('/a').read({ offset: 1, onRevision: (known) => (revision = known) });
if (fs.capabilities.write) {
  await adapter.replace('/a', data, revision === undefined ? { kind: 'create-only' } : { kind: 'match', revision });
  await adapter.rename('/a', '/b', { operationId: 'one' });
  await adapter.delete('/b');
}
// @ts-expect-error a write needs a condition
await adapter.replace('/a', data);
// @ts-expect-error what a node tells is not changed here
fs.revision = 7;
const nothing: Promise<never> = adapter.write('/a', data);
nothing.catch((error: unknown) => error instanceof CellsError && error.code === 'ECAPABILITY');
await owner.dispose();
await (await openHttpFileSource({ endpoint: 'http://127.0.0.1:1', anonymous: true, alias: 'home' }, 'mine')).dispose();

const provider: HttpSourceProvider = createHttpSourceProvider(async (reference) => reference, fetch);
const { serverId, processEpoch, process: offered } = await provider.capabilities(connection);
const hasLiveOutput: boolean = offered.output?.version === 1;
const spec: RemoteProcessSpec = {
  serverId: serverId!,
  epoch: processEpoch!,
  cwd: '/workspace',
  mounts: [{ alias: 'home', path: '', at: '/workspace', access: 'rw' }],
};
const session: HttpProcessSession = provider.process(connection, spec);
const shell: NativeShell = session.nativeShell;
const exit: ProcessExit = await shell.exec('make', ['test'], {
  cwd: 'sub',
  timeoutMs: 5,
  onOutput: ({ stream, text }) => void (stream === 'stderr' && text.length),
});
if (exit.code === null) exit.stdout.length;
// @ts-expect-error an access is `ro` or `rw`
driver.process(connection, { ...spec, mounts: [{ alias: 'home', path: '', at: '/w', access: 'all' }] });
// @ts-expect-error a session needs a transport
new HttpProcessSession(connection, spec);
await new HttpProcessSession(new HttpTransport({ endpoint: 'http://127.0.0.1:1', anonymous: true }), spec).release();
try {
  await session.release({ timeoutMs: 5 });
} catch (error) {
  if (error instanceof CellsError && error.outcome === 'unknown') error.processId?.length;
}
await provider.dispose();
export { hasLiveOutput, type };
