// The cluster as the serving node sees it: links, metadata group, placement of queues.

import { path, post, remove } from "../core/api.js";
import { el, svg } from "../core/dom.js";
import { ago, bytes, count, duration, names } from "../core/format.js";
import { may } from "../core/login.js";
import { link } from "../core/routes.js";
import { confirm } from "../parts/dialog.js";
import { MEMBER_MOVES, memberMovesPanels, moveMembers } from "../parts/member-moves.js";
import { badge, button, emptyState, facts, heading, meter, needs, nodeLink, panel, stat, stateBadge } from "../parts/pieces.js";
import { openSpreading, someOf } from "../parts/spreading.js";

export const cluster = {
  title: () => "Cluster map",

  async load(ask) {
    const [told, nodes, runs] = await Promise.all([ask("leveret/cluster"), ask("nodes"), ask(MEMBER_MOVES)]);
    const known = new Map(nodes.map((one) => [one.name, one]));
    const shown = told.nodes.map((view) => ({ ...view, facts: known.get(view.name), load: told.load[view.name] }));
    return { told, nodes: shown, runs };
  },

  render({ told, nodes, runs }, place, screen) {
    return [
      heading("Cluster map", {
        above: `Cluster ${told.cluster_name}, as seen by ${told.seen_by}`,
        actions: actions(told, nodes, screen),
      }),
      told.problems.length > 0 &&
        el(
          "ul",
          { class: "attention" },
          told.problems.map((one) => el("li", { class: "notice warn" }, one)),
        ),
      el(
        "div",
        { class: "stats" },
        stat("Nodes up", `${count(nodes.filter((one) => one.up).length)} of ${count(nodes.length)}`),
        stat("Metadata", told.metadata_leader ? "writable" : "read-only", {
          note: told.metadata_leader ? `leader ${told.metadata_leader}` : `missing: ${names(told.missing)}`,
        }),
        stat("Metadata term", count(told.metadata_term)),
        stat("Metadata voters", count(told.metadata_voters.length), { note: names(told.metadata_voters, 3) }),
      ),
      el(
        "div",
        { class: "cluster" },
        panel("Links", nodes.length < 2 ? emptyState("Single node", "Add nodes with leveret serve --join.") : map(nodes, told)),
        el(
          "div",
          { class: "cards" },
          nodes.map((one) => card(one, { told, nodes }, screen)),
        ),
      ),
      memberMovesPanels(runs, screen),
    ];
  },
};

function actions(told, nodes, screen) {
  const cannot = needs(may("administrator"), "administrator");
  const here = nodes.find((one) => one.name === told.seen_by);
  const then = () => screen.refresh();
  return [
    here?.draining
      ? button(`Revive ${told.seen_by}`, () => revive(told.seen_by, then), { disabled: cannot })
      : button(`Drain ${told.seen_by}`, () => drain(told.seen_by, then), { disabled: cannot }),
    button("Rebalance leaders", () => rebalance(then), { disabled: cannot }),
    button("Move members", () => moveMembers(then), { disabled: cannot }),
  ];
}

// Nodes on a ring. Solid lines: both ends are up. Dashed lines lead to a node that is down.
const SIZE = 320;
const RADIUS = 112;

function map(nodes, told) {
  const middle = SIZE / 2;
  const at = nodes.map((_, place) => {
    const angle = (place / nodes.length) * 2 * Math.PI - Math.PI / 2;
    return [middle + RADIUS * Math.cos(angle), middle + RADIUS * Math.sin(angle)];
  });
  const links = nodes.flatMap((one, first) =>
    nodes.slice(first + 1).map((other, rest) => linkLine(at[first], at[first + 1 + rest], one.up && other.up)),
  );
  const said = nodes.map((one) => `${one.name} is ${one.up ? "up" : "down"}`).join(", ");
  return svg(
    "svg",
    { viewBox: `0 0 ${SIZE} ${SIZE}`, class: "cluster-map", role: "img", "aria-label": said },
    links,
    nodes.map((one, place) => mark(one, at[place], told)),
  );
}

function linkLine([x1, y1], [x2, y2], isUp) {
  return svg("line", { x1, y1, x2, y2, class: isUp ? "link-up" : "link-down" });
}

function mark(one, [x, y], told) {
  const kind = !one.up ? "down" : one.draining ? "draining" : "up";
  return svg(
    "g",
    { class: `mark ${kind}` },
    svg("circle", { cx: x, cy: y, r: 20 }),
    one.name === told.metadata_leader && svg("circle", { cx: x, cy: y, r: 25, class: "leads" }),
    svg("text", { x, y: y + 4, class: "mark-number" }, String(one.number)),
    svg("text", { x, y: y > SIZE / 2 ? y + 40 : y - 31, class: "mark-name" }, short(one.name)),
  );
}

