// The node of the generation before Cells 0.4, as a process of its own; see crates/cells-testkit/src/old_node.
import { kill, startAnnounced } from './process.js';

/** Runs `cells-old-node`; `options` are its `OldNodeOptions`. */
export class OldNode {
  #child;

  static async start(program, options) {
    const { child, announced } = await startAnnounced(program, [JSON.stringify(options)], { stdin: 'pipe' });
    const node = new OldNode();
    node.#child = child;
    node.endpoint = announced.url;
    return node;
  }

  /** Ends it at once. */
  async kill() {
    await kill(this.#child);
  }
}
