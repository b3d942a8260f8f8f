// Exchanges and their bindings.

import { put, remove } from "../core/api.js";
import { exchangePath, inVhost, nameField, vhostNames } from "../core/broker.js";
import { el } from "../core/dom.js";
import { plural } from "../core/format.js";
import { changed, go, link } from "../core/routes.js";
import { bindingTable } from "../parts/bindings.js";
import { delayedTab } from "../parts/delayed.js";
import { confirm, openDialog, pairsIn } from "../parts/dialog.js";
import { icon } from "../parts/icons.js";
import { badge, button, emptyState, exchangeLink, facts, heading, pairsOf, panel, queueLink, tabs } from "../parts/pieces.js";
import { bind, publish } from "../parts/queue-actions.js";
import { listing, listQuery } from "../parts/table.js";

const FIELDS = "name,vhost,type,durable,auto_delete,internal,arguments,policy";
const TYPES = [
  ["direct", "direct: exact match of the routing key"],
  ["topic", "topic: patterns with * and #"],
  ["fanout", "fanout: all bindings"],
  ["headers", "headers: match of message headers"],
];
const SHOWN_MAX = 500;
const DELAYED = "x-delayed-message";

export const exchanges = {
  title: () => "Exchanges",

  async load(ask, place) {
    const [page, vhosts] = await Promise.all([
      ask(inVhost("exchanges", place), listQuery(place, { fields: FIELDS })),
      vhostNames(ask),
    ]);
    return { page, vhosts };
  },

  render({ page, vhosts }, place, screen) {
    const declare = () => declareExchange(vhosts, place.query.vhost || vhosts[0], () => screen.refresh());
    return [
      heading("Exchanges", { actions: [button("Declare", declare, { kind: "primary", icon: icon("plus") })] }),
      listing({
        id: "exchanges",
        columns: columns(vhosts.length > 1),
        page,
        place,
        vhosts,
        label: "Exchanges",
        key: (one) => `${one.vhost}\n${one.name}`,
        empty: { title: "No exchanges", text: "This user has no access to a virtual host." },
      }),
    ];
  },
};

function columns(withVhost) {
  return [
    { id: "name", title: "Name", sort: "name", cell: (one) => exchangeLink(one.vhost, one.name) },
    { id: "vhost", title: "Virtual host", sort: "vhost", rank: 2, off: !withVhost, cell: (one) => one.vhost },
    { id: "type", title: "Type", sort: "type", cell: (one) => badge(one.type) },
    { id: "features", title: "Features", cell: featureBadges },
    { id: "policy", title: "Policy", sort: "policy", rank: 2, cell: (one) => one.policy ?? "" },
    {
      id: "arguments",
      title: "Arguments",
      rank: 2,
      class: "wrap",
      cell: (one) => (Object.keys(one.arguments).length > 0 ? pairsOf(one.arguments) : ""),
    },
  ];
}

function featureBadges(one) {
  return el(
    "span",
    { class: "badges" },
    one.durable && badge("D", "plain", "durable: survives a restart"),
    one.auto_delete && badge("AD", "plain", "auto-delete: deleted with its last binding"),
    one.internal && badge("I", "plain", "internal: clients cannot publish to it"),
    one.arguments["alternate-exchange"] && badge("AE", "plain", "alternate exchange"),
  );
}

function declareExchange(vhosts, vhost, then) {
  openDialog({
    title: "Declare an exchange",
    action: "Declare",
    fields: [
      nameField("vhost", "Virtual host", vhosts, { value: vhost }),
      { name: "name", label: "Name", required: true },
      { name: "type", label: "Type", kind: "choice", options: TYPES },
      { name: "durable", label: "Durable", kind: "check", value: true, hint: "Survives a restart of the node." },
      { name: "auto_delete", label: "Auto-delete", kind: "check", hint: "Deleted when its last binding is removed." },
      { name: "internal", label: "Internal", kind: "check", hint: "Clients cannot publish to it, only other exchanges." },
      { name: "alternate", label: "Alternate exchange", hint: "Receives messages that match no binding." },
      { name: "more", label: "More arguments", kind: "pairs", hint: "One per line:  key = value." },
    ],
    run: async ({ vhost: where, name, type, durable, auto_delete, internal, alternate, more }) => {
      const given = { ...(alternate ? { "alternate-exchange": alternate } : {}), ...pairsIn(more) };
      await put(exchangePath(where, name), { type, durable, auto_delete, internal, arguments: given });
      then();
      return `${name} is declared.`;
    },
  });
}