const short = (name) => (name.length > 18 ? `${name.slice(0, 17)}…` : name);

function card(one, { told, nodes }, screen) {
  const { facts: known, load } = one;
  const since = one.since_ms > 0 ? ago(one.since_ms) : null;
  return panel(
    "",
    el(
      "div",
      { class: "card-head" },
      el("h2", {}, nodeLink(one.name)),
      el(
        "span",
        { class: "badges" },
        stateBadge(one.up ? "up" : "down"),
        one.draining && badge("draining", "warn"),
        one.name === told.metadata_leader && badge("metadata leader", "info"),
        one.alarms.map((alarm) => badge(`${alarm.kind} alarm`, "bad", alarm.reason)),
      ),
    ),
    one.notices.map((notice) => el("p", { class: "notice warn" }, `${one.name} ${notice}`)),
    known?.running &&
      el(
        "div",
        { class: "card-meters" },
        el(
          "span",
          {},
          el("small", { class: "quiet" }, "Memory"),
          meter(known.mem_used, known.mem_limit, `${bytes(known.mem_used)} of ${bytes(known.mem_limit)}`),
        ),
        el(
          "span",
          {},
          el("small", { class: "quiet" }, "Disk free"),
          meter(
            known.disk_free_limit,
            known.disk_free,
            `${bytes(known.disk_free)}, alarm below ${bytes(known.disk_free_limit)}`,
          ),
        ),
      ),
    facts([
      ["Leaders", count(load?.leaders ?? 0)],
      ["Members", count(load?.members ?? 0)],
      ["Classic queues", count(load?.homes ?? 0)],
      ["Kind", one.kind === "ram" ? "RAM" : "disk"],
      ["Zone", one.zone || null],
      ["Peer address", one.address ? el("code", {}, one.address) : null],
      ["Version", one.version || null],
      [one.up ? "Up since" : "Down since", since],
      ["Up for", known?.running ? duration(known.uptime) : null],
    ]),
    one.up && one.name !== told.seen_by && serviceButton(one, () => screen.refresh()),
    one.up &&
      nodes.length > 1 &&
      el("a", { href: link(["nodes", one.name], { tab: "decommission" }) }, `Plan to decommission ${one.name}`),
    !one.up &&
      button(`Forget ${one.name}`, () => forget(one.name, () => screen.refresh()), {
        kind: "danger-quiet",
        disabled: needs(may("administrator"), "administrator"),
      }),
  );
}

function serviceButton(one, then) {
  const disabled = needs(may("administrator"), "administrator");
  return one.draining
    ? button(`Revive ${one.name}`, () => revive(one.name, then), { disabled })
    : button(`Drain ${one.name}`, () => drain(one.name, then), { disabled });
}

function drain(name, then) {
  confirm({
    title: `Drain ${name}`,
    intro: el(
      "p",
      {},
      "It transfers leadership away, closes client connections and accepts no new ones until it is revived. " +
        "A page that it serves keeps working.",
    ),
    action: "Drain",
    run: async () => {
      await post("leveret/cluster/drain", { node: name });
      return `${name} is draining.`;
    },
    then,
  });
}

function revive(name, then) {
  confirm({
    title: `Revive ${name}`,
    intro: el("p", {}, "It accepts client connections again and can become leader."),
    action: "Revive",
    run: async () => {
      await post("leveret/cluster/revive", { node: name });
      return `${name} is in service.`;
    },
    then,
  });
}

function rebalance(then) {
  openSpreading({
    title: "Rebalance leaders",
    intro: el(
      "p",
      {},
      "Spreads the leaders of quorum queues and streams evenly over the nodes. " +
        "Clients of a queue pause briefly while its leader moves.",
    ),
    kinds: [
      ["queues", "number of queues"],
      ["bytes", "bytes that queues keep"],
      ["entries", "entries per second in their logs"],
    ],
    run: async ({ by, dry }) => {
      const moves = await post("rebalance/queues", { by, dry_run: dry });
      if (dry) return movesInWords(moves);
      then();
      return "Rebalancing has started.";
    },
  });
}

function movesInWords(moves) {
  if (moves.length === 0) return "No leader would move.";
  const some = someOf(moves, (one) => `${one.queue} in ${one.vhost} ${one.done || one.error}`);
  return `${count(moves.length)} leaders would move: ${some}.`;
}

function forget(name, then) {
  confirm({
    title: `Forget ${name}`,
    intro: [
      el(
        "p",
        {},
        el("strong", {}, "This is permanent."),
        " Its queue members are removed, and data that only this node has is lost.",
      ),
      el("p", {}, "Refused if a queue would lose all of its members."),
    ],
    action: "Forget",
    typed: name,
    run: async () => {
      await remove(path`leveret/cluster/nodes/${name}`);
      return `${name} has been removed from the cluster.`;
    },
    then,
  });
}
