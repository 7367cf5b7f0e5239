// The examples in TypeScript are what the compiler accepts, and run against a node as they stand.
import assert from 'node:assert/strict';
import { cpSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { transformSync } from 'esbuild';
import { Project, TOOLS } from '../support/project.js';
import { startNode } from '../support/readme.js';

const FOLDER = join(import.meta.dirname, '..', 'examples');

/** What each example prints. */
const PRINTS = {
  'agents.ts': [
    'listed: true',
    'asks: echo done by the agent',
    'ran: echo done by the agent',
    'said: Command `echo done by the agent` exited with 0:',
    'downloaded: 200000 bytes',
    'forked: 2 branches',
    'found: true',
  ],
  'processes.ts': ['working', 'done', 'exit code 3', 'ECANCELLED partial'],
  'seq.ts': ['counted 1 2 3', 'status 404', 'removed true'],
  'sources.ts': ['exports: /docs /scratch', 'http:home rw', '/shopping.txt 11', 'read it again before you save it: not-committed'],
  'writes.ts': ['LICENSE-APACHE arrived', 'LICENSE-MIT arrived', 'what it says is what is there: true'],
};

let home;
let project;
before(async () => {
  home = await startNode();
  project = await Project.create();
  for (const types of ['@types/node', 'undici-types']) {
    cpSync(join(TOOLS, types), join(project.folder, 'node_modules', types), { recursive: true });
  }
  for (const name of Object.keys(PRINTS)) {
    const text = readFileSync(join(FOLDER, name), 'utf8');
    project.write({ [name.replace('.ts', '.mts')]: text, [name.replace('.ts', '.mjs')]: transformSync(text, { loader: 'ts' }).code });
  }
});
after(() => home?.node.kill());

test('every example is here', () => {
  const examples = readdirSync(FOLDER).filter((name) => name.endsWith('.ts'));
  assert.deepEqual(examples.sort(), Object.keys(PRINTS).sort());
});

test('strict TypeScript accepts the examples', async () => {
  const compilerOptions = { module: 'nodenext', target: 'es2022', lib: ['es2022'], types: ['node'], strict: true, noEmit: true };
  const files = Object.keys(PRINTS).map((name) => name.replace('.ts', '.mts'));
  project.write({ 'tsconfig.json': JSON.stringify({ compilerOptions, files }) });
  await project.exec(process.execPath, [join(TOOLS, 'typescript', 'bin', 'tsc'), '-p', 'tsconfig.json']);
});

for (const [name, lines] of Object.entries(PRINTS)) {
  test(`${name} runs`, async () => {
    const printed = await project.exec(process.execPath, [name.replace('.ts', '.mjs')], home.environment);
    assert.deepEqual(printed.trim().split('\n'), lines);
  });
}
