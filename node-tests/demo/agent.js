// The steps that talk to the agent.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';

const OUTPUT_BYTES = 8 * 1024 * 1024;

/** A new session in the scratch export. */
export class Session {
  static async create(stage) {
    const session = new Session();
    session.harness = stage.harness();
    const { profiles } = await session.harness.profiles();
    assert.ok(profiles.length > 0, 'the node has no agent');
    assert.ok(profiles[0].workspaces.some(({ id }) => id === 'scratch'), 'the scratch export is no workspace');
    session.profile = profiles[0].id;
    const created = await session.harness.create(session.profile, 'scratch');
    session.id = created.session.id;
    return session;
  }

  /** The texts of all messages of one kind, such as `userMessage`, oldest first. */
  async messages(kind) {
    const pages = [];
    let cursor;
    do {
      const options = cursor === undefined ? {} : { cursor };
      const page = await this.harness.read(this.profile, this.id, options);
      pages.unshift(page.turns.flatMap((turn) => turn.items));
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
    return pages
      .flat()
      .filter((item) => item.type === kind)
      .map((item) => item.text ?? item.content.map((part) => part.text ?? '').join(''));
  }
}

export async function conversation(stage) {
  const session = await Session.create(stage);
  const watch = await Watch.open(session);
  await session.harness.turn(
    session.profile,
    session.id,
    'say The text of a turn arrives word by word, and the history has it whole.',
  );
  const turn = await watch.untilCompleted(asksNothing);
  assert.equal(turn.text, (await session.messages('agentMessage')).pop(), 'streamed text');
  assert.ok(turn.deltas > 1, 'the text came in one piece');
  return `${turn.deltas} deltas: “${turn.text}”`;
}

export async function approval(stage) {
  const command = 'ls entries | tail -n 3; wc -c < large.bin; echo $((6 * 7))';
  const session = await Session.create(stage);
  const watch = await Watch.open(session);
  await session.harness.turn(session.profile, session.id, `run ${command}`);
  const asked = [];
  await watch.untilCompleted((request) => {
    assert.equal(request.method, 'item/commandExecution/requestApproval');
    asked.push(request.params.command);
    return { decision: 'accept' };
  });
  assert.deepEqual(asked, [command], 'approvals');
  const direct = execFileSync('sh', ['-c', command], { cwd: stage.scratch, encoding: 'utf8' });
  const closing = (await session.messages('agentMessage')).pop();
  const quoted = closing.slice(closing.indexOf('```\n') + 4, closing.lastIndexOf('```'));
  assert.equal(quoted, direct, 'output quoted in the closing message');
  return `approved \`${command}\`; its output is quoted unchanged: ${JSON.stringify(direct)}`;
}

export async function commandOutput(stage) {
  const session = await Session.create(stage);
  const { commands } = await session.harness.commands(session.profile, session.id);
  assert.ok(commands.some(({ name }) => name === 'output'), 'the agent has no command `output`');
  const args = `${OUTPUT_BYTES} demo`;
  const result = await session.harness.command(session.profile, session.id, 'output', args);
  assert.equal(result.state, 'completed');
  assert.ok(result.outputRef, 'the output is not kept behind a reference');
  await stage.proxy.resetCounts();
  const output = new Uint8Array(await session.harness.loadCommandOutput(session.profile, result.outputRef));
  const pages = (await stage.proxy.counts()).tools.harness_command_output;
  assert.equal(output.length, OUTPUT_BYTES);
  const digest = createHash('sha256').update(output).digest('hex');
  assert.equal(digest, result.outputRef.sha256, 'SHA-256 of the reference');
  assert.equal(digest, createHash('sha256').update(expectedOutput()).digest('hex'), 'SHA-256 of the recipe');
  return `${output.length} bytes in ${pages} pages, SHA-256 ${digest.slice(0, 16)}…`;
}

/** Follows the events of one session. */
export class Watch {
  static async open(session) {
    const watch = new Watch();
    watch.session = session;
    watch.wake = () => {};
    watch.subscription = session.harness.subscribe(session.profile, () => watch.wake());
    await watch.subscription.ready;
    watch.cursor = session.harness.eventSnapshot(session.profile).cursor;
    return watch;
  }

  /** Until a turn of the session is completed; `answer` gives the response to each request of the agent. */
  async untilCompleted(answer) {
    const { harness, profile, id: sessionId } = this.session;
    const isOwn = (message) => message.params.threadId === sessionId;
    const turn = { text: '', deltas: 0 };
    const answered = new Set();
    for (;;) {
      const changed = new Promise((resolve) => {
        this.wake = resolve;
      });
      const snapshot = harness.eventSnapshot(profile, this.cursor);
      if (snapshot.state === 'failed') throw snapshot.error;
      assert.equal(snapshot.gap, false, 'events were lost');
      this.cursor = snapshot.cursor;
      for (const { message } of snapshot.events.filter((event) => isOwn(event.message))) {
        if (message.method === 'item/agentMessage/delta') {
          turn.text += message.params.delta;
          turn.deltas += 1;
        } else if (message.method === 'turn/completed') {
          assert.equal(message.params.turn.status, 'completed', 'end of the turn');
          this.subscription.close();
          return turn;
        }
      }
      for (const request of snapshot.requests.filter((one) => isOwn(one) && !answered.has(one.id))) {
        answered.add(request.id);
        await harness.respond(profile, request.id, answer(request));
      }
      await changed;
    }
  }
}

/** The answer of a turn that needs no approval. */
export function asksNothing() {
  assert.fail('the agent asked although nothing needs approval');
}

/** The text of the agent's command `output`, by the recipe of docs/scripted-agent.md. */
function expectedOutput() {
  const lines = [];
  for (let [number, bytes] = [0, 0]; bytes < OUTPUT_BYTES; number += 1) {
    const line = Buffer.from(`${String(number).padStart(10, '0')} demo naïve café – 日本語 😀\n`);
    lines.push(line);
    bytes += line.length;
  }
  const output = Buffer.concat(lines).subarray(0, OUTPUT_BYTES);
  // A character that the cut would split becomes dots: step back to where it begins.
  let end = output.length;
  const isWhole = (length) => Buffer.from(output.subarray(0, length).toString('utf8')).length === length;
  while (!isWhole(end)) end -= 1;
  return output.fill('.', end);
}
