// One queue or stream: statistics, messages (browsed in place), bindings, consumers, members.

import { get, path, post, put, remove } from "../core/api.js";
import { features, queuePath, rateOf } from "../core/broker.js";
import { el } from "../core/dom.js";
import { bytes, count, names, plural, rate } from "../core/format.js";
import { may } from "../core/login.js";
import { changed, go, link } from "../core/routes.js";
import { trend } from "../core/trend.js";
import { bindingTable } from "../parts/bindings.js";
import { chart } from "../parts/chart.js";
import { consumerTable } from "../parts/consumer-table.js";
import { causeTable } from "../parts/dead-letters.js";
import { confirm, openDialog } from "../parts/dialog.js";
import { memberTable } from "../parts/members.js";
import { messageList } from "../parts/messages.js";
import { badge, button, emptyState, facts, heading, needs, nodeLink, pairsOf, panel, stat, stateBadge, tabs, typeBadge } from "../parts/pieces.js";
import { bind, deleteQueue, publish, purgeQueue } from "../parts/queue-actions.js";

const LOOKED_AT_MAX = 1000;
const SHOWN_ELSEWHERE = new Set(["leader", "members"]); // by number; the Members tab has their names
const MODES = [
  ["ack_requeue_true", "Requeue: they are marked as redelivered"],
  ["ack_requeue_false", "Acknowledge: they are removed from the queue"],
  ["reject_requeue_false", "Reject: they are dead-lettered, or dropped without a dead letter exchange"],
];

