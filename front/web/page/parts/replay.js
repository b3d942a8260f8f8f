// Replay: messages that left a queue are published again from the log. A dry run comes first, and what it found is what begins.

import { path, post, remove } from "../core/api.js";
import { el } from "../core/dom.js";
import { ago, bytes, count, plural } from "../core/format.js";
import { may } from "../core/login.js";
import { confirm, momentIn, numberIn, openDialog } from "./dialog.js";
import { button, emptyState, facts, jobBadge, meter, needs, panel } from "./pieces.js";
import { table } from "./table.js";

const CONSUMED = ["acked", "got", "no-ack"];
const ENDS = {
  acked: "acknowledged",
  got: "got without acknowledgement",
  "no-ack": "delivered without acknowledgement",
  rejected: "rejected",
  expired: "expired",
  maxlen: "dropped: length limit",
  "delivery-limit": "dropped: delivery limit",
  purged: "purged",
};
const RATE_DEFAULT = 1000; // messages a second

const replayPath = (told) => path`leveret/queues/${told.vhost}/${told.name}/replay`;

export function replayTab({ told, replays }, screen) {
  const cannot = needs(may("administrator"), "administrator");
  const planned = screen.state.replay ?? null;
  return [
    el(
      "div",
      { class: "toolbar" },
      button("Plan a replay", () => openPlan(told, screen), { kind: planned ? "" : "primary", disabled: cannot }),
      el("span", { class: "quiet" }, "Publishes messages again that have left this queue. The queue itself is not touched."),
    ),
    planned && plannedPanel(told, planned, screen),
    replayList(replays, screen),
    !planned && replays.length === 0 && emptyState("No replays", "A dry run shows which messages the log still has."),
  ];
}

// The order is made, and its dry run is shown

function openPlan(told, screen) {
  openDialog({
    title: `Plan a replay of ${told.name}`,
    intro: el("p", {}, "A dry run reads the log of this node and counts what would be published. It changes nothing."),
    action: "Dry run",
    fields: fields(screen.state.replay?.values ?? {}),
    run: async (values) => {
      const order = orderOf(values);
      screen.state.replay = { values, order, found: await post(replayPath(told), { ...order, dry_run: true }) };
      screen.redraw();
    },
  });
}

function fields(before) {
  const ends = [["consumed", "Consumed: acknowledged, or needing no acknowledgement"], ...Object.entries(ENDS)];
  const all = [
    {
      name: "exchange",
      label: "To exchange",
      required: true,
      half: true,
      hint: "amq.default routes by queue name.",
    },
    { name: "key", label: "Routing key", half: true, hint: "Empty: the key each was published with." },
    { name: "ends", label: "Messages that were", kind: "choice", options: ends },
    { name: "since", label: "Left the queue from", kind: "moment", half: true },
    { name: "until", label: "Until before", kind: "moment", half: true },
    { name: "published_key", label: "Published with key", half: true, placeholder: "any key" },
    { name: "consumer", label: "Last had by", half: true, placeholder: "any consumer", hint: "A consumer tag or a user." },
    { name: "after", label: "Behind the place", half: true, hint: "Where an earlier replay ended, such as 5/31/0." },
    { name: "limit", label: "At most", kind: "number", min: 1, half: true, placeholder: "all that are found" },
    {
      name: "rate",
      label: "Messages per second",
      kind: "number",
      min: 0,
      value: String(RATE_DEFAULT),
      hint: "0: as fast as they are confirmed.",
    },
  ];
  return all.map((field) => ({ ...field, value: before[field.name] ?? field.value ?? "" }));
}

function orderOf(values) {
  const { exchange, key, ends, published_key: published, consumer, after } = values;
  return {
    exchange,
    routing_key: key === "" ? null : key,
    ends: ends === "consumed" ? CONSUMED : [ends],
    since_ms: momentIn(values.since, "Left the queue from"),
    until_ms: momentIn(values.until, "Until before"),
    published_key: published === "" ? null : published,
    consumer,
    after,
    limit: numberIn(values.limit, "At most") ?? 0,
    rate: numberIn(values.rate, "Messages per second") ?? RATE_DEFAULT,
  };
}

const amountOf = ({ order, found }) => (order.limit > 0 ? Math.min(order.limit, found.messages) : found.messages);

