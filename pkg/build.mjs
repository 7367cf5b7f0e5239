// Assembles the npm package: node build.mjs GLUE_FOLDER PACKAGE_FOLDER VERSION
//
// GLUE_FOLDER holds what `wasm-bindgen --target web` made. The CommonJS files are the same sources, turned by esbuild
// (from node-tests, which locks its version). Writes the sizes of what a browser loads to size.json beside the package.
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { foreignImports } from './imports.mjs';

const [glue, out, version] = process.argv.slice(2);
const here = import.meta.dirname;
const root = dirname(here);
const { transformSync } = createRequire(join(root, 'node-tests', 'package.json'))('esbuild');

const SHARED = ['content', 'error', 'harness', 'driver', 'file-system', 'native', 'process', 'provider', 'seq', 'setup', 'stat', 'storage', 'transport', 'upload'];
const COMMON_JS = { 'node-cjs': 'node', ...Object.fromEntries([...SHARED, 'authorization'].map((name) => [name, name])) };
const BROWSER_LOADS = ['index', ...SHARED, 'cells_driver'].map((name) => `${name}.js`).concat('cells_driver_bg.wasm');

const foreign = foreignImports(readFileSync(join(glue, 'cells_driver_bg.wasm')));
if (foreign.length > 0) throw new Error(`the wasm imports what no host gives it: ${foreign.join(', ')}`);

const dist = join(out, 'dist');
rmSync(out, { recursive: true, force: true });
mkdirSync(dist, { recursive: true });

for (const name of readdirSync(join(here, 'src'))) {
  if (name === 'node-cjs.js') continue;
  cpSync(join(here, 'src', name), join(dist, name));
  if (name.endsWith('.d.ts')) {
    write(name.replace('.d.ts', '.d.cts'), read('src', name).replaceAll(/'(\.\/[\w-]+)\.js'/g, "'$1.cjs'"));
  }
}
for (const [source, target] of Object.entries(COMMON_JS)) {
  write(`${target}.cjs`, commonJs(read('src', `${source}.js`)));
}
for (const name of ['cells_driver.js', 'cells_driver_bg.wasm']) cpSync(join(glue, name), join(dist, name));
write('cells_driver.cjs', commonJs(readFileSync(join(glue, 'cells_driver.js'), 'utf8')));

const manifest = JSON.parse(read('package.json'));
writeFileSync(join(out, 'package.json'), `${JSON.stringify({ ...manifest, version }, null, 2)}\n`);
cpSync(join(here, 'README.md'), join(out, 'README.md'));
for (const licence of ['LICENSE-MIT', 'LICENSE-APACHE']) cpSync(join(root, licence), join(out, licence));

const files = BROWSER_LOADS.map((name) => {
  const bytes = readFileSync(join(dist, name));
  const brotli = brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } });
  return { name, raw: bytes.length, gzip: gzipSync(bytes, { level: 9 }).length, brotli: brotli.length };
});
const sum = (member) => files.reduce((total, file) => total + file[member], 0);
const total = { raw: sum('raw'), gzip: sum('gzip'), brotli: sum('brotli') };
writeFileSync(join(dirname(out), 'size.json'), `${JSON.stringify({ files, total }, null, 2)}\n`);
for (const { name, raw, gzip, brotli } of [...files, { name: 'total', ...total }]) {
  console.log(`${name.padEnd(22)} raw ${raw}, gzip ${gzip}, brotli ${brotli} bytes`);
}

function commonJs(code) {
  const options = { format: 'cjs', platform: 'node', target: 'node20' };
  return transformSync(code, options).code.replaceAll(/require\("(\.\/[\w-]+)\.js"\)/g, 'require("$1.cjs")');
}

function read(...path) {
  return readFileSync(join(here, ...path), 'utf8');
}

function write(name, text) {
  writeFileSync(join(dist, name), text);
}
