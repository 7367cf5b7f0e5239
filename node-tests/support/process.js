// Programs that run beside a test and announce themselves by one JSON line on their standard output.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** Starts a program and waits for its line. It is killed when this process ends. */
export async function startAnnounced(program, args, { env = {}, stdin = 'ignore' } = {}) {
  const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: [stdin, 'pipe', 'inherit'] });
  const killed = () => child.kill('SIGKILL');
  process.once('exit', killed);
  child.once('exit', () => process.off('exit', killed));
  const failed = new Promise((_, reject) => {
    child.once('error', (error) => reject(new Error(`cannot start ${program}: ${error.message}`)));
    child.once('exit', (code, signal) => reject(new Error(`${program} ended (${signal ?? code}) before it was ready`)));
  });
  const [line] = await Promise.race([once(createInterface(child.stdout), 'line'), failed]);
  failed.catch(() => {});
  return { child, announced: JSON.parse(line) };
}

/** Waits until a program is gone; its exit code, or the signal that ended it. */
export async function ended(child) {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  return { code: child.exitCode, signal: child.signalCode };
}

/** Ends a program at once, as a power cut would, and waits until it is gone. */
export async function kill(child) {
  child.kill('SIGKILL');
  await ended(child);
}