function plannedPanel(told, planned, screen) {
  const { order, found } = planned;
  const amount = amountOf(planned);
  return panel(
    [
      "Dry run",
      button(`Publish ${plural(amount, "message")} again`, () => begin(told, planned, screen), {
        kind: "primary",
        disabled: amount === 0 ? "The log has no such messages." : "",
      }),
      button("Discard", () => discard(screen)),
    ],
    coverage(found),
    facts([
      ["To exchange", order.exchange],
      ["Routing key", order.routing_key ?? "the key each was published with"],
      ["At most", order.limit > 0 ? plural(order.limit, "message") : null],
      ["Rate", order.rate > 0 ? `${count(order.rate)} messages per second` : "as fast as they are confirmed"],
    ]),
    found.causes.length > 0 && causeTable(found.causes),
  );
}

// What the log has of them, and what that stands on.
function coverage(found) {
  const skipped = Object.entries(found.skipped).filter(([, messages]) => messages > 0);
  return [
    found.unknown !== "" && el("p", { class: "notice warn" }, found.unknown),
    found.more && el("p", { class: "notice warn" }, `There are more behind ${found.last}: plan another replay from there.`),
    facts([
      ["Found in the log", plural(found.messages, "message")],
      ["Places", found.first === "" ? null : `${found.first} to ${found.last}`],
      ["Not selected", skipped.map(([end, messages]) => `${count(messages)} ${ENDS[end] ?? end}`).join(", ") || null],
      ["Not committed yet", found.uncommitted > 0 ? plural(found.uncommitted, "message") : null],
      ["Without a known consumer", found.unnamed > 0 ? plural(found.unnamed, "message") : null],
      ["Log files read", `${count(found.files)}, ${count(found.files_skipped)} without this queue`],
      ["The log covers", found.from_time === "" ? null : `${found.from_time} to ${found.to_time}`],
      ["Damaged", found.damaged_bytes > 0 ? bytes(found.damaged_bytes) : null],
    ]),
  ];
}

function causeTable(causes) {
  const columns = [
    { id: "end", title: "Were", cell: (one) => ENDS[one.end] ?? one.end },
    { id: "exchange", title: "Published to", class: "wrap", cell: (one) => one.exchange || "(default)" },
    { id: "key", title: "Routing key", class: "wrap", cell: (one) => el("code", {}, one.routing_key) },
    { id: "messages", title: "Messages", number: true, cell: (one) => count(one.messages) },
  ];
  const key = (one) => `${one.end}\n${one.exchange}\n${one.routing_key}`;
  return table(columns, causes, { key, label: "Messages that would be published" });
}

function begin(told, planned, screen) {
  const { order } = planned;
  const key = order.routing_key === null ? "the key each was published with" : `the key "${order.routing_key}"`;
  confirm({
    title: `Publish ${plural(amountOf(planned), "message")} again`,
    intro: [
      el("p", {}, `To ${order.exchange}, with ${key}. Consumers there get them once more, with x-replay-of in their headers.`),
      el("p", {}, `${told.name} itself is not touched.`),
    ],
    action: "Publish again",
    run: async () => {
      await post(replayPath(told), order);
      screen.state.replay = null;
      return "The replay has started.";
    },
    then: () => screen.refresh(),
  });
}

function discard(screen) {
  screen.state.replay = null;
  screen.redraw();
}

// Replays of one queue, the newest first

function replayList(replays, screen) {
  if (replays.length === 0) return null;
  const columns = [
    { id: "state", title: "State", cell: (one) => jobBadge(one.state) },
    { id: "progress", title: "Published", cell: progress },
    { id: "passed", title: "Passed over", number: true, cell: (one) => count(passedOver(one)) },
    { id: "to", title: "To exchange", rank: 2, class: "wrap", cell: (one) => one.exchange || "(default)" },
    { id: "place", title: "Answered to", rank: 2, cell: (one) => one.answered_to || "–" },
    { id: "error", title: "Reason", class: "wrap", cell: (one) => one.error || "–" },
    { id: "user", title: "By", rank: 2, class: "wrap", cell: (one) => one.user },
    { id: "began", title: "Started", rank: 3, cell: (one) => ago(one.began_at) },
    { id: "actions", title: el("span", { class: "sr" }, "Actions"), number: true, cell: (one) => cancelButton(one, screen) },
  ];
  return panel("Replays", table(columns, replays, { key: (one) => one.id, label: "Replays of this queue" }));
}

const passedOver = (one) => one.unroutable + one.is_replay + one.gone + one.unreadable;

function progress(one) {
  const said = `${count(one.published)} of ${count(one.chosen)}`;
  return meter(one.published, one.chosen, said, one.state === "failed" ? "bad" : "good");
}

function cancelButton(one, screen) {
  if (one.state !== "running") return null;
  return button("Cancel", () => cancel(one, screen), { disabled: needs(may("administrator"), "administrator") });
}

async function cancel(one, screen) {
  await remove(path`leveret/replays/${one.id}`);
  screen.refresh();
}
