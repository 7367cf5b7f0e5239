// Fault runs of the npm package: one mutation, one fault, drawn by a seed; see docs/fault-runs.md.
import { execFileSync } from 'node:child_process';
import { program } from '../stage.js';
import { runKilled } from './killed.js';
import { runNetwork } from './network.js';

/**
 * Does the runs with these seeds and prints a table; throws with a line for each run that failed, which repeats it.
 * `host` is where the package runs: `{name, file, isBrowser, actor}`, with the test file and a function that gives actors.
 */
export async function faultRuns(host, seeds) {
  const started = Date.now();
  const cells = new Map();
  const failures = [];
  const report = async (run, act) => {
    try {
      count(cells, run, await act(run));
    } catch (error) {
      failures.push(`seed ${run.seed}: ${run.mutation} × ${run.fault}: ${error.message}\n    ${repeat(host, run.seed)}`);
    }
  };
  const runs = planned(seeds);
  const isKilled = ({ fault }) => fault.startsWith('killed-');
  const network = runs.filter((run) => !isKilled(run));
  for (let at = 0; at < network.length; at += RUNS_OF_ONE_NODE) {
    await runNetwork(host, network.slice(at, at + RUNS_OF_ONE_NODE), report);
  }
  await runKilled(host, runs.filter(isKilled), report);

  const seconds = ((Date.now() - started) / 1_000).toFixed(1);
  console.log(`${table(cells)}\n${runs.length} fault runs in ${host.name} in ${seconds} s`);
  if (failures.length > 0) {
    throw new Error(`${failures.length} runs failed:\n${failures.slice(0, SHOWN).join('\n')}`);
  }
  return { runs: runs.length, cells: cells.size };
}

/**
 * The seeds of a suite: every `stride`th one. There are `count` of them, in the night fifty times as many; to repeat a run
 * that failed it is that one.
 */
export function seeds(count, stride = 1) {
  const { CELLS_FAULT_SEED, CELLS_NIGHTLY } = process.env;
  if (CELLS_FAULT_SEED !== undefined) return [Number(CELLS_FAULT_SEED)];
  return Array.from({ length: CELLS_NIGHTLY === '1' ? 50 * count : count }, (_, index) => index * stride);
}

/** The runs of some seeds, as `cells-fault-runs` draws them. */
function planned(seeds) {
  const first = Math.min(...seeds);
  const count = Math.max(...seeds) + 1 - first;
  const lines = execFileSync(program('CELLS_FAULT_RUNS'), [first, count], { encoding: 'utf8', maxBuffer: 2 ** 28 });
  const wanted = new Set(seeds);
  return lines.trim().split('\n').map((line) => JSON.parse(line)).filter(({ seed }) => wanted.has(seed));
}

function count(cells, { mutation, fault }, { unknown, open }) {
  const key = `${mutation.padEnd(18)} ${fault.padEnd(18)}`;
  const cell = cells.get(key) ?? { runs: 0, unknown: 0, open: 0 };
  cells.set(key, { runs: cell.runs + 1, unknown: cell.unknown + unknown, open: cell.open + open });
}

function table(cells) {
  const line = (cell, runs, unknown, open) => `${cell} ${runs.padStart(7)} ${unknown.padStart(9)} ${open.padStart(11)}`;
  const head = line(`${'mutation'.padEnd(18)} ${'fault'.padEnd(18)}`, 'runs', 'unknown', 'stays so');
  const rows = [...cells].sort(([a], [b]) => (a < b ? -1 : 1)).map(([cell, { runs, unknown, open }]) => {
    const share = (part) => `${((100 * part) / runs).toFixed(1)} %`;
    return line(cell, String(runs), share(unknown), share(open));
  });
  return [head, ...rows].join('\n');
}

/** The line that does one run again. */
function repeat({ file }, seed) {
  const set = (name) => process.env[name] && `${name}='${process.env[name]}'`;
  const programs = ['CELLS_BIN', 'CELLS_FAULT_PROXY', 'CELLS_FAULT_RUNS', 'CELLS_TARBALL', 'CHROMIUM'].map(set);
  return [`CELLS_FAULT_SEED=${seed}`, ...programs.filter(Boolean), `node --test '${file}'`].join(' ');
}

const RUNS_OF_ONE_NODE = 490;
const SHOWN = 20;
