// The page that README.md shows, in Chromium.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { StaticServer, startBrowser } from '../support/browser.js';
import { Project } from '../support/project.js';
import { DOCUMENTS, shown, startNode } from '../support/readme.js';

let browser;
let home;
let pages;

before(async () => {
  browser = await startBrowser();
  const project = await Project.create({ 'page.html': shown('node-tests/examples/page.html') });
  pages = await StaticServer.start({ '/site': project.folder });
  home = await startNode(['--allow-origin', pages.origin]);
});
after(async () => {
  await browser?.close();
  await home?.node.kill();
  pages?.close();
});

async function list(apiKey) {
  const page = await browser.newPage();
  await page.goto(`${pages.origin}/site/page.html`);
  await page.fill('[name=url]', home.node.endpoint);
  await page.fill('[name=key]', apiKey);
  await page.click('button');
  await page.waitForFunction("document.querySelector('pre').textContent !== ''");
  return page.textContent('pre');
}

test('the page lists the documents', async () => {
  assert.deepEqual((await list(home.apiKey)).split('\n'), DOCUMENTS);
});

test('the page shows what is wrong', async () => {
  assert.match(await list('another key of the right length'), /EACCES/);
});
