// Bindings of an exchange or a queue.

import { el } from "../core/dom.js";
import { button, emptyState, exchangeLink, pairsOf, queueLink } from "./pieces.js";
import { unbind } from "./queue-actions.js";
import { table } from "./table.js";

const destination = (one) =>
  one.destination_type === "queue" ? queueLink(one.vhost, one.destination) : exchangeLink(one.vhost, one.destination);

export function bindingTable(bindings, label, then) {
  if (bindings.length === 0)
    return emptyState("No bindings", "A binding routes messages from an exchange to a queue or another exchange.");
  const columns = [
    { id: "source", title: "Source", cell: (one) => exchangeLink(one.vhost, one.source) },
    {
      id: "destination",
      title: "Destination",
      cell: (one) => [destination(one), " ", el("span", { class: "quiet" }, one.destination_type)],
    },
    { id: "key", title: "Routing key", class: "wrap", cell: (one) => el("code", {}, one.routing_key) },
    { id: "arguments", title: "Arguments", rank: 2, class: "wrap", cell: (one) => pairsOf(one.arguments) },
    { id: "remove", title: el("span", { class: "sr" }, "Remove"), number: true, cell: (one) => removal(one, then) },
  ];
  return table(columns, bindings, {
    key: (one) => [one.source, one.destination_type, one.destination, one.properties_key].join("\n"),
    label,
  });
}

function removal(binding, then) {
  if (binding.source === "")
    return el("span", { class: "quiet", title: "Every queue is bound to the default exchange by its name." }, "implicit");
  return button("Remove", () => unbind(binding, then), { kind: "link" });
}
