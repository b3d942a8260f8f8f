// Consumers, of a queue, a channel or a page of all.

import { path, remove } from "../core/api.js";
import { el } from "../core/dom.js";
import { count } from "../core/format.js";
import { may, user } from "../core/login.js";
import { confirm } from "./dialog.js";
import { badge, button, channelLink, pairsOf, queueLink, stateBadge } from "./pieces.js";
import { table } from "./table.js";

const CONSUMER_COLUMNS = [
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

// With a button that cancels one; `then` is called when it is gone.
export function consumerColumns(then) {
  const actions = {
    id: "cancel",
    title: el("span", { class: "sr" }, "Cancel"),
    menu: "Cancel",
    number: true,
    cell: (one) => cancelButton(one, then),
  };
  return [...CONSUMER_COLUMNS, actions];
}

// What waits for replies has no queue of its own that could go on without it.
function cancelButton(one, then) {
  if (one.queue.name.startsWith("amq.rabbitmq.reply-to")) return null;
  const isOwn = one.channel_details.user === user().name || may("administrator");
  return button("Cancel", () => cancel(one, then), { kind: "link", disabled: isOwn ? "" : "It belongs to another user." });
}

function cancel(one, then) {
  const { connection_name: connection, number } = one.channel_details;
  confirm({
    title: `Cancel consumer ${one.consumer_tag}`,
    intro: el(
      "p",
      {},
      `${one.queue.name} stops delivering to it, and its client is told. ` +
        "What it holds it can still acknowledge; its connection stays open, and it may subscribe again.",
    ),
    action: "Cancel consumer",
    run: async () => {
      await remove(path`leveret/connections/${connection}/channels/${number}/consumers/${one.consumer_tag}`);
      return `${one.consumer_tag} is cancelled.`;
    },
    then,
  });
}

export const consumerKey = (one) => [one.queue.vhost, one.queue.name, one.channel_details.name, one.consumer_tag].join("\n");

export function consumerTable(consumers, then) {
  return table(consumerColumns(then), consumers, { key: consumerKey, label: "Consumers" });
}
