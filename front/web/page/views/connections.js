// Client connections: state, client properties, throughput.

import { path, remove } from "../core/api.js";
import { vhostNames } from "../core/broker.js";
import { el } from "../core/dom.js";
import { ago, byteRate, bytes, count, moment, plain } from "../core/format.js";
import { go, link } from "../core/routes.js";
import { trend } from "../core/trend.js";
import { chart } from "../parts/chart.js";
import { openDialog } from "../parts/dialog.js";
import {
  badge,
  button,
  connectionLink,
  emptyState,
  facts,
  heading,
  nodeLink,
  pairsOf,
  panel,
  sparkline,
  stat,
  stateBadge,
} from "../parts/pieces.js";
import { channelColumns } from "../parts/channel-columns.js";
import { rates, samplesOf } from "../parts/history.js";
import { listing, listQuery, table } from "../parts/table.js";

const FIELDS =
  "name,node,protocol,user,vhost,state,channels,ssl,client_properties,user_provided_name,connected_at," +
  "recv_oct_details,send_oct_details";

export const connections = {
  title: () => "Connections",

  async load(ask, place) {
    const where = place.query.vhost ? path`vhosts/${place.query.vhost}/connections` : "connections";
    const [page, vhosts] = await Promise.all([ask(where, listQuery(place, { fields: FIELDS })), vhostNames(ask)]);
    return { page, vhosts };
  },

  render({ page, vhosts }, place) {
    return [
      heading("Connections"),
      listing({
        id: "connections",
        columns: columns(vhosts.length > 1),
        page,
        place,
        vhosts,
        label: "Connections",
        key: (one) => `${one.node} ${one.name}`,
        empty: { title: "No connections", text: "Clients of AMQP and of the stream protocol appear here while connected." },
      }),
    ];
  },
};

function columns(withVhost) {
  return [
    {
      id: "name",
      title: "Name",
      sort: "name",
      cell: (one) => [
        connectionLink(one.name),
        one.user_provided_name && el("small", { class: "quiet second-line" }, String(one.user_provided_name)),
      ],
    },
    { id: "vhost", title: "Virtual host", sort: "vhost", rank: 2, off: !withVhost, cell: (one) => one.vhost },
    { id: "user", title: "User", sort: "user", cell: (one) => one.user },
    { id: "state", title: "State", sort: "state", cell: (one) => stateBadge(one.state) },
    { id: "client", title: "Client", rank: 2, cell: client },
    {
      id: "protocol",
      title: "Protocol",
      sort: "protocol",
      rank: 3,
      class: "nowrap",
      cell: (one) => [one.protocol, " ", one.ssl && badge("TLS", "plain")],
    },
    { id: "channels", title: "Channels", sort: "channels", number: true, cell: (one) => count(one.channels) },
    {
      id: "in",
      title: "From client",
      sort: "recv_oct_details.rate",
      number: true,
      rank: 2,
      cell: (one) => flow(one, "recv_oct", "series-teal"),
    },
    {
      id: "out",
      title: "To client",
      sort: "send_oct_details.rate",
      number: true,
      rank: 2,
      cell: (one) => flow(one, "send_oct", "series-amber"),
    },
    { id: "node", title: "Node", sort: "node", rank: 3, cell: (one) => nodeLink(one.node) },
    { id: "since", title: "Since", sort: "connected_at", number: true, rank: 3, cell: (one) => ago(one.connected_at) },
  ];
}

function client(one) {
  const { product, version, platform } = one.client_properties;
  return [
    product && plain(product),
    version && ` ${plain(version)}`,
    platform && el("small", { class: "quiet second-line" }, plain(platform)),
  ];
}

function flow(one, what, colour) {
  const now = one[`${what}_details`]?.rate ?? 0;
  return el(
    "span",
    { class: "with-line" },
    sparkline(trend(`connection ${one.name} ${what}`, now), colour),
    el("span", { class: now === 0 ? "zero" : "" }, byteRate(now)),
  );
}

const THROUGHPUT = [
  ["recv_oct", "From client", "series-teal"],
  ["send_oct", "To client", "series-amber"],
];

export const connection = {
  title: ({ parts }) => parts[1],

  async load(ask, place) {
    const where = path`connections/${place.parts[1]}`;
    const [told, channels] = await Promise.all([ask(where, samplesOf()), ask(`${where}/channels`)]);
    return { told, channels };
  },

  render({ told, channels }) {
    return [
      heading(told.name, {
        above: [el("a", { href: link(["connections"]) }, "Connections")],
        badges: [stateBadge(told.state), told.ssl && badge("TLS", "plain")].filter(Boolean),
        below: told.user_provided_name ? String(told.user_provided_name) : null,
        actions: [button("Close", () => closeConnection(told), { kind: "danger-quiet" })],
      }),
      el(
        "div",
        { class: "stats" },
        stat("From client", byteRate(told.recv_oct_details.rate), {
          note: `${bytes(told.recv_oct)} total`,
          colour: "series-teal",
        }),
        stat("To client", byteRate(told.send_oct_details.rate), {
          note: `${bytes(told.send_oct)} total`,
          colour: "series-amber",
        }),
        stat("Send backlog", bytes(told.send_pend)),
        stat("Channels", count(told.channels)),
      ),
      panel("", chart(rates("Throughput", told, THROUGHPUT, byteRate))),
      el(
        "div",
        { class: "columns" },
        panel(
          "Details",
          facts([
            ["User", told.user],
            ["Virtual host", told.vhost],
            ["Node", nodeLink(told.node)],
            ["Protocol", told.protocol],
            ["Connected", moment(told.connected_at)],
            ["Heartbeat", told.timeout === undefined ? null : `${told.timeout} s`],
            ["Max frame size", told.frame_max && bytes(told.frame_max)],
            ["Max channels", told.channel_max && count(told.channel_max)],
            ["TLS", told.ssl ? [told.ssl_protocol, told.ssl_cipher].filter(Boolean).join(", ") : "no"],
          ]),
        ),
        panel("Client properties", pairsOf(told.client_properties)),
      ),
      panel(
        "Channels",
        channels.length === 0
          ? emptyState("No channels", "The client has not opened a channel.")
          : table(channelColumns(false), channels, { key: (one) => one.name, label: "Channels" }),
      ),
    ];
  },
};

function closeConnection(told) {
  openDialog({
    title: `Close ${told.name}`,
    intro: el(
      "p",
      {},
      "Its channels and consumers are closed, and unacknowledged messages are requeued. Most clients reconnect on their own.",
    ),
    action: "Close",
    danger: true,
    fields: [{ name: "reason", label: "Reason sent to the client", value: "Closed via management page" }],
    run: async ({ reason }) => {
      await remove(path`connections/${told.name}`, undefined, {}, { "X-Reason": reason.replace(/[^\x20-\x7e]/g, "?") });
      go(link(["connections"]));
      return "The connection is closed.";
    },
  });
}
