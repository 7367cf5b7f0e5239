// What README.md tells a newcomer to run, run.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Project } from '../support/project.js';
import { commands, DOCUMENTS, shown, startNode } from '../support/readme.js';
import { program } from '../support/stage.js';

let home;
let project;

before(async () => {
  home = await startNode();
  project = await Project.create({ 'start.mjs': shown('node-tests/examples/start.js') });
});
after(() => home.node.kill());

const STARTS = {
  Rust: () => [program('CELLS_START'), []],
  JavaScript: () => [process.execPath, ['start.mjs']],
};

for (const [language, start] of Object.entries(STARTS)) {
  test(`the start in ${language} lists the documents and hears the agent`, async () => {
    const output = await project.exec(...start(), home.environment);
    const listed = [...output.matchAll(/^(\S+) (?:Some\()?\d+\)?$/gm)].map(([, name]) => name);
    assert.deepEqual(listed.sort(), DOCUMENTS);
    assert.match(output, /^Hello from the agent\.$/m);
  });
}

test('each line about the cells command does something', async () => {
  const lines = commands('The `cells` command');
  assert.ok(lines.length > 3);
  for (const line of lines) {
    // Nobody sits at this terminal to approve the command.
    const typed = line.startsWith('cells send') ? `${line} --approve yes` : line;
    assert.notEqual(await project.exec('sh', ['-c', typed], home.environment), '', line);
  }
});
