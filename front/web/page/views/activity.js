// What happens now and happened lately: events, the node's log, and who changed what. Each round asks for what is new.

import { el } from "../core/dom.js";
import { moment, plural, timeOfDay } from "../core/format.js";
import { may } from "../core/login.js";
import { changed, go } from "../core/routes.js";
import { badge, emptyState, heading, nodeLink, queueLink, tabs } from "../parts/pieces.js";
import { table } from "../parts/table.js";

const KEPT_MAX = 1000; // lines of one tab, the oldest go
const LEVELS = ["debug", "info", "warning", "error"];
const KINDS = [
  "queue", "binding", "connection", "alarm", "policy", "user", "permission", "vhost", "node", "exchange", "parameter",
];
const OUTCOMES = { done: "good", refused: "bad", unknown: "warn" };

export const activity = {
  title: () => "Activity",

  async load(ask, place, screen) {
    const tab = TABS[place.query.tab] ?? TABS.events;
    const query = tab.query(place.query);
    const key = JSON.stringify([tab.path, query]);
    const known = screen.state.known?.key === key ? screen.state.known : { key, items: [], cursor: "" };
    const found = await ask(tab.path, { ...query, cursor: known.cursor, limit: known.cursor === "" ? 500 : KEPT_MAX });
    screen.state.known = { key, cursor: found.cursor, items: [...found.items, ...known.items].slice(0, KEPT_MAX) };
    return { items: screen.state.known.items, shown: place.query.tab ?? "events" };
  },

  render({ items, shown }, place) {
    const tab = TABS[shown] ?? TABS.events;
    return [
      heading("Activity", { below: tab.about }),
      tabs(
        Object.entries(TABS)
          .filter(([, one]) => !one.right || may(one.right))
          .map(([name, { label }]) => ({ name, label })),
        shown,
        (name) => changed({ tab: name === "events" ? "" : name, kind: "", level: "", user: "", contains: "" }),
      ),
      el(
        "div",
        { class: "toolbar" },
        tab.filters(place.query),
        el("span", { class: "toolbar-gap" }),
        el("span", { class: "quiet" }, `${plural(items.length, "entry", "entries")}, newest first`),
      ),
      items.length === 0 ? emptyState(tab.empty, tab.emptyText) : table(tab.columns, items, { key: keyOf, label: tab.label }),
    ];
  },
};

const keyOf = (one) => `${one.node} ${one.number}`;

function choice(name, label, options, query) {
  return el(
    "label",
    { class: "select" },
    el("span", {}, label),
    el(
      "select",
      { onchange: (event) => go(changed({ [name]: event.target.value }), { replace: true }) },
      options.map(([value, text]) => el("option", { value, selected: value === (query[name] ?? "") }, text)),
    ),
  );
}

function box(name, label, query) {
  const apply = (event) => go(changed({ [name]: event.target.value }), { replace: true });
  return el(
    "label",
    { class: "select" },
    el("span", {}, label),
    el("input", { type: "search", id: `activity-${name}`, value: query[name] ?? "", onchange: apply, size: 18 }),
  );
}

const NODE = { id: "node", title: "Node", rank: 3, cell: (one) => nodeLink(one.node) };
const TIME = { id: "time", title: "Time", cell: ({ at }) => el("time", { class: "moment", title: moment(at) }, brief(at)) };

// Of today the time is enough.
function brief(at) {
  return new Date(at).toDateString() === new Date().toDateString() ? timeOfDay(at) : moment(at);
}

const EVENT_COLUMNS = [
  TIME,
  { id: "kind", title: "Event", cell: (one) => badge(one.kind.replaceAll(".", " "), colourOf(one.kind)) },
  { id: "name", title: "Of", class: "wrap", cell: subject },
  { id: "vhost", title: "Virtual host", rank: 2, class: "wrap", cell: (one) => one.vhost || "–" },
  { id: "user", title: "User", rank: 2, class: "wrap", cell: (one) => one.user || "–" },
  { id: "detail", title: "Detail", rank: 3, class: "wrap", cell: (one) => one.detail || "–" },
  NODE,
];

function colourOf(kind) {
  if (kind === "alarm.set" || kind === "node.lost") return "bad";
  if (/\.(deleted|removed|cleared|closed)$/.test(kind)) return "warn";
  return /\.(created|added|started|elected)$/.test(kind) ? "good" : "info";
}

function subject(one) {
  const isThere = one.kind === "queue.created" || one.kind === "queue.leader.elected";
  return isThere && one.name !== "" ? queueLink(one.vhost, one.name) : one.name || "–";
}

const LOG_COLUMNS = [
  TIME,
  {
    id: "level",
    title: "Level",
    cell: (one) => badge(one.level, { warning: "warn", error: "bad", critical: "bad" }[one.level] ?? ""),
  },
  { id: "text", title: "Line", class: "wrap", cell: (one) => el("code", { class: "log-line" }, `${one.logger}: ${one.text}`) },
  NODE,
];

const AUDIT_COLUMNS = [
  TIME,
  { id: "outcome", title: "Outcome", cell: (one) => badge(one.outcome, OUTCOMES[one.outcome] ?? "") },
  { id: "user", title: "Who", class: "wrap", cell: (one) => one.user || (one.address ? "an unknown user" : "this node") },
  {
    id: "what",
    title: "What",
    class: "wrap",
    cell: (one) => [one.what, one.why && el("small", { class: "quiet second-line" }, one.why)],
  },
  { id: "address", title: "From", rank: 2, cell: (one) => (one.address ? `${one.address} over ${one.protocol}` : "–") },
  NODE,
];

const TABS = {
  events: {
    label: "Events",
    path: "leveret/events",
    about: "Clients that come and go, alarms, and what has been declared, changed or deleted. Each node keeps its last 2,000.",
    query: ({ kind }) => ({ kind }),
    filters: (query) => choice("kind", "Kind", [["", "All"], ...KINDS.map((one) => [one, one])], query),
    columns: EVENT_COLUMNS,
    empty: "No events",
    emptyText: "They appear here as they happen.",
  },
  log: {
    label: "Log",
    right: "administrator",
    path: "leveret/log",
    about: "The last 1,000 lines that each node has logged.",
    query: ({ level }) => ({ level: level || "info" }),
    filters: (query) =>
      choice(
        "level",
        "At least",
        LEVELS.map((one) => [one, one]),
        { level: query.level || "info" },
      ),
    columns: LOG_COLUMNS,
    empty: "No lines",
    emptyText: "Nothing of this level has been logged lately.",
  },
  audit: {
    label: "Audit",
    right: "administrator",
    path: "leveret/audit",
    about: "Who changed what, and which logins were refused, since each node was started. The log of the node has all of it.",
    query: ({ user, contains }) => ({ user, contains }),
    filters: (query) => [box("user", "User", query), box("contains", "Containing", query)],
    columns: AUDIT_COLUMNS,
    empty: "No changes",
    emptyText: "Nothing that matches was changed since the nodes were started.",
  },
};
