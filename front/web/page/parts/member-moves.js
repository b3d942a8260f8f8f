// Members of queues and streams go to other nodes so that all keep about as much: what would move, and how far it is.

import { path, post, remove } from "../core/api.js";
import { el } from "../core/dom.js";
import { ago, count, plural } from "../core/format.js";
import { may } from "../core/login.js";
import { confirm } from "./dialog.js";
import { badge, button, meter, needs, nodeLink, panel, queueLink } from "./pieces.js";
import { openSpreading, someOf } from "./spreading.js";
import { table } from "./table.js";

export const MEMBER_MOVES = "leveret/cluster/member-moves";
const STATES = { planned: "", copying: "info", moving: "info", moved: "good", done: "good", ended: "warn", failed: "bad" };

export function moveMembers(then) {
  openSpreading({
    title: "Move members",
    intro: el(
      "p",
      {},
      "Spreads the members of quorum queues and streams over the nodes, one after the other. " +
        "Each move copies all that its queue keeps, and no queue has fewer members meanwhile.",
    ),
    kinds: [
      ["queues", "number of members"],
      ["bytes", "bytes that they keep"],
      ["entries", "entries per second in their logs"],
    ],
    run: async ({ by, dry }) => {
      const told = await post(MEMBER_MOVES, { by, dry_run: dry });
      if (dry) return inWords(told);
      then();
      return "It has begun. How far it is stands on the cluster map.";
    },
  });
}

function inWords(moves) {
  if (moves.length === 0) return "No member would move.";
  const some = someOf(moves, (one) => `${one.queue} in ${one.vhost}, ${way(one)}`);
  return `${plural(moves.length, "member")} would move: ${some}.`;
}

const way = (one) => (one.target ? `${one.source} to ${one.target}` : `one too many on ${one.source}`);

export const memberMovesPanels = (runs, screen) => runs.map((run) => movesPanel(run, screen));

function movesPanel({ node, by, state, total, moved, error, moves, began_at: began, is_to_end: ending }, screen) {
  return panel(
    [`Members moved by ${node}`, state === "moving" && !ending && endButton(node, screen)],
    el(
      "p",
      {},
      badge(ending && state === "moving" ? "ending" : state, STATES[state] ?? ""),
      " ",
      meter(moved, total, `${count(moved)} of ${plural(total, "move")} made`, state === "failed" ? "bad" : "good"),
      el("span", { class: "quiet" }, ` By ${by}, begun ${ago(began)}.`),
    ),
    error !== "" && el("p", { class: "notice bad" }, error),
    moves.length > 0 && moveTable(node, moves),
  );
}

function endButton(node, screen) {
  const disabled = needs(may("administrator"), "administrator");
  return button("End it", () => end(node, screen), { disabled });
}

function end(node, screen) {
  confirm({
    title: `End the moves by ${node}`,
    intro: el("p", {}, "The move that is under way is made; what was moved stays moved."),
    action: "End",
    run: async () => {
      await remove(path`leveret/cluster/member-moves/${node}`);
      return "It ends behind the move that is under way.";
    },
    then: () => screen.refresh(),
  });
}

function moveTable(node, moves) {
  const columns = [
    { id: "queue", title: "Name", class: "wrap", cell: (one) => queueLink(one.vhost, one.queue) },
    { id: "vhost", title: "Virtual host", rank: 2, class: "wrap", cell: (one) => one.vhost },
    { id: "source", title: "From", cell: (one) => nodeLink(one.source) },
    { id: "target", title: "To", cell: (one) => (one.target ? nodeLink(one.target) : "no node") },
    { id: "state", title: "State", cell: (one) => badge(one.state, STATES[one.state] ?? "") },
  ];
  return table(columns, moves, { key: (one) => String(one.number), label: `Members moved by ${node}` });
}
