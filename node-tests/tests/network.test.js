// What hosts rely on at the wire, over real connections to a scripted node: stat batches, ranges, what a write became, names
// with colons, Basic credentials in UTF-8, and cancelled calls that end at the node too.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { Project } from '../support/project.js';
import { ScriptedNode, reply } from '../support/scripted-node.js';
import { rejection } from '../support/stage.js';

let module;
before(async () => {
  module = await (await Project.create()).import();
});

/** Runs `run({node, driver, connection})` with a node that answers what `answer` says. */
async function against(answer, run) {
  const node = await ScriptedNode.start(answer);
  const driver = module.createCellsDriver(() => 'key-0123456789');
  try {
    await run({ node, driver, connection: { endpoint: node.endpoint, credentialRef: 'office', alias: 'notes' } });
  } finally {
    await driver.dispose();
    node.close();
  }
}

const bytes = (text) => new TextEncoder().encode(text);
const CREATE = { kind: 'create-only' };

test('stat calls of one turn are batches of distinct paths, and nothing is kept for the next turn', async () => {
  await against(undefined, async ({ node, driver, connection }) => {
    const files = driver.files(connection);
    const paths = Array.from({ length: 600 }, (_, n) => String(n % 300).padStart(3 + (n % 5), '0'));
    const stats = await Promise.all(paths.map((path) => files.stat(path)));
    assert.deepEqual(stats.map(({ size }) => size), paths.map(({ length }) => length));
    const batches = node.for('/stat').map(({ body }) => JSON.parse(body).paths);
    assert.deepEqual(batches.map(({ length }) => length), [256, 44]);
    assert.deepEqual(batches.flat(), paths.slice(0, 300), 'each path once, in the order of the calls');

    const [gone, denied, file] = await Promise.allSettled(['gone', 'denied', 'file'].map((path) => files.stat(path)));
    assert.deepEqual([gone.value, denied.reason.code, file.value.size], [null, 'EACCES', 4]);
    await files.stat('file');
    assert.equal(node.for('/stat').length, 4);
  });
});

test('a range is exactly what was asked for, or refused', async () => {
  const cases = [
    [4, 3, 206, 'bytes 4-6/10', '456', '456'],
    [8, 9, 206, 'bytes 8-9/10', '89', '89'],
    [4, undefined, 206, 'bytes 4-9/10', '456789', '456789'],
    [4, 3, 200, undefined, '0123456789', '456'],
    [4, 3, 206, 'bytes 3-5/10', '345', { code: 'EIO' }],
    [4, 3, 206, 'bytes 4-5/10', '45', { code: 'EIO' }],
    [4, 3, 206, 'bytes 4-6/10', '4567', { code: 'EIO' }],
    [4, 3, 206, undefined, '456', { code: 'EIO' }],
    [40, 3, 416, 'bytes */10', '', { code: 'EINVAL' }],
  ];
  for (const [offset, length, status, range, body, expected] of cases) {
    const answer = ({ path }, response) => {
      if (!path.endsWith('/content')) return false;
      response.writeHead(status, { 'content-length': body.length, ...(range && { 'content-range': range }) }).end(body);
      return true;
    };
    await against(answer, async ({ node, driver, connection }) => {
      const read = driver.files(connection).read('a', { offset, length });
      if (typeof expected === 'string') assert.equal(Buffer.from((await read).data).toString(), expected);
      else await assert.rejects(read, expected, `${offset} ${length} ${range}`);
      assert.equal(node.for('/content')[0].headers.range, `bytes=${offset}-${length ? offset + length - 1 : ''}`);
    });
  }
});

test('a definite rejection is told from an unknown outcome, and nothing is sent twice', async () => {
  const cases = [
    [403, '{"code":"EROFS"}', 'not-committed', 'EROFS'],
    [409, '{"code":"EBUSY"}', 'not-committed', 'EBUSY'],
    [412, '{"outcome":"not-committed","code":"ECONFLICT"}', 'not-committed', 'ECONFLICT'],
    [507, '{"outcome":"not-committed","code":"ENOSPC"}', 'not-committed', 'ENOSPC'],
    [409, '{"code":"OPERATION_ID_REUSED"}', 'unknown', 'ECONFLICT'],
    [504, '{"outcome":"unknown","code":"ETIMEDOUT"}', 'unknown', 'ETIMEDOUT'],
    [502, 'bad gateway', 'unknown', 'EIO'],
    [200, 'not JSON', 'unknown', 'EIO'],
    [undefined, undefined, 'unknown', 'EIO'],
  ];
  for (const [status, body, outcome, code] of cases) {
    const answer = ({ method }, response) => {
      if (method !== 'PUT') return false;
      if (status === undefined) response.destroy();
      else response.writeHead(status, { 'content-length': body.length }).end(body);
      return true;
    };
    await against(answer, async ({ node, driver, connection }) => {
      const storage = await driver.fileStorage(connection);
      const error = await rejection(storage.mutations.replace('a', bytes('new'), CREATE));
      assert.deepEqual([error.outcome, error.code], [outcome, code], `${body}: ${error}`);
      const puts = node.for('/content');
      assert.deepEqual(puts.map((put) => put.body.toString()), ['new']);
      assert.equal(error.operationId, puts[0].headers['x-operation-id']);
      assert.equal(error.recovery?.operationId, outcome === 'unknown' ? error.operationId : undefined);
    });
  }
});

