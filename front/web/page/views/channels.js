// AMQP channels.

import { path } from "../core/api.js";
import { vhostNames } from "../core/broker.js";
import { el } from "../core/dom.js";
import { count } from "../core/format.js";
import { link } from "../core/routes.js";
import { channelColumns } from "../parts/channel-columns.js";
import { chart } from "../parts/chart.js";
import { consumerTable } from "../parts/consumer-table.js";
import { rates, samplesOf } from "../parts/history.js";
import { badge, connectionLink, emptyState, facts, heading, nodeLink, panel, stat } from "../parts/pieces.js";
import { listing, listQuery } from "../parts/table.js";

export const channels = {
  title: () => "Channels",

  async load(ask, place) {
    const where = place.query.vhost ? path`vhosts/${place.query.vhost}/channels` : "channels";
    const [page, vhosts] = await Promise.all([ask(where, listQuery(place)), vhostNames(ask)]);
    return { page, vhosts };
  },

  render({ page, vhosts }, place) {
    return [
      heading("Channels"),
      listing({
        id: "channels",
        columns: channelColumns(true),
        page,
        place,
        vhosts,
        label: "Channels",
        key: (one) => `${one.node} ${one.name}`,
        empty: {
          title: "No channels",
          text: "AMQP clients open channels to publish and to consume. Stream protocol clients have none.",
        },
      }),
    ];
  },
};

const FLOWS = [
  ["publish", "Published", "series-blue"],
  ["confirm", "Confirmed", "series-teal"],
  ["deliver_get", "Delivered", "series-amber"],
  ["ack", "Acknowledged", "series-violet"],
];

export const channel = {
  title: ({ parts }) => parts[1],

  load: (ask, place) => ask(path`channels/${place.parts[1]}`, samplesOf()),

  render(told, place, screen) {
    return [
      heading(`Channel ${told.number}`, {
        above: [el("a", { href: link(["channels"]) }, "Channels"), " of ", connectionLink(told.connection_details.name)],
        badges: [told.confirm && badge("confirms", "plain"), told.transactional && badge("transactions", "plain")].filter(
          Boolean,
        ),
      }),
      el(
        "div",
        { class: "stats" },
        stat("Unacknowledged", count(told.messages_unacknowledged)),
        stat("Unconfirmed", count(told.messages_unconfirmed)),
        stat("Uncommitted", count(told.messages_uncommitted)),
        stat("Prefetch", told.prefetch_count === 0 ? "unlimited" : count(told.prefetch_count)),
      ),
      panel("", chart(rates("Message rates", told.message_stats, FLOWS))),
      panel(
        "Details",
        facts([
          ["User", told.user],
          ["Virtual host", told.vhost],
          ["Node", nodeLink(told.node)],
          ...FLOWS.map(([name, label]) => [`${label} total`, count(told.message_stats[name])]),
          ["Returned as unroutable", count(told.message_stats.return_unroutable)],
          ["Dropped as unroutable", count(told.message_stats.drop_unroutable)],
        ]),
      ),
      panel(
        "Consumers",
        told.consumer_details.length === 0
          ? emptyState("No consumers", "This channel has no consumers.")
          : consumerTable(told.consumer_details, () => screen.refresh()),
      ),
    ];
  },
};
