// What views know of the broker: where its things are asked for, and what they are made of.

import { path } from "./api.js";

export const queuePath = (vhost, name) => path`queues/${vhost}/${name}`;
export const exchangePath = (vhost, name) => path`exchanges/${vhost}/${name === "" ? "amq.default" : name}`;

// A list of all, or of one virtual host if the address names one.
export const inVhost = (list, place) => (place.query.vhost ? path`${list}/${place.query.vhost}` : list);

const VHOSTS_MAX = 500;

// The names of virtual hosts, to choose from.
export async function vhostNames(ask) {
  const page = await ask("vhosts", { page: 1, page_size: VHOSTS_MAX, pagination: "true", columns: "name" });
  return page.items.map((one) => one.name);
}

export const rateOf = (thing, name) => thing.message_stats?.[`${name}_details`]?.rate ?? 0;

// Arguments of a queue, by its type: [name, label, kind, what it does].
const OF_ALL = [
  ["x-message-ttl", "Time to live (ms)", "number", "Messages that wait longer die."],
  ["x-max-length", "At most so many messages", "number"],
  ["x-max-length-bytes", "At most so many bytes", "number"],
  ["x-overflow", "When it is full", [["", "drop the oldest"], ["reject-publish", "refuse new ones"]]],
  ["x-dead-letter-exchange", "Dead letter exchange", "text", "Where messages go that die here."],
  ["x-dead-letter-routing-key", "Dead letter routing key", "text", "Instead of the message's own."],
  ["x-expires", "Unused for (ms)", "number", "A queue that nobody uses for so long is deleted."],
  ["x-single-active-consumer", "One consumer at a time", "check"],
];
const OF_STREAMS = [
  ["x-max-age", "Keep for", "text", "A number and Y, M, D, h, m or s: 7D."],
  ["x-max-length-bytes", "Keep at most so many bytes", "number"],
  ["x-stream-max-segment-size-bytes", "Bytes of a segment", "number"],
  ["x-initial-cluster-size", "Members", "number"],
];

export const QUEUE_ARGUMENTS = {
  classic: [...OF_ALL, ["x-max-priority", "Highest priority", "number", "1 to 255; 5 are enough for most."]],
  quorum: [
    ...OF_ALL,
    ["x-delivery-limit", "Deliveries at most", "number", "A message that came back so often dies."],
    ["x-quorum-initial-group-size", "Members", "number"],
    ["x-dead-letter-strategy", "Dead letters are", [["", "sent once at most"], ["at-least-once", "sent once at least"]]],
  ],
  stream: OF_STREAMS,
};

// Short words for what a queue was declared with, and what they stand for.
export function features(queue) {
  const set = queue.arguments ?? {};
  const policy = queue.effective_policy_definition ?? {};
  const has = (name) => set[`x-${name}`] !== undefined || policy[name] !== undefined;
  return [
    queue.durable && ["D", "durable: it is there again after a restart"],
    queue.auto_delete && ["AD", "auto-delete: it goes with its last consumer"],
    queue.exclusive && ["Excl", "exclusive: of one connection"],
    has("message-ttl") && ["TTL", "messages live for a limited time"],
    has("expires") && ["Exp", "deleted when nobody uses it"],
    (has("max-length") || has("max-length-bytes")) && ["Lim", "limited in length"],
    has("max-age") && ["Age", "messages are kept for a limited time"],
    has("dead-letter-exchange") && ["DLX", "messages that die go to an exchange"],
    set["x-single-active-consumer"] && ["SAC", "one consumer at a time"],
    set["x-max-priority"] !== undefined && ["Pri", "with priorities"],
  ].filter(Boolean);
}
