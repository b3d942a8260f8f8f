// The overview: message rates, backlog, and everything that needs an operator's attention.

import { may } from "../core/login.js";
import { el } from "../core/dom.js";
import { bytes, count, duration, names, plural, rate } from "../core/format.js";
import { changed, link } from "../core/routes.js";
import { chart } from "../parts/chart.js";
import { RANGES, USUAL_RANGE, levels, rates, samplesOf } from "../parts/history.js";
import { heading, meter, nodeLink, panel, sparkline, stat, stateBadge } from "../parts/pieces.js";
import { table } from "../parts/table.js";
import { check } from "../core/api.js";
import { trend } from "../core/trend.js";

const FLOWS = [
  ["publish", "Published", "series-blue"],
  ["confirm", "Confirmed", "series-teal"],
  ["deliver_get", "Delivered", "series-amber"],
  ["ack", "Acknowledged", "series-violet"],
  ["redeliver", "Redelivered", "series-rose"],
];
const BACKLOG = [
  ["messages_ready", "Ready", "series-amber"],
  ["messages_unacknowledged", "Unacknowledged", "series-blue"],
];

export const overview = {
  title: () => "Overview",

  async load(ask, place) {
    const [told, nodes, alarms, leaders] = await Promise.all([
      ask("overview", samplesOf(place.query.range)),
      may("monitoring") ? ask("nodes") : [],
      check("health/checks/alarms"),
      check("health/checks/quorum-queues-without-elected-leaders/all-vhosts"),
    ]);
    return { told, nodes, alarms: alarms.alarms ?? [], leaderless: leaders.queues ?? [] };
  },

  render({ told, nodes, alarms, leaderless }, place) {
    const queued = levels("Queued messages", told.queue_totals, BACKLOG, count);
    const flows = rates("Message rates", told.message_stats, FLOWS);
    return [
      heading("Overview", {
        above: `Cluster ${told.cluster_name} · node ${told.node} · ${told.product_name} ${told.product_version}`,
        actions: [ranges(place)],
      }),
      attention(nodes, alarms, leaderless),
      tiles(told, queued, flows),
      el("div", { class: "columns" }, panel("", chart(queued)), panel("", chart(flows))),
      nodes.length > 0 && panel("Nodes", nodeTable(nodes)),
      el("div", { class: "columns" }, panel("Churn", churn(told)), panel("Listeners", listeners(told))),
    ];
  },
};

function ranges(place) {
  const chosen = place.query.range ?? USUAL_RANGE;
  return el(
    "div",
    { class: "segmented ranges", role: "group", "aria-label": "Time that the charts show" },
    Object.keys(RANGES).map((range) =>
      el("a", { href: changed({ range }), "aria-current": range === chosen ? "true" : null }, range),
    ),
  );
}

function attention(nodes, alarms, leaderless) {
  const down = nodes.filter((node) => !node.running).map((node) => node.name);
  const said = [
    ...alarms.map((alarm) => ["bad", `${alarm.node}: the ${alarm.resource} alarm blocks all publishers.`, link(["alarms"])]),
    down.length > 0 && [
      "bad",
      `${names(down)} ${down.length === 1 ? "is" : "are"} down or does not answer.`,
      link(["cluster"]),
    ],
    leaderless.length > 0 && [
      "bad",
      `${plural(leaderless.length, "quorum queue")} without a leader: ${names(
        leaderless.map((one) => one.name),
        3,
      )}.`,
      link(["groups"]),
    ],
  ].filter(Boolean);
  if (said.length === 0) return null;
  return el(
    "ul",
    { class: "attention" },
    said.map(([kind, text, href]) => el("li", { class: `notice ${kind}` }, text, " ", el("a", { href }, "Details"))),
  );
}

