// Whether what was reported is what happened.

/**
 * Judges a write after the faults have stopped. Gives whether it was reported as unknown, and whether it still was after
 * it had been asked for.
 */
export async function judgeWrite({ run, scene, actor, node, reported }) {
  const { outcome, recovery, sent } = reported;
  if (outcome === 'unknown' && recovery === undefined) {
    throw new Error(`an unknown outcome that cannot be asked for: ${reported.words}`);
  }
  if (reported.operationId !== undefined && reported.operationId !== sent?.operationId) {
    throw new Error(`the error names the operation ${reported.operationId}, but ${sent?.operationId} was sent`);
  }
  const settled = recovery && (await actor.settle(recovery));
  const atNode = sent && (await node.outcome(sent.operationId));
  const effects = await scene.effects(node);
  const words = `${effects} effects; ${told(reported)}; the node says ${atNode}; settled as ${JSON.stringify(settled)}`;
  const demand = demanding(words);

  demand(
    {
      committed: effects === 1 && atNode === 'committed',
      'not-committed': effects === 0 && atNode !== 'committed',
      'not-started': effects === 0 && atNode === undefined,
      unknown: true,
    }[outcome],
  );
  demand({ committed: effects === 1, 'not-committed': effects === 0, unknown: true }[atNode ?? 'not-committed']);
  if (settled !== undefined) {
    demand(
      {
        committed: effects === 1 && atNode !== 'not-committed',
        'not-committed': effects === 0 && atNode !== 'committed',
        unknown: atNode !== 'committed' && atNode !== 'not-committed',
      }[settled.outcome],
    );
  }
  demand(run.fault !== 'none' || outcome === 'committed');
  if (scene.leftOver().length > 0) throw new Error(`${scene.leftOver()} is left; ${words}`);
  return { unknown: outcome === 'unknown', open: settled?.outcome === 'unknown' };
}

/** Judges a command after the faults have stopped. `nodeIsNew`: it was started again and cannot know. */
export async function judgeCommand({ run, scene, actor, reported, nodeIsNew = false }) {
  const released = await actor.release();
  const isReleased = released.outcome === 'committed';
  const effects = await scene.effects();
  const { outcome } = reported;
  const demand = demanding(`${effects} effects; ${told(reported)}; released: ${released.words}`);
  demand(
    {
      committed: effects === 1,
      'not-started': effects === 0,
      'not-committed': effects === 0,
      partial: true,
      unknown: true,
    }[outcome],
  );
  const unknown = outcome === 'unknown';
  // Only the run of the node that had the process can confirm its end.
  demand(isReleased || (nodeIsNew && unknown));
  demand(run.fault !== 'none' || outcome === 'committed');
  return { unknown, open: !isReleased };
}

function told({ outcome, words }) {
  return `reported ${outcome} (${words})`;
}

/** Throws unless what is demanded holds. */
function demanding(words) {
  return (holds) => {
    if (!holds) throw new Error(words);
  };
}
