import { createCellsDriver, init } from '@itookit/cells-driver';

await init(); // loads the wasm in a browser; in Node it is there already
const driver = createCellsDriver();
driver.setCredential('home', process.env.CELLS_API_KEY);
const connection = { endpoint: process.env.CELLS_URL, credentialRef: 'home' };

const files = driver.files({ ...connection, alias: 'docs' });
for (const { name, stat } of (await files.list('')).entries) console.log(name, stat.size);

const harness = driver.harness(connection);
const { profiles } = await harness.profiles();
const { session } = await harness.create(profiles[0].id, 'scratch');
let cursor = null;
const events = harness.subscribe(profiles[0].id, () => {
  const snapshot = harness.eventSnapshot(profiles[0].id, cursor);
  cursor = snapshot.cursor;
  for (const { message } of snapshot.events) {
    if (message.method === 'item/agentMessage/delta') process.stdout.write(message.params.delta);
    if (message.method === 'turn/completed') driver.dispose();
  }
});
await events.ready;
cursor ??= harness.eventSnapshot(profiles[0].id).cursor;
await harness.turn(profiles[0].id, session.id, 'say Hello from the agent.');
