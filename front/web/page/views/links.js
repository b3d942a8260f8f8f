// What carries messages to and from other brokers: shovels.

import { path, put, remove } from "../core/api.js";
import { inVhost, nameField, vhostNames } from "../core/broker.js";
import { el } from "../core/dom.js";
import { count } from "../core/format.js";
import { may } from "../core/login.js";
import { confirm, numberIn, openDialog, pairsIn } from "../parts/dialog.js";
import { icon } from "../parts/icons.js";
import { button, heading, needs, nodeLink, stateBadge, when } from "../parts/pieces.js";
import { listing, listQuery } from "../parts/table.js";

export const links = {
  title: () => "Shovels",

  async load(ask, place) {
    const [page, vhosts] = await Promise.all([ask(inVhost("shovels", place), listQuery(place)), vhostNames(ask)]);
    return { page, vhosts };
  },

  render({ page, vhosts }, place, screen) {
    const cannot = needs(may("policymaker"), "policymaker or administrator");
    const then = () => screen.refresh();
    return [
      heading("Shovels", {
        below: "A shovel carries the messages of a queue or an exchange to another one, of this cluster or of another broker.",
        actions: [
          button("Add", () => add(vhosts, place.query.vhost || vhosts[0], then), {
            kind: "primary",
            icon: icon("plus"),
            disabled: cannot,
          }),
        ],
      }),
      listing({
        id: "shovels",
        columns: columns(vhosts, cannot, then),
        page,
        place,
        vhosts,
        label: "Shovels",
        key: (one) => `${one.vhost}\n${one.type}\n${one.name}`,
        empty: { title: "No shovels", text: "One node of the cluster runs each shovel, until it is deleted." },
      }),
    ];
  },
};

function columns(vhosts, cannot, then) {
  return [
    { id: "name", title: "Name", sort: "name", class: "wrap", cell: (one) => one.name },
    { id: "vhost", title: "Virtual host", sort: "vhost", rank: 3, off: vhosts.length < 2, cell: (one) => one.vhost },
    { id: "state", title: "State", sort: "state", cell: (one) => stateBadge(one.state) },
    { id: "node", title: "Node", sort: "node", rank: 3, cell: (one) => one.node && nodeLink(one.node) },
    { id: "source", title: "Source", class: "wrap", cell: (one) => end(one, "src") },
    { id: "destination", title: "Destination", class: "wrap", cell: (one) => end(one, "dest") },
    { id: "forwarded", title: "Transferred", sort: "forwarded", number: true, cell: (one) => count(one.forwarded) },
    {
      id: "remaining",
      title: "Remaining",
      sort: "remaining",
      number: true,
      rank: 2,
      cell: (one) => (one.remaining === undefined ? "" : count(one.remaining)),
    },
    { id: "since", title: "Since", sort: "since_ms", rank: 3, cell: (one) => (one.since_ms ? when(one.since_ms) : "") },
    { id: "reason", title: "Last interruption", class: "wrap", rank: 2, cell: (one) => one.reason ?? "" },
    {
      id: "actions",
      title: el("span", { class: "sr" }, "Actions"),
      number: true,
      cell: (one) => [
        button("Restart", () => restart(one, then), { kind: "link", disabled: cannot }),
        " ",
        button("Delete", () => deleteShovel(one, then), {
          kind: "link",
          disabled: cannot || (one.type === "static" ? "It is of a node's configuration file." : ""),
        }),
      ],
    },
  ];
}

function end(one, which) {
  return [ended(one, which), el("div", { class: "quiet" }, one[`${which}_uri`])];
}

function ended(one, which) {
  const queue = one[`${which}_queue`];
  const exchange = one[`${which}_exchange`];
  const key = one[`${which}_exchange_key`];
  if (one.node === "") return "";
  if (queue !== undefined) return `queue ${queue}`;
  if (exchange === undefined) return "as published";
  return `exchange ${exchange || "(default)"}${key ? `, key ${key}` : ""}`;
}

