// What the page of every bundler test does; `window.run(task)` tells how it went.
import init, { CellsError, createCellsDriver, init as named } from '@itookit/cells-driver';
import { validateAuthorization } from '@itookit/cells-driver/authorization';

const caught = async (call) => {
  try {
    await call();
  } catch (error) {
    const { code, operation, reason, message } = error;
    return { isCellsError: error instanceof CellsError, code, operation, reason, message };
  }
  return undefined;
};

window.run = async ({ endpoint, apiKey, wasm }) => {
  const seen = { sameFunction: init === named };
  seen.early = await caught(() => createCellsDriver());
  seen.failed = await caught(() => init('/there/is/no.wasm'));
  seen.noSource = await caught(() => init(Promise.reject(new Error('no source'))));
  seen.stillEarly = await caught(() => createCellsDriver());
  const [first, second] = [init(wasm), init()];
  seen.samePromise = first === second;
  await first;
  seen.lateFailure = await caught(() => init('/there/is/no.wasm'));
  seen.lateRejection = await caught(() => init(Promise.reject(new Error('nobody waits for it'))));

  const driver = createCellsDriver();
  const restore = driver.setCredential('node', apiKey);
  const connection = { endpoint, credentialRef: 'node' };
  const files = driver.files({ ...connection, alias: 'home' });
  const [file, missing] = await Promise.all([files.stat('hello.txt'), files.stat('nothing')]);
  seen.stats = [file.size, missing];
  const { stream } = await files.readStream('hello.txt');
  seen.text = await new Response(stream).text();
  seen.refused = await caught(() => files.list('hello.txt'));

  const harness = driver.harness(connection);
  const { profiles } = await harness.profiles();
  const { session } = await harness.create(profiles[0].id, 'home');
  let cursor;
  let answer = '';
  const completed = new Promise((resolve) => {
    const events = harness.subscribe(profiles[0].id, () => {
      const snapshot = harness.eventSnapshot(profiles[0].id, cursor);
      cursor = snapshot.cursor;
      for (const { message } of snapshot.events) {
        if (message.params.threadId !== session.id) continue;
        if (message.method === 'item/agentMessage/delta') answer += message.params.delta;
        if (message.method === 'turn/completed') resolve();
      }
    });
    events.ready.then(() => harness.turn(profiles[0].id, session.id, 'say Hello browser.'));
  });
  await completed;
  seen.answer = answer.trim();

  restore();
  seen.noSecret = await caught(() => driver.exports(connection));
  seen.authorization = validateAuthorization({ principalId: 'a', anonymous: false, revision: 1 }).revision;
  await driver.dispose();
  return seen;
};
