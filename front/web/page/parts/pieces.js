// Building blocks of views.

import { el, svg } from "../core/dom.js";
import { count, moment, plain } from "../core/format.js";
import { link } from "../core/routes.js";

export function heading(title, { above = null, badges = [], actions = [], below = null } = {}) {
  return el(
    "header",
    { class: "heading" },
    el(
      "div",
      {},
      above && el("p", { class: "above" }, above),
      el("div", { class: "title" }, el("h1", {}, title), badges),
      below && el("p", { class: "below quiet" }, below),
    ),
    actions.length > 0 && el("div", { class: "actions" }, actions),
  );
}

export function button(label, run, { kind = "", disabled = "", icon = null } = {}) {
  return el(
    "button",
    { type: "button", class: kind, onclick: run, disabled: disabled !== "", title: disabled || null },
    icon,
    label,
  );
}

export function badge(text, kind = "", title = null) {
  return el("span", { class: `badge ${kind}`, title }, text);
}

// `title` may be a pair of a title and the buttons beside it.
export function panel(title, ...children) {
  const [words, ...tools] = [title].flat();
  return el("section", { class: "panel" }, words && el("div", { class: "panel-head" }, el("h2", {}, words), tools), children);
}

export function emptyState(title, text, ...more) {
  return el("div", { class: "empty" }, el("h2", {}, title), el("p", {}, text), more);
}

// A list of terms and values; null values are left out.
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== false);
  return el(
    "dl",
    { class: "facts" },
    known.map(([word, value]) => el("div", {}, el("dt", {}, word), el("dd", {}, value))),
  );
}

export function stat(label, value, { note = null, samples = null, colour = "", href = null } = {}) {
  const inside = [
    el("span", { class: "stat-label" }, colour && el("i", { class: `swatch ${colour}`, "aria-hidden": "true" }), label),
    el("span", { class: "stat-value" }, value),
    samples && sparkline(samples, colour),
    note && el("span", { class: "stat-note quiet" }, note),
  ];
  return href === null ? el("div", { class: "stat" }, inside) : el("a", { class: "stat", href }, inside);
}

// A line without axes, beside the number that it leads to.
export function sparkline(samples, colour = "", width = 72, height = 20) {
  const most = Math.max(...samples);
  if (!(most > 0))
    return svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, class: "sparkline flat", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("polyline", { points: `0,${height - 1.5} ${width},${height - 1.5}` }),
    );
  const step = width / Math.max(1, samples.length - 1);
  const points = samples.map(
    (value, at) => `${(at * step).toFixed(1)},${(height - 1.5 - (value / most) * (height - 3)).toFixed(1)}`,
  );
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: `sparkline ${colour}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    samples.length > 1 && svg("polygon", { points: `0,${height} ${points.join(" ")} ${width},${height}` }),
    samples.length > 1 && svg("polyline", { points: points.join(" ") }),
  );
}

// How much of something is used, with words for those who do not see the bar.
export function meter(used, of, said, kind = "") {
  const part = of > 0 ? Math.min(1, used / of) : 0;
  const bar = el("span", { class: `meter-bar ${kind || (part > 0.9 ? "bad" : part > 0.75 ? "warn" : "")}` });
  bar.style.inlineSize = `${(part * 100).toFixed(1)}%`;
  return el(
    "span",
    { class: "meter" },
    el("span", { class: "meter-ground", "aria-hidden": "true" }, bar),
    el("span", { class: "meter-said" }, said),
  );
}

const STATES = {
  running: "good",
  up: "good",
  single_active: "good",
  leader: "good",
  enabled: "good",
  open: "good",
  idle: "",
  follower: "",
  waiting: "",
  starting: "info",
  learner: "info",
  flow: "warn",
  blocking: "warn",
  blocked: "warn",
  minority: "bad",
  down: "bad",
  error: "bad",
  stalled: "bad",
  terminated: "bad",
  stopped: "bad",
  crashed: "bad",
  noproc: "bad",
};

export function stateBadge(state) {
  return badge(state || "unknown", STATES[state] ?? "");
}

const JOB_STATES = { running: "info", done: "good", cancelled: "warn", failed: "bad" };

// Of a job that moves messages: a redrive or a replay.
export const jobBadge = (state) => badge(state, JOB_STATES[state] ?? "");

const TYPES = { classic: "type-classic", quorum: "type-quorum", stream: "type-stream" };

export function typeBadge(type) {
  return badge(type, TYPES[type] ?? "");
}

export const queueLink = (vhost, name) => el("a", { href: link(["queues", vhost, name]), class: "name" }, name || "(no name)");
export const exchangeLink = (vhost, name) =>
  el("a", { href: link(["exchanges", vhost, name || "amq.default"]), class: "name" }, name || "(default)");
export const connectionLink = (name) => el("a", { href: link(["connections", name]), class: "name" }, name);
export const channelLink = (name) => el("a", { href: link(["channels", name]), class: "name" }, name);
export const nodeLink = (name) =>
  name ? el("a", { href: link(["nodes", name]), class: "name" }, name) : el("span", { class: "quiet" }, "none");

// Arguments and definitions: a line for each.
export function pairsOf(object) {
  const pairs = Object.entries(object ?? {});
  if (pairs.length === 0) return el("span", { class: "quiet" }, "none");
  return el(
    "ul",
    { class: "pairs" },
    pairs.map(([key, value]) => el("li", {}, el("span", { class: "key" }, key), " ", el("code", {}, plain(value)))),
  );
}

export const when = (ms) => el("time", { title: moment(ms) }, moment(ms));

export function tabs(all, chosenTab, address) {
  return el(
    "nav",
    { class: "tabs", "aria-label": "Parts of this view" },
    all.map(({ name, label, number }) =>
      el(
        "a",
        { href: address(name), "aria-current": name === chosenTab ? "true" : null },
        label,
        number !== undefined && el("span", { class: "tab-number" }, count(number)),
      ),
    ),
  );
}

// Why a button is disabled for users without a tag.
export const needs = (allowed, tag) => (allowed ? "" : `Requires the tag ${tag}.`);
