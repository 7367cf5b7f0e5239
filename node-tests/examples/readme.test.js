// What README.md tells a newcomer to run, run. `cargo xtask test` gives the variable:
//   CELLS_README='{"programs": FOLDER, "app": FOLDER, "chromium": PROGRAM or null, "noChromium": TEXT}'
// `programs` has what cargo built; `app` is a project with the packed package and the examples.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';
import { LocalNode } from '../support/local-node.js';

const options = JSON.parse(process.env.CELLS_README);
const root = join(import.meta.dirname, '..', '..');
const run = promisify(execFile);
const apiKey = 'the-key-of-a-node-that-lives-for-one-test';
let folder;
let pages;
let node;
let names;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cells-readme-'));
  pages = await servePages(options.app);
  node = await LocalNode.start({
    program: join(options.programs, 'cells'),
    exports: [`docs=${join(root, 'docs')}`, `scratch=${folder}:rw`],
    state: join(folder, '.state'),
    apiKey,
    args: ['--allow-origin', pages.origin],
  });
  names = (await readdir(join(root, 'docs'))).sort();
});

after(async () => {
  await node?.kill();
  pages?.server.close();
  await rm(folder, { recursive: true, force: true });
});

test('the start in Rust lists the documents and hears the agent', async () => {
  const { stdout } = await run(join(options.programs, 'examples', 'start'), [], { env: environment() });
  assert.deepEqual(listed(stdout), names);
  assert.match(stdout, /^Hello from the agent\.$/m);
});

test('the start in JavaScript lists the documents and hears the agent', async () => {
  const { stdout } = await run(process.execPath, ['examples/start.js'], { cwd: options.app, env: environment() });
  assert.deepEqual(listed(stdout), names);
  assert.match(stdout, /Hello from the agent\.$/);
});

test('the page lists the documents in a browser', async (t) => {
  if (options.chromium === null) {
    t.skip(options.noChromium);
    return;
  }
  const browser = await chromium.launch({ executablePath: options.chromium, args: ['--no-sandbox'] });
  try {
    const page = await browser.newPage();
    await page.goto(`${pages.origin}/page.html`);
    await page.fill('[name=url]', node.endpoint);
    await page.fill('[name=key]', apiKey);
    await page.click('button');
    await page.waitForFunction("document.querySelector('pre').textContent !== ''");
    assert.deepEqual((await page.textContent('pre')).split('\n'), names);
  } finally {
    await browser.close();
  }
});

test('each line about the cells command works', async () => {
  const readme = await readFile(join(root, 'README.md'), 'utf8');
  const [, block] = /## The `cells` command\n+```sh\n(.*?)```/s.exec(readme);
  const lines = block.split('\n').map((line) => line.replace(/ +#.*/, '')).filter((line) => line !== '');
  assert.ok(lines.length > 3);
  for (const line of lines) {
    // Nobody sits at this terminal to approve the command.
    const typed = line.startsWith('cells send') ? `${line} --approve yes` : line;
    const { stdout } = await run('sh', ['-c', typed], { env: environment() });
    assert.notEqual(stdout, '', line);
  }
});

function environment() {
  const PATH = `${options.programs}:${process.env.PATH}`;
  return { ...process.env, PATH, CELLS_URL: node.endpoint, CELLS_API_KEY: apiKey };
}

/** The names in lines such as `name 123` or `name Some(123)`. */
function listed(text) {
  return [...text.matchAll(/^(\S+) (?:Some\()?\d+\)?$/gm)].map(([, name]) => name).sort();
}

/** Serves the project as any web server would; `page.html` at the top, where its import map expects to be. */
async function servePages(app) {
  const types = { '.html': 'text/html', '.js': 'text/javascript', '.wasm': 'application/wasm' };
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    try {
      const body = await readFile(join(app, pathname === '/page.html' ? 'examples/page.html' : pathname));
      response.writeHead(200, { 'content-type': types[extname(pathname)] ?? 'application/octet-stream' }).end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { server, origin: `http://127.0.0.1:${server.address().port}` };
}
