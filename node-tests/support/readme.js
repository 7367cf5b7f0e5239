// The node that README.md starts, and what it shows.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { LocalNode } from './local-node.js';
import { program } from './stage.js';

const ROOT = join(import.meta.dirname, '..', '..');
const API_KEY = 'the-key-of-a-node-that-lives-for-one-test';

/** The names in the export `docs`. */
export const DOCUMENTS = readdirSync(join(ROOT, 'docs')).sort();

/** A file that README.md shows. */
export function shown(path) {
  return readFileSync(join(ROOT, path), 'utf8');
}

/** The lines of a `sh` block of README.md, without comments. */
export function commands(heading) {
  const [, block] = shown('README.md').split(`## ${heading}\n`)[1].split('```sh\n');
  const lines = block.split('```')[0].split('\n');
  return lines.map((line) => line.replace(/ +#.*/, '')).filter((line) => line !== '');
}

/** The node with the exports `docs` and `scratch`. */
export async function startNode(args = []) {
  const folder = mkdtempSync(join(tmpdir(), 'cells-readme-'));
  const cells = program('CELLS_BIN');
  const exports = [`docs=${join(ROOT, 'docs')}`, `scratch=${folder}:rw`];
  const state = mkdtempSync(join(tmpdir(), 'cells-state-'));
  process.once('exit', () => {
    for (const made of [folder, state]) rmSync(made, { recursive: true, force: true });
  });
  const node = await LocalNode.start({ program: cells, exports, state, apiKey: API_KEY, args });
  // `cells` is in PATH as after an installation.
  const PATH = `${dirname(cells)}:${process.env.PATH}`;
  return { node, apiKey: API_KEY, environment: { PATH, CELLS_URL: node.endpoint, CELLS_API_KEY: API_KEY } };
}