export const exchange = {
  title: ({ parts }) => parts[2],

  async load(ask, place) {
    const where = exchangePath(place.parts[1], place.parts[2]);
    const query = { page: 1, page_size: SHOWN_MAX };
    const [told, from, to] = await Promise.all([
      ask(where),
      ask(`${where}/bindings/source`, query),
      ask(`${where}/bindings/destination`, query),
    ]);
    return { told, from, to };
  },

  render({ told, from, to }, place, screen) {
    const name = told.name || "(default)";
    const then = () => screen.refresh();
    const tab = place.query.tab ?? "overview";
    return [
      heading(name, {
        above: [el("a", { href: link(["exchanges"], { vhost: told.vhost }) }, `Exchanges of ${told.vhost}`)],
        badges: [badge(told.type), featureBadges(told)],
        actions: [
          button(
            "Publish",
            () => publish({ vhost: told.vhost, exchange: told.name, routingKey: "", title: `Publish to ${name}` }),
            { disabled: told.internal ? "Clients cannot publish to it, only other exchanges." : "" },
          ),
          told.name !== "" && button("Add binding", () => bind({ vhost: told.vhost, source: told.name, then })),
          !told.name.startsWith("amq.") &&
            told.name !== "" &&
            button("Delete", () => deleteExchange(told, from), { kind: "danger-quiet" }),
        ].filter(Boolean),
      }),
      tabs(
        [
          { name: "overview", label: "Overview" },
          { name: "from", label: "Outgoing", number: from.total_count },
          { name: "to", label: "Incoming", number: to.total_count },
          told.type === DELAYED && { name: "delayed", label: "Delayed messages" },
        ].filter(Boolean),
        tab,
        (one) => changed({ tab: one === "overview" ? "" : one }),
      ),
      tab === "overview" && [panel("Routes", routes(told, from, to)), panel("Details", details(told))],
      tab === "from" && [cut(from), bindingTable(from.items, "Outgoing bindings", then)],
      tab === "delayed" && delayedTab({ told }, screen),
      tab === "to" && [cut(to), bindingTable(to.items, "Incoming bindings", then)],
    ];
  },
};

const cut = (page) =>
  page.total_count > page.items.length &&
  el("p", { class: "quiet below" }, `The first ${page.items.length} of ${page.total_count}.`);

function details(told) {
  return facts([
    ["Type", told.type],
    [
      "Alternate exchange",
      told.arguments["alternate-exchange"] && exchangeLink(told.vhost, String(told.arguments["alternate-exchange"])),
    ],
    ["Policy", told.policy ?? "none"],
    ["Arguments", pairsOf(told.arguments)],
  ]);
}

// A small graph: sources on the left, destinations with their routing keys on the right.
const ROUTES_MAX = 12;

function routes(told, from, to) {
  if (from.total_count + to.total_count === 0)
    return emptyState("No bindings", "Messages published to it are not routed anywhere.");
  const some = (page, show) => [
    page.items.slice(0, ROUTES_MAX).map((one) => el("li", {}, show(one))),
    page.total_count > ROUTES_MAX && el("li", { class: "quiet" }, `and ${page.total_count - ROUTES_MAX} more`),
  ];
  const key = (one) =>
    el("code", { class: "route-key" }, one.routing_key || (Object.keys(one.arguments).length > 0 ? "headers" : "(empty key)"));
  return el(
    "div",
    { class: "routes" },
    to.total_count > 0 &&
      el(
        "ul",
        { class: "route-sources", "aria-label": "From" },
        some(to, (one) => [exchangeLink(one.vhost, one.source), key(one)]),
      ),
    el("div", { class: "route-middle" }, told.name || "(default)"),
    el(
      "ul",
      { class: "route-ends", "aria-label": "To" },
      some(from, (one) => [
        key(one),
        one.destination_type === "queue" ? queueLink(one.vhost, one.destination) : exchangeLink(one.vhost, one.destination),
      ]),
    ),
  );
}

function deleteExchange(told, from) {
  confirm({
    title: `Delete ${told.name}`,
    intro: el(
      "p",
      {},
      from.total_count > 0
        ? `${plural(from.total_count, "binding")} will be removed. Publishers to it get an error.`
        : "It has no outgoing bindings.",
    ),
    action: "Delete",
    typed: from.total_count > 0 ? told.name : null,
    run: async () => {
      await remove(exchangePath(told.vhost, told.name));
      return `${told.name} is deleted.`;
    },
    then: () => go(link(["exchanges"])),
  });
}
