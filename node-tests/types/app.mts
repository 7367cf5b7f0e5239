// What users write, with every type of the package that a program names.
import init, { CellsError, createCellsDriver, harnessEvent, harnessItems, harnessRequest } from '@itookit/cells-driver';
import type { CellsDriver, FileStat, RemoteConnection } from '@itookit/cells-driver';
import { validateAuthorization } from '@itookit/cells-driver/authorization';
import { conversationBranches, harnessArchiveAllowed, type HarnessAttachment, type HarnessClient, type OutputRef, type Recovery } from '@itookit/cells-driver/harness';

await init();
await init(new URL('https://example.test/x.wasm'));
await init(fetch('https://example.test/x.wasm'));
const driver: CellsDriver = createCellsDriver(async (reference) => reference, (url, options) => fetch(url, options));
const restore: () => void = driver.setCredential('a', 'b');
restore();
const connection: RemoteConnection = { endpoint: 'http://127.0.0.1:1', credentialRef: 'a' };
const descriptor = await driver.discover(connection, { metadata: {}, timeoutMs: 5 });
const pinned: RemoteConnection = { ...connection, authorization: validateAuthorization(descriptor.authorization) };
const files = driver.files({ ...pinned, alias: 'home' });
const stat: FileStat | null = await files.stat('x', { signal: new AbortController().signal });
if (stat?.kind === 'file') stat.size?.toFixed();
const { data } = await files.read('x', { offset: 1, length: 2, ifRevision: stat?.revision });
data.byteLength.toFixed();
for await (const piece of (await files.readStream('x')).stream as any as AsyncIterable<Uint8Array>) piece.length.toFixed();
const harness: HarnessClient = driver.harness(connection);
const { profiles } = await harness.profiles();
const { session, recovery } = await harness.create(profiles[0]!.id, 'home', { onDispatch: (known: Recovery) => void known });
harnessArchiveAllowed(session);
const attachments: HarnessAttachment[] = [{ kind: 'text', name: 'notes.md', content: '# Notes' }];
const { turnId } = await harness.turn('main', session.id, 'hello', { attachments });
const fork = await harness.fork('main', session.id, 'try two');
const [branch] = await conversationBranches(harness, 'main', fork.session, { archived: true });
if (branch?.parentSessionId === session.id) await harness.rename('main', branch.id, 'Second', { timeoutMs: 9 });
const { matches, literal } = await harness.search('main', { query: 'fix build', mode: 'prompt' });
const summary: string | undefined = literal ? undefined : matches[0]?.summary;
const digest = await harness.loadDigest('main', session.id);
if (digest.omittedUnclassified === 0) digest.entries[0]?.text.concat(summary ?? '');
await harness.digest('main', session.id, { cursor: digest.nextCursor ?? undefined, expectedRevision: digest.revision });
await harness.archive('main', session.id, true);
const deleted: string[] = (await harness.delete('main', session.id)).deletedSessionIds;
deleted.pop();
await harness.interrupt('main', session.id, turnId);
await harness.respond('main', 7, { decision: 'accept' });
const result = await harness.command('main', session.id, 'status', '');
const reference: OutputRef | undefined = result.outputRef;
if (reference) {
  const output: ArrayBuffer = await harness.loadCommandOutput('main', reference, { maxBytes: 1, onProgress: (n, all) => n / all });
  output.byteLength.toFixed();
}
const page = await harness.read('main', session.id);
for (const item of harnessItems(page.turns)) {
  if (item.kind === 'user') item.contentPartKinds?.length.toFixed();
  else if (item.kind === 'commandExecution') item.commandPreview.concat(item.paths[0] ?? '');
}
const event = harnessEvent({ method: 'turn/started', params: {} });
if (event.kind === 'itemCompleted') event.item.nativeType.length;
const asked = harnessRequest({ id: 7, method: 'x', params: {} });
if (asked?.kind === 'input') asked.questions?.[0]?.options?.[0]?.label.length;
const subscription = harness.subscribe('main', ({ state, cursor }) => harness.eventSnapshot('main', cursor).events[0]?.seq ?? state);
await subscription.ready;
subscription.close();
try {
  const receipt = await harness.operation(recovery);
  if (receipt.outcome === 'unknown') receipt.code?.length;
} catch (error) {
  if (error instanceof CellsError && error.code === 'ENOENT' && error.outcome === 'unknown' && error.recovery) {
    if ('requestId' in error.recovery) await harness.operation(error.recovery);
    else error.recovery.operationId.length;
  }
}
await driver.dispose();
