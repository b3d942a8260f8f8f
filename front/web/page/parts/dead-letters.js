// Dead-letter causes, aggregated from the x-death headers of browsed messages.

import { el } from "../core/dom.js";
import { count, moment } from "../core/format.js";
import { badge, button, emptyState, exchangeLink, queueLink } from "./pieces.js";
import { table } from "./table.js";

const REASONS = {
  rejected: ["bad", "rejected by a consumer"],
  expired: ["warn", "exceeded its TTL"],
  maxlen: ["warn", "the queue was full"],
  delivery_limit: ["bad", "returned too often"],
};

// Messages by reason, queue, exchange and routing keys; the most frequent first.
export function causes(messages) {
  const found = new Map();
  for (const message of messages) {
    const [death] = message.properties.headers?.["x-death"] ?? [];
    if (typeof death !== "object" || death === null) continue;
    const { "x-first-death-queue": first } = message.properties.headers;
    const key = JSON.stringify([death.reason, death.queue, death.exchange, death["routing-keys"], first]);
    const cause = found.get(key) ?? { key, death, first, messages: 0, times: 0 };
    cause.messages += 1;
    cause.times += Number(death.count) || 1;
    found.set(key, cause);
  }
  return [...found.values()].sort((one, other) => other.messages - one.messages);
}

// `redrive(death)` is offered for each cause, if there is one.
export function causeTable(vhost, messages, redrive = null) {
  const found = causes(messages);
  if (found.length === 0) return emptyState("No dead letters", "None of the browsed messages has an x-death header.");
  const columns = [
    {
      id: "reason",
      title: "Reason",
      cell: ({ death }) => [
        badge(String(death.reason), REASONS[death.reason]?.[0] ?? ""),
        " ",
        el("span", { class: "quiet" }, REASONS[death.reason]?.[1] ?? ""),
      ],
    },
    { id: "queue", title: "Queue", cell: ({ death }) => queueLink(vhost, String(death.queue)) },
    {
      id: "first",
      title: "First died in",
      rank: 3,
      cell: ({ death, first }) => (first === undefined || first === death.queue ? "–" : queueLink(vhost, String(first))),
    },
    { id: "exchange", title: "Exchange", rank: 2, cell: ({ death }) => exchangeLink(vhost, String(death.exchange ?? "")) },
    {
      id: "keys",
      title: "Routing keys",
      rank: 2,
      class: "wrap",
      cell: ({ death }) => el("code", {}, [death["routing-keys"] ?? []].flat().join(", ")),
    },
    {
      id: "last",
      title: "Latest",
      rank: 3,
      cell: ({ death }) => (Number(death.time) ? moment(Number(death.time) * 1000) : "–"),
    },
    { id: "messages", title: "Messages", number: true, cell: (one) => count(one.messages) },
    { id: "times", title: "Times", number: true, cell: (one) => count(one.times) },
    {
      id: "redrive",
      title: el("span", { class: "sr" }, "Redrive"),
      number: true,
      cell: ({ death }) =>
        redrive &&
        button("Redrive", () => redrive({ reason: String(death.reason), died_in: String(death.queue) }), { kind: "link" }),
    },
  ];
  return table(columns, found, { key: (one) => one.key, label: "Dead-letter causes" });
}