test('a colon in a name is a character, and a drive is refused', async () => {
  await against(undefined, async ({ node, driver, connection }) => {
    const files = driver.files(connection);
    for (const path of ['2024:Q1.md', 'notes/a:b', 'ü:ö', 'ab:c/d']) {
      assert.equal((await files.stat(path)).kind, 'file');
      await files.read(path);
      assert.equal(node.for('/content').at(-1).query.get('path'), path);
    }
    const n = node.asked.length;
    for (const path of ['C:', 'c:/x', 'z:file']) {
      for (const call of [files.stat(path), files.read(path), files.list(path)]) {
        assert.equal((await rejection(call)).code, 'EINVAL', path);
      }
    }
    assert.equal(node.asked.length, n, 'nothing was sent');
  });
});

test('a user name and a password are sent as Basic in UTF-8', async () => {
  await against(undefined, async ({ node, driver, connection }) => {
    driver.setCredential('office', 'päss:wörd 密');
    await driver.check({ ...connection, username: 'jürgen' });
    const sent = Buffer.from('jürgen:päss:wörd 密').toString('base64');
    assert.equal(node.for('/exports')[0].headers.authorization, `Basic ${sent}`);
    for (const username of ['a:b', '']) {
      assert.equal((await rejection(driver.check({ ...connection, username }))).code, 'EINVAL', username);
    }
    assert.equal(node.asked.length, 1);
  });
});

test('a cancelled read ends at the node too', async () => {
  const calls = {
    '/entries': (files, options) => files.list('a', options),
    '/content': (files, options) => files.read('a', options),
    '/stat': (files, options) => files.stat('a', options),
  };
  const hold = ({ path }) => path.startsWith('/v1/fs/');
  await against(hold, async ({ node, driver, connection }) => {
    for (const [end, call] of Object.entries(calls)) {
      const controller = new AbortController();
      const ended = rejection(call(driver.files(connection), { signal: controller.signal }));
      while (node.for(end).length === 0) await new Promise(setImmediate);
      controller.abort();
      assert.equal((await ended).code, 'ECANCELLED');
      while (!node.left.some(({ path }) => path.endsWith(end))) await new Promise(setImmediate);
    }
  });
});

test('a cancelled write is stopped at the node and tells its outcome', async () => {
  const receipts = [
    { outcome: 'not-committed', code: 'ECANCELLED' },
    { outcome: 'committed', result: { kind: 'file', size: 3 } },
  ];
  for (const receipt of receipts) {
    const answer = ({ method, path }, response) => {
      if (path === '/v1/capabilities') return reply(response, 200, CAPABILITIES);
      if (path.endsWith('/cancel')) return reply(response, 200, receipt);
      return method === 'PUT';
    };
    await against(answer, async ({ node, driver, connection }) => {
      const storage = await driver.fileStorage(connection);
      const controller = new AbortController();
      const write = storage.mutations.replace('a', bytes('new'), CREATE, { signal: controller.signal });
      const ended = write.catch((error) => error);
      while (node.for('/content').length === 0) await new Promise(setImmediate);
      controller.abort();
      const { size, code, outcome } = await ended;
      if (receipt.outcome === 'committed') assert.equal(size, 3);
      else assert.deepEqual([code, outcome], ['ECANCELLED', 'not-committed']);
      while (!node.left.some(({ method }) => method === 'PUT')) await new Promise(setImmediate);
      const id = node.for('/content')[0].headers['x-operation-id'];
      assert.deepEqual(node.for('/cancel').map(({ path }) => path), [`/v1/fs/notes/operations/${id}/cancel`]);
    });
  }
});

// Its receipts are durable, so that it knows what it never saw.
const CAPABILITIES = {
  version: 1,
  serverId: 'n',
  processEpoch: 'e',
  files: { read: true, write: true, receipts: { version: 1, durable: true } },
  sync: { push: false },
  process: { exec: false },
  terminal: { pty: false },
  executionModel: 'none',
  workspaceConsistency: 'none',
  readOnlyEnforcement: 'none',
  pathModel: 'none',
};