function tiles(told, queued, flows) {
  const totals = told.queue_totals;
  const stats = told.message_stats ?? {};
  const flow = ([key, label, colour], at) =>
    stat(label, rate(stats[`${key}_details`]?.rate ?? 0), {
      colour,
      samples: flows.series[at].values,
      note: stats[key] === undefined ? null : `${count(stats[key])} total`,
    });
  const waiting = ([key, label, colour], at) =>
    stat(label, count(totals[key]), {
      colour,
      samples: queued.series[at].values,
      note: `of ${count(totals.messages)} queued`,
    });
  const objects = told.object_totals;
  return [
    el("div", { class: "stats six" }, BACKLOG.map(waiting), FLOWS.slice(0, 4).map(flow)),
    el(
      "div",
      { class: "stats small" },
      Object.entries({
        queues: "Queues",
        exchanges: "Exchanges",
        connections: "Connections",
        channels: "Channels",
        consumers: "Consumers",
      }).map(([key, label]) => stat(label, count(objects[key]), { href: link([key]) })),
    ),
  ];
}

function nodeTable(nodes) {
  const columns = [
    { id: "name", title: "Name", cell: (one) => nodeLink(one.name) },
    {
      id: "state",
      title: "State",
      cell: (one) => [
        stateBadge(one.running ? "running" : "down"),
        one.being_drained && " ",
        one.being_drained && stateBadge("draining"),
      ],
    },
    { id: "type", title: "Kind", rank: 2, cell: (one) => (one.type === "ram" ? "RAM" : "disk") },
    {
      id: "memory",
      title: "Memory",
      cell: (one) =>
        one.running
          ? meter(one.mem_used, one.mem_limit, `${bytes(one.mem_used)} of ${bytes(one.mem_limit)}`, one.mem_alarm ? "bad" : "")
          : "–",
    },
    {
      id: "disk",
      title: "Disk free",
      cell: (one) =>
        one.running
          ? el(
              "span",
              { class: one.disk_free_alarm ? "error" : "" },
              bytes(one.disk_free),
              el("small", { class: "quiet" }, ` alarm below ${bytes(one.disk_free_limit)}`),
            )
          : "–",
    },
    { id: "files", title: "Files", number: true, rank: 3, cell: (one) => count(one.fd_used) },
    { id: "sockets", title: "Connections", number: true, rank: 2, cell: (one) => count(one.sockets_used) },
    { id: "uptime", title: "Up for", number: true, rank: 2, cell: (one) => duration(one.running ? one.uptime : Number.NaN) },
  ];
  return table(columns, nodes, { key: (one) => one.name, label: "Nodes" });
}

function churn(told) {
  const rows = Object.entries({
    connection_created: "Connections opened",
    connection_closed: "Connections closed",
    channel_created: "Channels opened",
    channel_closed: "Channels closed",
    queue_declared: "Queues declared",
    queue_created: "Queues created",
    queue_deleted: "Queues deleted",
  }).map(([key, label]) => ({ key, label, all: told.churn_rates[key], now: told.churn_rates[`${key}_details`]?.rate ?? 0 }));
  const columns = [
    { id: "what", title: "Event", cell: (one) => one.label },
    { id: "all", title: "Total", number: true, cell: (one) => count(one.all) },
    {
      id: "now",
      title: "Rate",
      number: true,
      cell: (one) =>
        el("span", { class: "with-line" }, sparkline(trend(`churn ${one.key}`, one.now), "series-grey"), rate(one.now)),
    },
  ];
  return table(columns, rows, { key: (one) => one.key, label: "Churn" });
}

function listeners(told) {
  const columns = [
    { id: "protocol", title: "Protocol", cell: (one) => one.protocol },
    { id: "node", title: "Node", cell: (one) => one.node },
    { id: "address", title: "Address", cell: (one) => el("code", {}, `${one.ip_address}:${one.port}`) },
    { id: "tls", title: "TLS", cell: (one) => (one.tls ? "yes" : "no") },
  ];
  return table(columns, told.listeners, {
    key: (one) => `${one.node} ${one.protocol} ${one.ip_address} ${one.port}`,
    label: "Listeners",
  });
}
