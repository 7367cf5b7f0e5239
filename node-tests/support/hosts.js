// The hosts of the package, Node and Chromium, against the local node and an old one. A task is a function that runs in the
// host as it stands there: it uses what it is given, and nothing around it.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StaticServer, startBrowser } from './browser.js';
import { FaultProxy } from './fault-proxy.js';
import { OldNode } from './old-node.js';
import { program, Stage } from './stage.js';

export const HOSTS = ['Node', 'Chromium'];
export const NODES = ['the local node', 'an old node'];

/** Both hosts and both nodes. Each node has the exports `home` (`rw`) and `locked` (`ro`), and a fault proxy before it. */
export class World {
  static async start() {
    const world = new World();
    world.root = mkdtempSync(join(tmpdir(), 'cells-world-'));
    process.once('exit', () => rmSync(world.root, { recursive: true, force: true }));
    world.locked = join(world.root, 'locked');
    const old = join(world.root, 'old');
    for (const folder of [world.locked, old]) mkdirSync(folder);
    const locked = ['--export', `locked=${world.locked}`];
    world.stage = await Stage.start({ args: [...locked, '--allow-origin', '*'] });
    const { apiKey } = world.stage;
    world.oldNode = await OldNode.start(program('CELLS_OLD_NODE'), {
      exports: [
        { alias: 'home', path: old, writable: true },
        { alias: 'locked', path: world.locked, writable: false },
      ],
      credential: { token: apiKey },
      allowedOrigins: ['*'],
    });
    world.nodes = {
      'the local node': await reached(world.stage.node.endpoint, world.stage.folder, apiKey),
      'an old node': await reached(world.oldNode.endpoint, old, apiKey),
    };
    world.browser = await startBrowser();
    world.page = await openPage(world);
    return world;
  }

  /** How many bytes the memory of the wasm has in a host; it never shrinks. */
  async wasmBytes(host) {
    if (host === 'Chromium') return this.page.evaluate('window.memory.buffer.byteLength');
    const { initSync } = await this.stage.project.import('cells_driver.cjs');
    return initSync().memory.buffer.byteLength; // the one that is loaded
  }

  /**
   * Runs `task(at, given)` in a host. `at` has `cells` (the package), `storage` (the export `home`, open), `open(options)`
   * (another connection), and `caught(promise)`: `{value}`, or the members of the error. With `proxied` the connection
   * goes through the fault proxy of the node.
   */
  async run(host, node, task, { given = null, proxied = false } = {}) {
    const { endpoint, proxy, apiKey } = this.nodes[node];
    const connection = { endpoint: proxied ? proxy.url : endpoint, apiKey };
    if (host === 'Node') {
      const at = await begin(this.stage.module, connection);
      try {
        return await task(at, given);
      } finally {
        await at.storage.close();
      }
    }
    const text = (value) => JSON.stringify(value);
    return this.page.evaluate(`(${begin})(window.cells, ${text(connection)})
      .then(async (at) => { try { return await (${task})(at, ${text(given)}) } finally { await at.storage.close() } })`);
  }

  async close() {
    await this.browser?.close();
    this.served?.close();
    for (const { proxy } of Object.values(this.nodes ?? {})) await proxy.close();
    await this.oldNode?.kill();
    await this.stage?.close();
  }
}

async function reached(endpoint, folder, apiKey) {
  const proxy = await FaultProxy.start(program('CELLS_FAULT_PROXY'), new URL(endpoint).host);
  return { endpoint, folder, apiKey, proxy };
}

async function openPage(world) {
  const { project } = world.stage;
  project.write({
    'cells.html': `<!doctype html><meta charset="utf-8"><title>test</title>
      <script type="module">
        import init, * as cells from './node_modules/@itookit/cells-driver/dist/index.js';
        import wasm from './node_modules/@itookit/cells-driver/dist/cells_driver.js';
        await init();
        window.memory = (await wasm()).memory;
        window.cells = cells;
      </script>`,
  });
  world.served = await StaticServer.start({ '/site': project.folder });
  const page = await world.browser.newPage();
  await page.goto(`${world.served.origin}/site/cells.html`);
  await page.waitForFunction(() => 'cells' in window);
  return page;
}

/** What a task gets. Runs in both hosts. */
async function begin(cells, { endpoint, apiKey }) {
  const open = (options) => new cells.HttpFSBackend({ endpoint, credential: () => apiKey, alias: 'home', ...options });
  const storage = open();
  await storage.init();
  const caught = async (promise) => {
    try {
      return { value: await promise };
    } catch (error) {
      const { name, code, operation, outcome, operationId, recovery, remoteCode, reason, message, cause } = error;
      return { name, code, operation, outcome, operationId, recovery, remoteCode, reason, message, cause: cause?.message ?? cause };
    }
  };
  return { cells, storage, open, caught, endpoint, apiKey };
}
