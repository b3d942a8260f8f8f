// Active alarms and what they block. An alarm of one node blocks publishers on all nodes.

import { check } from "../core/api.js";
import { el } from "../core/dom.js";
import { bytes, count, percent, plural } from "../core/format.js";
import { may } from "../core/login.js";
import { badge, connectionLink, emptyState, heading, meter, nodeLink, panel, queueLink, stateBadge } from "../parts/pieces.js";
import { table } from "../parts/table.js";

const SHOWN_MAX = 500;
const FIELDS = "name,user,vhost,node,state,channels,user_provided_name,send_pend";

export const alarms = {
  title: () => "Alarms and blocking",

  async load(ask) {
    const [told, leaders, critical, blocked, connections, nodes] = await Promise.all([
      check("health/checks/alarms"),
      check("health/checks/quorum-queues-without-elected-leaders/all-vhosts"),
      check("health/checks/node-is-quorum-critical"),
      ask("leveret/blocked-connections", { page: 1, page_size: SHOWN_MAX, columns: FIELDS }),
      ask("connections", { page: 1, page_size: 1, columns: "name" }),
      may("monitoring") ? ask("nodes") : [],
    ]);
    return {
      raised: told.alarms ?? [],
      leaderless: leaders.queues ?? [],
      critical,
      heldUp: blocked.items,
      heldUpCount: blocked.total_count,
      connected: connections.total_count,
      nodes,
    };
  },

  render({ raised, leaderless, critical, heldUp, heldUpCount, connected, nodes }) {
    const isWell = raised.length + leaderless.length + heldUp.length === 0 && critical.status === "ok";
    return [
      heading("Alarms and blocking"),
      isWell &&
        el(
          "p",
          { class: "notice good" },
          el("strong", {}, "All clear. "),
          `No active alarms, all quorum queues have leaders, and none of ${plural(connected, "connection")} is blocked.`,
        ),
      panel(
        "Active alarms",
        raised.length === 0
          ? emptyState(
              "No alarms",
              "A node raises an alarm when it runs low on memory or disk. " +
                "While it is active, publishers are blocked on all nodes; consumers continue.",
            )
          : alarmTable(raised, nodes),
      ),
      panel(
        "Blocked connections",
        heldUp.length === 0
          ? emptyState("No blocked connections", "Connections appear here while an alarm or flow control holds them back.")
          : [
              heldUpCount > heldUp.length &&
                el("p", { class: "quiet" }, `The first ${count(heldUp.length)} of ${count(heldUpCount)}.`),
              blockedTable(heldUp, raised),
            ],
      ),
      panel(
        "Queues without a leader",
        leaderless.length === 0
          ? emptyState(
              "All quorum queues have leaders",
              "A queue without a leader is unavailable until a majority of its members is online.",
            )
          : leaderTable(leaderless),
      ),
      critical.status !== "ok" &&
        panel(
          "Quorum-critical node",
          el("p", {}, "Stopping the node that serves this page would leave groups without a majority:"),
          el("p", {}, critical.reason),
        ),
      nodes.length > 0 && panel("Resource headroom", pressureTable(nodes)),
    ];
  },
};

function alarmTable(raised, nodes) {
  const known = new Map(nodes.map((node) => [node.name, node]));
  const columns = [
    { id: "node", title: "Node", cell: (one) => nodeLink(one.node) },
    { id: "resource", title: "Resource", cell: (one) => badge(one.resource, "bad") },
    { id: "reason", title: "Reason", class: "wrap", cell: (one) => one.reason },
    { id: "now", title: "Usage", cell: (one) => now(one, known.get(one.node)) },
  ];
  return table(columns, raised, { key: (one) => `${one.node} ${one.resource}`, label: "Active alarms" });
}

function now(alarm, node) {
  if (node === undefined) return "–";
  return alarm.resource === "memory"
    ? `${bytes(node.mem_used)} of ${bytes(node.mem_limit)}`
    : `${bytes(node.disk_free)} free, ${bytes(node.disk_free_limit)} required`;
}

function blockedTable(heldUp, raised) {
  const by = raised.map((one) => `${one.resource} of ${one.node}`).join(", ");
  const columns = [
    {
      id: "name",
      title: "Connection",
      cell: (one) => [
        connectionLink(one.name),
        one.user_provided_name && el("small", { class: "quiet second-line" }, String(one.user_provided_name)),
      ],
    },
    { id: "state", title: "State", cell: (one) => stateBadge(one.state) },
    {
      id: "by",
      title: "Blocked by",
      class: "wrap",
      cell: (one) =>
        one.state === "flow" ? "flow control: its queues cannot keep up" : by || "an alarm that has just cleared",
    },
    { id: "user", title: "User", rank: 2, cell: (one) => one.user },
    { id: "vhost", title: "Virtual host", rank: 2, cell: (one) => one.vhost },
    { id: "channels", title: "Channels", number: true, rank: 3, cell: (one) => count(one.channels) },
    { id: "node", title: "Node", rank: 3, cell: (one) => nodeLink(one.node) },
  ];
  return table(columns, heldUp, { key: (one) => `${one.node} ${one.name}`, label: "Blocked connections" });
}

function leaderTable(leaderless) {
  const columns = [
    { id: "name", title: "Queue", cell: (one) => queueLink(one.virtual_host, one.name) },
    { id: "vhost", title: "Virtual host", cell: (one) => one.virtual_host },
    { id: "type", title: "Type", cell: (one) => one.type },
  ];
  return table(columns, leaderless, { key: (one) => `${one.virtual_host}\n${one.name}`, label: "Queues without a leader" });
}

function pressureTable(nodes) {
  const columns = [
    { id: "node", title: "Node", cell: (one) => nodeLink(one.name) },
    {
      id: "memory",
      title: "Memory used of alarm threshold",
      cell: (one) =>
        meter(
          one.mem_used,
          one.mem_limit,
          `${percent(one.mem_limit > 0 ? one.mem_used / one.mem_limit : Number.NaN)} of ${bytes(one.mem_limit)}`,
        ),
    },
    {
      id: "disk",
      title: "Disk free",
      cell: (one) =>
        meter(
          one.disk_free_limit,
          one.disk_free,
          `${bytes(one.disk_free)} free, alarm below ${bytes(one.disk_free_limit)}`,
          one.disk_free_alarm ? "bad" : "",
        ),
    },
    {
      id: "files",
      title: "Open files",
      rank: 2,
      cell: (one) => meter(one.fd_used, one.fd_total, `${count(one.fd_used)} of ${count(one.fd_total)}`),
    },
  ];
  return table(columns, nodes, { key: (one) => one.name, label: "Resource headroom" });
}
