import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { original } from '../support/original.js';
import { Stage, recordingFetch, rejection } from '../support/stage.js';

let stage;
before(async () => {
  stage = await Stage.start({ args: ['--allow-origin', 'tauri://localhost'] });
});
after(() => stage.close());

test('the first example of the original README runs as it stands', async () => {
  const owned = await Stage.start({ username: 'owner' });
  const sessions = await original(owned.module.createCellsDriver, owned.node.endpoint, owned.apiKey);
  assert.deepEqual(sessions, { sessions: [], nextCursor: null });
  await owned.close();
});

test('in Node `init` has nothing to load, whatever it is given', async () => {
  await stage.module.init(Promise.reject(new Error('a rejection that nobody handles would fail this test')));
  await new Promise((resolve) => setImmediate(resolve));
});

test('an endpoint is the root of a node or its MCP address', async () => {
  const fetch = recordingFetch();
  const driver = stage.driver(fetch);
  const fromRoot = await driver.discover(stage.connection);
  assert.equal(fromRoot.serverId, stage.node.serverId);
  assert.equal(fromRoot.mcpEndpoint, stage.node.mcpUrl);
  assert.equal(fromRoot.httpEndpoint, stage.node.endpoint);
  assert.equal(fromRoot.legacy, false);
  assert.deepEqual(fromRoot.receipts, { version: 1, durable: true });

  const mcp = { ...stage.connection, endpoint: stage.node.mcpUrl };
  assert.deepEqual(await driver.discover(mcp), fromRoot);
  assert.equal((await driver.files({ ...mcp, alias: 'home' }).stat('')).kind, 'directory');
  assert.ok((await driver.harness(mcp).profiles()).profiles.length > 0);
});

test('metadata that the caller has spares the question, and is never bypassed', async () => {
  const fetch = recordingFetch();
  const driver = stage.driver(fetch);
  const mcp = { ...stage.connection, endpoint: stage.node.mcpUrl };
  const document = { version: 1, httpEndpoint: './', serverId: null, fileProtocol: 'fs-agent-http-v1', harness: true };
  const descriptor = await driver.discover(mcp, { metadata: { 'itookit/cells': document } });
  assert.equal(descriptor.httpEndpoint, stage.node.endpoint);
  assert.equal(descriptor.serverId, null);
  assert.equal(fetch.calls.length, 0);
  for (const bad of [{ ...document, version: 2 }, { ...document, httpEndpoint: 'http://elsewhere.test/' }, 'x']) {
    const error = await rejection(driver.discover(mcp, { metadata: { 'itookit/cells': bad } }));
    assert.equal(error.code, 'EIO');
    assert.equal(error.operation, 'protocol');
    assert.equal(error.reason, 'DISCOVERY_INVALID');
  }
  assert.equal(fetch.calls.length, 0);
  const cyclic = {};
  cyclic.self = cyclic;
  assert.equal((await rejection(driver.discover(mcp, { metadata: cyclic }))).code, 'EINVAL');
});

test('capabilities and exports say what the node offers', async () => {
  const driver = stage.driver();
  const capabilities = await driver.capabilities(stage.connection);
  assert.equal(capabilities.serverId, stage.node.serverId);
  assert.deepEqual(capabilities.files, {
    read: true,
    write: true,
    seq: { version: 1, sqlite: true, transactionScope: 'file' },
    receipts: { version: 1, durable: true },
  });
  assert.deepEqual(await driver.exports(stage.connection), {
    version: 1,
    exports: [{ alias: 'home', access: 'rw', nameSemantics: 'source', strongRevision: true }],
  });
});

test('secrets come from memory, then from the resolver, and restore puts the one before back', async () => {
  const asked = [];
  const resolve = async (reference) => {
    asked.push(reference);
    return stage.apiKey;
  };
  const driver = stage.module.createCellsDriver(resolve);
  assert.equal(await driver.resolveCredential('node'), stage.apiKey);
  const restoreNothing = driver.setCredential('node', 'first');
  const restoreFirst = driver.setCredential('node', 'second');
  assert.equal(await driver.resolveCredential('node'), 'second');
  restoreFirst();
  restoreFirst();
  assert.equal(await driver.resolveCredential('node'), 'first');
  restoreNothing();
  assert.deepEqual(asked, ['node']);
  assert.equal((await driver.exports(stage.connection)).exports.length, 1);
  driver.setCredential('node', 'third');
  driver.clearCredential('node');
  assert.equal((await driver.exports(stage.connection)).exports.length, 1);
  assert.ok(asked.length >= 3);
});

test('without a secret a call fails before it is sent, and says nothing of what the resolver threw', async () => {
  const resolvers = [
    undefined,
    () => {
      throw new Error('hunter2');
    },
    () => Promise.reject(new Error('hunter2')),
    () => ({ secret: 'hunter2' }),
    () => undefined,
    () => '',
  ];
  for (const resolver of resolvers) {
    const fetch = recordingFetch();
    const driver = stage.module.createCellsDriver(resolver, fetch);
    const error = await rejection(driver.exports(stage.connection));
    assert.equal(error.code, 'EACCES');
    assert.equal(error.operation, 'credential');
    assert.doesNotMatch(JSON.stringify([error.message, String(error.cause), error]), /hunter2/);
    assert.equal(fetch.calls.length, 0);
  }
});

