import assert from 'node:assert/strict';
import { copyFileSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import * as esbuild from 'esbuild';
import { publint } from 'publint';
import { foreignImports } from '../../pkg/imports.mjs';
import { Project, tarball } from '../support/project.js';
import { Stage } from '../support/stage.js';

let stage;
let project;
before(async () => {
  stage = await Stage.start();
  project = stage.project;
});
after(() => stage.close());

const TYPED = [
  ...['index', 'authorization', 'error', 'files', 'native', 'process', 'seq', 'sources', 'storage', 'transport'],
  ...['harness', 'harness-commands', 'harness-events', 'harness-history', 'harness-models', 'harness-options', 'harness-search', 'harness-sessions'],
];
const SHARED = ['content', 'driver', 'error', 'file-system', 'harness', 'native', 'process', 'provider', 'seq', 'setup', 'stat', 'storage', 'transport', 'upload'];

test('the tarball holds dist, README and licences, one wasm, and nothing else', async () => {
  const listed = (await project.exec('tar', ['-tzf', tarball()])).trim().split('\n').sort();
  const dist = [
    ...['index.js', 'node.js', 'node.cjs', 'node-authorization.js', 'node-harness.js'],
    ...[...SHARED, 'authorization', 'cells_driver'].flatMap((name) => [`${name}.js`, `${name}.cjs`]),
    ...TYPED.flatMap((name) => [`${name}.d.ts`, `${name}.d.cts`]),
    'cells_driver_bg.wasm',
  ];
  const top = ['package.json', 'README.md', 'LICENSE-MIT', 'LICENSE-APACHE'];
  const expected = [...top, ...dist.map((name) => `dist/${name}`)].map((name) => `package/${name}`).sort();
  assert.deepEqual(listed, expected);
});

test('the manifest is ready to be published', async () => {
  const manifest = JSON.parse(readFileSync(join(project.package, 'package.json'), 'utf8'));
  assert.equal(manifest.publishConfig.access, 'public');
  assert.equal(manifest.dependencies, undefined);
  assert.equal(manifest.scripts, undefined);
  const cargo = readFileSync(join(import.meta.dirname, '../../Cargo.toml'), 'utf8');
  assert.equal(manifest.version, /^version = "(.+)"$/m.exec(cargo)[1]);
  const { messages } = await publint({ pkgDir: project.package, strict: true });
  assert.deepEqual(messages, []);
});

test('ESM and CommonJS share one instance and one of each class, in every entry', async () => {
  project.write({
    'both.mjs': `
      import { createRequire } from 'node:module';
      import init, * as esm from '@itookit/cells-driver';
      import * as authorization from '@itookit/cells-driver/authorization';
      import * as harness from '@itookit/cells-driver/harness';
      const require = createRequire(import.meta.url);
      const cjs = require('@itookit/cells-driver');
      await init();
      const names = Object.keys(cjs).filter((name) => name !== '__esModule').sort();
      console.log(JSON.stringify({
        same: names.every((name) => cjs[name] === esm[name]) && cjs.default === init && esm.init === init,
        names,
        esm: Object.keys(esm).sort(),
        error: [authorization, harness, require('@itookit/cells-driver/authorization'),
          require('@itookit/cells-driver/harness')].every((entry) => entry.CellsError === cjs.CellsError),
        drivers: Object.getPrototypeOf(cjs.createCellsDriver()) === Object.getPrototypeOf(esm.createCellsDriver()),
      }));`,
  });
  const classes = ['CellsError', 'HttpFSBackend', 'HttpProcessSession', 'HttpSeqClient', 'HttpTransport'];
  const functions = ['conversationBranches', 'createCellsDriver', 'createHttpSourceProvider', 'default', 'harnessArchiveAllowed', 'harnessEvent', 'harnessItems', 'harnessRequest', 'init', 'openHttpFileSource'];
  const names = [...classes, ...functions];
  assert.deepEqual(await project.node('both.mjs'), { same: true, names, esm: names, error: true, drivers: true });
});

test('the same program runs as ESM and as CommonJS', async () => {
  const body = `
    const driver = createCellsDriver();
    driver.setCredential('node', process.env.KEY);
    const files = driver.files({ endpoint: process.env.URL, credentialRef: 'node', alias: 'home' });
    files.stat('').then((stat) => { console.log(JSON.stringify(stat.kind)); return driver.dispose(); });`;
  project.write({
    'esm.mjs': `import { createCellsDriver } from '@itookit/cells-driver';${body}`,
    'cjs.cjs': `const { createCellsDriver } = require('@itookit/cells-driver');${body}`,
  });
  const env = { URL: stage.node.endpoint, KEY: stage.apiKey };
  for (const script of ['esm.mjs', 'cjs.cjs']) assert.equal(await project.node(script, env), 'directory');
});

test('the pure entries load no wasm', async () => {
  const forbidden = `
    const refuse = () => { throw new Error('wasm was loaded'); };
    for (const name of ['Module', 'Instance', 'compile', 'instantiate', 'instantiateStreaming']) WebAssembly[name] = refuse;`;
  project.write({
    'forbid.cjs': forbidden,
    'pure.mjs': `
      import './forbid.cjs';
      import { authorizationHeaders } from '@itookit/cells-driver/authorization';
      import { harnessArchiveAllowed } from '@itookit/cells-driver/harness';
      const headers = authorizationHeaders({ principalId: 'a', anonymous: false, revision: 1 });
      const session = { status: 'idle', owned: true, activeTurnId: null };
      console.log(JSON.stringify([headers['x-fsagent-principal'], harnessArchiveAllowed(session)]));`,
    'loads.mjs': `import './forbid.cjs'; import '@itookit/cells-driver';`,
  });
  assert.deepEqual(await project.node('pure.mjs'), ['a', true]);
  await assert.rejects(project.node('loads.mjs'), /cells_driver_bg\.wasm could not be loaded/);
});

test('nothing internal can be imported', async () => {
  project.write({
    'inside.mjs': `
      const codes = [];
      for (const path of ['dist/cells_driver.js', 'dist/node.cjs', 'dist/index.js', 'error']) {
        await import('@itookit/cells-driver/' + path).then(() => codes.push('imported'), ({ code }) => codes.push(code));
      }
      console.log(JSON.stringify(codes));`,
  });
  assert.deepEqual(await project.node('inside.mjs'), Array(4).fill('ERR_PACKAGE_PATH_NOT_EXPORTED'));
});

test('no module waits at its top level', async () => {
  for (const name of readdirSync(join(project.package, 'dist')).filter((file) => /\.c?js$/.test(file))) {
    const code = readFileSync(join(project.package, 'dist', name), 'utf8');
    await esbuild.transform(code, { format: 'esm', supported: { 'top-level-await': false } });
  }
});

test('the wasm imports only its own glue, and names no place it was built in', () => {
  const bytes = readFileSync(join(project.package, 'dist', 'cells_driver_bg.wasm'));
  assert.deepEqual(foreignImports(bytes), []);
  assert.equal(WebAssembly.Module.customSections(new WebAssembly.Module(bytes), 'name').length, 0);
  const text = bytes.toString('latin1');
  for (const place of [process.env.HOME, join(import.meta.dirname, '../..'), '/.cargo/registry']) {
    assert.ok(!text.includes(place), place);
  }
});

test('a wasm that imports anything else is told apart', () => {
  const text = (word) => [word.length, ...Buffer.from(word)];
  const section = (id, content) => [id, content.length, ...content];
  const importing = (module) => {
    const [head, noArguments] = [[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0], section(1, [1, 0x60, 0, 0])];
    return new Uint8Array([...head, ...noArguments, ...section(2, [1, ...text(module), ...text('now'), 0, 0])]);
  };
  assert.deepEqual(foreignImports(importing('env')), ['env.now']);
  assert.deepEqual(foreignImports(importing('./cells_driver_bg.js')), []);
});

test('an unused import costs a bundle nothing', async () => {
  project.write({ 'unused.js': `import '@itookit/cells-driver'; import { harnessArchiveAllowed } from '@itookit/cells-driver';` });
  const entryPoints = [join(project.folder, 'unused.js')];
  const { outputFiles } = await esbuild.build({ entryPoints, bundle: true, format: 'esm', write: false, logLevel: 'error' });
  assert.equal(outputFiles[0].text.trim(), '');
});

test('a bundle for Node runs with the wasm in its folder, and says what is missing without', async () => {
  const other = await Project.create({
    'app.js': `
      import { createCellsDriver } from '@itookit/cells-driver';
      createCellsDriver().dispose().then(() => console.log('"ran"'));`,
  });
  const outfile = join(other.folder, 'out', 'app.cjs');
  const entryPoints = [join(other.folder, 'app.js')];
  await esbuild.build({ entryPoints, bundle: true, platform: 'node', format: 'cjs', outfile, logLevel: 'error' });
  await assert.rejects(other.node('out/app.cjs'), /a bundle for Node needs a copy of it in its own folder/);
  const wasm = 'cells_driver_bg.wasm';
  copyFileSync(join(other.package, 'dist', wasm), join(other.folder, 'out', wasm));
  assert.equal(await other.node('out/app.cjs'), 'ran');
});

test('the command-line example copies a file and tells failures by exit codes', async () => {
  const example = readFileSync(join(import.meta.dirname, '../examples/node-cli/cells-cat.js'), 'utf8');
  project.write({ 'cells-cat.mjs': example });
  const env = { CELLS_URL: stage.node.endpoint, CELLS_API_KEY: stage.apiKey };
  const text = 'a line\n'.repeat(100_000);
  writeFileSync(join(stage.folder, 'text'), text);
  assert.equal(await project.exec(process.execPath, ['cells-cat.mjs', 'home', 'text'], env), text);
  const failure = (args, more) => project.exec(process.execPath, ['cells-cat.mjs', ...args], { ...env, ...more }).then(assert.fail, (error) => error);
  const missing = await failure(['home', 'nothing']);
  assert.equal(missing.cause.code, 1);
  assert.match(missing.message, /ENOENT/);
  assert.equal((await failure(['home'])).cause.code, 2);
  assert.equal((await failure(['home', 'text'], { CELLS_API_KEY: 'x'.repeat(24) })).cause.code, 1);
});

test('a program that disposes of its driver ends by itself', async () => {
  project.write({
    'ends.mjs': `
      import { createCellsDriver } from '@itookit/cells-driver';
      const driver = createCellsDriver(() => process.env.KEY);
      const harness = driver.harness({ endpoint: process.env.URL, credentialRef: 'node' });
      const { profiles } = await harness.profiles();
      const events = harness.subscribe(profiles[0].id);
      await events.ready;
      await driver.dispose();
      console.log('"disposed"');`,
  });
  assert.equal(await project.node('ends.mjs', { URL: stage.node.endpoint, KEY: stage.apiKey }), 'disposed');
});
