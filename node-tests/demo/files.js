// The steps that see files.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, open, readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';

const STATS = 300;
const DISTINCT_PATHS = 200;
const ENTRIES = 'entries';
const LARGE = 'large.bin';

export async function discover(stage) {
  const found = await stage.driver.discover(stage.connection);
  assert.equal(found.serverId, stage.node.serverId);
  assert.equal(found.harness, true, 'no agents');
  assert.equal(found.receipts?.durable, true, 'receipts are not durable');
  assert.ok(found.events, 'no event stream');
  const { exports } = await stage.driver.exports(stage.connection);
  const names = exports.map(({ alias }) => alias);
  assert.deepEqual(names, ['repository', 'scratch']);
  return `node ${found.serverId}, ${found.fileProtocol}, exports ${names.join(' and ')}`;
}

export async function statBatch(stage) {
  const files = stage.files('repository');
  const paths = await realPaths(stage.repository, DISTINCT_PATHS);
  const asked = Array.from({ length: STATS }, (_, index) => paths[index % paths.length]);
  await stage.proxy.resetCounts();
  const answers = await Promise.all(asked.map((path) => files.stat(path)));
  const { requests } = await stage.proxy.counts();
  for (const [index, path] of asked.entries()) {
    const real = await lstat(join(stage.repository, path));
    assert.equal(answers[index]?.kind, real.isDirectory() ? 'directory' : 'file', path);
    if (real.isFile()) assert.equal(answers[index].size, real.size, path);
  }
  assert.equal(requests, 1, 'HTTP requests');
  return `${STATS} stats of ${paths.length} distinct paths, ${requests} HTTP request`;
}

export async function listPages(stage) {
  const files = stage.files('scratch');
  const names = [];
  let pages = 0;
  let cursor;
  do {
    const page = await files.list(ENTRIES, cursor === undefined ? {} : { cursor });
    names.push(...page.entries.map((entry) => entry.name));
    cursor = page.nextCursor ?? undefined;
    pages += 1;
  } while (cursor !== undefined);
  assert.deepEqual([...names].sort(), (await readdir(join(stage.scratch, ENTRIES))).sort());
  assert.ok(pages > 1, 'all entries came on one page');
  return `${names.length} entries on ${pages} pages`;
}

export async function readRange(stage) {
  const [offset, length] = [12_345_678, 1_000_003];
  const { data } = await stage.files('scratch').read(LARGE, { offset, length });
  const file = await open(join(stage.scratch, LARGE));
  const real = Buffer.alloc(length);
  await file.read(real, 0, length, offset);
  await file.close();
  assert.ok(real.equals(data), 'the bytes differ from the file');
  return `${data.length} bytes at offset ${offset}, equal to the file`;
}

export async function readVerify(stage) {
  const { size, stream } = await stage.files('scratch').readStream(LARGE);
  const digest = createHash('sha256');
  let [bytes, pieces] = [0, 0];
  for await (const piece of stream) {
    digest.update(piece);
    bytes += piece.length;
    pieces += 1;
  }
  assert.equal(bytes, size);
  const real = createHash('sha256');
  for await (const piece of createReadStream(join(stage.scratch, LARGE))) real.update(piece);
  const hex = digest.digest('hex');
  assert.equal(hex, real.digest('hex'), 'SHA-256');
  return `${bytes} bytes in ${pieces} pieces, SHA-256 ${hex.slice(0, 16)}…`;
}

export async function badCredential(stage) {
  const restore = stage.driver.setCredential('wrong', 'this-is-not-the-key-of-the-node');
  await stage.proxy.resetCounts();
  const refused = await stage.driver.exports({ ...stage.connection, credentialRef: 'wrong' }).then(
    () => assert.fail('a wrong key was accepted'),
    (error) => error,
  );
  restore();
  assert.equal(refused.code, 'EACCES');
  assert.equal((await stage.proxy.counts()).requests, 1, 'requests');
  assert.ok(!refused.message.includes('not-the-key'), 'the error shows the secret');
  return `${refused.code}: ${refused.message}`;
}

/** Files and folders of the repository, as paths of its export. */
async function realPaths(root, wanted) {
  const found = [];
  const folders = [root];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      if (entry.isSymbolicLink() || ['target', 'node_modules', '.git'].includes(entry.name)) continue;
      const path = join(folder, entry.name);
      found.push(relative(root, path));
      if (entry.isDirectory()) folders.push(path);
    }
  }
  assert.ok(found.length >= wanted, `the repository has only ${found.length} files and folders`);
  return found.sort().slice(0, wanted);
}
