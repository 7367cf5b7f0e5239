// Commands on nodes: the local one with live output, and the one of the generation before it.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { FaultProxy } from '../support/fault-proxy.js';
import { OldNode } from '../support/old-node.js';
import { BASE, Stage, program, recordingFetch, rejection } from '../support/stage.js';

let stage;
let proxy;
const nodes = {};
before(async () => {
  mkdirSync(BASE, { recursive: true });
  stage = await Stage.start({ base: BASE });
  proxy = await FaultProxy.start(program('CELLS_FAULT_PROXY'), stage.node.address);
  const withoutSandbox = await Stage.start({ base: BASE, args: ['--execution', 'host'] });
  const folder = mkdtempSync(join(tmpdir(), 'cells-old-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const options = { exports: [{ alias: 'home', path: folder, writable: true }], credential: { token: stage.apiKey } };
  const old = await OldNode.start(program('CELLS_OLD_NODE'), options);
  nodes['the local node'] = stage;
  nodes['the local node without a sandbox'] = withoutSandbox;
  const connection = { ...stage.connection, endpoint: old.endpoint };
  nodes['an old node'] = { folder, connection, at: '/workspace', driver: (fetch) => stage.driver(fetch), close: () => old.kill() };
});
after(async () => {
  await proxy?.close();
  for (const node of Object.values(nodes)) await node.close();
});

/** A session that sees the export `home` at a place that the node can give it. */
async function session(node = stage, { connection = node.connection, fetch } = {}) {
  const driver = node.driver(fetch);
  const { serverId, processEpoch, pathModel } = await driver.capabilities(connection);
  const at = node.at ?? (pathModel === 'virtual-root' ? '/workspace' : node.folder);
  const mounts = [{ alias: 'home', path: '', at, access: 'rw' }];
  return driver.process(connection, { serverId, epoch: processEpoch, cwd: at, mounts });
}

const sh = ({ nativeShell }, script, options) => nativeShell.exec('sh', ['-c', script], options);

/** The text of each stream, in the order of the pieces. */
function collected() {
  const pieces = [];
  const text = (wanted) => pieces.filter(({ stream }) => stream === wanted).map((piece) => piece.text).join('');
  return { pieces, onOutput: (piece) => pieces.push(piece), text };
}

for (const name of ['the local node', 'the local node without a sandbox', 'an old node']) {
  test(`a command runs to its end, and its exit code is no error: ${name}`, async () => {
    const running = await session(nodes[name]);
    assert.deepEqual(running.nativeShell.capabilities, { ripgrep: false, fd: false });
    const output = collected();
    const exit = await sh(running, 'printf "Grüße\\n"; printf oops >&2; exit 7', { onOutput: output.onOutput });
    assert.deepEqual(exit, { stdout: 'Grüße\n', stderr: 'oops', code: 7, truncated: false, hasGaps: false });
    assert.deepEqual([output.text('stdout'), output.text('stderr')], ['Grüße\n', 'oops']);
    assert.equal((await running.nativeShell.exec('true')).code, 0);
    await running.release();
  });

  test(`arguments reach the command as they are, and it works where it should: ${name}`, async () => {
    const running = await session(nodes[name]);
    const { folder } = nodes[name];
    mkdirSync(join(folder, 'a b', 'c'), { recursive: true });
    writeFileSync(join(folder, 'a b', 'here'), 'found');
    const given = ['', '$HOME', 'a"b', "it's", '*', 'ü'];
    const { stdout } = await running.nativeShell.exec('printf', ['[%s]', ...given]);
    assert.equal(stdout, given.map((one) => `[${one}]`).join(''));
    assert.equal((await sh(running, 'cat here', { cwd: 'a b' })).stdout, 'found');
    assert.equal((await sh(running, 'cat here', { cwd: 'a b/c/..' })).stdout, 'found');
    await sh(running, 'printf made > new');
    assert.equal(readFileSync(join(folder, 'new'), 'utf8'), 'made');
    await running.release();
  });

  test(`a command that is cancelled while it runs is over when that is told: ${name}`, async () => {
    const running = await session(nodes[name]);
    const { folder } = nodes[name];
    const controller = new AbortController();
    const call = sh(running, 'touch began; sleep 60', { signal: controller.signal });
    while (!exists(join(folder, 'began'))) await pause(5);
    controller.abort(new Error('enough'));
    const error = await rejection(call);
    assert.equal(error.code, 'ECANCELLED', String(error));
    assert.equal(error.outcome, 'partial');
    assert.match(error.processId, /^[\w-]+$/);
    assert.equal(error.cause.message, 'enough');
    rmSync(join(folder, 'began'));
    await running.release();
  });

  test(`a command whose time is up is over when that is told: ${name}`, async () => {
    const running = await session(nodes[name]);
    const error = await rejection(sh(running, 'sleep 60', { timeoutMs: 1500 }));
    assert.deepEqual([error.code, error.outcome, typeof error.processId], ['ETIMEDOUT', 'partial', 'string'], String(error));
    await running.release();
  });

  test(`after its release a session starts nothing, and releasing it again is harmless: ${name}`, async () => {
    const running = await session(nodes[name]);
    const { folder } = nodes[name];
    const ended = rejection(sh(running, 'touch runs; sleep 60'));
    while (!exists(join(folder, 'runs'))) await pause(5);
    await running.release();
    await running.release();
    assert.equal((await ended).code, 'ECANCELLED');
    rmSync(join(folder, 'runs'));
    const error = await rejection(sh(running, 'true'));
    assert.deepEqual([error.code, error.outcome], ['EACCES', 'not-started']);
  });
}

test('output arrives while the command runs', async () => {
  const running = await session();
  const output = collected();
  const go = join(stage.folder, 'go');
  const call = sh(running, 'echo early; echo oops >&2; while [ ! -e go ]; do sleep 0.02; done; echo late', {
    onOutput: output.onOutput,
  });
  // The command ends only after its first lines were here.
  while (output.text('stdout') !== 'early\n' || output.text('stderr') !== 'oops\n') await pause(5);
  writeFileSync(go, '');
  assert.deepEqual(await call, { stdout: 'early\nlate\n', stderr: 'oops\n', code: 0, truncated: false, hasGaps: false });
  assert.equal(output.text('stdout'), 'early\nlate\n');
  rmSync(go);
  await running.release();
});

test('a character that arrives in two pieces is one character, and half of one is told at the end', async () => {
  const running = await session();
  const output = collected();
  const script = "printf '\\357\\273\\277x\\303'; touch half; while [ ! -e rest ]; do sleep 0.02; done; printf '\\274\\342\\202'";
  const call = sh(running, script, { onOutput: output.onOutput });
  while (!output.text('stdout').endsWith('x')) await pause(5);
  writeFileSync(join(stage.folder, 'rest'), '');
  const { stdout } = await call;
  assert.equal(stdout, '\ufeffxü\ufffd');
  assert.equal(output.text('stdout'), stdout);
  assert.ok(output.pieces.every(({ text }) => text !== ''));
  rmSync(join(stage.folder, 'rest'));
  await running.release();
});

test('output of several megabytes arrives whole, and of more the newest 8 MiB', async () => {
  const running = await session();
  const output = collected();
  const lines = 'awk \'BEGIN { for (n = 0; n < COUNT; n++) printf "%015d\\n", n }\'';
  const whole = await sh(running, lines.replace('COUNT', '200000'), { onOutput: output.onOutput });
  assert.equal(whole.stdout.length, 200_000 * 16);
  assert.deepEqual([whole.truncated, whole.hasGaps], [false, false]);
  assert.equal(output.text('stdout'), whole.stdout);

  const newest = await sh(running, lines.replace('COUNT', '1000000'));
  assert.equal(newest.truncated, true);
  assert.ok(newest.stdout.length <= 8 * 1024 * 1024);
  assert.ok(newest.stdout.endsWith(`${String(999_999).padStart(15, '0')}\n`));
  await running.release();
});

test('an old node gives output at the end, and fails a command that writes more than 64 KiB', async () => {
  const running = await session(nodes['an old node']);
  const output = collected();
  const fits = await sh(running, 'head -c 65536 /dev/zero | tr "\\0" x', { onOutput: output.onOutput });
  assert.equal(fits.stdout, 'x'.repeat(65_536));
  assert.deepEqual(output.pieces.map(({ stream, text }) => [stream, text.length]), [['stdout', 65_536]]);
  const error = await rejection(sh(running, 'head -c 65537 /dev/zero; sleep 60'));
  assert.ok(['ECANCELLED', 'EIO'].includes(error.code), String(error));
  assert.equal(error.outcome, 'partial');
  assert.match(error.message, /more than 65536 bytes/);
  await running.release();
});

test('a session of a transport asks for the credential of the transport', async () => {
  const { HttpProcessSession, HttpTransport } = stage.module;
  let n = 0;
  const transport = new HttpTransport({ endpoint: stage.node.endpoint, credential: () => ((n += 1), stage.apiKey) });
  const { serverId, processEpoch, pathModel } = await transport.json('v1/capabilities');
  const at = pathModel === 'virtual-root' ? '/workspace' : stage.folder;
  const mounts = [{ alias: 'home', path: '', at, access: 'ro' }];
  const spec = { serverId, epoch: processEpoch, cwd: at, mounts };
  const running = new HttpProcessSession(transport, spec);
  assert.equal((await running.nativeShell.exec('echo', ['a'])).stdout, 'a\n');
  assert.ok(n > 2);
  await running.release();
  await transport.close();
  assert.throws(() => new HttpProcessSession(transport, spec), { code: 'EACCES' });
  assert.throws(() => new HttpProcessSession({}, spec), { code: 'EINVAL', message: /transport must be an HttpTransport/ });
});

test('a listener that throws harms nobody', async () => {
  const running = await session();
  const printed = [];
  const { error } = console;
  console.error = (thrown) => printed.push(thrown.message);
  try {
    const onOutput = () => {
      throw new Error('mine');
    };
    assert.equal((await sh(running, 'echo a', { onOutput })).stdout, 'a\n');
  } finally {
    console.error = error;
  }
  assert.deepEqual(printed, ['mine']);
  await running.release();
});

test('an end that is not proven stays with the session until its release has the proof', async () => {
  const fetch = recordingFetch();
  const running = await session(stage, { connection: { ...stage.connection, endpoint: proxy.url }, fetch });
  await running.nativeShell.exec('true');
  const call = sh(running, 'touch proven; sleep 60', { timeoutMs: 60_000 });
  const ended = rejection(call);
  while (!exists(join(stage.folder, 'proven'))) await pause(5);
  await proxy.refuse();
  const error = await ended;
  assert.deepEqual([error.code, error.outcome, typeof error.processId], ['EIO', 'unknown', 'string'], String(error));
  const failed = await rejection(running.release({ timeoutMs: 500 }));
  assert.deepEqual([failed.outcome, failed.processId], ['unknown', error.processId], String(failed));
  await proxy.listen();
  await running.release();
  assert.equal(fetch.calls.filter(({ method, url }) => method === 'POST' && url.endsWith('/processes')).length, 2);
  rmSync(join(stage.folder, 'proven'));
});

test('a restarted node is told apart from the one the session is for', async () => {
  const other = await Stage.start();
  const driver = other.driver();
  const { serverId, processEpoch } = await driver.capabilities(other.connection);
  const mounts = [{ alias: 'home', path: '', at: '/workspace', access: 'rw' }];
  const running = driver.process(other.connection, { serverId, epoch: processEpoch, cwd: '/workspace', mounts });
  await other.node.kill();
  await other.node.restart();
  const error = await rejection(sh(running, 'true'));
  assert.deepEqual([error.code, error.remoteCode, error.outcome], ['ECONFLICT', 'STALE_SERVER_EPOCH', 'not-committed'], String(error));
  await running.release();
  await other.close();
});

test('wrong arguments are named, and nothing is sent', async () => {
  const fetch = recordingFetch();
  const running = await session(stage, { fetch });
  const driver = stage.driver(fetch);
  const n = fetch.calls.length;
  const good = { serverId: 'a', epoch: 'b', cwd: '/w', mounts: [{ alias: 'home', path: '', at: '/w', access: 'ro' }] };
  const spec = (change) => () => driver.process(stage.connection, { ...good, ...change });
  const exec = (...args) => () => running.nativeShell.exec(...args);
  const cases = [
    [spec({ serverId: undefined }), /spec\.serverId must be a string/],
    [spec({ epoch: 'not an id' }), /epoch/],
    [spec({ mounts: undefined }), /spec\.mounts must be an array/],
    [spec({ mounts: [] }), /mount/],
    [spec({ mounts: [{ ...good.mounts[0], at: 7 }] }), /mount\.at must be a string/],
    [spec({ cwd: '/elsewhere' }), /mount/],
    [() => driver.process({ endpoint: 7 }, good), /connection\.endpoint must be a string/],
    [exec(7), /command must be a string/],
    [exec(''), /command/],
    [exec('a', 'b'), /args must be an array/],
    [exec('a', [7]), /args must be a string/],
    [exec('a\0'), /NUL/],
    [exec('a', [], { cwd: '/' }), /path/],
    [exec('a', [], { onOutput: 7 }), /onOutput must be a function/],
    [exec('a', [], { signal: 7 }), /signal must be an AbortSignal/],
    [exec('a', [], { timeoutMs: -1 }), /timeoutMs must be an integer/],
    [exec('a', [], 'x'), /options must be an object/],
  ];
  for (const [call, message] of cases) {
    const error = await rejection((async () => call())());
    assert.ok(error instanceof stage.module.CellsError, String(error));
    assert.equal(error.code, 'EINVAL', String(error));
    assert.match(error.message, message);
    if (error.operation === 'exec') assert.equal(error.outcome, 'not-started');
  }
  const early = await rejection(running.nativeShell.exec('true', [], { timeoutMs: 0 }));
  assert.deepEqual([early.code, early.outcome], ['ETIMEDOUT', 'not-started']);
  const late = await rejection(running.nativeShell.exec('true', [], { signal: AbortSignal.abort() }));
  assert.deepEqual([late.code, late.outcome], ['ECANCELLED', 'not-started']);
  assert.equal(fetch.calls.length, n);
});

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function exists(path) {
  try {
    readFileSync(path);
    return true;
  } catch {
    return false;
  }
}
