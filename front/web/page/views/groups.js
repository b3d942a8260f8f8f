// Health of Raft groups: the metadata group, and those of quorum queues and streams.

import { el } from "../core/dom.js";
import { count, names } from "../core/format.js";
import { link } from "../core/routes.js";
import { badge, facts, heading, nodeLink, panel, typeBadge } from "../parts/pieces.js";
import { listing, listQuery } from "../parts/table.js";

export const groups = {
  title: () => "Raft groups",

  async load(ask, place) {
    const [page, told] = await Promise.all([ask("leveret/groups", listQuery(place)), ask("leveret/cluster")]);
    return { page, told };
  },

  render({ page, told }, place) {
    return [
      heading("Raft groups", {
        below:
          "Every quorum queue and stream is a Raft group, which needs a majority of its members online to elect a leader. " +
          "The least healthy groups come first.",
      }),
      panel("Metadata group", metadata(told)),
      listing({
        id: "groups",
        columns: COLUMNS,
        page,
        place,
        label: "Groups",
        key: (one) => `${one.vhost}\n${one.name}`,
        empty: { title: "No replicated queues", text: "Quorum queues and streams appear here." },
      }),
    ];
  },
};

function metadata(told) {
  const up = new Set(told.nodes.filter((one) => one.up).map((one) => one.name));
  const offline = told.metadata_voters.filter((name) => !up.has(name));
  return facts([
    [
      "Health",
      !told.metadata_leader
        ? badge("no majority", "bad")
        : offline.length > 0
          ? badge("degraded", "warn")
          : badge("healthy", "good"),
    ],
    [
      "Leader",
      told.metadata_leader ? nodeLink(told.metadata_leader) : el("span", { class: "error" }, "none: metadata is read-only"),
    ],
    ["Term", count(told.metadata_term)],
    ["Voters", names(told.metadata_voters)],
    ["Offline", offline.length > 0 ? names(offline) : null],
  ]);
}

const COLUMNS = [
  {
    id: "name",
    title: "Queue",
    sort: "name",
    cell: (one) => el("a", { class: "name", href: link(["queues", one.vhost, one.name], { tab: "members" }) }, one.name),
  },
  { id: "vhost", title: "Virtual host", sort: "vhost", rank: 2, cell: (one) => one.vhost },
  { id: "type", title: "Type", sort: "type", cell: (one) => typeBadge(one.type) },
  { id: "health", title: "Health", cell: health },
  { id: "leader", title: "Leader", sort: "leader", cell: (one) => nodeLink(one.leader) },
  { id: "members", title: "Members", cell: members },
  {
    id: "away",
    title: "Offline",
    sort: "away",
    number: true,
    cell: (one) => el("span", { class: one.away > 0 ? "error" : "zero" }, count(one.away)),
  },
];

function health(one) {
  const isMajority = one.online.length > one.members.length / 2;
  if (!isMajority) return badge("no majority", "bad");
  if (!one.leader) return badge("no leader", "bad");
  if (one.away > 0) return badge(one.online.length - 1 > one.members.length / 2 ? "degraded" : "no redundancy", "warn");
  return badge("healthy", "good");
}

function members(one) {
  return el(
    "span",
    { class: "badges" },
    one.members.map((node) =>
      badge(
        node,
        one.online.includes(node) ? (node === one.leader ? "info" : "plain") : "bad",
        one.online.includes(node) ? (node === one.leader ? "leader" : "follower") : "offline",
      ),
    ),
  );
}
