// What can be done with a queue, from its list or its own view.

import { path, post, put, remove } from "../core/api.js";
import { QUEUE_ARGUMENTS, exchangePath, queuePath } from "../core/broker.js";
import { el } from "../core/dom.js";
import { plural } from "../core/format.js";
import { confirm, jsonIn, lostMessages, numberIn, openDialog, pairsIn } from "./dialog.js";

export function declareQueue(vhosts, vhost, then) {
  const types = Object.keys(QUEUE_ARGUMENTS);
  openDialog({
    title: "Declare a queue or stream",
    action: "Declare",
    fields: [
      { name: "type", label: "Type", kind: "choice", options: [["classic", "Classic: on one node, fast"], ["quorum", "Quorum: on several nodes, survives the loss of some"], ["stream", "Stream: messages stay and can be read again"]], value: "classic" },
      { name: "vhost", label: "Virtual host", kind: "choice", options: vhosts.map((name) => [name, name]), value: vhost },
      { name: "name", label: "Name", required: true },
      { name: "durable", label: "Durable", kind: "check", value: true, hint: "It is there again after a restart.", when: ({ type }) => type === "classic" },
      { name: "auto_delete", label: "Auto-delete", kind: "check", hint: "It goes with its last consumer.", when: ({ type }) => type === "classic" },
      ...types.flatMap((type) => QUEUE_ARGUMENTS[type].map((argument) => argumentField(type, argument))),
      { name: "more", label: "More arguments", kind: "pairs", placeholder: "x-queue-leader-locator = balanced", hint: "A line for each." },
    ],
    run: async (values) => {
      const { type, vhost: where, name } = values;
      const given = { "x-queue-type": type, ...argumentsIn(type, values), ...pairsIn(values.more) };
      await put(queuePath(where, name), { durable: type !== "classic" || values.durable, auto_delete: Boolean(values.auto_delete), arguments: given });
      then();
      return `${name} is declared.`;
    },
  });
}

function argumentField(type, [argument, label, kind, hint]) {
  const choices = Array.isArray(kind);
  return { name: `${type} ${argument}`, label, kind: choices ? "choice" : kind, options: choices ? kind : [], hint, min: kind === "number" ? 0 : null, when: (values) => values.type === type };
}

function argumentsIn(type, values) {
  const given = {};
  for (const [argument, label, kind] of QUEUE_ARGUMENTS[type]) {
    const value = values[`${type} ${argument}`];
    if (kind === "number" && numberIn(value, label) !== null) given[argument] = numberIn(value, label);
    else if (kind === "check" && value) given[argument] = true;
    else if (kind !== "number" && kind !== "check" && value) given[argument] = value;
  }
  return given;
}

export function purgeQueue(queue, then) {
  confirm({
    title: `Purge ${queue.name}`,
    intro: [lostMessages(queue.messages_ready), el("p", {}, "What consumers hold without an acknowledgement stays.")],
    action: "Purge",
    run: async () => {
      await remove(`${queuePath(queue.vhost, queue.name)}/contents`);
      return `${queue.name} is empty.`;
    },
    then,
  });
}

export function deleteQueue(queue, then) {
  confirm({
    title: `Delete ${queue.name}`,
    intro: [lostMessages(queue.messages), queue.consumers > 0 && el("p", {}, `${plural(queue.consumers, "consumer")} will be cancelled.`)],
    action: "Delete",
    typed: queue.messages > 0 ? queue.name : null,
    run: async () => {
      await remove(queuePath(queue.vhost, queue.name));
      return `${queue.name} is deleted.`;
    },
    then,
  });
}

// Many at once, one after the other; what was not done is said with its reason.
export function purgeQueues(queues, then) {
  many(queues, `Purge ${plural(queues.length, "queue")}`, "Purge", null, (one) => remove(`${queuePath(one.vhost, one.name)}/contents`), then);
}

