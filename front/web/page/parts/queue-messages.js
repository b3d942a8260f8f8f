// The messages of a queue: browsed in place, got, and counted by why they were dead-lettered.

import { get, path, post } from "../core/api.js";
import { queuePath } from "../core/broker.js";
import { el } from "../core/dom.js";
import { plural } from "../core/format.js";
import { changed, go } from "../core/routes.js";
import { causeTable } from "./dead-letters.js";
import { openDialog } from "./dialog.js";
import { lifeLink, mayTrace, traceOf } from "./message-life.js";
import { messageList } from "./messages.js";
import { button } from "./pieces.js";
import { openRedrive, redriveList } from "./redrive.js";

const LOOKED_AT_MAX = 1000;
const MODES = [
  ["ack_requeue_true", "Requeue: they are marked as redelivered"],
  ["ack_requeue_false", "Acknowledge: they are removed from the queue"],
  ["reject_requeue_false", "Reject: they are dead-lettered, or dropped without a dead letter exchange"],
];

export function messagesTab({ told }, screen) {
  const state = (screen.state.messages ??= {
    limit: "50",
    from: told.type === "stream" ? "first" : "0",
    filter: "",
    found: null,
    error: "",
    said: "",
  });
  const look = () => browse(told, state, screen);
  if (state.found === null && !state.begun) look();
  const typed = (name) => (event) => {
    state[name] = event.target.value;
  };
  const filter = (event) => {
    state.filter = event.target.value;
    screen.redraw();
  };
  const onEnter = (event) => {
    if (event.key === "Enter") look();
  };
  return [
    el(
      "div",
      { class: "toolbar", onkeydown: onEnter },
      field(
        told.type === "stream" ? "From offset" : "Skip",
        el("input", { id: "browse-from", value: state.from, size: 10, oninput: typed("from") }),
      ),
      field(
        "Show",
        el("input", {
          id: "browse-limit",
          type: "number",
          min: 1,
          max: LOOKED_AT_MAX,
          value: state.limit,
          oninput: typed("limit"),
        }),
      ),
      button("Browse", look, { kind: "primary" }),
      field(
        "Containing",
        el("input", {
          id: "browse-filter",
          type: "search",
          value: state.filter,
          placeholder: "key, header or body",
          oninput: filter,
        }),
      ),
      el("span", { class: "quiet" }, state.said || "Browsing is read-only: no message is consumed or requeued."),
    ),
    state.error !== "" && el("p", { class: "notice bad", role: "alert" }, state.error),
    state.found !== null && messageList(state.found, state.filter, (message) => lifeOf(told, message)),
  ];
}

function lifeOf(told, message) {
  const trace = told.type === "stream" || !mayTrace() ? null : traceOf(message);
  return trace === null ? null : lifeLink(told.vhost, told.name, trace);
}

const field = (label, input) => el("label", { class: "select" }, el("span", {}, label), input);

async function browse(told, state, screen) {
  state.begun = true;
  const from = told.type === "stream" ? { offset: state.from || "first" } : { skip: state.from || 0 };
  try {
    state.found = await get(path`leveret/queues/${told.vhost}/${told.name}/browse`, {
      ...from,
      limit: state.limit || 50,
      digest: told.type !== "stream",
    });
    state.error = "";
    state.said = `${plural(state.found.length, "message")} at the time of the request.`;
  } catch (error) {
    state.error = error.message;
  }
  screen.redraw();
}

export function getMessages(told, screen) {
  openDialog({
    title: `Get messages from ${told.name}`,
    intro: el(
      "p",
      {},
      "Get consumes messages or marks them as redelivered. To inspect messages without touching them, use Browse.",
    ),
    action: "Get",
    fields: [
      { name: "mode", label: "Afterwards", kind: "choice", options: MODES },
      { name: "count", label: "At most", kind: "number", value: "1", min: 1, max: LOOKED_AT_MAX },
    ],
    run: async ({ mode, count: most }) => {
      const found = await post(`${queuePath(told.vhost, told.name)}/get`, {
        count: Number(most),
        ackmode: mode,
        encoding: "auto",
        truncate: 4096,
      });
      screen.state.messages = {
        limit: "50",
        from: "0",
        filter: "",
        found,
        begun: true,
        error: "",
        said: `${plural(found.length, "message")} fetched with Get.`,
      };
      go(changed({ tab: "messages" }));
      return `${plural(found.length, "message")} fetched.`;
    },
  });
}

// Why the messages in this queue were dead-lettered

export function causesTab({ told, redrives }, screen) {
  const state = (screen.state.causes ??= { found: null, error: "" });
  if (!state.begun) lookForCauses(told, state, screen);
  const redrive = told.type === "stream" ? null : (death) => openRedrive(told, screen, death);
  return [
    el(
      "div",
      { class: "toolbar" },
      redrive && button("Redrive", () => redrive({}), { kind: "primary" }),
      button("Refresh", () => lookForCauses(told, state, screen)),
      el(
        "span",
        { class: "quiet" },
        state.found === null
          ? "Browsing…"
          : `Of the first ${plural(state.found.length, "message")} of this queue. Browsing is read-only.`,
      ),
    ),
    state.error !== "" && el("p", { class: "notice bad", role: "alert" }, state.error),
    redriveList(redrives ?? [], screen),
    state.found !== null && causeTable(told.vhost, state.found, redrive),
  ];
}

async function lookForCauses(told, state, screen) {
  state.begun = true;
  const from = told.type === "stream" ? { offset: "first" } : { skip: 0 };
  try {
    state.found = await get(path`leveret/queues/${told.vhost}/${told.name}/browse`, {
      ...from,
      limit: LOOKED_AT_MAX,
      truncate: 0,
    });
    state.error = "";
  } catch (error) {
    state.error = error.message;
  }
  screen.redraw();
}
