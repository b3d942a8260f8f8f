// The life of a message of a queue, as the logs of the nodes tell it: from its publisher to its end.

import { path, post } from "../core/api.js";
import { el } from "../core/dom.js";
import { bytes, count, moment, plural } from "../core/format.js";
import { may } from "../core/login.js";
import { link } from "../core/routes.js";
import { badge, button, emptyState, facts, needs, panel } from "./pieces.js";
import { table } from "./table.js";

const BY = [
  ["message_id", "Message id"],
  ["correlation_id", "Correlation id"],
  ["place", "Place in the queue"],
  ["body_sha256", "SHA-256 of the body"],
];
const EVENTS = {
  delivered: ["info", "delivered"],
  returned: ["warn", "came back"],
  refused: ["bad", "refused by its queue"],
  acked: ["good", "acknowledged"],
  got: ["good", "got without acknowledgement"],
  "no-ack": ["good", "sent, and nothing was to be acknowledged"],
  expired: ["warn", "expired"],
  rejected: ["bad", "rejected"],
  maxlen: ["warn", "dropped: too much for its queue"],
  "delivery-limit": ["bad", "given up: delivered too often"],
  purged: ["warn", "purged"],
  deleted: ["warn", "deleted with its queue"],
  unknown: ["", "not known any further"],
};
const NOT_FOUND =
  "The log that was searched has no such message in this queue. It may be older than the log, not persistent, " +
  "or the queue is not durable.";

// How a message that was browsed is found again: by its id, else by what its body is.
export function traceOf(message) {
  const id = message.properties.message_id;
  if (id) return { by: "message_id", value: String(id) };
  return message.payload_sha256 ? { by: "body_sha256", value: message.payload_sha256 } : null;
}

export const mayTrace = () => may("monitoring");
export const lifeLink = (vhost, queue, trace) => link(["queues", vhost, queue], { tab: "life", ...trace });

export function lifeTab({ told }, screen, { query }) {
  const cannot = needs(mayTrace(), "monitoring");
  const state = (screen.state.life ??= { by: BY[0][0], value: "", found: null, error: "", isBusy: false, asked: "" });
  const linked = `${query.by ?? ""} ${query.value ?? ""}`;
  if (query.value && state.asked !== linked && cannot === "") {
    Object.assign(state, { by: query.by, value: query.value, asked: linked });
    search(told, state, screen);
  }
  return [
    form(told, state, screen, cannot),
    state.error !== "" && el("p", { class: "notice bad", role: "alert" }, state.error),
    state.found !== null && story(state.found),
  ];
}

function form(told, state, screen, cannot) {
  const run = () => search(told, state, screen);
  const kept = (name) => (event) => {
    state[name] = event.target.value;
  };
  const onEnter = (event) => {
    if (event.key === "Enter") run(); // what returns false would take every key from the field
  };
  const options = BY.map(([value, label]) => el("option", { value, selected: value === state.by }, label));
  return el(
    "div",
    { class: "toolbar", onkeydown: onEnter },
    el("label", { class: "select" }, el("span", {}, "Find by"), el("select", { id: "life-by", onchange: kept("by") }, options)),
    el(
      "label",
      { class: "select" },
      el("span", {}, "Value"),
      el("input", { id: "life-value", value: state.value, size: 36, maxlength: 255, oninput: kept("value") }),
    ),
    button("Find", run, { kind: "primary", disabled: cannot || (state.isBusy ? "The logs are being read" : "") }),
    el("span", { class: "quiet", role: "status" }, state.isBusy ? "Reading the logs of all nodes…" : "Bodies are not shown."),
  );
}

async function search(told, state, screen) {
  if (state.isBusy) return;
  Object.assign(state, { isBusy: true, error: "", found: null });
  screen.redraw();
  try {
    state.found = await post(path`leveret/queues/${told.vhost}/${told.name}/life`, { [state.by]: state.value.trim() });
  } catch (error) {
    state.error = error.message;
  }
  state.isBusy = false;
  screen.redraw();
}

