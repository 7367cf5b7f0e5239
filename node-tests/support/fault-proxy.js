// The fault proxy of crates/cells-testkit between a client and a node.
import { kill, startAnnounced } from './process.js';

/** Runs `cells-fault-proxy`; see crates/cells-testkit/src/fault_proxy/control.rs for plans and counts. */
export class FaultProxy {
  #child;
  #control;

  /** Forwards a free loopback port to `upstream`, such as `127.0.0.1:8000`. */
  static async start(program, upstream) {
    const { child, announced } = await startAnnounced(program, [upstream], { stdin: 'pipe' });
    const proxy = new FaultProxy();
    proxy.#child = child;
    proxy.#control = announced.control;
    proxy.url = announced.url;
    return proxy;
  }

  /** Replaces the plan, such as `{rules: [{tool: 'harness_turn', when: {nth: 1}, fault: {kind: 'reset-after'}}]}`. */
  async setPlan(plan) {
    await this.#ask('PUT', 'plan', JSON.stringify(plan));
  }

  /** `{requests, forwarded, paths, tools}` since the start or the last reset. */
  async counts() {
    return (await this.#ask('GET', 'counts')).json();
  }

  /** Counts from zero again. */
  async resetCounts() {
    await this.#ask('DELETE', 'counts');
  }

  /** Closes the port and every connection. */
  async refuse() {
    await this.#ask('POST', 'refuse');
  }

  /** Opens the port again. */
  async listen() {
    await this.#ask('POST', 'listen');
  }

  /** Ends the proxy. */
  async close() {
    await kill(this.#child);
  }

  async #ask(method, path, body) {
    const headers = body === undefined ? {} : { 'content-type': 'application/json' };
    const reply = await fetch(`${this.#control}/${path}`, { method, headers, body });
    if (!reply.ok) throw new Error(`fault proxy: ${method} ${path}: ${reply.status} ${await reply.text()}`);
    return reply;
  }
}
