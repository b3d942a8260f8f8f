// The nodes of the cluster, and one node in detail.

import { path } from "../core/api.js";
import { el } from "../core/dom.js";
import { bytes, count, duration } from "../core/format.js";
import { changed, link } from "../core/routes.js";
import { chart } from "../parts/chart.js";
import { decommissionPath, decommissionTab } from "../parts/decommission.js";
import { levels, samplesOf } from "../parts/history.js";
import { badge, emptyState, facts, heading, meter, nodeLink, panel, stat, stateBadge, tabs } from "../parts/pieces.js";
import { table } from "../parts/table.js";

export const nodes = {
  title: () => "Nodes",
  load: (ask) => ask("nodes"),
  render: (all) => [
    heading("Nodes", { below: "Statistics as reported by each node. A node that does not answer is shown as down." }),
    nodeTable(all),
  ],
};

function nodeTable(all) {
  const columns = [
    { id: "name", title: "Name", cell: (one) => nodeLink(one.name) },
    { id: "state", title: "State", cell: badges },
    { id: "kind", title: "Kind", cell: (one) => (one.type === "ram" ? "RAM" : "disk") },
    {
      id: "memory",
      title: "Memory",
      cell: (one) =>
        meter(one.mem_used, one.mem_limit, `${bytes(one.mem_used)} of ${bytes(one.mem_limit)}`, one.mem_alarm ? "bad" : ""),
    },
    { id: "disk", title: "Disk free", rank: 2, cell: (one) => bytes(one.disk_free) },
    {
      id: "files",
      title: "Open files",
      rank: 2,
      cell: (one) => meter(one.fd_used, one.fd_total, `${count(one.fd_used)} of ${count(one.fd_total)}`),
    },
    { id: "sockets", title: "Connections", number: true, rank: 2, cell: (one) => count(one.sockets_used) },
    { id: "processors", title: "Processors", number: true, rank: 3, cell: (one) => count(one.processors) },
    { id: "uptime", title: "Up for", number: true, rank: 2, cell: (one) => (one.running ? duration(one.uptime) : "–") },
  ];
  return table(columns, all, { key: (one) => one.name, label: "Nodes" });
}

function badges(one) {
  return el(
    "span",
    { class: "badges" },
    stateBadge(one.running ? "running" : "down"),
    one.being_drained && badge("draining", "warn"),
    one.mem_alarm && badge("memory alarm", "bad"),
    one.disk_free_alarm && badge("disk alarm", "bad"),
  );
}

export const node = {
  title: ({ parts }) => parts[1],

  async load(ask, place) {
    const where = path`nodes/${place.parts[1]}`;
    const told = await ask(where, samplesOf());
    const isLeaving = told.running && place.query.tab === "decommission";
    const [logins, leaving] = await Promise.all([
      told.running ? ask(path`auth/attempts/${place.parts[1]}`) : [],
      isLeaving ? ask(decommissionPath(place.parts[1])) : null,
    ]);
    return { told, logins, leaving };
  },

  render(data, place, screen) {
    const { told } = data;
    const tab = told.running ? (place.query.tab ?? "overview") : "overview";
    return [
      heading(told.name, { above: [el("a", { href: link(["nodes"]) }, "Nodes")], badges: [badges(told)] }),
      told.running &&
        tabs(
          [
            { name: "overview", label: "Overview" },
            { name: "decommission", label: "Decommission" },
          ],
          tab,
          (one) => changed({ tab: one === "overview" ? "" : one }),
        ),
      tab === "decommission" ? decommissionTab(data, screen) : overviewTab(data),
    ];
  },
};

function overviewTab({ told, logins }) {
  return [
    el(
      "div",
      { class: "stats" },
      stat("Memory", bytes(told.mem_used), { note: `alarm at ${bytes(told.mem_limit)}` }),
      stat("Disk free", bytes(told.disk_free), { note: `alarm below ${bytes(told.disk_free_limit)}` }),
      stat("Open files", count(told.fd_used), { note: `of ${count(told.fd_total)}` }),
      stat("Connections", count(told.sockets_used)),
      stat("Up for", told.running ? duration(told.uptime) : "–"),
    ),
    el(
      "div",
      { class: "columns" },
      panel("", chart(levels("Memory", told, [["mem_used", "Memory", "series-blue"]], bytes))),
      panel("", chart(levels("Connections", told, [["sockets_used", "Connections", "series-teal"]], count))),
    ),
    panel(
      "Details",
      facts([
        ["Kind", told.type === "ram" ? "RAM: metadata in memory only" : "disk"],
        ["Version", told.applications.map((one) => one.version).join(", ")],
        ["Process", told.os_pid],
        ["Processors", count(told.processors)],
        ["Data directory", el("code", {}, told.db_dir)],
        ["Auth mechanisms", told.auth_mechanisms.map((one) => one.name).join(", ")],
        ["Exchange types", told.exchange_types.map((one) => one.name).join(", ")],
      ]),
    ),
    panel(
      "Authentication attempts",
      logins.length === 0
        ? emptyState("No attempts", "Accepted and refused logins by protocol, since the node started.")
        : loginTable(logins),
    ),
  ];
}

function loginTable(logins) {
  const columns = [
    { id: "protocol", title: "Protocol", cell: (one) => one.protocol },
    { id: "accepted", title: "Accepted", number: true, cell: (one) => count(one.auth_attempts_succeeded) },
    {
      id: "refused",
      title: "Refused",
      number: true,
      cell: (one) => el("span", { class: one.auth_attempts_failed > 0 ? "error" : "zero" }, count(one.auth_attempts_failed)),
    },
  ];
  return table(columns, logins, { key: (one) => one.protocol, label: "Logins" });
}