test('a wrong secret is one clear EACCES', async () => {
  const driver = stage.driver();
  driver.setCredential('node', 'not-the-key');
  for (const call of [() => driver.exports(stage.connection), () => driver.harness(stage.connection).profiles()]) {
    const error = await rejection(call());
    assert.equal(error.code, 'EACCES');
    assert.equal(error.status, 401);
    assert.doesNotMatch(error.message, /not-the-key/);
  }
});

test('an anonymous connection sends no credential and asks nobody for one', async () => {
  const fetch = recordingFetch();
  const driver = stage.module.createCellsDriver(() => assert.fail('asked'), fetch);
  const error = await rejection(driver.exports({ endpoint: stage.node.endpoint, anonymous: true }));
  assert.equal(error.code, 'EACCES');
  assert.equal(error.status, 401);
  for (const { headers } of fetch.calls) assert.equal(headers.authorization, undefined);
});

test('a pinned connection sends the snapshot, and one that is not current is refused', async () => {
  const fetch = recordingFetch();
  const driver = stage.driver(fetch);
  const { authorization } = await driver.discover(stage.connection);
  assert.equal((await driver.exports({ ...stage.connection, authorization })).exports.length, 1);
  assert.equal(fetch.calls.at(-1).headers['x-fsagent-principal'], authorization.principalId);
  assert.equal(fetch.calls.at(-1).headers['x-fsagent-principal-revision'], String(authorization.revision));
  const old = { ...stage.connection, authorization: { ...authorization, revision: 'another' } };
  const error = await rejection(driver.exports(old));
  assert.equal(error.code, 'EACCES');
  assert.equal(error.remoteCode, 'AUTHORIZATION_CHANGED');
});

test('every request refuses caches, cookies and redirects, and goes through the injected fetch', async () => {
  const fetch = recordingFetch();
  const driver = stage.driver(fetch);
  await driver.exports(stage.connection);
  await driver.files({ ...stage.connection, alias: 'home' }).stat('');
  await driver.harness(stage.connection).profiles();
  assert.ok(fetch.calls.length >= 3);
  for (const { url, cache, credentials, redirect, headers } of fetch.calls) {
    assert.equal(typeof url, 'string');
    assert.equal(cache, 'no-store');
    assert.equal(credentials, 'omit');
    assert.notEqual(redirect, 'follow');
    assert.equal(headers.authorization, `Bearer ${stage.apiKey}`);
  }
});

test('a host with a fetch of its own can send another origin, if the node allows it', async () => {
  const withOrigin = (origin) => (url, init) => fetch(url, { ...init, headers: { ...init.headers, origin } });
  const driver = stage.driver(withOrigin('tauri://localhost'));
  assert.ok((await driver.harness(stage.connection).profiles()).profiles.length > 0);
  const stranger = stage.driver(withOrigin('https://stranger.test'));
  const error = await rejection(stranger.harness(stage.connection).profiles());
  assert.equal(error.code, 'EACCES');
  assert.equal(error.status, 403);
});

test('a redirect is refused and the secret goes nowhere else', async () => {
  const seen = [];
  const elsewhere = createServer((request, response) => {
    seen.push(request.headers);
    response.end('{}');
  });
  elsewhere.listen(0, '127.0.0.1');
  await once(elsewhere, 'listening');
  const redirecting = createServer((_, response) => {
    response.writeHead(307, { location: `http://127.0.0.1:${elsewhere.address().port}/` }).end();
  });
  redirecting.listen(0, '127.0.0.1');
  await once(redirecting, 'listening');
  const driver = stage.driver();
  const connection = { ...stage.connection, endpoint: `http://127.0.0.1:${redirecting.address().port}` };
  const error = await rejection(driver.exports(connection));
  assert.ok(error instanceof stage.module.CellsError);
  assert.match(error.message, /redirect/);
  assert.deepEqual(seen, []);
  redirecting.close();
  elsewhere.close();
});

test('a node that is not there is an EIO of operation connect, without a status', async () => {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  const error = await rejection(stage.driver().exports({ ...stage.connection, endpoint: `http://127.0.0.1:${port}` }));
  assert.equal(error.code, 'EIO');
  assert.equal(error.operation, 'connect');
  assert.equal(error.status, undefined);
  assert.match(error.message, /ECONNREFUSED/);
});

test('neither a clock that is set back nor a counter that stood still makes what was sent seem younger', async (context) => {
  const { mutations } = await stage.driver().fileStorage({ ...stage.connection, alias: 'home' });
  const start = Date.now();
  const hour = 3_600_000;
  for (const [shift, expected] of [[-hour, start], [hour, start + hour]]) {
    let sent;
    context.mock.method(Date, 'now', () => start + shift);
    await mutations.mkdir(`at ${shift}`, { onDispatch: ({ sentAtMs }) => (sent = sentAtMs) });
    context.mock.restoreAll();
    assert.ok(Math.abs(sent - expected) < hour / 2, `${sent - start}`);
  }
});
