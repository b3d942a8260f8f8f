// The members of a replicated queue: role, term, indexes and lag of each.

import { el } from "../core/dom.js";
import { ago, bytes, count } from "../core/format.js";
import { button, nodeLink, stateBadge } from "./pieces.js";
import { table } from "./table.js";

export function memberTable(group, cannot, { lead, remove }) {
  const isStream = group.members.some((one) => one.committed_offset > 0 || one.segments > 0);
  const isLeader = (one) => one.node === group.leader;
  const columns = [
    { id: "node", title: "Node", cell: (one) => nodeLink(one.node) },
    {
      id: "state",
      title: "State",
      cell: (one) => [
        stateBadge(one.state || "down"),
        one.away_since_ms > 0 && el("small", { class: "quiet" }, ` since ${ago(one.away_since_ms)}`),
      ],
    },
    { id: "membership", title: "Voter", rank: 2, cell: (one) => (one.membership === "voter" ? "yes" : one.membership) },
    {
      id: "lag",
      title: "Lag",
      number: true,
      cell: (one) => (isLeader(one) ? "–" : el("span", { class: one.lag > 0 ? "behind" : "zero" }, count(one.lag))),
    },
    { id: "term", title: "Term", number: true, rank: 3, cell: (one) => count(one.term) },
    { id: "commit", title: "Committed", number: true, rank: 2, cell: (one) => count(one.commit) },
    { id: "applied", title: "Applied", number: true, cell: (one) => count(one.applied) },
    { id: "snapshot", title: "Snapshot", number: true, rank: 3, cell: (one) => count(one.snapshot) },
    isStream && {
      id: "offsets",
      title: "Offsets",
      number: true,
      cell: (one) => `${count(one.first_offset)} – ${count(one.committed_offset)}`,
    },
    isStream && { id: "segments", title: "Segments", number: true, rank: 2, cell: (one) => count(one.segments) },
    isStream && { id: "bytes", title: "Size", number: true, rank: 2, cell: (one) => bytes(one.bytes) },
    isStream && { id: "readers", title: "Readers", number: true, rank: 2, cell: (one) => readers(one) },
    { id: "actions", title: el("span", { class: "sr" }, "Actions"), number: true, cell: (one) => memberActions(one) },
  ].filter(Boolean);
  const memberActions = (one) =>
    el(
      "span",
      { class: "cell-actions" },
      !isLeader(one) && button("Make leader", () => lead(one), { kind: "link", disabled: cannot }),
      remove && button("Remove", () => remove(one), { kind: "link", disabled: cannot }),
    );
  return table(columns, group.members, { key: (one) => one.node, label: "Members" });
}

function readers(member) {
  if (member.readers.length === 0) return el("span", { class: "zero" }, "0");
  const worst = Math.max(...member.readers.map((one) => one.lag));
  return `${count(member.readers.length)}, max lag ${count(worst)}`;
}
