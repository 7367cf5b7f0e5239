// The main job of the npm package, done and checked step by step against a local node; `cargo xtask demo` runs it.
//
//   node main.js '{"cells": PROGRAM, "faultProxy": PROGRAM, "demo": PROGRAM, "repository": FOLDER, "folder": FOLDER,
//                  "report": FILE}'
//
// `demo` is the native demo, which can count the receipts of a node; `folder` has `scratch` and gets `state`.
import { writeFile } from 'node:fs/promises';
import * as agent from './agent.js';
import * as files from './files.js';
import * as recovery from './recovery.js';
import { Stage } from './stage.js';

const STEP_MAX_MS = 120_000;

const options = JSON.parse(process.argv[2]);
const stage = await Stage.set(options);
const done = [];
await run('discover', files.discover);
await run('stat-batch', files.statBatch);
await run('list-pages', files.listPages);
await run('read-range', files.readRange);
await run('read-verify', files.readVerify);
await run('conversation', agent.conversation);
await run('approval', agent.approval);
await run('command-output', agent.commandOutput);
await run('lost-reply', recovery.lostReply);
await run('restart', recovery.restart);
await run('bad-credential', files.badCredential);
await stage.close();
await writeFile(options.report, JSON.stringify(done));
process.exit(done.every((step) => step.ok) ? 0 : 1);

/** Runs one step; its result is what it saw. */
async function run(name, step) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${STEP_MAX_MS / 1000} s`)), STEP_MAX_MS);
  });
  let ok = true;
  let detail;
  try {
    detail = await Promise.race([step(stage), late]);
  } catch (error) {
    ok = false;
    detail = `${error.code ? `${error.code}: ` : ''}${error.message}`;
  }
  clearTimeout(timer);
  console.log(`node    ${name.padEnd(15)} ${ok ? 'ok    ' : 'FAILED'}  ${detail}`);
  done.push({ name, host: 'node', ok, detail });
}
