// A node leaves its cluster for good: what would happen, what stands in the way, and how far it is.

import { path, post, remove } from "../core/api.js";
import { el } from "../core/dom.js";
import { bytes, count, plural } from "../core/format.js";
import { may } from "../core/login.js";
import { confirm } from "./dialog.js";
import { badge, button, emptyState, meter, needs, nodeLink, panel, queueLink, stat, typeBadge } from "./pieces.js";
import { table } from "./table.js";

const SHOWN_MAX = 500;
const UNDER_WAY = new Set(["draining", "moving", "leaving"]);
const CAN_STAY = new Set(["draining", "moving", "waiting", "failed"]);
const PHASES = { draining: "warn", moving: "info", leaving: "info", left: "good", waiting: "warn", failed: "bad" };

export const decommissionPath = (node) => path`leveret/cluster/nodes/${node}/decommission`;

export function decommissionTab({ told, leaving }, screen) {
  if (leaving === null) return null;
  const { plan, progress } = leaving;
  const sent = plan.moves.reduce((sum, one) => sum + one.bytes, 0);
  return [
    progressOf(progress),
    obstacles(plan),
    el(
      "div",
      { class: "stats" },
      stat("Queues and streams to move", count(plan.moves.length)),
      stat("To be copied", bytes(sent)),
      stat("Leaders to hand over", count(plan.moves.filter((one) => one.leads).length)),
      stat("Classic queues lost with it", count(plan.lost.length), {
        note: plan.lost.length > 0 ? plural(messagesOf(plan), "message") : null,
      }),
    ),
    el(
      "div",
      { class: "toolbar" },
      beginButton(told.name, plan, progress, screen),
      CAN_STAY.has(progress.phase) && cancelButton(told.name, screen),
    ),
    panel(
      "Queues and streams that move",
      plan.moves.length === 0
        ? emptyState("None", "No replicated queue has a member on this node.")
        : [cut(plan.moves), moveTable(plan.moves.slice(0, SHOWN_MAX))],
    ),
    plan.lost.length > 0 &&
      panel("Classic queues that are lost with it", cut(plan.lost), lostTable(plan.lost.slice(0, SHOWN_MAX))),
  ];
}

const messagesOf = (plan) => plan.lost.reduce((sum, one) => sum + one.messages, 0);
const cut = (all) =>
  all.length > SHOWN_MAX && el("p", { class: "quiet below" }, `The first ${SHOWN_MAX} of ${count(all.length)}.`);

function progressOf({ phase, moved, total, error }) {
  if (phase === "none") return null;
  return panel(
    "Progress",
    el(
      "p",
      {},
      badge(phase, PHASES[phase] ?? ""),
      " ",
      meter(moved, total, `${count(moved)} of ${plural(total, "queue")} moved`, phase === "failed" ? "bad" : "good"),
    ),
    phase === "waiting" && el("p", { class: "quiet" }, "It goes on by itself when this is over, and when it is started again:"),
    error !== "" && el("p", { class: `notice ${phase === "failed" ? "bad" : "warn"}` }, error),
  );
}

function obstacles({ obstacles: all }) {
  if (all.length === 0) return null;
  return el(
    "ul",
    { class: "attention", "aria-label": "What stands in the way" },
    all.map((one) => el("li", { class: "notice warn" }, one)),
  );
}

function beginButton(name, plan, progress, screen) {
  const disabled =
    needs(may("administrator"), "administrator") ||
    (plan.obstacles.length > 0 ? "It cannot leave now: see above." : "") ||
    (UNDER_WAY.has(progress.phase) ? "It is leaving." : "");
  return button(`Decommission ${name}`, () => begin(name, plan, screen), { kind: "danger-quiet", disabled });
}

function cancelButton(name, screen) {
  return button(`Keep ${name}`, () => cancel(name, screen), { disabled: needs(may("administrator"), "administrator") });
}

function cancel(name, screen) {
  confirm({
    title: `Keep ${name}`,
    intro: [el("p", {}, "It stays in the cluster. Members that have moved to other nodes are not moved back.")],
    action: "Keep it",
    run: async () => {
      await remove(decommissionPath(name));
      return `${name} stays in the cluster.`;
    },
    then: () => screen.refresh(),
  });
}

function begin(name, plan, screen) {
  const loses = plan.lost.length > 0;
  confirm({
    title: `Decommission ${name}`,
    intro: [
      el(
        "p",
        {},
        el("strong", {}, "This is permanent."),
        " It is drained, its members move to other nodes, then it leaves the cluster and stops.",
      ),
      loses &&
        el(
          "p",
          { class: "notice bad" },
          `${plural(plan.lost.length, "classic queue")} with ${plural(messagesOf(plan), "message")} will be lost with it.`,
        ),
    ],
    action: loses ? "Decommission and lose them" : "Decommission",
    typed: name,
    run: async () => {
      await post(decommissionPath(name), { confirm: name, lose_queues: loses });
      return `${name} is leaving the cluster.`;
    },
    then: () => screen.refresh(),
  });
}

function moveTable(moves) {
  const columns = [
    { id: "queue", title: "Name", class: "wrap", cell: (one) => queueLink(one.vhost, one.queue) },
    { id: "vhost", title: "Virtual host", rank: 2, class: "wrap", cell: (one) => one.vhost },
    { id: "kind", title: "Type", rank: 2, cell: (one) => typeBadge(one.kind) },
    {
      id: "to",
      title: "New member on",
      cell: (one) => (one.to ? nodeLink(one.to) : el("span", { class: "quiet" }, "no node")),
    },
    {
      id: "copies",
      title: "Members",
      number: true,
      cell: ({ copies, copies_before: before }) =>
        el("span", { class: copies < before ? "behind" : "" }, `${count(before)} → ${count(copies)}`),
    },
    { id: "leads", title: "Leader", rank: 3, cell: (one) => (one.leads ? "handed over" : "") },
    { id: "bytes", title: "To copy", number: true, cell: (one) => bytes(one.bytes) },
  ];
  return table(columns, moves, { key: (one) => `${one.vhost}\n${one.queue}`, label: "Queues and streams that move" });
}

function lostTable(lost) {
  const columns = [
    { id: "queue", title: "Name", class: "wrap", cell: (one) => queueLink(one.vhost, one.queue) },
    { id: "vhost", title: "Virtual host", rank: 2, class: "wrap", cell: (one) => one.vhost },
    { id: "messages", title: "Messages", number: true, cell: (one) => count(one.messages) },
    { id: "bytes", title: "Size", number: true, cell: (one) => bytes(one.bytes) },
  ];
  return table(columns, lost, { key: (one) => `${one.vhost}\n${one.queue}`, label: "Classic queues that are lost" });
}
