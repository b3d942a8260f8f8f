// Charts of what the node has sampled: `counted` has figures with `_details` beside them, a line is [name, label, colour].

import { rate } from "../core/format.js";

// Label -> how far back, and how far apart the samples are, in seconds: what the node keeps.
export const RANGES = { "1 min": [60, 5], "10 min": [600, 5], "1 h": [3600, 60], "8 h": [28800, 600], "24 h": [86400, 1800] };
export const USUAL_RANGE = "10 min";

// What asks for the samples of a range, of every kind of figure.
export function samplesOf(range = USUAL_RANGE) {
  const [age, step] = RANGES[range] ?? RANGES[USUAL_RANGE];
  const kinds = ["lengths", "msg_rates", "data_rates", "node_stats"];
  return Object.fromEntries(
    kinds.flatMap((kind) => [
      [`${kind}_age`, age],
      [`${kind}_incr`, step],
    ]),
  );
}

// Of what goes up and down: as it was.
export function levels(title, counted, lines, format) {
  return drawn(title, counted, lines, format, (samples) => samples);
}

// Of what is only counted up: how fast it grew.
export function rates(title, counted, lines, format = rate) {
  return drawn(title, counted, lines, format, growth);
}

function drawn(title, counted, lines, format, shape) {
  const kept = lines.map(([name]) => shape([...(counted?.[`${name}_details`]?.samples ?? [])].reverse()));
  const longest = kept.reduce((one, other) => (other.length > one.length ? other : one), []);
  const series = lines.map(([, label, colour], at) => {
    const known = new Map(kept[at].map((one) => [one.timestamp, one.sample]));
    return { label, colour, values: longest.map((one) => known.get(one.timestamp) ?? 0) };
  });
  return { title, format, times: longest.map((one) => one.timestamp / 1000), series };
}

function growth(samples) {
  return samples.slice(1).map((one, at) => {
    const seconds = Math.max(0.001, (one.timestamp - samples[at].timestamp) / 1000);
    return { timestamp: one.timestamp, sample: Math.max(0, one.sample - samples[at].sample) / seconds };
  });
}
