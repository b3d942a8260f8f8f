// How figures are written: the same everywhere, so that they can be compared by eye.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const small = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 4 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const full = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const NONE = "–";

export function count(value) {
  if (!Number.isFinite(value)) return NONE;
  return Math.abs(value) < 1e8 ? whole.format(value) : compact.format(value);
}

export function rate(value) {
  if (!Number.isFinite(value)) return NONE;
  return `${value > 0 && value < 10 ? small.format(value) : count(value)}/s`;
}

export function bytes(value) {
  if (!Number.isFinite(value)) return NONE;
  let unit = 0;
  let rest = value;
  while (rest >= 1000 && unit < UNITS.length - 1) [rest, unit] = [rest / 1024, unit + 1];
  return `${rest < 10 && unit > 0 ? small.format(rest) : whole.format(rest)} ${UNITS[unit]}`;
}

export const byteRate = (value) => `${bytes(value)}/s`;

// The two largest units of a time in milliseconds.
export function duration(ms) {
  if (!Number.isFinite(ms)) return NONE;
  const seconds = Math.floor(ms / 1000);
  const parts = [
    [Math.floor(seconds / 86400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([number]) => number > 0);
  if (first < 0) return "0 s";
  return parts
    .slice(first, first + 2)
    .filter(([number]) => number > 0)
    .map(([number, unit]) => `${number} ${unit}`)
    .join(" ");
}

export const ago = (ms) => (ms > 0 ? `${duration(Date.now() - ms)} ago` : NONE);
export const timeOfDay = (ms) => clock.format(ms);
export const moment = (ms) => (ms > 0 ? full.format(ms) : NONE);
export const percent = (part) => (Number.isFinite(part) ? `${whole.format(part * 100)} %` : NONE);

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

// The names of some things, without end if there are many.
export function names(list, most = 5) {
  const rest = list.length - most;
  return list.slice(0, most).join(", ") + (rest > 0 ? ` and ${count(rest)} more` : "");
}

// A value of JSON as people read it: texts without quotes.
export const plain = (value) => (typeof value === "string" ? value : JSON.stringify(value));