export const queue = {
  title: ({ parts }) => parts[2],

  async load(ask, place) {
    const [, vhost, name] = place.parts;
    const tab = place.query.tab ?? "overview";
    const where = queuePath(vhost, name);
    const [told, bindings, group] = await Promise.all([
      ask(where),
      tab === "bindings" ? ask(`${where}/bindings`) : null,
      tab === "members" ? ask(path`leveret/queues/${vhost}/${name}/group`) : null,
    ]);
    return { told, bindings, group };
  },

  render(data, place, screen) {
    const { told } = data;
    const tab = place.query.tab ?? "overview";
    return [
      heading(told.name, {
        above: [el("a", { href: link(["queues"], { vhost: told.vhost }) }, `Queues of ${told.vhost}`)],
        badges: [typeBadge(told.type), stateBadge(told.state), features(told).map(([word, title]) => badge(word, "plain", title))],
        actions: actions(told, screen),
      }),
      tabs(tabList(told), tab, (name) => changed({ tab: name === "overview" ? "" : name })),
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
  ].filter(Boolean);
}

function actions(told, screen) {
  const isStream = told.type === "stream";
  const away = () => go(link(["queues"]));
  return [
    button("Publish", () => publish({ vhost: told.vhost, exchange: "", routingKey: told.name, title: `Publish to ${told.name}` })),
    !isStream && button("Get", () => getMessages(told, screen)),
    !isStream && button("Purge", () => purgeQueue(told, () => screen.refresh())),
    button("Delete", () => deleteQueue(told, away), { kind: "danger-quiet" }),
  ].filter(Boolean);
}

const TABS = { overview: overviewTab, messages: messagesTab, bindings: bindingsTab, consumers: consumersTab, members: membersTab, causes: causesTab };

// Overview

const FLOWS = [["publish", "In", "series-teal"], ["deliver_get", "Out", "series-amber"], ["ack", "Acknowledged", "series-violet"], ["redeliver", "Redelivered", "series-rose"]];
const LENGTHS = [["messages_ready", "Ready", "series-amber"], ["messages_unacknowledged", "Unacknowledged", "series-blue"]];

function overviewTab({ told }) {
  const key = `${told.vhost}\n${told.name}`;
  const times = [...trend(`times ${key}`, Date.now() / 1000)];
  const lines = (all, value) => all.map(([name, label, colour]) => ({ label, colour, values: [...trend(`detail ${name} ${key}`, value(name))] }));
  return [
    el("div", { class: "stats" },
      stat("Ready", count(told.messages_ready)),
      stat("Unacknowledged", count(told.messages_unacknowledged)),
      stat("Total", count(told.messages), { note: bytes(told.message_bytes) }),
      FLOWS.slice(0, 3).map(([name, label]) => stat(label, rate(rateOf(told, name)))),
      stat("Consumers", count(told.consumers), { note: told.consumers > 0 ? null : "nothing is consuming" })),
    el("div", { class: "columns" },
      panel("", chart({ title: "Queued messages", times, format: count, series: lines(LENGTHS, (name) => told[name]) })),
      panel("", chart({ title: "Message rates", times, format: rate, series: lines(FLOWS, (name) => rateOf(told, name)) }))),
    el("div", { class: "columns" }, panel("Details", details(told)), panel("Arguments and policy", argumentsOf(told))),
    kindPanel(told),
  ];
}

function details(told) {
  return facts([
    ["Node", nodeLink(told.node)],
    ["Members", told.members && `${names(told.members)}${told.online.length < told.members.length ? `; online: ${names(told.online)}` : ""}`],
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
  const inside = told.type === "stream"
    ? Object.fromEntries(["first_offset", "committed_offset", "segments", "first_timestamp"].filter((name) => name in told).map((name) => [name, told[name]]))
    : told.backing_queue_status;
  const shown = Object.entries(inside ?? {}).filter(([name]) => !SHOWN_ELSEWHERE.has(name));
  if (shown.length === 0) return null;
  return panel("Internals", facts(shown.map(([name, value]) => [name.replaceAll("_", " "), typeof value === "number" ? count(value) : typeof value === "object" ? pairsOf(value) : String(value)])));
}

// Messages

function messagesTab({ told }, screen) {
  const state = (screen.state.messages ??= { limit: "50", from: told.type === "stream" ? "first" : "0", filter: "", found: null, error: "", said: "" });
  const look = () => browse(told, state, screen);
  if (state.found === null && !state.begun) look();
  const typed = (name) => (event) => { state[name] = event.target.value; };
  const filter = (event) => { state.filter = event.target.value; screen.redraw(); };
  const onEnter = (event) => { if (event.key === "Enter") look(); };
  return [
    el("div", { class: "toolbar", onkeydown: onEnter },
      field(told.type === "stream" ? "From offset" : "Skip", el("input", { id: "browse-from", value: state.from, size: 10, oninput: typed("from") })),
      field("Show", el("input", { id: "browse-limit", type: "number", min: 1, max: LOOKED_AT_MAX, value: state.limit, oninput: typed("limit") })),
      button("Browse", look, { kind: "primary" }),
      field("Containing", el("input", { id: "browse-filter", type: "search", value: state.filter, placeholder: "key, header or body", oninput: filter })),
      el("span", { class: "quiet" }, state.said || "Browsing is read-only: no message is consumed or requeued.")),
    state.error !== "" && el("p", { class: "notice bad", role: "alert" }, state.error),
    state.found !== null && messageList(state.found, state.filter),
  ];
}

const field = (label, input) => el("label", { class: "select" }, el("span", {}, label), input);

async function browse(told, state, screen) {
  state.begun = true;
  const from = told.type === "stream" ? { offset: state.from || "first" } : { skip: state.from || 0 };
  try {
    state.found = await get(path`leveret/queues/${told.vhost}/${told.name}/browse`, { ...from, limit: state.limit || 50 });
    state.error = "";
    state.said = `${plural(state.found.length, "message")} at the time of the request.`;
  } catch (error) {
    state.error = error.message;
  }
  screen.redraw();
}

function getMessages(told, screen) {
  openDialog({
    title: `Get messages from ${told.name}`,
    intro: el("p", {}, "Get consumes messages or marks them as redelivered. To inspect messages without touching them, use Browse."),
    action: "Get",
    fields: [
      { name: "mode", label: "Afterwards", kind: "choice", options: MODES },
      { name: "count", label: "At most", kind: "number", value: "1", min: 1, max: LOOKED_AT_MAX },
    ],
    run: async ({ mode, count: most }) => {
      const found = await post(`${queuePath(told.vhost, told.name)}/get`, { count: Number(most), ackmode: mode, encoding: "auto", truncate: 4096 });
      screen.state.messages = { limit: "50", from: "0", filter: "", found, begun: true, error: "", said: `${plural(found.length, "message")} fetched with Get.` };
      go(changed({ tab: "messages" }));
      return `${plural(found.length, "message")} fetched.`;
    },
  });
}

// Bindings, consumers, members

function bindingsTab({ told, bindings }, screen) {
  if (bindings === null) return null;
  const then = () => screen.refresh();
  return [
    el("div", { class: "toolbar" }, button("Add binding", () => bind({ vhost: told.vhost, destination: told.name, then }))),
    bindingTable(bindings, "Bindings of the queue", then),
  ];
}

function consumersTab({ told }) {
  if (told.consumer_details.length === 0) return emptyState("No consumers", "Nothing is consuming from this queue.");
  return consumerTable(told.consumer_details);
}

function membersTab({ told, group }, screen) {
  if (group === null) return null;
  const cannot = needs(may("administrator"), "administrator");
  const tools = told.type === "quorum" ? [button("Add member", () => addMember(told, screen), { disabled: cannot })] : [];
  return [
    el("div", { class: "stats" },
      stat("Leader", group.leader || "none"),
      stat("Term", count(group.term)),
      stat("Commit index", count(group.commit)),
      stat("Majority", count(group.needed)),
      stat("Retained log", bytes(group.open_bytes), { note: `${count(group.open_entries)} entries` })),
    tools.length > 0 && el("div", { class: "toolbar" }, tools),
    memberTable(group, cannot, { lead: (member) => lead(told, member, screen), remove: told.type === "quorum" ? (member) => removeMember(told, member, screen) : null }),
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

// Why the messages in this queue were dead-lettered

function causesTab({ told }, screen) {
  const state = (screen.state.causes ??= { found: null, error: "" });
  if (!state.begun) lookForCauses(told, state, screen);
  return [
    el("div", { class: "toolbar" },
      button("Refresh", () => lookForCauses(told, state, screen)),
      el("span", { class: "quiet" }, state.found === null ? "Browsing…" : `Of the first ${plural(state.found.length, "message")} of this queue. Browsing is read-only.`)),
    state.error !== "" && el("p", { class: "notice bad", role: "alert" }, state.error),
    state.found !== null && causeTable(told.vhost, state.found),
  ];
}

async function lookForCauses(told, state, screen) {
  state.begun = true;
  const from = told.type === "stream" ? { offset: "first" } : { skip: 0 };
  try {
    state.found = await get(path`leveret/queues/${told.vhost}/${told.name}/browse`, { ...from, limit: LOOKED_AT_MAX, truncate: 0 });
    state.error = "";
  } catch (error) {
    state.error = error.message;
  }
  screen.redraw();
}
