// What the package reports of a mutation is what happened, or `unknown`: see docs/fault-runs.md.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Actor } from '../support/fault-runs/actor.js';
import { faultRuns, seeds } from '../support/fault-runs/runs.js';
import { Project } from '../support/project.js';

test('what is reported in Node is what happened, or unknown', async () => {
  const project = await Project.create();
  const module = await project.import();
  const host = { name: 'Node', file: import.meta.filename, isBrowser: false, actor: async () => new Actor(module) };
  const wanted = seeds(200);
  const { runs, cells } = await faultRuns(host, wanted);
  if (wanted.length > 1) assert.deepEqual({ runs, cells }, { runs: wanted.length, cells: 70 });
});
