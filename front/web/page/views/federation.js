// What is received from other brokers: links of federated exchanges and queues, and the upstreams that they lead to.

import { path, put, remove } from "../core/api.js";
import { inVhost, nameField, vhostNames } from "../core/broker.js";
import { el } from "../core/dom.js";
import { count } from "../core/format.js";
import { may } from "../core/login.js";
import { changed } from "../core/routes.js";
import { confirm, numberIn, openDialog, pairsIn } from "../parts/dialog.js";
import { icon } from "../parts/icons.js";
import { button, exchangeLink, heading, needs, nodeLink, pairsOf, queueLink, stateBadge, tabs, when } from "../parts/pieces.js";
import { listing, listQuery } from "../parts/table.js";

const UPSTREAMS = "parameters/federation-upstream";
const ACK_MODES = [
  ["on-confirm", "when it is confirmed here"],
  ["on-publish", "when it was published here"],
  ["no-ack", "when it was delivered"],
];

export const federation = {
  title: () => "Federation",

  async load(ask, place) {
    const list = inVhost(isOfUpstreams(place) ? UPSTREAMS : "federation-links", place);
    const [page, vhosts] = await Promise.all([ask(list, listQuery(place)), vhostNames(ask)]);
    return { page, vhosts };
  },

  render({ page, vhosts }, place, screen) {
    const cannot = needs(may("policymaker"), "policymaker or administrator");
    const then = () => screen.refresh();
    const tab = isOfUpstreams(place) ? "upstreams" : "links";
    return [
      heading("Federation", {
        below: "Federated exchanges and queues receive messages of other brokers, the upstreams. Policies say which they are.",
        actions: [
          button("Add upstream", () => add(vhosts, place.query.vhost || vhosts[0], then), {
            kind: "primary",
            icon: icon("plus"),
            disabled: cannot,
          }),
        ],
      }),
      tabs(
        [
          { name: "links", label: "Links" },
          may("policymaker") && { name: "upstreams", label: "Upstreams" },
        ].filter(Boolean),
        tab,
        (one) => changed({ tab: one === "links" ? "" : one, page: "", sort: "", desc: "", name: "" }),
      ),
      (tab === "links" ? linkList : upstreamList)({ page, place, vhosts }, cannot, then),
    ];
  },
};

const isOfUpstreams = (place) => place.query.tab === "upstreams" && may("policymaker");

// Links

function linkList(list, cannot, then) {
  return listing({
    ...list,
    id: "federation-links",
    columns: linkColumns(list.vhosts, cannot, then),
    label: "Federation links",
    key: (one) => `${one.node}\n${one.vhost}\n${one.id}`,
    empty: {
      title: "No links",
      text: "A policy with federation-upstream or federation-upstream-set has its exchanges and queues linked to upstreams.",
    },
  });
}

function linkColumns(vhosts, cannot, then) {
  return [
    { id: "name", title: "Receives", sort: "exchange", class: "wrap", cell: receiver },
    { id: "vhost", title: "Virtual host", sort: "vhost", rank: 3, off: vhosts.length < 2, cell: (one) => one.vhost },
    { id: "status", title: "Status", sort: "status", cell: (one) => stateBadge(one.status) },
    { id: "upstream", title: "Upstream", sort: "upstream", class: "wrap", cell: upstreamOf },
    { id: "node", title: "Node", sort: "node", rank: 3, cell: (one) => nodeLink(one.node) },
    { id: "passed", title: "Received", sort: "passed_on", number: true, cell: (one) => count(one.passed_on) },
    {
      id: "unconfirmed",
      title: "Unconfirmed",
      sort: "unconfirmed",
      number: true,
      rank: 3,
      cell: (one) => count(one.unconfirmed),
    },
    { id: "dropped", title: "Dropped", sort: "dropped", number: true, rank: 3, off: true, cell: (one) => count(one.dropped) },
    { id: "refused", title: "Refused", sort: "refused", number: true, rank: 3, off: true, cell: (one) => count(one.refused) },
    { id: "restarts", title: "Restarts", sort: "restarts", number: true, rank: 2, cell: (one) => count(one.restarts) },
    {
      id: "since",
      title: "Since",
      sort: "since_ms",
      rank: 3,
      off: true,
      cell: (one) => (one.since_ms ? when(one.since_ms) : ""),
    },
    { id: "error", title: "Error", class: "wrap", rank: 1, cell: (one) => one.error ?? "" },
    {
      id: "actions",
      title: el("span", { class: "sr" }, "Actions"),
      number: true,
      cell: (one) => button("Restart", () => restart(one, then), { kind: "link", disabled: cannot }),
    },
  ];
}

