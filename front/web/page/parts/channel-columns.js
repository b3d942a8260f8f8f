// Channels, of one connection or of all.

import { count, rate } from "../core/format.js";
import { rateOf } from "../core/broker.js";
import { badge, channelLink, nodeLink } from "./pieces.js";

export function channelColumns(withConnection) {
  return [
    { id: "name", title: withConnection ? "Channel" : "Number", sort: "name", cell: (one) => channelLink(one.name) },
    { id: "vhost", title: "Virtual host", sort: "vhost", rank: 3, off: !withConnection, cell: (one) => one.vhost },
    { id: "user", title: "User", sort: "user", rank: 2, cell: (one) => one.user },
    {
      id: "mode",
      title: "Mode",
      cell: (one) => [
        one.confirm && badge("confirms", "plain", "publisher confirms"),
        one.transactional && badge("transactions", "plain"),
      ],
    },
    {
      id: "consumers",
      title: "Consumers",
      sort: "consumer_count",
      number: true,
      rank: 2,
      cell: (one) => count(one.consumer_count),
    },
    {
      id: "prefetch",
      title: "Prefetch",
      sort: "prefetch_count",
      number: true,
      rank: 2,
      cell: (one) => (one.prefetch_count === 0 ? "unlimited" : count(one.prefetch_count)),
    },
    {
      id: "unacked",
      title: "Unacked",
      sort: "messages_unacknowledged",
      number: true,
      cell: (one) => count(one.messages_unacknowledged),
    },
    {
      id: "unconfirmed",
      title: "Unconfirmed",
      sort: "messages_unconfirmed",
      number: true,
      rank: 3,
      cell: (one) => count(one.messages_unconfirmed),
    },
    {
      id: "publish",
      title: "Publish",
      sort: "message_stats.publish_details.rate",
      number: true,
      cell: (one) => rate(rateOf(one, "publish")),
    },
    {
      id: "deliver",
      title: "Deliver",
      sort: "message_stats.deliver_get_details.rate",
      number: true,
      cell: (one) => rate(rateOf(one, "deliver_get")),
    },
    {
      id: "ack",
      title: "Ack",
      sort: "message_stats.ack_details.rate",
      number: true,
      rank: 2,
      cell: (one) => rate(rateOf(one, "ack")),
    },
    { id: "node", title: "Node", sort: "node", rank: 3, off: !withConnection, cell: (one) => nodeLink(one.node) },
  ];
}
