// A list of messages: envelope, properties, headers, and the body as text, JSON or a hex dump.

import { el } from "../core/dom.js";
import { bytes, count, moment, plain, plural } from "../core/format.js";
import { badge, emptyState, facts, pairsOf } from "./pieces.js";

const SHOWN_BYTES = 4096;

// `lifeOf(message)` is where the life of a message is told, if there is such a place.
// `shown` may say of a message where it stands, more facts of it, and what can be done with it.
export function messageList(messages, filter = "", lifeOf = () => null, shown = {}) {
  const wanted = filter.toLowerCase();
  const matching = messages
    .map((message, at) => ({ message, at }))
    .filter(({ message }) => wanted === "" || textOf(message).includes(wanted));
  if (messages.length === 0) return emptyState("No messages", "There are no messages at this position.");
  if (matching.length === 0)
    return emptyState("No message contains that", `None of the ${plural(messages.length, "fetched message")} matches.`);
  return el(
    "ol",
    { class: "messages" },
    matching.map(({ message, at }) => oneMessage(message, at, lifeOf(message), shown)),
  );
}

const textOf = (message) =>
  `${message.exchange} ${message.routing_key} ${JSON.stringify(message.properties)} ${message.payload}`.toLowerCase();

function oneMessage(message, at, life, { place = (one) => placeOf(one, at), facts: told = () => [], more = () => null }) {
  const { headers = {}, ...properties } = message.properties;
  return el(
    "li",
    { "data-key": `message ${message.id ?? message.offset ?? at}` },
    el(
      "details",
      {},
      el(
        "summary",
        {},
        el(
          "span",
          { class: "place" },
          place(message),
        ),
        el("code", { class: "preview" }, preview(message)),
        el(
          "span",
          { class: "badges" },
          message.redelivered && badge("redelivered", "warn"),
          headers["x-death"] && badge("dead-lettered", "bad"),
          badge(message.routing_key || "no key", "plain", "routing key"),
          badge(bytes(message.payload_bytes), "plain"),
        ),
      ),
      el(
        "div",
        { class: "message" },
        more(message),
        facts([
          ...told(message),
          ["Exchange", message.exchange || "(default)"],
          ["Routing key", el("code", {}, message.routing_key)],
          ["Failed deliveries", message.delivery_count || null],
          ["Deliveries", message.acquired_count || null],
          ...Object.entries(properties).map(([name, value]) => [
            name,
            name === "timestamp" ? moment(value * 1000) : el("code", {}, plain(value)),
          ]),
        ]),
        life && el("p", {}, el("a", { href: life }, "Life of this message")),
        Object.keys(headers).length > 0 && [el("h3", {}, "Headers"), pairsOf(headers)],
        el("h3", {}, "Body"),
        body(message),
      ),
    ),
  );
}

const placeOf = ({ offset }, at) => (offset === null || offset === undefined ? `#${at + 1}` : `offset ${count(offset)}`);

function preview(message) {
  if (message.payload_encoding === "base64") return "(binary)";
  return message.payload.slice(0, 160).replace(/\s+/g, " ") || "(empty)";
}

function body(message) {
  const isCut =
    message.payload_encoding === "string" ? new TextEncoder().encode(message.payload).length < message.payload_bytes : false;
  return [
    el("pre", { tabindex: "0" }, message.payload_encoding === "base64" ? hexLines(message.payload) : pretty(message.payload)),
    isCut && el("p", { class: "quiet" }, `Truncated: the body has ${bytes(message.payload_bytes)}.`),
  ];
}

function pretty(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" ? JSON.stringify(value, null, 2) : text;
  } catch {
    return text;
  }
}

// A hex dump: offset, 16 bytes, printable characters.
function hexLines(base64) {
  const raw = Uint8Array.from(atob(base64).slice(0, SHOWN_BYTES), (one) => one.charCodeAt(0));
  const lines = [];
  for (let at = 0; at < raw.length; at += 16) {
    const part = [...raw.slice(at, at + 16)];
    const hex = part.map((one) => one.toString(16).padStart(2, "0")).join(" ");
    const text = part.map((one) => (one >= 32 && one < 127 ? String.fromCharCode(one) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${text}`);
  }
  return lines.join("\n");
}
