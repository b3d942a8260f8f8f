// Limits of virtual hosts and of users.

import { path, put, remove } from "../core/api.js";
import { nameField } from "../core/broker.js";
import { el } from "../core/dom.js";
import { count } from "../core/format.js";
import { confirm, numberIn, openDialog } from "./dialog.js";
import { button, emptyState } from "./pieces.js";
import { table } from "./table.js";

const KNOWN = {
  vhost: [
    ["max-connections", "connections"],
    ["max-queues", "queues"],
    ["max-message-rate", "messages published per second, on each node"],
    ["max-byte-rate", "bytes published per second, on each node"],
  ],
  user: [
    ["max-connections", "connections"],
    ["max-channels", "channels"],
    ["max-message-rate", "messages published per second, on each node"],
    ["max-byte-rate", "bytes published per second, on each node"],
  ],
};

export function setLimit(kind, name, then, names = []) {
  openDialog({
    title: name === null ? `Limit a ${kind === "user" ? "user" : "virtual host"}` : `Limit ${name}`,
    action: "Set",
    fields: [
      ...(name === null ? [nameField("whose", kind === "user" ? "User" : "Virtual host", names)] : []),
      { name: "limit", label: "Limit", kind: "choice", options: KNOWN[kind].map(([limit, label]) => [limit, label]) },
      { name: "value", label: "Number", kind: "number", required: true, hint: "-1 means unlimited." },
    ],
    run: async ({ whose, limit, value }) => {
      await put(path`${`${kind}-limits`}/${name ?? whose}/${limit}`, { value: numberIn(value, "The number") });
      then();
      return "The limit is set.";
    },
  });
}

// `limited`: as the node lists them, a name and its limits each.
export function limitTable(kind, limited, then) {
  const rows = limited.flatMap((one) => Object.entries(one.value).map(([limit, value]) => ({ name: one[kind], limit, value })));
  if (rows.length === 0)
    return emptyState(
      "No limits",
      kind === "user"
        ? "Users may open as many connections and channels as the node allows."
        : "Virtual hosts may have as many connections and queues as the node allows.",
    );
  const columns = [
    { id: "name", title: kind === "user" ? "User" : "Virtual host", cell: (one) => one.name },
    { id: "limit", title: "Limit", cell: (one) => one.limit },
    { id: "value", title: "Value", number: true, cell: (one) => count(one.value) },
    {
      id: "clear",
      title: el("span", { class: "sr" }, "Actions"),
      number: true,
      cell: (one) => button("Clear", () => clear(kind, one, then), { kind: "link" }),
    },
  ];
  return table(columns, rows, { key: (one) => `${one.name}\n${one.limit}`, label: "Limits" });
}

function clear(kind, { name, limit }, then) {
  confirm({
    title: `Clear ${limit} of ${name}`,
    intro: el("p", {}, "Only the node's own limits apply then."),
    action: "Clear",
    run: async () => {
      await remove(path`${`${kind}-limits`}/${name}/${limit}`);
      return "The limit is cleared.";
    },
    then,
  });
}
