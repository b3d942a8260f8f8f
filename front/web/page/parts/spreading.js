// Something is spread evenly over the nodes, by an order that can be tried out first: leaders, or members.

import { count } from "../core/format.js";
import { openDialog } from "./dialog.js";

const MOVES_SHOWN = 5;

// `kinds`: what is evened out, with a label each. `run` is given that and whether it is a dry run, and returns what to tell.
export function openSpreading({ title, intro, kinds, run }) {
  openDialog({
    title,
    intro,
    action: "Go",
    keep: true,
    fields: [
      { name: "by", label: "Spread by", kind: "choice", options: kinds },
      { name: "dry", label: "Only show what would move", kind: "check", value: true },
    ],
    run,
  });
}

// The first of them, and how many more there are.
export function someOf(moves, inWords) {
  const some = moves.slice(0, MOVES_SHOWN).map(inWords);
  const more = moves.length > MOVES_SHOWN ? ` and ${count(moves.length - MOVES_SHOWN)} more` : "";
  return some.join("; ") + more;
}
