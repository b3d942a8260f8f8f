// Raft groups: whether those that keep copies of a queue are there, and agree on who leads. The worst come first.

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
      heading("Raft groups", { below: "Each quorum queue and each stream is kept by a group of members, and one of them leads. A majority of the members has to be there for it to work." }),
      panel("The group of the metadata", metadata(told)),
      listing({
        id: "groups", columns: COLUMNS, page, place, label: "Groups", key: (one) => `${one.vhost}\n${one.name}`,
        empty: { title: "No replicated queues", text: "Quorum queues and streams are shown here once there are any." },
      }),
    ];
  },
};

function metadata(told) {
  return facts([
    ["Health", told.metadata_leader ? (told.missing.length > 0 ? badge("members away", "warn") : badge("well", "good")) : badge("no majority", "bad")],
    ["Leader", told.metadata_leader ? nodeLink(told.metadata_leader) : el("span", { class: "error" }, "none: nothing can be declared")],
    ["Term", count(told.metadata_term)],
    ["Voters", names(told.metadata_voters)],
    ["Missing", told.missing.length > 0 ? names(told.missing) : null],
  ]);
}

const COLUMNS = [
  { id: "name", title: "Queue", sort: "name", cell: (one) => el("a", { class: "name", href: link(["queues", one.vhost, one.name], { tab: "members" }) }, one.name) },
  { id: "vhost", title: "Virtual host", sort: "vhost", rank: 2, cell: (one) => one.vhost },
  { id: "type", title: "Type", sort: "type", cell: (one) => typeBadge(one.type) },
  { id: "health", title: "Health", cell: health },
  { id: "leader", title: "Leader", sort: "leader", cell: (one) => nodeLink(one.leader) },
  { id: "members", title: "Members", cell: members },
  { id: "away", title: "Away", sort: "away", number: true, cell: (one) => el("span", { class: one.away > 0 ? "error" : "zero" }, count(one.away)) },
];

function health(one) {
  const isMajority = one.online.length > one.members.length / 2;
  if (!isMajority) return badge("no majority", "bad");
  if (!one.leader) return badge("no leader", "bad");
  if (one.away > 0) return badge(one.online.length - 1 > one.members.length / 2 ? "members away" : "one more is too many", "warn");
  return badge("well", "good");
}

function members(one) {
  return el("span", { class: "badges" }, one.members.map((node) => badge(node, one.online.includes(node) ? (node === one.leader ? "info" : "plain") : "bad", one.online.includes(node) ? (node === one.leader ? "leads" : "follows") : "away")));
}
