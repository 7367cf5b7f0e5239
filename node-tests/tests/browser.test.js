// The packed package in Chromium: as plain modules, and through three bundlers.
import assert from 'node:assert/strict';
import { copyFileSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { after, before, test } from 'node:test';
import * as esbuild from 'esbuild';
import { build as vite } from 'vite';
import webpack from 'webpack';
import { StaticServer, startBrowser } from '../support/browser.js';
import { tarball } from '../support/project.js';
import { Stage } from '../support/stage.js';

const WASM = 'cells_driver_bg.wasm';
const PAGE = '<!doctype html><meta charset="utf-8"><title>test</title>';

let stage;
let browser;
before(async () => {
  browser = await startBrowser();
  stage = await Stage.start({ args: ['--allow-origin', '*'] });
  writeFileSync(join(stage.folder, 'hello.txt'), 'Grüße');
  const entry = readFileSync(join(import.meta.dirname, '../support/page.js'), 'utf8');
  const imports = `<script type="importmap">{"imports": {
    "@itookit/cells-driver": "./node_modules/@itookit/cells-driver/dist/index.js",
    "@itookit/cells-driver/authorization": "./node_modules/@itookit/cells-driver/dist/authorization.js"
  }}</script>`;
  stage.project.write({
    'page.js': entry,
    'index.html': `${PAGE}<script type="module" src="./page.js"></script>`,
    'plain.html': `${PAGE}${imports}<script type="module" src="./page.js"></script>`,
    'original.js': readFileSync(join(import.meta.dirname, '../support/original.js'), 'utf8'),
    'original.html': `${PAGE}${imports}<script type="module">
      import init, { createCellsDriver } from '@itookit/cells-driver';
      import { original } from './original.js';
      await init();
      window.run = ({ endpoint, password }) => original(createCellsDriver, endpoint, password);
    </script>`,
  });
});
after(async () => {
  await browser?.close();
  await stage?.close();
});

/** Runs the page at `path` of `folder`; gives what it saw, what it asked its server for, and what it printed. */
async function visit(folder, path, { wasm, types, task = { endpoint: stage.node.endpoint, apiKey: stage.apiKey, wasm } } = {}) {
  const served = await StaticServer.start({ '/site': folder }, types);
  const page = await browser.newPage();
  const printed = [];
  page.on('console', (message) => printed.push(message.text()));
  page.on('pageerror', (error) => printed.push(String(error)));
  try {
    await page.goto(`${served.origin}/site/${path}`);
    await page.waitForFunction(() => 'run' in window, undefined, { timeout: 20_000 }).catch(() => {
      throw new Error(`the page did not start: ${printed.join('\n')}`);
    });
    const seen = await page.evaluate((given) => window.run(given), task);
    return { seen, printed, requests: served.requests };
  } finally {
    await page.close();
    served.close();
  }
}

function check({ seen, printed }) {
  const early = { isCellsError: true, code: 'EINVAL', operation: 'init', reason: 'NOT_INITIALISED' };
  for (const error of [seen.early, seen.stillEarly]) {
    const { message, ...rest } = error;
    assert.deepEqual(rest, early);
    assert.match(message, /call `await init\(\)` once/);
  }
  assert.equal(seen.failed.code, 'EIO');
  assert.equal(seen.failed.operation, 'init');
  assert.match(seen.failed.message, /\/there\/is\/no\.wasm/);
  assert.equal(seen.noSource.code, 'EIO');
  assert.equal(seen.noSource.operation, 'init');
  assert.match(seen.noSource.message, /no source/);
  assert.equal(seen.sameFunction, true);
  assert.equal(seen.samePromise, true);
  assert.equal(seen.lateFailure, undefined, 'a loaded driver is not loaded again');
  assert.equal(seen.lateRejection, undefined);
  assert.ok(!printed.some((text) => text.includes('nobody waits for it')), printed.join('\n'));
  assert.deepEqual(seen.stats, [new TextEncoder().encode('Grüße').length, null]);
  assert.equal(seen.text, 'Grüße');
  assert.equal(seen.refused.code, 'ENOTDIR');
  assert.equal(seen.answer, 'Hello browser.');
  assert.equal(seen.noSecret.code, 'EACCES');
  assert.equal(seen.noSecret.operation, 'credential');
  assert.equal(seen.authorization, 1);
}

/** Every wasm file below a folder. */
function wasmFiles(folder) {
  return readdirSync(folder, { recursive: true }).filter((file) => file.endsWith('.wasm'));
}

test('plain modules with an import map', async () => {
  const visited = await visit(stage.project.folder, 'plain.html');
  check(visited);
  assert.equal(visited.requests.filter((path) => path.endsWith(WASM)).length, 1);
  const dist = '/site/node_modules/@itookit/cells-driver/dist/';
  const loaded = visited.requests.filter((path) => path.startsWith(dist)).map((path) => path.slice(dist.length));
  const { files } = JSON.parse(readFileSync(join(dirname(tarball()), 'size.json'), 'utf8'));
  // The page also imports the entry `authorization`.
  assert.deepEqual(loaded.sort(), [...files.map(({ name }) => name), 'authorization.js'].sort(), 'what size.json adds up');
});

test('the first example of the original README, with a user name', async () => {
  const owned = await Stage.start({ username: 'owner', args: ['--allow-origin', '*'] });
  const task = { endpoint: owned.node.endpoint, password: owned.apiKey };
  const { seen } = await visit(stage.project.folder, 'original.html', { task });
  assert.deepEqual(seen, { sessions: [], nextCursor: null });
  await owned.close();
});

test('a server that gives the wasm another content type', async () => {
  const visited = await visit(stage.project.folder, 'plain.html', { types: { '.wasm': 'text/plain' } });
  check(visited);
  assert.ok(visited.printed.some((text) => text.includes('application/wasm')), 'a warning is printed');
});

test('a Vite build', async () => {
  const outDir = join(stage.project.folder, 'vite');
  await vite({ root: stage.project.folder, base: './', logLevel: 'error', configFile: false, build: { outDir, emptyOutDir: true } });
  assert.equal(wasmFiles(outDir).length, 1);
  check(await visit(outDir, 'index.html'));
});

test('a webpack build', async () => {
  const path = join(stage.project.folder, 'webpack');
  const stats = await promisify(webpack)({
    mode: 'production',
    context: stage.project.folder,
    entry: './page.js',
    output: { path, filename: 'page.js', clean: true },
    performance: { hints: false },
  });
  assert.ok(!stats.hasErrors(), stats.toString({ all: false, errors: true }));
  assert.ok(!stats.hasWarnings(), stats.toString({ all: false, warnings: true }));
  copyFileSync(join(stage.project.folder, 'index.html'), join(path, 'index.html'));
  assert.equal(wasmFiles(path).length, 1);
  check(await visit(path, 'index.html'));
});

test('an esbuild bundle with the wasm copied beside it', async () => {
  const outdir = join(stage.project.folder, 'esbuild');
  const entryPoints = [join(stage.project.folder, 'page.js')];
  await esbuild.build({ entryPoints, bundle: true, format: 'esm', minify: true, outdir, logLevel: 'error' });
  copyFileSync(join(stage.project.package, 'dist', WASM), join(outdir, WASM));
  copyFileSync(join(stage.project.folder, 'index.html'), join(outdir, 'index.html'));
  check(await visit(outdir, 'index.html'));
});

test('an esbuild bundle that imports the address of the wasm', async () => {
  const outdir = join(stage.project.folder, 'esbuild-file');
  stage.project.write({
    'file.js': `import wasm from '@itookit/cells-driver/${WASM}'; import './page.js'; window.wasm = wasm;`,
  });
  const entryPoints = { page: join(stage.project.folder, 'file.js') };
  await esbuild.build({ entryPoints, bundle: true, format: 'esm', outdir, loader: { '.wasm': 'file' }, logLevel: 'error' });
  copyFileSync(join(stage.project.folder, 'index.html'), join(outdir, 'index.html'));
  const [file] = wasmFiles(outdir);
  check(await visit(outdir, 'index.html', { wasm: `./${file}` }));
});
