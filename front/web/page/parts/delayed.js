// Messages that wait in a delayed exchange or for a queue that delays: which are due next, searched, and cancelled.

import { get, path, remove } from "../core/api.js";
import { el } from "../core/dom.js";
import { duration, moment, plural } from "../core/format.js";
import { confirm } from "./dialog.js";
import { messageList } from "./messages.js";
import { button } from "./pieces.js";

const LOOKED_AT_MAX = 500; // of one answer
const ORDERS = [
  ["due", "that are due next"],
  ["published", "in the order of publishing"],
];

export function delayedTab({ told }, screen) {
  const state = (screen.state.delayed ??= { order: "due", filter: "", pages: [""], found: null, error: "", begun: false });
  if (!state.begun) look(told, state, screen);
  const search = (event) => {
    state.filter = event.target.value;
    screen.redraw();
  };
  return [
    el(
      "div",
      { class: "toolbar" },
      el(
        "label",
        { class: "select" },
        el("span", {}, "Messages"),
        el(
          "select",
          { id: "delayed-order", onchange: (event) => begin(told, state, screen, event.target.value) },
          ORDERS.map(([order, label]) => el("option", { value: order, selected: order === state.order }, label)),
        ),
      ),
      el(
        "label",
        { class: "select" },
        el("span", {}, "Containing"),
        el("input", {
          id: "delayed-filter",
          type: "search",
          value: state.filter,
          placeholder: "key, header or body",
          oninput: search,
        }),
      ),
      button("Refresh", () => look(told, state, screen)),
      state.order === "published" && pager(told, state, screen),
      el("span", { class: "quiet" }, said(state)),
    ),
    state.error !== "" && el("p", { class: "notice bad", role: "alert" }, state.error),
    state.found !== null &&
      messageList(state.found, state.filter, () => null, {
        place: (message) => `in ${duration(Math.max(0, message.due_ms - Date.now()))}`,
        more: (message) => cancelButton(told, message, state, screen),
        facts: (message) => [
          ["Id", el("code", {}, message.id)],
          ["Due", moment(message.due_ms)],
        ],
      }),
  ];
}

const waitingPath = ({ vhost, name, type }) =>
  type === "quorum" ? path`leveret/queues/${vhost}/${name}/delayed` : path`leveret/exchanges/${vhost}/${name}/delayed`;

function said({ found, order, pages }) {
  if (found === null) return "Looking…";
  if (found.length < LOOKED_AT_MAX) return plural(found.length, "message");
  const which = order === "due" ? "due next; choose the order of publishing to go through all" : `of page ${pages.length}`;
  return `${plural(found.length, "message")} ${which}`;
}

// Pages are known by the last message of the one before: there is no other way to say where one begins.
function pager(told, state, screen) {
  const turn = (pages) => {
    state.pages = pages;
    look(told, state, screen);
  };
  const last = state.found?.at(-1)?.id;
  const isWhole = state.found !== null && state.found.length === LOOKED_AT_MAX;
  return [
    button("Previous", () => turn(state.pages.slice(0, -1)), {
      disabled: state.pages.length > 1 ? "" : "This is the first page.",
    }),
    button("Next", () => turn([...state.pages, last]), { disabled: isWhole ? "" : "This is the last page." }),
  ];
}

function begin(told, state, screen, order) {
  Object.assign(state, { order, pages: [""] });
  look(told, state, screen);
}

async function look(told, state, screen) {
  state.begun = true;
  const where = waitingPath(told);
  try {
    state.found = await get(where, { limit: LOOKED_AT_MAX, order: state.order, after: state.pages.at(-1) });
    state.error = "";
  } catch (error) {
    state.error = error.message;
  }
  screen.redraw();
}

function cancelButton(told, message, state, screen) {
  const cancel = () =>
    confirm({
      title: "Cancel a delayed message",
      intro: el("p", {}, `The message with the key ${message.routing_key || "(empty)"} is deleted, and never routed.`),
      action: "Cancel message",
      run: async () => {
        await remove(`${waitingPath(told)}/${message.id}`);
        return "The message is cancelled.";
      },
      then: () => look(told, state, screen),
    });
  return el("p", {}, button("Cancel this message", cancel, { kind: "danger-quiet" }));
}
