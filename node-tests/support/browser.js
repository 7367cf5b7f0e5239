// Headless Chromium, and the folders it gets its pages from.
import { createServer } from 'node:http';
import { once } from 'node:events';
import { readFileSync, statSync } from 'node:fs';
import { delimiter, extname, join, normalize } from 'node:path';
import { chromium } from 'playwright-core';

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.mjs': 'text/javascript', '.wasm': 'application/wasm' };

/** Serves folders on a port of its own, one below the other: `{'/plain': folder}`. */
export class StaticServer {
  requests = [];

  /** `types` overrides content types by extension. */
  static async start(folders, types = {}) {
    const served = new StaticServer();
    served.server = createServer(({ url }, response) => {
      const path = normalize(decodeURIComponent(new URL(url, 'http://x').pathname));
      served.requests.push(path);
      const [mount] = Object.keys(folders).filter((prefix) => path.startsWith(`${prefix}/`));
      const file = mount && join(folders[mount], path.slice(mount.length));
      if (!file || !isFile(file)) return response.writeHead(404, { 'content-type': 'text/html' }).end('<!doctype html>');
      const type = { ...TYPES, ...types }[extname(file)] ?? 'application/octet-stream';
      return response.writeHead(200, { 'content-type': type }).end(readFileSync(file));
    });
    served.server.listen(0, '127.0.0.1');
    await once(served.server, 'listening');
    served.origin = `http://127.0.0.1:${served.server.address().port}`;
    return served;
  }

  close() {
    this.server.close();
    this.server.closeAllConnections();
  }
}

function isFile(path) {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

/** Starts the browser of the machine: `CHROMIUM`, else the first one in PATH. */
export async function startBrowser() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? inPath(), args: ['--no-sandbox', '--disable-gpu'] });
}

function inPath() {
  for (const name of ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome']) {
    for (const folder of process.env.PATH.split(delimiter)) {
      if (isFile(join(folder, name))) return join(folder, name);
    }
  }
  throw new Error('there is no Chromium in PATH: run `cargo xtask setup`, or set CHROMIUM to the program');
}
