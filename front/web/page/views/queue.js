// One queue or stream: statistics, messages (browsed in place), bindings, consumers, members.

import { path, post, put, remove } from "../core/api.js";
import { features, queuePath, rateOf } from "../core/broker.js";
import { el } from "../core/dom.js";
import { bytes, count, names, plural, rate } from "../core/format.js";
import { may } from "../core/login.js";
import { changed, go, link } from "../core/routes.js";
import { bindingTable } from "../parts/bindings.js";
import { chart } from "../parts/chart.js";
import { consumerTable } from "../parts/consumer-table.js";
import { delayedTab } from "../parts/delayed.js";
import { conversionPanel, openConversion } from "../parts/conversion.js";
import { confirm, openDialog } from "../parts/dialog.js";
import { levels, rates, samplesOf } from "../parts/history.js";
import { memberTable } from "../parts/members.js";
import { lifeTab } from "../parts/message-life.js";
import {
  badge,
  button,
  emptyState,
  facts,
  heading,
  needs,
  nodeLink,
  pairsOf,
  panel,
  stat,
  stateBadge,
  tabs,
  typeBadge,
} from "../parts/pieces.js";
import { bind, deleteQueue, publish, purgeQueue } from "../parts/queue-actions.js";
import { causesTab, getMessages, messagesTab } from "../parts/queue-messages.js";
import { replayTab } from "../parts/replay.js";

const SHOWN_ELSEWHERE = new Set(["leader", "members"]); // by number; the Members tab has their names

export const queue = {
  title: ({ parts }) => parts[2],

  async load(ask, place) {
    const [, vhost, name] = place.parts;
    const tab = place.query.tab ?? "overview";
    const where = queuePath(vhost, name);
    const [told, bindings, group, redrives, replays] = await Promise.all([
      ask(where, samplesOf()),
      tab === "bindings" ? ask(`${where}/bindings`) : null,
      tab === "members" ? ask(path`leveret/queues/${vhost}/${name}/group`) : null,
      tab === "causes" ? ask("leveret/redrives") : [],
      tab === "replay" ? ask("leveret/replays") : [],
    ]);
    const ofQueue = (jobs) => jobs.filter((one) => one.vhost === vhost && one.queue === name);
    return { told, bindings, group, redrives: ofQueue(redrives), replays: ofQueue(replays) };
  },

  render(data, place, screen) {
    const { told } = data;
    const tab = place.query.tab ?? "overview";
    return [
      heading(told.name, {
        above: [el("a", { href: link(["queues"], { vhost: told.vhost }) }, `Queues of ${told.vhost}`)],
        badges: [
          typeBadge(told.type),
          stateBadge(told.state),
          features(told).map(([word, title]) => badge(word, "plain", title)),
        ],
        actions: actions(told, screen),
      }),
      tabs(tabList(told), tab, (name) => changed({ tab: name === "overview" ? "" : name, by: "", value: "" })),
      (TABS[tab] ?? TABS.overview)(data, screen, place),
    ];
  },
};

function tabList(told) {
  return [
    { name: "overview", label: "Overview" },
    { name: "messages", label: "Messages", number: told.messages },
    { name: "bindings", label: "Bindings" },
    { name: "consumers", label: "Consumers", number: told.consumers },
    told.type !== "classic" && { name: "members", label: "Members", number: told.members?.length },
    { name: "causes", label: "Dead-letter causes" },
    told.type !== "stream" && { name: "life", label: "Message life" },
    told.type !== "stream" && { name: "replay", label: "Replay" },
    told.arguments["x-delayed-messages"] === true && { name: "delayed", label: "Delayed messages" },
  ].filter(Boolean);
}

function actions(told, screen) {
  const isStream = told.type === "stream";
  const away = () => go(link(["queues"]));
  return [
    button("Publish", () =>
      publish({ vhost: told.vhost, exchange: "", routingKey: told.name, title: `Publish to ${told.name}` }),
    ),
    !isStream && button("Get", () => getMessages(told, screen)),
    !isStream && button("Purge", () => purgeQueue(told, () => screen.refresh())),
    told.type === "classic" && !told.conversion && button("Convert to quorum", () => openConversion(told, screen)),
    button("Delete", () => deleteQueue(told, away), { kind: "danger-quiet" }),
  ].filter(Boolean);
}

const TABS = {
  overview: overviewTab,
  messages: messagesTab,
  bindings: bindingsTab,
  consumers: consumersTab,
  members: membersTab,
  causes: causesTab,
  life: lifeTab,
  replay: replayTab,
  delayed: delayedTab,
};

// Overview

const FLOWS = [
  ["publish", "In", "series-teal"],
  ["deliver_get", "Out", "series-amber"],
  ["ack", "Acknowledged", "series-violet"],
  ["redeliver", "Redelivered", "series-rose"],
];
const LENGTHS = [
  ["messages_ready", "Ready", "series-amber"],
  ["messages_unacknowledged", "Unacknowledged", "series-blue"],
];

function overviewTab({ told }, screen) {
  return [
    conversionPanel(told, screen),
    mirroringNotice(told.mirroring),
    el(
      "div",
      { class: "stats" },
      stat("Ready", count(told.messages_ready)),
      stat("Unacknowledged", count(told.messages_unacknowledged)),
      stat("Total", count(told.messages), { note: bytes(told.message_bytes) }),
      FLOWS.slice(0, 3).map(([name, label]) => stat(label, rate(rateOf(told, name)))),
      stat("Consumers", count(told.consumers), { note: told.consumers > 0 ? null : "nothing is consuming" }),
    ),
    el(
      "div",
      { class: "columns" },
      panel("", chart(levels("Queued messages", told, LENGTHS, count))),
      panel("", chart(rates("Message rates", told.message_stats, FLOWS))),
    ),
    el("div", { class: "columns" }, panel("Details", details(told)), panel("Arguments and policy", argumentsOf(told))),
    kindPanel(told),
  ];
}