const KINDS = { queue: "a queue", exchange: "an exchange", published: "the exchange it came from" };
const choices = (...names) => names.map((name) => [name, KINDS[name]]);

function add(vhosts, vhost, then) {
  openDialog({
    title: "Add shovel",
    action: "Add",
    fields: [
      nameField("vhost", "Virtual host", vhosts, { value: vhost, half: true }),
      { name: "name", label: "Name", required: true, half: true, hint: "One of the same name is replaced." },
      {
        name: "src-uri",
        label: "Source URI",
        required: true,
        placeholder: "amqp://user:password@host/%2F",
        hint: "Without a host it is this cluster; virtual host / is written %2F.",
      },
      { name: "src-kind", label: "From", kind: "choice", options: choices("queue", "exchange"), half: true },
      { name: "src-name", label: "Queue or exchange", required: true, half: true },
      { name: "src-exchange-key", label: "Binding key", when: (values) => values["src-kind"] === "exchange" },
      { name: "dest-uri", label: "Destination URI", required: true, placeholder: "amqp://user:password@host/%2F" },
      { name: "dest-kind", label: "To", kind: "choice", options: choices("queue", "exchange", "published"), half: true },
      { name: "dest-name", label: "Queue or exchange", half: true, when: (values) => values["dest-kind"] !== "published" },
      {
        name: "dest-exchange-key",
        label: "Routing key",
        hint: "Without one, the key of each message.",
        when: (values) => values["dest-kind"] !== "queue",
      },
      {
        name: "ack-mode",
        label: "Acknowledge",
        kind: "choice",
        options: [
          ["on-confirm", "when the destination has confirmed"],
          ["on-publish", "when it was published"],
          ["no-ack", "when it was delivered"],
        ],
      },
      {
        name: "src-delete-after",
        label: "Delete after",
        hint: "A number of messages, or queue-length: what the queue holds at the start. Empty: never.",
      },
      { name: "more", label: "Other keys", kind: "pairs", hint: "One per line, such as src-prefetch-count = 100." },
    ],
    run: async (values) => {
      await put(path`parameters/shovel/${values.vhost}/${values.name}`, { value: definition(values) });
      then();
      return `${values.name} is declared.`;
    },
  });
}

function definition(values) {
  const found = {
    "src-uri": values["src-uri"],
    [`src-${values["src-kind"]}`]: values["src-name"],
    "dest-uri": values["dest-uri"],
    "ack-mode": values["ack-mode"],
    ...pairsIn(values.more),
  };
  if (values["src-kind"] === "exchange") found["src-exchange-key"] = values["src-exchange-key"];
  if (values["dest-kind"] !== "published") found[`dest-${values["dest-kind"]}`] = values["dest-name"];
  if (values["dest-kind"] !== "queue" && values["dest-exchange-key"]) found["dest-exchange-key"] = values["dest-exchange-key"];
  if (values["src-delete-after"]) found["src-delete-after"] = numberOrText(values["src-delete-after"]);
  return found;
}

const numberOrText = (text) => (/^\d+$/.test(text) ? numberIn(text, "Delete after") : text);

function restart(one, then) {
  confirm({
    title: `Restart ${one.name}`,
    intro: el("p", {}, "It closes both its connections and begins again. What was on its way may arrive twice."),
    action: "Restart",
    run: async () => {
      await remove(path`shovels/vhost/${one.vhost}/${one.name}/restart`);
      return `${one.name} begins again.`;
    },
    then,
  });
}

function deleteShovel(one, then) {
  confirm({
    title: `Delete ${one.name}`,
    intro: el("p", {}, "Messages that it has not moved stay in their queue."),
    action: "Delete",
    run: async () => {
      await remove(path`shovels/vhost/${one.vhost}/${one.name}`);
      return `${one.name} is deleted.`;
    },
    then,
  });
}
