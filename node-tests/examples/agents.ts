// Works with the agent of the node at `CELLS_URL`: lists sessions, sends a message with a note, approves what the agent asks
// for, downloads the output of a slash command, and forks and searches where the agent can do that.
import {
  CellsError,
  conversationBranches,
  createCellsDriver,
  harnessEvent,
  harnessItems,
  init,
  type EventCursor,
  type HarnessAttachment,
} from '@itookit/cells-driver';

await init(); // loads the wasm in a browser; in Node it is there already
const driver = createCellsDriver(() => process.env.CELLS_API_KEY!);
const harness = driver.harness({ endpoint: process.env.CELLS_URL!, credentialRef: 'home' });
const [profile] = (await harness.profiles()).profiles;
if (!profile) throw new Error('the node has no agent');

const { session } = await harness.create(profile.id, 'scratch');
const { sessions } = await harness.list(profile.id, { limit: 50 });
console.log('listed:', sessions.some(({ id }) => id === session.id));

// What the profile does not take is refused before anything is sent.
const note: HarnessAttachment = { kind: 'text', name: 'note.md', content: 'Be brief.\n' };
const attachments = profile.capabilities.attachments?.includes('text') ? [note] : [];
await approveEverything('run echo done by the agent', attachments);

for (const item of harnessItems((await harness.read(profile.id, session.id)).turns)) {
  if (item.kind === 'commandExecution') console.log('ran:', item.commandPreview);
  if (item.kind === 'agent') console.log('said:', item.text.split('\n')[0]);
}

const { outputRef } = await harness.command(profile.id, session.id, 'output', '200000');
// Nothing is handed out before its length and its SHA-256 are right.
if (outputRef) console.log('downloaded:', (await harness.loadCommandOutput(profile.id, outputRef)).byteLength, 'bytes');

try {
  const fork = await harness.fork(profile.id, session.id, 'second try');
  const family = await conversationBranches(harness, profile.id, fork.session);
  console.log('forked:', family.length, 'branches');
} catch (error) {
  if (!lacksCapability(error)) throw error;
  console.log('this agent does not fork');
}
try {
  const { matches } = await harness.search(profile.id, { query: 'done agent', mode: 'content' });
  console.log('found:', matches.some(({ sessionId }) => sessionId === session.id));
} catch (error) {
  if (!lacksCapability(error)) throw error;
  console.log('this agent does not search');
}
await driver.dispose();

/** Sends `text` and says yes to what the agent asks, until the turn is over. */
async function approveEverything(text: string, attachments: HarnessAttachment[]): Promise<void> {
  const { id } = profile!;
  let cursor: EventCursor | null | undefined;
  const over = new Set<string>();
  let wake = () => {};
  const take = () => {
    const snapshot = harness.eventSnapshot(id, cursor);
    cursor = snapshot.cursor;
    for (const { message } of snapshot.events) {
      const event = harnessEvent(message);
      if (event.kind === 'turnCompleted') over.add(event.turnId);
      if (event.kind !== 'requested' || event.request.sessionId !== session.id) continue;
      console.log('asks:', event.request.detail);
      if (event.request.kind === 'approval') void harness.respond(id, event.request.id, { decision: 'accept' });
    }
    wake();
  };
  const events = harness.subscribe(id, take);
  await events.ready;
  cursor ??= harness.eventSnapshot(id).cursor;
  const { turnId } = await harness.turn(id, session.id, text, { attachments });
  while (!over.has(turnId)) await new Promise<void>((resolve) => (wake = resolve));
  events.close();
}

function lacksCapability(error: unknown): boolean {
  return error instanceof CellsError && error.code === 'ECAPABILITY';
}
