// All queues and streams, page by page: the node filters, sorts and cuts.

import { features, inVhost, rateOf, vhostNames } from "../core/broker.js";
import { el } from "../core/dom.js";
import { bytes, count, plural, rate } from "../core/format.js";
import { trend } from "../core/trend.js";
import { icon } from "../parts/icons.js";
import { badge, button, heading, queueLink, nodeLink, sparkline, stateBadge, typeBadge } from "../parts/pieces.js";
import { declareQueue, deleteQueues, purgeQueues } from "../parts/queue-actions.js";
import { listing, listQuery } from "../parts/table.js";

const FIELDS = [
  "name",
  "vhost",
  "mirroring",
  "type",
  "durable",
  "auto_delete",
  "exclusive",
  "arguments",
  "node",
  "policy",
  "effective_policy_definition",
  "state",
  "messages",
  "messages_ready",
  "messages_unacknowledged",
  "message_bytes",
  "memory",
  "consumers",
  "leader",
  "members",
  "online",
  "message_stats",
].join();

const id = (queue) => `${queue.vhost}\n${queue.name}`;

export const queues = {
  title: () => "Queues and streams",

  async load(ask, place) {
    const [page, vhosts] = await Promise.all([
      ask(inVhost("queues", place), listQuery(place, { fields: FIELDS })),
      vhostNames(ask),
    ]);
    return { page, vhosts };
  },

  render({ page, vhosts }, place, screen) {
    const selected = (screen.state.selected ??= new Map());
    const declare = () => declareQueue(vhosts, place.query.vhost || vhosts[0], () => screen.refresh());
    return [
      heading("Queues and streams", { actions: [button("Declare", declare, { kind: "primary", icon: icon("plus") })] }),
      listing({
        id: "queues",
        columns: [selection(page.items, selected, screen), ...columns(vhosts.length > 1)],
        page,
        place,
        vhosts,
        key: id,
        label: "Queues and streams",
        tools: selected.size > 0 ? chosenTools(selected, screen) : [],
        empty: {
          title: "No queues yet",
          text:
            "Queues store messages until they are consumed. Applications usually declare their own; " +
            "you can also declare one here.",
          action: button("Declare a queue", declare),
        },
      }),
    ];
  },
};

function columns(withVhost) {
  return [
    { id: "name", title: "Name", sort: "name", cell: (one) => queueLink(one.vhost, one.name) },
    { id: "vhost", title: "Virtual host", sort: "vhost", rank: 2, off: !withVhost, cell: (one) => one.vhost },
    { id: "type", title: "Type", sort: "type", rank: 1, cell: (one) => typeBadge(one.type) },
    {
      id: "features",
      title: "Features",
      rank: 2,
      cell: (one) =>
        el(
          "span",
          { class: "badges" },
          features(one).map(([word, title]) => badge(word, "plain", title)),
          one.mirroring && !one.mirroring.active && badge("not mirrored", "warn", one.mirroring.notice),
        ),
    },
    { id: "policy", title: "Policy", sort: "policy", rank: 3, off: true, cell: (one) => one.policy ?? "" },
    { id: "state", title: "State", sort: "state", cell: (one) => stateBadge(one.state) },
    { id: "ready", title: "Ready", sort: "messages_ready", number: true, cell: (one) => figure(one.messages_ready) },
    {
      id: "unacked",
      title: "Unacked",
      menu: "Unacknowledged",
      sort: "messages_unacknowledged",
      number: true,
      rank: 1,
      cell: (one) => figure(one.messages_unacknowledged),
    },
    {
      id: "messages",
      title: "Total",
      sort: "messages",
      number: true,
      cell: (one) => withTrend(one, "messages", one.messages, count(one.messages), "series-blue"),
    },
    {
      id: "bytes",
      title: "Size",
      sort: "message_bytes",
      number: true,
      rank: 3,
      off: true,
      cell: (one) => bytes(one.message_bytes),
    },
    {
      id: "in",
      title: "In",
      menu: "Rate in",
      sort: "message_stats.publish_details.rate",
      number: true,
      rank: 2,
      cell: (one) => flow(one, "publish", "series-teal"),
    },
    {
      id: "out",
      title: "Out",
      menu: "Rate out",
      sort: "message_stats.deliver_get_details.rate",
      number: true,
      rank: 2,
      cell: (one) => flow(one, "deliver_get", "series-amber"),
    },
    {
      id: "ack",
      title: "Ack",
      menu: "Rate of acknowledgements",
      sort: "message_stats.ack_details.rate",
      number: true,
      off: true,
      cell: (one) => flow(one, "ack", "series-violet"),
    },
    { id: "consumers", title: "Consumers", sort: "consumers", number: true, rank: 2, cell: (one) => figure(one.consumers) },
    { id: "memory", title: "Memory", sort: "memory", number: true, off: true, cell: (one) => bytes(one.memory) },
    { id: "node", title: "Node", sort: "node", rank: 3, class: "nowrap", cell: home },
  ];
}

const figure = (value) => el("span", { class: value === 0 ? "zero" : "" }, count(value));

function withTrend(queue, what, value, said, colour) {
  return el("span", { class: "with-line" }, sparkline(trend(`queue ${id(queue)} ${what}`, value), colour), said);
}

function flow(queue, what, colour) {
  const now = rateOf(queue, what);
  return withTrend(queue, what, now, el("span", { class: now === 0 ? "zero" : "" }, rate(now)), colour);
}

// Where it lives; of one with members how many are there.
function home(queue) {
  if (!queue.members) return nodeLink(queue.node);
  const away = queue.members.length - queue.online.length;
  return [
    nodeLink(queue.leader),
    " ",
    badge(
      `${queue.online.length} of ${queue.members.length}`,
      away > 0 ? "bad" : "plain",
      `members that are there: ${queue.online.join(", ")}`,
    ),
  ];
}

function selection(items, selected, screen) {
  const turn = (queue) => (event) => {
    if (event.target.checked) selected.set(id(queue), queue);
    else selected.delete(id(queue));
    screen.redraw();
  };
  const all = (event) => {
    for (const queue of items) event.target.checked ? selected.set(id(queue), queue) : selected.delete(id(queue));
    screen.redraw();
  };
  const isAll = items.length > 0 && items.every((queue) => selected.has(id(queue)));
  return {
    id: "selection",
    class: "check-cell",
    title: el("input", { type: "checkbox", "aria-label": "Select all of this page", checked: isAll, onchange: all }),
    cell: (queue) =>
      el("input", {
        type: "checkbox",
        "aria-label": `Select ${queue.name}`,
        checked: selected.has(id(queue)),
        onchange: turn(queue),
      }),
  };
}

function chosenTools(selected, screen) {
  const then = () => {
    selected.clear();
    screen.refresh();
  };
  const list = () => [...selected.values()];
  return [
    el("span", {}, plural(selected.size, "queue"), " selected"),
    button("Purge", () => purgeQueues(list(), then)),
    button("Delete", () => deleteQueues(list(), then), { kind: "danger-quiet" }),
    button(
      "Select none",
      () => {
        selected.clear();
        screen.redraw();
      },
      { kind: "quiet-button" },
    ),
  ];
}
