// Empty projects with the packed package in them, as a user has it.
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The repository's own tools: bundlers and the TypeScript compiler. */
export const TOOLS = join(import.meta.dirname, '..', 'node_modules');

/** The packed package: `CELLS_TARBALL`, else what `cargo xtask npm` left. */
export function tarball() {
  if (process.env.CELLS_TARBALL) return process.env.CELLS_TARBALL;
  const folder = join(import.meta.dirname, '..', '..', 'target', 'npm');
  try {
    const [name] = readdirSync(folder).filter((file) => file.endsWith('.tgz'));
    if (name) return join(folder, name);
  } catch {}
  throw new Error('there is no packed package: run `cargo xtask npm`, or set CELLS_TARBALL');
}

/** A project in a folder of its own. */
export class Project {
  /** Writes `files` (path → text) and installs the package, and nothing else. */
  static async create(files = {}) {
    const project = new Project();
    project.folder = mkdtempSync(join(tmpdir(), 'cells-project-'));
    process.once('exit', () => rmSync(project.folder, { recursive: true, force: true }));
    project.write({ 'package.json': '{"private": true}', ...files });
    await project.exec('npm', ['install', '--silent', '--no-audit', '--no-fund', tarball()]);
    return project;
  }

  /** Adds files. */
  write(files) {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(this.folder, path)), { recursive: true });
      writeFileSync(join(this.folder, path), text);
    }
  }

  /** The folder of the installed package. */
  get package() {
    return join(this.folder, 'node_modules', '@itookit', 'cells-driver');
  }

  /** Imports an entry of the package as Node does. */
  async import(file = 'node.js') {
    return import(pathToFileURL(join(this.package, 'dist', file)).href);
  }

  /** Runs a program in the project; gives its output, throws with its error output. */
  async exec(program, args, env = {}) {
    try {
      const options = { cwd: this.folder, env: { ...process.env, ...env }, maxBuffer: 64 * 1024 * 1024 };
      return (await run(program, args, options)).stdout;
    } catch (error) {
      throw new Error(`${program} ${args.join(' ')}: ${error.stderr || error.stdout || error.message}`, { cause: error });
    }
  }

  /** Runs a script of the project in Node; its output is one JSON value. */
  async node(script, env) {
    return JSON.parse(await this.exec(process.execPath, [script], env));
  }
}
