// What the package reports of a mutation in Chromium is what happened, or `unknown`: see docs/fault-runs.md.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { StaticServer, startBrowser } from '../support/browser.js';
import { Actor } from '../support/fault-runs/actor.js';
import { faultRuns, seeds } from '../support/fault-runs/runs.js';
import { Project } from '../support/project.js';

const PAGE = `<!doctype html><meta charset="utf-8"><title>fault runs</title>
  <script type="importmap">{"imports": {"@itookit/cells-driver": "/package/dist/index.js"}}</script>
  <script type="module" src="/support/page.js"></script>`;

const METHODS = Object.getOwnPropertyNames(Actor.prototype).filter((name) => name !== 'constructor');

test('what is reported in Chromium is what happened, or unknown', async () => {
  const project = await Project.create({ 'page/index.html': PAGE });
  const support = join(import.meta.dirname, '../support/fault-runs');
  const served = await StaticServer.start({
    '/page': join(project.folder, 'page'),
    '/package': project.package,
    '/support': support,
  });
  const browser = await startBrowser();
  try {
    // A page for each caller. Its methods take and give JSON.
    const actor = async () => {
      const page = await browser.newPage();
      await page.goto(`${served.origin}/page/index.html`);
      await page.waitForFunction(() => 'actor' in window);
      const call = (method) => (argument) =>
        page.evaluate(([name, given]) => window.actor[name](given), [method, argument]);
      return Object.fromEntries(METHODS.map((name) => [name, call(name)]));
    };
    const host = { name: 'Chromium', file: import.meta.filename, isBrowser: true, actor };
    // Steps of 61 give another cell each time, and each fault equally often.
    const wanted = seeds(40, 61);
    const { runs, cells } = await faultRuns(host, wanted);
    if (wanted.length > 1) assert.deepEqual({ runs, cells }, { runs: wanted.length, cells: Math.min(70, wanted.length) });
  } finally {
    await browser.close();
    served.close();
  }
});
