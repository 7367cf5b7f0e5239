// One name a call: an error of an argument, which the package finds, and one of the driver say the same `operation`.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Stage, rejection } from '../support/stage.js';

const id = '0'.repeat(64);
const recovery = { profileId: 'p', epoch: id, requestId: 'r' };
const write = { operationId: 'o', alias: 'home', sentAtMs: 1, durable: true, change: { kind: 'mkdir', path: 'a' } };
const reference = { version: 1, epoch: id, requestId: 'r', bytes: 1, sha256: id, mimeType: 'text/plain' };

/** Every call that takes options, by its operation. */
const CALLS = [
  ['discover', ({ driver, connection }, options) => driver.discover(connection, options)],
  ['capabilities', ({ driver, connection }, options) => driver.capabilities(connection, options)],
  ['exports', ({ driver, connection }, options) => driver.exports(connection, options)],
  ['exports', ({ driver, connection }, options) => driver.check(connection, options)],
  ['exports', ({ driver, connection }, options) => driver.checkDraft(connection, 'secret', options)],
  ['browse', ({ driver, connection }, options) => driver.browse(connection, '/', undefined, options)],
  ['resolve_credential', ({ driver }, options) => driver.resolveCredential('node', options)],
  ['open', ({ driver, home }, options) => driver.open(home, options)],
  ['open', ({ driver, home }, options) => driver.fileStorage(home, options)],
  ['stat', ({ files }, options) => files.stat('a', options)],
  ['list', ({ files }, options) => files.list('', options)],
  ['read', ({ files }, options) => files.read('a', options)],
  ['read_stream', ({ files }, options) => files.readStream('a', options)],
  ['replace', ({ storage }, options) => storage.mutations.replace('a', new Uint8Array(1), { kind: 'create-only' }, options)],
  ['mkdir', ({ storage }, options) => storage.mutations.mkdir('a', options)],
  ['rename', ({ storage }, options) => storage.mutations.rename('a', 'b', options)],
  ['remove', ({ storage }, options) => storage.mutations.remove('a', options)],
  ['operation_status', ({ storage }, options) => storage.operationStatus('o', options)],
  ['cancel_operation', ({ storage }, options) => storage.cancelOperation('o', options)],
  ['settle', ({ storage }, options) => storage.settle(write, options)],
  ['seq_snapshot', ({ storage }, options) => storage.seq.snapshot('a.seq', options)],
  ['seq_transaction', ({ storage }, options) => storage.seq.transaction('a.seq', null, [], options)],
  ['request', ({ transport }, options) => transport.json('v1/exports', options)],
  ['request', ({ transport }, options) => transport.jsonReply('v1/exports', options)],
  ['request', ({ transport }, options) => transport.content('v1/fs/home/content?path=a', options)],
  ['mutate', ({ transport }, options) => transport.mutate('v1/fs/home/mutate', {}, options)],
  ['exec', ({ session }, options) => session.nativeShell.exec('true', [], options)],
  ['harness_profiles', ({ harness }, options) => harness.profiles(options)],
  ['harness_sessions', ({ harness }, options) => harness.list('p', options)],
  ['harness_session_read', ({ harness }, options) => harness.read('p', 's', options)],
  ['harness_session_info', ({ harness }, options) => harness.inspect('p', 's', options)],
  ['harness_commands', ({ harness }, options) => harness.commands('p', 's', options)],
  ['harness_operation', ({ harness }, options) => harness.operation(recovery, options)],
  ['harness_command_output', ({ harness }, options) => harness.readCommandOutput('p', reference, options)],
  ['harness_command_output', ({ harness }, options) => harness.loadCommandOutput('p', reference, options)],
  ['harness_create', ({ harness }, options) => harness.create('p', 'w', options)],
  ['harness_resume', ({ harness }, options) => harness.resume('p', 's', options)],
  ['harness_turn', ({ harness }, options) => harness.turn('p', 's', 'hello', options)],
  ['harness_interrupt', ({ harness }, options) => harness.interrupt('p', 's', 't', options)],
  ['harness_respond', ({ harness }, options) => harness.respond('p', 1, {}, options)],
  ['harness_command', ({ harness }, options) => harness.command('p', 's', 'name', '', options)],
];

let stage;
let at;
before(async () => {
  stage = await Stage.start();
  const { connection } = stage;
  const home = { ...connection, alias: 'home' };
  const driver = stage.driver();
  const storage = await driver.fileStorage(home);
  const { serverId, processEpoch: epoch } = await driver.capabilities(connection);
  const mounts = [{ alias: 'home', path: '', at: '/home', access: 'ro' }];
  const session = driver.process(connection, { serverId, epoch, cwd: '/home', mounts });
  const transport = new stage.module.HttpTransport({ endpoint: connection.endpoint, credential: () => stage.apiKey });
  at = { driver, session, transport, connection, home, files: driver.files(home), storage, harness: driver.harness(connection) };
});
after(() => stage.close());

test('every call has one name in errors, whoever finds the mistake', async () => {
  for (const [operation, call] of CALLS) {
    for (const [options, code] of [
      [{ timeoutMs: -1 }, 'EINVAL'],
      [{ signal: AbortSignal.abort() }, 'ECANCELLED'],
      [{ timeoutMs: 0 }, 'ETIMEDOUT'],
    ]) {
      const error = await rejection(call(at, options)).catch((cause) => assert.fail(`${call} ${JSON.stringify(options)}: ${cause.message}`));
      assert.deepEqual([error.code, error.operation], [code, operation], `${call} ${String(error)}`);
    }
  }
});