export function deleteQueues(queues, then) {
  const isLoss = queues.some((one) => one.messages > 0);
  many(queues, `Delete ${plural(queues.length, "queue")}`, "Delete", isLoss ? "delete" : null, (one) => remove(queuePath(one.vhost, one.name)), then);
}

function many(queues, title, action, typed, run, then) {
  confirm({
    title,
    intro: [
      lostMessages(queues.reduce((sum, one) => sum + one.messages, 0)),
      el("ul", { class: "some-names" }, queues.map((one) => el("li", {}, one.name, el("span", { class: "quiet" }, ` in ${one.vhost}`)))),
    ],
    action,
    typed,
    run: async () => {
      const refused = [];
      for (const one of queues) await run(one).catch((error) => refused.push(`${one.name}: ${error.message}`));
      then();
      if (refused.length > 0) throw new Error(`${plural(refused.length, "queue")} of ${queues.length} refused it. ${refused[0]}`);
      return `${plural(queues.length, "queue")}: done.`;
    },
  });
}

// Publishing, to an exchange or straight to a queue

const PROPERTIES_HINT = "Lines like  content_type = application/json,  correlation_id = 17,  priority = 3.";

export function publish({ vhost, exchange, routingKey, title }) {
  openDialog({
    title,
    action: "Publish",
    keep: true,
    fields: [
      { name: "key", label: "Routing key", value: routingKey },
      { name: "payload", label: "Payload", kind: "long" },
      { name: "encoding", label: "The payload is", kind: "choice", options: [["string", "text"], ["base64", "base64, of bytes"]] },
      { name: "persistent", label: "Persistent", kind: "check", value: true, hint: "It survives a restart in a durable queue." },
      { name: "properties", label: "Properties", kind: "pairs", hint: PROPERTIES_HINT },
      { name: "headers", label: "Headers", kind: "pairs", hint: "Lines like  tries = 2." },
    ],
    run: async (values) => {
      const headers = pairsIn(values.headers);
      const properties = { delivery_mode: values.persistent ? 2 : 1, ...pairsIn(values.properties), ...(Object.keys(headers).length > 0 ? { headers } : {}) };
      const body = { routing_key: values.key, properties, payload: values.payload, payload_encoding: values.encoding };
      const { routed } = await post(`${exchangePath(vhost, exchange)}/publish`, body);
      return routed ? "Published and confirmed." : "Published, but no queue is bound for it: the message is gone.";
    },
  });
}

export function bind({ vhost, source = "", destination = "", kind = "queue", then }) {
  openDialog({
    title: "Add a binding",
    action: "Bind",
    fields: [
      { name: "source", label: "From exchange", value: source, required: true },
      { name: "kind", label: "To a", kind: "choice", options: [["queue", "queue"], ["exchange", "exchange"]], value: kind },
      { name: "destination", label: "Its name", value: destination, required: true },
      { name: "key", label: "Routing key" },
      { name: "arguments", label: "Arguments", kind: "json", value: "{}", hint: "JSON; for headers exchanges what has to match, with x-match." },
    ],
    run: async (values) => {
      const to = values.kind === "queue" ? "q" : "e";
      const where = bindingPath(vhost, values.source, to, values.destination);
      await post(where, { routing_key: values.key, arguments: jsonIn(values.arguments || "{}", "What stands in arguments") });
      then();
      return "Bound.";
    },
  });
}

export function unbind(binding, then) {
  const to = binding.destination_type === "queue" ? "q" : "e";
  confirm({
    title: "Remove this binding",
    intro: el("p", {}, `${binding.source} sends nothing more to ${binding.destination} for "${binding.routing_key}".`),
    action: "Remove",
    run: async () => {
      await remove(bindingPath(binding.vhost, binding.source, to, binding.destination) + path`/${binding.properties_key}`);
      return "The binding is gone.";
    },
    then,
  });
}

function bindingPath(vhost, source, to, destination) {
  return path`bindings/${vhost}/e/${source === "" ? "amq.default" : source}/${to}/${destination}`;
}