// Where a policy for mirrored queues of RabbitMQ 3.x wants copies of it.
function mirroringNotice(mirroring) {
  if (!mirroring) return null;
  const { mode, active, notice } = mirroring;
  return el(
    "p",
    { class: `notice ${active ? "good" : "warn"}` },
    active ? `Mirrored (ha-mode ${mode}), as a quorum queue. ` : "",
    notice,
  );
}

function details(told) {
  return facts([
    ["Node", nodeLink(told.node)],
    [
      "Members",
      told.members &&
        `${names(told.members)}${told.online.length < told.members.length ? `; online: ${names(told.online)}` : ""}`,
    ],
    ["Persistent", plural(told.messages_persistent, "message")],
    ["In RAM", told.type === "classic" ? plural(told.messages_ram, "message") : null],
    ["Memory", bytes(told.memory)],
    ["Bytes ready / unacknowledged", `${bytes(told.message_bytes_ready)} / ${bytes(told.message_bytes_unacknowledged)}`],
    ["Disk reads / writes", `${count(told.disk_reads)} / ${count(told.disk_writes)}`],
    ["Active consumer", told.single_active_consumer_tag],
  ]);
}

function argumentsOf(told) {
  return facts([
    ["Arguments", pairsOf(told.arguments)],
    ["Policy", told.policy ?? "none"],
    ["Operator policy", told.operator_policy ?? "none"],
    ["Effective policy definition", pairsOf(told.effective_policy_definition)],
  ]);
}

function kindPanel(told) {
  const inside =
    told.type === "stream"
      ? Object.fromEntries(
          ["first_offset", "committed_offset", "segments", "first_timestamp"]
            .filter((name) => name in told)
            .map((name) => [name, told[name]]),
        )
      : told.backing_queue_status;
  const shown = Object.entries(inside ?? {}).filter(([name]) => !SHOWN_ELSEWHERE.has(name));
  if (shown.length === 0) return null;
  return panel(
    "Internals",
    facts(
      shown.map(([name, value]) => [
        name.replaceAll("_", " "),
        typeof value === "number" ? count(value) : typeof value === "object" ? pairsOf(value) : String(value),
      ]),
    ),
  );
}

// Bindings, consumers, members

function bindingsTab({ told, bindings }, screen) {
  if (bindings === null) return null;
  const then = () => screen.refresh();
  return [
    el(
      "div",
      { class: "toolbar" },
      button("Add binding", () => bind({ vhost: told.vhost, destination: told.name, then })),
    ),
    bindingTable(bindings, "Bindings of the queue", then),
  ];
}

function consumersTab({ told }, screen) {
  if (told.consumer_details.length === 0) return emptyState("No consumers", "Nothing is consuming from this queue.");
  return consumerTable(told.consumer_details, () => screen.refresh());
}

function membersTab({ told, group }, screen) {
  if (group === null) return null;
  const cannot = needs(may("administrator"), "administrator");
  const tools = told.type === "quorum" ? [button("Add member", () => addMember(told, screen), { disabled: cannot })] : [];
  return [
    el(
      "div",
      { class: "stats" },
      stat("Leader", group.leader || "none"),
      stat("Term", count(group.term)),
      stat("Commit index", count(group.commit)),
      stat("Majority", count(group.needed)),
      stat("Retained log", bytes(group.open_bytes), { note: `${count(group.open_entries)} entries` }),
    ),
    tools.length > 0 && el("div", { class: "toolbar" }, tools),
    memberTable(group, cannot, {
      lead: (member) => lead(told, member, screen),
      remove: told.type === "quorum" ? (member) => removeMember(told, member, screen) : null,
    }),
  ];
}

const replicas = (told) => path`queues/quorum/${told.vhost}/${told.name}/replicas`;

function addMember(told, screen) {
  openDialog({
    title: `Add a member of ${told.name}`,
    action: "Add",
    fields: [{ name: "node", label: "On node", required: true, hint: `Members are on ${names(told.members ?? [])}.` }],
    run: async ({ node }) => {
      await post(`${replicas(told)}/add`, { node });
      screen.refresh();
      return `A member on ${node} is catching up; it becomes a voter when it has.`;
    },
  });
}

function removeMember(told, member, screen) {
  confirm({
    title: `Remove the member on ${member.node}`,
    intro: el("p", {}, `${told.name} goes on with the other members. The removed member's data is deleted from its disk.`),
    action: "Remove",
    typed: member.node,
    run: async () => {
      await remove(`${replicas(told)}/delete`, { node: member.node });
      return `The member on ${member.node} is removed.`;
    },
    then: () => screen.refresh(),
  });
}

function lead(told, member, screen) {
  confirm({
    title: `Transfer leadership of ${told.name} to ${member.node}`,
    intro: el("p", {}, "Clients of the queue pause briefly during the leader change. No messages are lost."),
    action: "Transfer",
    run: async () => {
      await put(path`leveret/queues/${told.vhost}/${told.name}/group/leader`, { node: member.node });
      return `${member.node} is the leader.`;
    },
    then: () => screen.refresh(),
  });
}
