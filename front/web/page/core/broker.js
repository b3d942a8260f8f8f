// What views share about the broker: paths of its objects, arguments of queues.

import { path } from "./api.js";

export const queuePath = (vhost, name) => path`queues/${vhost}/${name}`;
export const exchangePath = (vhost, name) => path`exchanges/${vhost}/${name === "" ? "amq.default" : name}`;

// A list of all, or of one virtual host if the address names one.
export const inVhost = (list, place) => (place.query.vhost ? path`${list}/${place.query.vhost}` : list);

const SOME = { page: 1, page_size: 500 }; // as many as one answer may have

// The first of a list that is shown without pages.
export const firstOf = async (ask, list) => (await ask(list, SOME)).items;

// Names to choose from, of "vhosts" or "users".
export async function namesOf(ask, list) {
  const page = await ask(list, { ...SOME, columns: "name" });
  return page.items.map((one) => one.name);
}

export const vhostNames = (ask) => namesOf(ask, "vhosts");

// A field of a dialog for such a name: to choose, or to type where there are more than were asked for.
export function nameField(name, label, names, more = {}) {
  if (names.length >= SOME.page_size) return { name, label, required: true, ...more };
  return { name, label, kind: "choice", options: names.map((one) => [one, one]), ...more };
}

export const rateOf = (thing, name) => thing.message_stats?.[`${name}_details`]?.rate ?? 0;

// Arguments of a queue, by its type: [name, label, kind, what it does].
const OF_ALL = [
  ["x-message-ttl", "Time to live (ms)", "number", "Messages that wait longer expire."],
  ["x-max-length", "Max length", "number"],
  ["x-max-length-bytes", "Max length in bytes", "number"],
  [
    "x-overflow",
    "Overflow behaviour",
    [
      ["", "drop head"],
      ["reject-publish", "reject publish"],
    ],
  ],
  ["x-dead-letter-exchange", "Dead letter exchange", "text", "Rejected and expired messages are republished to it."],
  ["x-dead-letter-routing-key", "Dead letter routing key", "text", "Replaces the message's own routing key."],
  ["x-expires", "Expires after (ms)", "number", "The queue is deleted when unused for this long."],
  ["x-single-active-consumer", "Single active consumer", "check"],
];
const OF_STREAMS = [
  ["x-max-age", "Max age", "text", "A number with Y, M, D, h, m or s, such as 7D."],
  ["x-max-length-bytes", "Max length in bytes", "number"],
  ["x-stream-max-segment-size-bytes", "Segment size in bytes", "number"],
  ["x-initial-cluster-size", "Initial members", "number"],
];

export const QUEUE_ARGUMENTS = {
  classic: [...OF_ALL, ["x-max-priority", "Highest priority", "number", "1 to 255; up to 10 is recommended."]],
  quorum: [
    ...OF_ALL,
    ["x-delivery-limit", "Delivery limit", "number", "A message returned this often is dead-lettered."],
    ["x-quorum-initial-group-size", "Initial members", "number"],
    [
      "x-dead-letter-strategy",
      "Dead letter strategy",
      [
        ["", "at most once"],
        ["at-least-once", "at least once"],
      ],
    ],
  ],
  stream: OF_STREAMS,
};

// Abbreviations for the features of a queue, each with its meaning.
export function features(queue) {
  const set = queue.arguments ?? {};
  const policy = queue.effective_policy_definition ?? {};
  const has = (name) => set[`x-${name}`] !== undefined || policy[name] !== undefined;
  return [
    queue.durable && ["D", "durable: survives a restart"],
    queue.auto_delete && ["AD", "auto-delete: deleted with its last consumer"],
    queue.exclusive && ["Excl", "exclusive to one connection"],
    has("message-ttl") && ["TTL", "message TTL"],
    has("expires") && ["Exp", "expires when unused"],
    (has("max-length") || has("max-length-bytes")) && ["Lim", "length limit"],
    has("max-age") && ["Age", "max age"],
    has("dead-letter-exchange") && ["DLX", "dead letter exchange"],
    set["x-single-active-consumer"] && ["SAC", "single active consumer"],
    set["x-max-priority"] !== undefined && ["Pri", "priorities"],
  ].filter(Boolean);
}
