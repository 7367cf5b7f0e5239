import assert from 'node:assert/strict';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import ts from 'typescript';
import { Project, TOOLS } from '../support/project.js';
import { ScriptedNode } from '../support/scripted-node.js';

let project;
before(async () => {
  project = await Project.create();
  cpSync(join(import.meta.dirname, '../types'), project.folder, { recursive: true });
  cpSync(join(TOOLS, '@types', 'node'), join(project.folder, 'node_modules', '@types', 'node'), { recursive: true });
  cpSync(join(TOOLS, 'undici-types'), join(project.folder, 'node_modules', 'undici-types'), { recursive: true });
});

const DOM = ['es2022', 'dom', 'dom.iterable'];
const SETUPS = {
  'Node ESM and CommonJS, with the types of Node only': { module: 'nodenext', lib: ['es2022'], types: ['node'], files: ['app.mts', 'sources.mts', 'storage.mts', 'wrong.mts', 'common.cts'] },
  'Node 16 resolution': { module: 'node16', lib: DOM, types: [], files: ['app.mts', 'sources.mts', 'storage.mts', 'wrong.mts', 'common.cts'] },
  'a bundler, in a browser': { module: 'esnext', moduleResolution: 'bundler', lib: DOM, types: [], files: ['app.mts', 'sources.mts', 'storage.mts', 'wrong.mts'] },
};

for (const [name, { files, ...options }] of Object.entries(SETUPS)) {
  test(`strict TypeScript accepts the package: ${name}`, async () => {
    const compilerOptions = { ...options, strict: true, noEmit: true, target: 'es2022', skipLibCheck: false, noUncheckedIndexedAccess: true };
    project.write({ 'tsconfig.json': JSON.stringify({ compilerOptions, files }) });
    await project.exec(process.execPath, [join(TOOLS, 'typescript', 'bin', 'tsc'), '-p', 'tsconfig.json']);
  });
}

test('the members that exist are the members that are declared', async () => {
  const { createCellsDriver, createHttpSourceProvider, HttpFSBackend, HttpProcessSession, HttpSeqClient, HttpTransport } =
    await project.import();
  const driver = createCellsDriver();
  const node = await ScriptedNode.start();
  const owner = await driver.open({ endpoint: node.endpoint, anonymous: true, alias: 'notes' });
  const spec = { serverId: 'a', epoch: 'b', cwd: '/w', mounts: [{ alias: 'home', path: '', at: '/w', access: 'ro' }] };
  const connection = { endpoint: 'http://127.0.0.1:1', credentialRef: 'none' };
  const own = { endpoint: 'http://127.0.0.1:1', credential: () => 'none' };
  const transport = new HttpTransport(own);
  const harness = driver.harness(connection);
  const session = new HttpProcessSession(transport, spec);
  const objects = {
    CellsDriver: [driver, 'index.d.ts'],
    FileClient: [driver.files({ ...connection, alias: 'home' }), 'files.d.ts'],
    FileStorageAdapter: [owner.fs.driver, 'sources.d.ts'],
    FileSystem: [owner.fs, 'sources.d.ts'],
    FileSystemFile: [owner.fs.openFile('/a'), 'sources.d.ts'],
    FileSystemSourceOwner: [owner, 'sources.d.ts'],
    HarnessClient: [harness, 'harness.d.ts'],
    HttpFSBackend: [new HttpFSBackend({ ...own, alias: 'home' }), 'storage.d.ts'],
    HttpProcessSession: [session, 'process.d.ts'],
    HttpSeqClient: [new HttpSeqClient(transport, 'home'), 'seq.d.ts'],
    HttpSourceProvider: [createHttpSourceProvider(), 'sources.d.ts'],
    HttpTransport: [transport, 'transport.d.ts'],
    NativeShell: [session.nativeShell, 'process.d.ts'],
    Subscription: [harness.subscribe('main'), 'harness-events.d.ts'],
  };
  // Every class of wasm-bindgen has these; they release memory that the garbage collector releases as well.
  const generated = ['constructor', 'free', '__destroy_into_raw', '__wbg_ptr'];
  for (const [name, [object, file]] of Object.entries(objects)) {
    const all = [object, Object.getPrototypeOf(object)].filter((one) => one !== Object.prototype).flatMap(Object.getOwnPropertyNames);
    const existing = all.filter((member) => !generated.includes(member));
    assert.deepEqual(existing.sort(), declaredMembers(file, name).sort(), name);
  }
  node.close();
  await driver.dispose();
});

test('the members of an error are those that are declared', async () => {
  const { CellsError } = await project.import();
  const error = new CellsError('EIO', 'x', { operation: 'a', outcome: 'unknown', requestId: 'b', operationId: 'c', processId: 'd', recovery: {}, remoteCode: 'D', reason: 'E', status: 1, retryAfterMs: 2, cause: 3 });
  const declared = [...declaredMembers('error.d.ts', 'CellsError'), 'cause'].filter((member) => member !== 'name');
  const existing = Object.getOwnPropertyNames(error).filter((member) => !['stack', 'message'].includes(member));
  assert.deepEqual(existing.sort(), declared.sort());
  assert.equal(error.name, 'CellsError');
  assert.deepEqual(Object.keys(new CellsError('EIO', 'x')), ['code']);
});

test('every exported member is documented', () => {
  const harness = ['harness', 'harness-commands', 'harness-events', 'harness-history', 'harness-models', 'harness-options', 'harness-search', 'harness-sessions'];
  for (const file of [...harness, 'index', 'files', 'native', 'process', 'error', 'authorization', 'seq', 'sources', 'storage', 'transport']) {
    const source = sourceOf(`${file}.d.ts`);
    const undocumented = [];
    const visit = (node) => {
      const isMember = ts.isPropertySignature(node) || ts.isMethodSignature(node) || ts.isPropertyDeclaration(node);
      const isExported = ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node) || ts.isFunctionDeclaration(node) || ts.isClassDeclaration(node);
      const isInline = isMember && ts.isTypeLiteralNode(node.parent);
      if ((isMember || isExported) && !isInline && ts.getJSDocCommentsAndTags(node).length === 0) undocumented.push(node.name?.getText(source));
      ts.forEachChild(node, visit);
    };
    visit(source);
    assert.deepEqual(undocumented, [], file);
  }
});

/** The names that an interface or class of the package's types declares. */
function declaredMembers(file, name) {
  let members;
  ts.forEachChild(sourceOf(file), (node) => {
    if ((ts.isInterfaceDeclaration(node) || ts.isClassDeclaration(node)) && node.name.text === name) members = node.members;
  });
  return members.filter((member) => !ts.isConstructorDeclaration(member)).map((member) => member.name.text);
}

function sourceOf(file) {
  const text = ts.sys.readFile(join(project.package, 'dist', file));
  return ts.createSourceFile(file, text, ts.ScriptTarget.ES2022, true);
}
