import { createCellsDriver, init } from '@itookit/cells-driver';

await init(); // loads the wasm in a browser; in Node it is there already
const driver = createCellsDriver();
driver.setCredential('home', process.env.CELLS_API_KEY);
const connection = { endpoint: process.env.CELLS_URL, credentialRef: 'home' };

const files = driver.files({ ...connection, alias: 'docs' });
for (const { name, stat } of (await files.list('')).entries) console.log(name, stat.size);

const harness = driver.harness(connection);
const [{ id: profile }] = (await harness.profiles()).profiles;
const { session } = await harness.create(profile, 'scratch');

let cursor;
let completed;
const answer = new Promise((resolve) => (completed = resolve));
const events = harness.subscribe(profile, () => {
  const snapshot = harness.eventSnapshot(profile, cursor);
  cursor = snapshot.cursor;
  for (const { message } of snapshot.events) {
    if (message.method === 'item/agentMessage/delta') process.stdout.write(message.params.delta);
    if (message.method === 'turn/completed') completed();
  }
});
await events.ready;
cursor ??= harness.eventSnapshot(profile).cursor;
await harness.turn(profile, session.id, 'say Hello from the agent.');
await answer;
console.log();
await driver.dispose();
