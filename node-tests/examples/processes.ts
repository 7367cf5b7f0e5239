// Runs a command in an export of a node, shows its output while it runs, and stops another one.
import { CellsError, createCellsDriver, init } from '@itookit/cells-driver';

await init(); // loads the wasm in a browser; in Node it is there already
const driver = createCellsDriver(() => process.env.CELLS_API_KEY!);
const connection = { endpoint: process.env.CELLS_URL!, credentialRef: 'home' };

const { serverId, processEpoch, process: offered } = await driver.capabilities(connection);
if (!offered.exec) throw new Error('this node runs no commands');
const session = driver.process(connection, {
  serverId: serverId!,
  epoch: processEpoch!,
  cwd: '/workspace',
  mounts: [{ alias: 'scratch', path: '', at: '/workspace', access: 'rw' }],
});
const { nativeShell } = session;

const { code } = await nativeShell.exec('sh', ['-c', 'echo working; sleep 0.1; echo done; exit 3'], {
  onOutput: ({ stream, text }) => process[stream].write(text),
});
console.log('exit code', code);

const controller = new AbortController();
setTimeout(() => controller.abort(), 200);
try {
  await nativeShell.exec('sleep', ['60'], { signal: controller.signal });
} catch (error) {
  if (!(error instanceof CellsError)) throw error;
  console.log(error.code, error.outcome); // ECANCELLED partial: it is over, and what it did stays done
}

await session.release(); // proves that nothing runs any more
await driver.dispose();
