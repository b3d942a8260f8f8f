// Dialogs: forms, and confirmations of destructive actions. An error of the API is shown in the dialog, which keeps its input.
// The browser traps the focus and closes on Escape.

import { el } from "../core/dom.js";
import { count } from "../core/format.js";

let open = null;

// {title, intro, fields, action, danger, typed, run(values), keep}: `run` does it and may return what is told when it is done;
// `typed` is a name that has to be typed first; with `keep` the dialog stays open for the next one.
export function openDialog(options) {
  closeDialogs();
  const opener = document.activeElement;
  const dialog = el("dialog", {
    class: options.danger ? "danger" : "",
    "aria-labelledby": "dialog-title",
    "data-key": "dialog",
    onclose: () => closed(dialog, opener),
  });
  open = dialog;
  dialog.append(dialogForm(dialog, options));
  document.body.append(dialog);
  dialog.showModal();
  dialog.querySelector("input:not([type=checkbox]), select, textarea, .cancel")?.focus();
}

export function closeDialogs() {
  open?.close();
}

function closed(dialog, opener) {
  if (open === dialog) open = null;
  dialog.remove();
  if (opener?.isConnected) opener.focus();
}

function dialogForm(dialog, { title, intro = null, fields = [], action, danger = false, typed = null, run, keep = false }) {
  const all = typed === null ? fields : [...fields, { name: "typed", label: `Type "${typed}" to confirm`, required: true }];
  const controls = new Map(all.map((field) => [field.name, control(field)]));
  const said = el("p", { class: "error", role: "alert", hidden: true });
  const done = el("p", { class: "done", role: "status", hidden: true });
  const submit = el("button", { type: "submit", class: danger ? "danger" : "primary" }, action);
  const values = () => Object.fromEntries(all.map((field) => [field.name, valueOf(field, controls.get(field.name))]));
  const shown = () => all.forEach((field) => toggle(field, controls.get(field.name), values()));
  const tell = (node, text) => {
    said.hidden = node !== said;
    done.hidden = node !== done;
    node.textContent = text;
  };
  const send = async (event) => {
    event.preventDefault();
    submit.disabled = true;
    try {
      if (typed !== null && values().typed !== typed) throw new Error("The typed name does not match.");
      const message = await run(values());
      if (keep) tell(done, message);
      else dialog.close();
      if (!keep && message) toast(message);
    } catch (error) {
      tell(said, error.message);
    } finally {
      submit.disabled = false;
    }
  };
  const form = el(
    "form",
    { onsubmit: send, oninput: shown, method: "dialog" },
    el("h2", { id: "dialog-title" }, title),
    intro && el("div", { class: "dialog-intro" }, intro),
    el(
      "div",
      { class: "fields" },
      all.map((field) => fieldRow(field, controls.get(field.name))),
    ),
    said,
    done,
    el(
      "div",
      { class: "dialog-end" },
      el("button", { type: "button", class: "cancel", onclick: () => dialog.close() }, keep ? "Close" : "Cancel"),
      submit,
    ),
  );
  shown();
  return form;
}

// Fields: {name, label, kind, value, options, hint, required, placeholder, half, when(values)}. Two that are `half` share a
// row.

function control({
  name,
  kind = "text",
  value = "",
  options = [],
  required = false,
  placeholder = null,
  min = null,
  max = null,
}) {
  const id = `field-${name}`;
  if (kind === "choice") {
    return el(
      "select",
      { id, name },
      options.map(([given, label]) => el("option", { value: given, selected: given === value }, label)),
    );
  }
  if (kind === "check") return el("input", { id, name, type: "checkbox", checked: Boolean(value) });
  if (kind === "long" || kind === "json" || kind === "pairs") {
    return el("textarea", {
      id,
      name,
      rows: kind === "long" ? 6 : 4,
      value,
      placeholder,
      required,
      spellcheck: "false",
      class: "mono",
    });
  }
  if (kind === "file") return el("input", { id, name, type: "file", accept: ".json,application/json", required });
  const type = { number: "number", password: "password", moment: "datetime-local" }[kind] ?? "text";
  return el("input", {
    id,
    name,
    type,
    value,
    required,
    placeholder,
    min,
    max,
    step: kind === "moment" ? 1 : null, // seconds
    autocomplete: type === "password" ? "new-password" : "off",
    spellcheck: "false",
  });
}

function fieldRow(field, node) {
  const hint = field.hint && el("small", { id: `hint-${field.name}`, class: "quiet" }, field.hint);
  if (hint) node.setAttribute("aria-describedby", hint.id);
  const label = el("label", { for: node.id }, field.label);
  return el(
    "div",
    { class: `field ${field.kind === "check" ? "field-check" : ""} ${field.half ? "half" : ""}` },
    field.kind === "check" ? [node, label] : [label, node],
    hint,
  );
}

function toggle(field, node, values) {
  if (!field.when) return;
  const isShown = field.when(values);
  node.closest(".field").hidden = !isShown;
  node.disabled = !isShown;
}

function valueOf(field, node) {
  if (node.disabled) return null;
  if (field.kind === "check") return node.checked;
  if (field.kind === "file") return node.files[0] ?? null;
  return node.value;
}

// Texts of fields as values. Each throws an Error that says what is wrong.

export function numberIn(text, label) {
  if (text === null || text.trim() === "") return null;
  const number = Number(text);
  if (!Number.isInteger(number)) throw new Error(`${label} is "${text}", not a whole number.`);
  return number;
}

// Of a field of the kind "moment", in the time zone of the browser: milliseconds since the epoch, or null.
export function momentIn(text, label) {
  if (text === null || text === "") return null;
  const ms = new Date(text).getTime();
  if (Number.isNaN(ms)) throw new Error(`${label} is "${text}", not a date with a time.`);
  return ms;
}

// `key = value` lines: values are JSON where they can be read as such, texts where they cannot.
export function pairsIn(text) {
  const pairs = {};
  for (const line of (text ?? "")
    .split("\n")
    .map((one) => one.trim())
    .filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`"${line}" is not of the form  key = value.`);
    pairs[line.slice(0, at).trim()] = jsonOrText(line.slice(at + 1).trim());
  }
  return pairs;
}

export function pairsText(object) {
  return Object.entries(object ?? {})
    .map(([key, value]) => `${key} = ${JSON.stringify(value)}`)
    .join("\n");
}

export function jsonIn(text, label) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${label} is not valid JSON: ${error.message}`);
  }
}

function jsonOrText(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

// Does something, and asks before: {title, intro, action, typed, run, then}.
export function confirm({ title, intro, action, typed = null, run, then = () => {} }) {
  openDialog({
    title,
    intro,
    action,
    typed,
    danger: true,
    run: async () => {
      const message = await run();
      then();
      return message;
    },
  });
}

export const lostMessages = (number) =>
  number > 0
    ? el(
        "p",
        {},
        el("strong", {}, `${count(number)} ${number === 1 ? "message" : "messages"} will be deleted.`),
        " This cannot be undone.",
      )
    : el("p", {}, "It is empty.");

const TOAST_MS = 5000;

export function toast(text) {
  const place = document.querySelector(".toasts");
  const one = el("p", {}, text);
  place?.append(one);
  setTimeout(() => one.remove(), TOAST_MS);
}
