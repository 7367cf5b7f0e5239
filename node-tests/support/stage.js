// A local node over a scratch folder, and the packed package to talk to it.
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { LocalNode } from './local-node.js';
import { Project } from './project.js';

/** What a test file uses: `node`, `folder` (the export `home`), `project`, `module` (the package), `connection`. */
export class Stage {
  /**
   * Starts everything; `args` are further arguments of `cells serve`. With a `username` the node wants a password, which
   * is then `apiKey`. All its folders are below `base`.
   */
  static async start({ args = [], username, base = tmpdir() } = {}) {
    const root = mkdtempSync(join(base, 'cells-stage-'));
    process.once('exit', () => rmSync(root, { recursive: true, force: true }));
    const folder = join(root, 'home');
    mkdirSync(folder);
    const apiKey = randomBytes(24).toString('hex');
    const options = { program: program('CELLS_BIN'), exports: [`home=${folder}:rw`], state: join(root, 'state') };
    if (username) {
      writeFileSync(join(root, 'cells.toml'), `username = "${username}"\npassword = "${apiKey}"\n`);
      args = [...args, '--config', join(root, 'cells.toml')];
    }
    const node = await LocalNode.start({ ...options, args, apiKey: username ? undefined : apiKey });
    const project = await Project.create();
    const module = await project.import();
    const connection = { endpoint: node.endpoint, credentialRef: 'node' };
    return Object.assign(new Stage(), { root, folder, apiKey, node, project, module, connection });
  }

  #drivers = [];

  /** A driver that has the key of the node. */
  driver(fetch) {
    const driver = this.module.createCellsDriver(undefined, fetch);
    driver.setCredential('node', this.apiKey);
    this.#drivers.push(driver);
    return driver;
  }

  /** Ends the drivers, whose streams would keep this process alive, and the node. */
  async close() {
    for (const driver of this.#drivers) await driver.dispose();
    await this.node.kill();
  }
}

/** A folder for exports in which commands run: without a sandbox they see real folders, and none below `/tmp`. */
export const BASE = [join(import.meta.dirname, '..', '..', 'target'), homedir()].find((folder) => !folder.startsWith(tmpdir()));

/** A program that the tests run; `cargo xtask test` says where it is. */
export function program(variable) {
  if (process.env[variable]) return process.env[variable];
  throw new Error(`${variable} is not set: run \`cargo xtask test\`, or set it to the program`);
}

/** A `fetch` that keeps what it was called with. */
export function recordingFetch(fetch = globalThis.fetch) {
  const calls = [];
  const recording = (url, init) => {
    calls.push({ url, ...init });
    return fetch(url, init);
  };
  return Object.assign(recording, { calls });
}

/** The error that `promise` is rejected with. */
export async function rejection(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('the promise was not rejected');
}
