// The overview: message rates, backlog, and everything that needs an operator's attention.

import { may } from "../core/login.js";
import { el } from "../core/dom.js";
import { bytes, count, duration, names, plural, rate } from "../core/format.js";
import { changed, link } from "../core/routes.js";
import { chart } from "../parts/chart.js";
import { heading, meter, nodeLink, panel, sparkline, stat, stateBadge } from "../parts/pieces.js";
import { table } from "../parts/table.js";
import { check } from "../core/api.js";
import { trend } from "../core/trend.js";

// Label -> age and interval of the samples, in seconds.
const RANGES = { "1 min": [60, 5], "10 min": [600, 5], "1 h": [3600, 60], "8 h": [28800, 600], "24 h": [86400, 1800] };
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
    const [age, step] = RANGES[place.query.range] ?? RANGES["10 min"];
    const range = { lengths_age: age, lengths_incr: step, msg_rates_age: age, msg_rates_incr: step };
    const [told, nodes, alarms, leaders] = await Promise.all([
      ask("overview", range),
      may("monitoring") ? ask("nodes") : [],
      check("health/checks/alarms"),
      check("health/checks/quorum-queues-without-elected-leaders/all-vhosts"),
    ]);
    return { told, nodes, alarms: alarms.alarms ?? [], leaderless: leaders.queues ?? [] };
  },

  render({ told, nodes, alarms, leaderless }, place) {
    return [
      heading("Overview", {
        above: `Cluster ${told.cluster_name} · node ${told.node} · ${told.product_name} ${told.product_version}`,
        actions: [ranges(place)],
      }),
      attention(nodes, alarms, leaderless),
      tiles(told),
      el("div", { class: "columns" }, panel("", chart(lengths(told))), panel("", chart(rates(told)))),
      nodes.length > 0 && panel("Nodes", nodeTable(nodes)),
      el("div", { class: "columns" }, panel("Churn", churn(told)), panel("Listeners", listeners(told))),
    ];
  },
};

function ranges(place) {
  const chosen = place.query.range ?? "10 min";
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

function tiles(told) {
  const totals = told.queue_totals;
  const stats = told.message_stats ?? {};
  const flow = (key, label, colour) => {
    const now = stats[`${key}_details`]?.rate ?? 0;
    return stat(label, rate(now), {
      colour,
      samples: trend(`overview ${key}`, now),
      note: stats[key] === undefined ? null : `${count(stats[key])} total`,
    });
  };
  const waiting = (key, label, colour) =>
    stat(label, count(totals[key]), {
      colour,
      samples: trend(`overview ${key}`, totals[key]),
      note: `of ${count(totals.messages)} queued`,
    });
  const objects = told.object_totals;
  return [
    el(
      "div",
      { class: "stats six" },
      BACKLOG.map((one) => waiting(...one)),
      FLOWS.slice(0, 4).map((one) => flow(...one)),
    ),
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

function lengths(told) {
  return series(
    "Queued messages",
    BACKLOG,
    told.queue_totals,
    count,
    (samples) => samples,
    (totals, key) => totals[key] ?? 0,
  );
}

function rates(told) {
  return series(
    "Message rates",
    FLOWS,
    told.message_stats ?? {},
    rate,
    growth,
    (stats, key) => stats[`${key}_details`]?.rate ?? 0,
  );
}

// The samples that the node keeps; until it has some, those that this page has collected.
function series(title, lines, counted, format, shape, now) {
  const kept = lines.map(([key]) => counted[`${key}_details`]?.samples ?? null);
  if (kept.every((samples) => samples !== null && samples.length > 2)) {
    const oldestFirst = kept.map((samples) => shape([...samples].reverse()));
    const times = oldestFirst[0].map((one) => one.timestamp / 1000);
    return {
      title,
      format,
      times,
      series: lines.map(([, label, colour], at) => ({ label, colour, values: oldestFirst[at].map((one) => one.sample) })),
    };
  }
  const times = trend(`${title} times`, Date.now() / 1000);
  return {
    title,
    format,
    times: [...times],
    series: lines.map(([key, label, colour]) => ({ label, colour, values: [...trend(`${title} ${key}`, now(counted, key))] })),
  };
}

// Cumulative samples to rates per second.
function growth(samples) {
  return samples.slice(1).map((one, at) => ({
    timestamp: one.timestamp,
    sample: Math.max(0, one.sample - samples[at].sample) / Math.max(0.001, (one.timestamp - samples[at].timestamp) / 1000),
  }));
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
