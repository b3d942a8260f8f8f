// Redrive: the dialog that moves dead letters, with a dry run, and how far redrives of a queue are.

import { path, post, remove } from "../core/api.js";
import { el } from "../core/dom.js";
import { ago, count, plural } from "../core/format.js";
import { may, user } from "../core/login.js";
import { numberIn, openDialog } from "./dialog.js";
import { badge, button, jobBadge, meter, panel } from "./pieces.js";
import { table } from "./table.js";

const REASONS = ["rejected", "expired", "maxlen", "delivery_limit"];
const FATES = {
  moves: ["good", "would move"],
  filtered: ["", "not selected"],
  no_death: ["", "never dead-lettered"],
  unroutable: ["bad", "unroutable, stays"],
  comes_back: ["bad", "would come back, stays"],
};

const redrivePath = (told) => path`leveret/queues/${told.vhost}/${told.name}/redrive`;

// `chosen` may have a reason and a queue that they died in.
export function openRedrive(told, screen, chosen = {}) {
  const found = el("div", { role: "status", class: "redrive-preview" });
  openDialog({
    title: `Redrive ${told.name}`,
    intro: [
      el(
        "p",
        {},
        "Moves dead letters back. A message leaves this queue when its target has confirmed it; what fails stays here.",
      ),
      el(
        "p",
        {},
        button("Dry run", (event) => preview(event, told, found), { kind: "link" }),
        el("span", { class: "quiet" }, " counts what would move, and changes nothing."),
      ),
      found,
    ],
    action: "Redrive",
    fields: fields(chosen),
    run: async (values) => {
      await post(redrivePath(told), orderOf(values));
      screen.refresh();
      return "The redrive has started.";
    },
  });
}

function fields(chosen) {
  const toExchange = ({ to }) => to === "exchange";
  return [
    {
      name: "to",
      label: "Move to",
      kind: "choice",
      options: [
        ["queue", "The queue in which each message died"],
        ["exchange", "An exchange"],
      ],
    },
    {
      name: "exchange",
      label: "Exchange",
      required: true,
      half: true,
      when: toExchange,
      hint: "amq.default routes by queue name.",
    },
    { name: "key", label: "Routing key", half: true, when: toExchange, hint: "Empty: the key it was first published with." },
    {
      name: "reason",
      label: "Died because of",
      kind: "choice",
      half: true,
      options: [["", "any reason"], ...REASONS.map((one) => [one, one.replace("_", " ")])],
      value: chosen.reason ?? "",
    },
    { name: "died_in", label: "Died in queue", half: true, value: chosen.died_in ?? "", placeholder: "any queue" },
    { name: "limit", label: "At most", kind: "number", min: 1, placeholder: "all that are ready now" },
  ];
}

function orderOf(values) {
  const order = { reason: values.reason, died_in: values.died_in, limit: numberIn(values.limit, "At most") ?? 0 };
  if (values.to === "exchange") order.exchange = values.exchange;
  if (values.to === "exchange" && values.key !== "") order.routing_key = values.key;
  return order;
}

async function preview(event, told, found) {
  const values = Object.fromEntries(new FormData(event.target.closest("form")));
  try {
    const counted = await post(redrivePath(told), { ...orderOf({ key: "", exchange: "", ...values }), dry_run: true });
    found.replaceChildren(...forecast(counted));
  } catch (error) {
    found.replaceChildren(el("p", { class: "error" }, error.message));
  }
}

function forecast(counted) {
  const whole = counted.seen < counted.ready ? `first ${count(counted.seen)} of ${count(counted.ready)}` : count(counted.seen);
  return [
    el("p", {}, el("strong", {}, `${plural(counted.moves, "message")} would move`), ` of the ${whole} looked at.`),
    el("ul", { class: "redrive-causes" }, counted.causes.map(causeLine)),
  ];
}

// How many died where, and what would become of them.
function causeLine(one) {
  const [kind, label] = [FATES[one.fate][0], FATES[one.fate][1]];
  const target = `${one.to_exchange || "(default)"} ${one.to_routing_key}`;
  return el(
    "li",
    {},
    badge(label, kind),
    ` ${count(one.messages)} `,
    one.died_in && [el("span", { class: "quiet" }, `${one.reason.replace("_", " ")} in `), one.died_in],
    one.fate !== "filtered" && one.fate !== "no_death" && [el("span", { class: "quiet" }, " to "), el("code", {}, target)],
  );
}

// Those of one queue, the newest first.
export function redriveList(redrives, screen) {
  if (redrives.length === 0) return null;
  const columns = [
    { id: "state", title: "State", cell: (one) => jobBadge(one.state) },
    { id: "progress", title: "Moved", cell: progress },
    { id: "left", title: "Left in place", number: true, cell: (one) => count(one.seen - one.moved) },
    { id: "error", title: "Reason", class: "wrap", cell: (one) => one.error || "–" },
    { id: "user", title: "By", rank: 2, cell: (one) => one.user },
    { id: "began", title: "Started", rank: 3, cell: (one) => ago(one.began_at) },
    { id: "actions", title: el("span", { class: "sr" }, "Actions"), number: true, cell: (one) => cancelButton(one, screen) },
  ];
  return panel("Redrives", table(columns, redrives, { key: (one) => one.id, label: "Redrives of this queue" }));
}

function progress(one) {
  const most = one.limit > 0 ? Math.min(one.limit, one.ready) : one.ready;
  return meter(one.moved, most, `${count(one.moved)} of ${count(most)}`, one.state === "failed" ? "bad" : "good");
}

function cancelButton(one, screen) {
  if (one.state !== "running") return null;
  const isOwn = one.user === user().name || may("administrator");
  return button("Cancel", () => cancel(one, screen), { disabled: isOwn ? "" : "Another user has started it." });
}

async function cancel(one, screen) {
  await remove(path`leveret/redrives/${one.id}`);
  screen.refresh();
}