function receiver(one) {
  const isQueue = one.type === "queue";
  const name = one[one.type];
  return [
    isQueue ? queueLink(one.vhost, name) : exchangeLink(one.vhost, name),
    el("div", { class: "quiet" }, isQueue ? "queue" : "exchange"),
  ];
}

function upstreamOf(one) {
  return [one.upstream, el("div", { class: "quiet" }, `${one.type} ${one[`upstream_${one.type}`]} at ${one.uri}`)];
}

function restart(one, then) {
  confirm({
    title: `Restart the link to ${one.upstream}`,
    intro: el("p", {}, "It closes its connections and begins again. What was on its way may arrive twice."),
    action: "Restart",
    run: async () => {
      await remove(path`federation-links/vhost/${one.vhost}/${one.id}/${one.node}/restart`);
      return `The link to ${one.upstream} begins again.`;
    },
    then,
  });
}

// Upstreams

function upstreamList(list, cannot, then) {
  return listing({
    ...list,
    id: "upstreams",
    columns: upstreamColumns(list.vhosts, cannot, then),
    label: "Upstreams",
    key: (one) => `${one.vhost}\n${one.name}`,
    empty: { title: "No upstreams", text: "An upstream is another broker, or another virtual host of this one." },
  });
}

function upstreamColumns(vhosts, cannot, then) {
  return [
    { id: "name", title: "Name", sort: "name", class: "wrap", cell: (one) => one.name },
    { id: "vhost", title: "Virtual host", sort: "vhost", rank: 2, off: vhosts.length < 2, cell: (one) => one.vhost },
    { id: "uri", title: "URI", class: "wrap", cell: (one) => uris(one.value.uri) },
    { id: "keys", title: "Settings", class: "wrap", rank: 1, cell: (one) => pairsOf(settings(one.value)) },
    {
      id: "actions",
      title: el("span", { class: "sr" }, "Actions"),
      number: true,
      cell: (one) => button("Delete", () => deleteUpstream(one, then), { kind: "link", disabled: cannot }),
    },
  ];
}

const uris = (uri) => [uri].flat().map((one) => el("div", {}, el("code", {}, withoutLogin(String(one)))));
const withoutLogin = (uri) => uri.replace(/^(\w+:\/\/)[^@/]*@/, "$1");

function settings({ uri: _, ...others }) {
  return others;
}

function add(vhosts, vhost, then) {
  openDialog({
    title: "Add upstream",
    action: "Add",
    fields: [
      nameField("vhost", "Virtual host", vhosts, { value: vhost, half: true }),
      { name: "name", label: "Name", required: true, half: true, hint: "One of the same name is replaced." },
      {
        name: "uri",
        label: "URI",
        required: true,
        placeholder: "amqp://user:password@host/%2F",
        hint: "The virtual host / is written %2F.",
      },
      { name: "ack-mode", label: "Acknowledge", kind: "choice", options: ACK_MODES },
      { name: "prefetch-count", label: "Prefetch", half: true, placeholder: "1000" },
      { name: "reconnect-delay", label: "Reconnect delay (s)", half: true, placeholder: "5" },
      { name: "exchange", label: "Exchange there", half: true, hint: "Empty: the same name." },
      { name: "max-hops", label: "Max hops", half: true, placeholder: "1" },
      { name: "queue", label: "Queue there", half: true, hint: "Empty: the same name." },
      { name: "expires", label: "Expires (ms)", half: true, hint: "The queue there, while no link is up." },
      { name: "more", label: "Other keys", kind: "pairs", hint: "One per line, such as message-ttl = 60000." },
    ],
    run: async (values) => {
      await put(path`parameters/federation-upstream/${values.vhost}/${values.name}`, { value: definition(values) });
      then();
      return `${values.name} is declared.`;
    },
  });
}

const NUMBERS = {
  "prefetch-count": "Prefetch",
  "reconnect-delay": "Reconnect delay",
  "max-hops": "Max hops",
  expires: "Expires",
};

function definition(values) {
  const found = { uri: values.uri, "ack-mode": values["ack-mode"], ...pairsIn(values.more) };
  for (const name of ["exchange", "queue"]) if (values[name]) found[name] = values[name];
  for (const [name, label] of Object.entries(NUMBERS)) if (values[name]) found[name] = numberIn(values[name], label);
  return found;
}

function deleteUpstream(one, then) {
  confirm({
    title: `Delete ${one.name}`,
    intro: el("p", {}, "Its links end. What waits for them in queues of that broker is deleted with these."),
    action: "Delete",
    typed: one.name,
    run: async () => {
      await remove(path`parameters/federation-upstream/${one.vhost}/${one.name}`);
      return `${one.name} is deleted.`;
    },
    then,
  });
}
