// How figures went while this page looked: a few samples for each, for the small lines beside numbers.

const SAMPLES_MAX = 60;
const THINGS_MAX = 2000; // those that were seen longest ago go first

const seen = new Map();
let round = 0;

// The node has answered anew: from now on samples are others.
export function newRound() {
  round += 1;
}

// All samples, oldest first, with this one if there is none of this round yet.
export function trend(key, value) {
  const found = seen.get(key) ?? { round: -1, samples: [] };
  if (found.round === round) return found.samples;
  seen.delete(key);
  seen.set(key, { round, samples: found.samples });
  found.samples.push(Number.isFinite(value) ? value : 0);
  if (found.samples.length > SAMPLES_MAX) found.samples.shift();
  if (seen.size > THINGS_MAX) seen.delete(seen.keys().next().value);
  return found.samples;
}

export function forgetTrends() {
  seen.clear();
}
