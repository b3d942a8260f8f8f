// Consumers, of a queue, a channel or a page of all.

import { count } from "../core/format.js";
import { badge, channelLink, pairsOf, queueLink, stateBadge } from "./pieces.js";
import { table } from "./table.js";

export const CONSUMER_COLUMNS = [
  { id: "tag", title: "Consumer tag", sort: "consumer_tag", cell: (one) => one.consumer_tag },
  { id: "queue", title: "Queue", sort: "queue.name", cell: (one) => queueLink(one.queue.vhost, one.queue.name) },
  { id: "channel", title: "Channel", sort: "channel_details.name", cell: (one) => channelLink(one.channel_details.name) },
  { id: "user", title: "User", sort: "channel_details.user", rank: 3, cell: (one) => one.channel_details.user },
  { id: "state", title: "State", sort: "activity_status", cell: (one) => stateBadge(one.activity_status) },
  { id: "acks", title: "Acks", rank: 2, cell: (one) => (one.ack_required ? "manual" : "automatic") },
  {
    id: "prefetch",
    title: "Prefetch",
    sort: "prefetch_count",
    number: true,
    cell: (one) => (one.prefetch_count === 0 ? "unlimited" : count(one.prefetch_count)),
  },
  { id: "exclusive", title: "Exclusive", rank: 3, cell: (one) => (one.exclusive ? badge("exclusive", "plain") : "") },
  { id: "arguments", title: "Arguments", rank: 3, class: "wrap", cell: (one) => pairsOf(one.arguments) },
];

export const consumerKey = (one) => [one.queue.vhost, one.queue.name, one.channel_details.name, one.consumer_tag].join("\n");

export function consumerTable(consumers) {
  return table(CONSUMER_COLUMNS, consumers, { key: consumerKey, label: "Consumers" });
}