function story({ lives, nodes, more }) {
  return [
    lives.length === 0 ? emptyState("No such message", NOT_FOUND) : lives.map(oneLife),
    more && el("p", { class: "notice warn" }, `These are the first ${plural(lives.length, "message")} of more.`),
    panel("What this stands on", readTable(nodes)),
  ];
}

function oneLife(life) {
  return panel(
    `${life.queue}, ${life.place.includes("/") ? "place" : "sequence"} ${life.place}`,
    facts([
      ["Message id", life.message_id && el("code", {}, life.message_id)],
      ["Correlation id", life.correlation_id && el("code", {}, life.correlation_id)],
      ["Body", bytes(life.body_bytes)],
      ["Exchange", life.exchange || "(default)"],
      ["Routing key", el("code", {}, life.routing_key)],
      ["Dead letter of", life.died_in && `${life.was ? placeOf(life.was) : "another queue"}: ${life.death_reason}`],
      ["Became", life.became.length > 0 && life.became.map(placeOf).join(", ")],
      ["Expires", life.expires_at && timeOf(life.expires_at)],
    ]),
    el("ol", { class: "steps" }, [publishing(life), ...life.steps.map(oneStep), ending(life)].filter(Boolean)),
  );
}

const placeOf = ({ queue, place }) => `${queue}, ${place}`;
const CONFIRMS = new Map([
  [true, "waiting for a confirm"],
  [false, "without a confirm"],
]);

function publishing(life) {
  const more = [life.publish_no && `message ${count(life.publish_no)} of its channel`, CONFIRMS.get(life.confirm)];
  const kind = life.died_in ? "dead-lettered into it" : "published";
  return line(life.published_at, badge(kind, "info"), whoIs(life.publisher), more.filter(Boolean).join(", "));
}

function oneStep({ at, event, who, reason }) {
  const [kind, words] = EVENTS[event] ?? ["", event];
  return line(at, badge(words, kind), whoIs(who), reason ?? "");
}

function ending(life) {
  if (life.steps_left_out > 0) return line(null, badge("cut", "warn"), `${plural(life.steps_left_out, "step")} more`);
  if (life.unknown !== null) return line(null, badge("unknown", "warn"), life.unknown);
  if (life.committed === null) return line(null, badge("unknown", "warn"), "not known to be committed");
  const last = life.steps.at(-1)?.event ?? "published";
  if (last === "delivered") return line(null, badge("now", ""), "out at its consumer");
  return ["published", "returned"].includes(last) ? line(null, badge("now", ""), "in its queue, or out at a consumer") : null;
}

const line = (at, what, ...words) =>
  el("li", {}, el("span", { class: "step-time quiet" }, at === null ? "" : timeOf(at)), what, " ", joined(words));

const joined = (words) => words.filter(Boolean).join(" – ");
const timeOf = (iso) => `${moment(Date.parse(iso))}.${iso.slice(20, 23)}`;

function whoIs(who) {
  if (!who) return "";
  if (who.other) return who.other;
  const tag = who.consumer_tag ? `consumer ${who.consumer_tag} of ` : "";
  const where = [who.address, who.connection, who.product].filter(Boolean).join(", ");
  return `${tag}${who.user || "a connection"}${where ? ` (${where})` : ""}`;
}

function readTable(nodes) {
  const columns = [
    { id: "node", title: "Node", cell: ({ node }) => node },
    {
      id: "read",
      title: "Log",
      cell: ({ error }) => (error ? [badge("not read", "bad"), " ", error] : badge("read", "good")),
      class: "wrap",
    },
    { id: "first", title: "From", cell: ({ first }) => (first ? timeOf(first) : "–") },
    { id: "last", title: "To", cell: ({ last }) => (last ? timeOf(last) : "–") },
    {
      id: "files",
      title: "Files",
      cell: ({ files, skipped }) => (skipped ? `${count(files)}, ${count(skipped)} skipped` : count(files)),
    },
    { id: "damaged", title: "Damaged", cell: ({ damaged_bytes: lost }) => (lost > 0 ? badge(bytes(lost), "bad") : "–") },
  ];
  return table(columns, nodes, { key: ({ node }) => node, label: "Nodes whose logs were searched" });
}
