// Medians of several rounds.
import assert from 'node:assert/strict';

const ROUNDS = 7;

/** Median milliseconds of both, run in turns after one round to get warm; both must give the same result. */
export async function compare(ours, peer) {
  const [ourTimes, peerTimes] = [[], []];
  for (let round = 0; round <= ROUNDS; round += 1) {
    const our = await timed(ours);
    const their = await timed(peer);
    assert.equal(our.result, their.result, 'the peer did something else');
    if (round > 0) {
      ourTimes.push(our.ms);
      peerTimes.push(their.ms);
    }
  }
  return { value: median(ourTimes), peerValue: median(peerTimes) };
}

/** Median milliseconds of one. */
export async function roundsOf(run) {
  const times = [];
  for (let round = 0; round <= ROUNDS; round += 1) times.push((await timed(run)).ms);
  return median(times.slice(1));
}

async function timed(run) {
  const started = performance.now();
  const result = await run();
  return { ms: performance.now() - started, result };
}

function median(times) {
  return times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
}
