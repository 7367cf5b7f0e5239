// A node as a process of its own, which a test can kill and start again.
import { ended, kill, startAnnounced } from './process.js';

/**
 * Runs `cells serve`; `exports` are what stands after `--export`, such as `notes=/a/folder:rw`, `args` any further
 * arguments.
 */
export class LocalNode {
  #options;
  #child;

  /** Starts a node on a free port and waits until it is ready. */
  static async start({ program, exports, state, apiKey, args = [] }) {
    const node = new LocalNode();
    node.#options = { program, exports, state, apiKey, args };
    await node.#run('127.0.0.1:0');
    return node;
  }

  /** Ends it as a power cut would. */
  async kill() {
    await kill(this.#child);
  }

  /** Starts it again: same state, port and key, and by default the same arguments. */
  async restart(args = this.#options.args) {
    this.#options.args = args;
    await this.#run(this.address);
  }

  /** Waits until it has ended by itself: `{code, signal}`. */
  async ended() {
    return ended(this.#child);
  }

  /** Host and port. */
  get address() {
    return new URL(this.endpoint).host;
  }

  async #run(listen) {
    const { program, exports, state, apiKey, args } = this.#options;
    const all = ['serve', '--state', state, '--listen', listen, '--log-level', 'error', ...args];
    for (const one of exports) all.push('--export', one);
    const { child, announced } = await startAnnounced(program, all, { env: { CELLS_API_KEY: apiKey } });
    this.#child = child;
    Object.assign(this, announced); // endpoint, mcpUrl, serverId
  }
}
