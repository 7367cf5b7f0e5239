// A local node, a proxy that counts and breaks requests, and a driver that talks to the node through it.
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { createCellsDriver } from '@itookit/cells-driver';
import { FaultProxy } from '../support/fault-proxy.js';
import { LocalNode } from '../support/local-node.js';

const CREDENTIAL = 'demo';

/** What every step uses. */
export class Stage {
  /** Starts a node over `repository`, read-only, and `folder/scratch`, writable. */
  static async set({ cells, faultProxy, demo, repository, folder }) {
    const stage = new Stage();
    const scratch = join(folder, 'scratch');
    const state = join(folder, 'state');
    const apiKey = randomBytes(32).toString('hex');
    const exports = [`repository=${repository}`, `scratch=${scratch}:rw`];
    const node = await LocalNode.start({ program: cells, exports, state, apiKey });
    const proxy = await FaultProxy.start(faultProxy, node.address);
    const driver = createCellsDriver();
    driver.setCredential(CREDENTIAL, apiKey);
    const connection = { endpoint: proxy.url, credentialRef: CREDENTIAL };
    return Object.assign(stage, { demo, repository, scratch, state, node, proxy, driver, connection });
  }

  /** Files of one export. */
  files(alias) {
    return this.driver.files({ ...this.connection, alias });
  }

  /** The agents of the node. */
  harness() {
    return this.driver.harness(this.connection);
  }

  async close() {
    await this.driver.dispose();
    await this.proxy.close();
    await this.node.kill();
  }
}
