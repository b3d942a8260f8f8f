// Actions on queues and bindings, used by several views.

import { path, post, put, remove } from "../core/api.js";
import { QUEUE_ARGUMENTS, exchangePath, nameField, queuePath } from "../core/broker.js";
import { el } from "../core/dom.js";
import { plural } from "../core/format.js";
import { confirm, jsonIn, lostMessages, numberIn, openDialog, pairsIn } from "./dialog.js";

export function declareQueue(vhosts, vhost, then) {
  const types = Object.keys(QUEUE_ARGUMENTS);
  openDialog({
    title: "Declare a queue or stream",
    action: "Declare",
    fields: [
      {
        name: "type",
        label: "Type",
        kind: "choice",
        options: [
          ["classic", "Classic: on one node"],
          ["quorum", "Quorum: replicated, survives the loss of a minority of nodes"],
          ["stream", "Stream: replicated log, messages are kept and can be re-read"],
        ],
        value: "classic",
      },
      nameField("vhost", "Virtual host", vhosts, { value: vhost }),
      { name: "name", label: "Name", required: true },
      {
        name: "durable",
        label: "Durable",
        kind: "check",
        value: true,
        half: true,
        hint: "Survives a restart of the node.",
        when: ({ type }) => type === "classic",
      },
      {
        name: "auto_delete",
        label: "Auto-delete",
        kind: "check",
        half: true,
        hint: "Deleted when its last consumer is gone.",
        when: ({ type }) => type === "classic",
      },
      ...types.flatMap((type) => QUEUE_ARGUMENTS[type].map((argument) => argumentField(type, argument))),
      {
        name: "more",
        label: "More arguments",
        kind: "pairs",
        placeholder: "x-queue-leader-locator = balanced",
        hint: "One per line.",
      },
    ],
    run: async (values) => {
      const { type, vhost: where, name } = values;
      const given = { "x-queue-type": type, ...argumentsIn(type, values), ...pairsIn(values.more) };
      await put(queuePath(where, name), {
        durable: type !== "classic" || values.durable,
        auto_delete: Boolean(values.auto_delete),
        arguments: given,
      });
      then();
      return `${name} is declared.`;
    },
  });
}

function argumentField(type, [argument, label, kind, hint]) {
  const choices = Array.isArray(kind);
  return {
    name: `${type} ${argument}`,
    label,
    kind: choices ? "choice" : kind,
    options: choices ? kind : [],
    hint,
    min: kind === "number" ? 0 : null,
    half: true,
    when: (values) => values.type === type,
  };
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
    intro: [
      lostMessages(queue.messages_ready),
      el("p", {}, "Messages that consumers have not acknowledged yet are not purged."),
    ],
    action: "Purge",
    run: async () => {
      await remove(`${queuePath(queue.vhost, queue.name)}/contents`);
      return `${queue.name} is purged.`;
    },
    then,
  });
}

export function deleteQueue(queue, then) {
  confirm({
    title: `Delete ${queue.name}`,
    intro: [
      lostMessages(queue.messages),
      queue.consumers > 0 && el("p", {}, `${plural(queue.consumers, "consumer")} will be cancelled.`),
    ],
    action: "Delete",
    typed: queue.messages > 0 ? queue.name : null,
    run: async () => {
      await remove(queuePath(queue.vhost, queue.name));
      return `${queue.name} is deleted.`;
    },
    then,
  });
}

// Several queues, one after the other. Reports how many were refused, with the first reason.
export function purgeQueues(queues, then) {
  many(
    queues,
    `Purge ${plural(queues.length, "queue")}`,
    "Purge",
    null,
    (one) => remove(`${queuePath(one.vhost, one.name)}/contents`),
    then,
  );
}

export function deleteQueues(queues, then) {
  const isLoss = queues.some((one) => one.messages > 0);
  many(
    queues,
    `Delete ${plural(queues.length, "queue")}`,
    "Delete",
    isLoss ? "delete" : null,
    (one) => remove(queuePath(one.vhost, one.name)),
    then,
  );
}

function many(queues, title, action, typed, run, then) {
  confirm({
    title,
    intro: [
      lostMessages(queues.reduce((sum, one) => sum + one.messages, 0)),
      el(
        "ul",
        { class: "some-names" },
        queues.map((one) => el("li", {}, one.name, el("span", { class: "quiet" }, ` in ${one.vhost}`))),
      ),
    ],
    action,
    typed,
    run: async () => {
      const refused = [];
      for (const one of queues) await run(one).catch((error) => refused.push(`${one.name}: ${error.message}`));
      then();
      if (refused.length > 0) throw new Error(`${plural(refused.length, "queue")} of ${queues.length} failed. ${refused[0]}`);
      return `${plural(queues.length, "queue")} done.`;
    },
  });
}

// Publishing, to an exchange or straight to a queue

const PROPERTIES_HINT = "One per line, such as  content_type = application/json  or  priority = 3.";

export function publish({ vhost, exchange, routingKey, title }) {
  openDialog({
    title,
    action: "Publish",
    keep: true,
    fields: [
      { name: "key", label: "Routing key", value: routingKey },
      { name: "payload", label: "Payload", kind: "long" },
      {
        name: "encoding",
        label: "Payload encoding",
        kind: "choice",
        options: [
          ["string", "text"],
          ["base64", "base64"],
        ],
      },
      {
        name: "persistent",
        label: "Persistent",
        kind: "check",
        value: true,
        hint: "Written to disk, and kept across restarts in a durable queue.",
      },
      { name: "properties", label: "Properties", kind: "pairs", hint: PROPERTIES_HINT },
      { name: "headers", label: "Headers", kind: "pairs", hint: "One per line, such as  tenant = north." },
    ],
    run: async (values) => {
      const headers = pairsIn(values.headers);
      const properties = {
        delivery_mode: values.persistent ? 2 : 1,
        ...pairsIn(values.properties),
        ...(Object.keys(headers).length > 0 ? { headers } : {}),
      };
      const body = { routing_key: values.key, properties, payload: values.payload, payload_encoding: values.encoding };
      const { routed } = await post(`${exchangePath(vhost, exchange)}/publish`, body);
      return routed
        ? "Published and confirmed."
        : "Published, but not routed: no binding matched, and the message was dropped.";
    },
  });
}

export function bind({ vhost, source = "", destination = "", kind = "queue", then }) {
  openDialog({
    title: "Add binding",
    action: "Bind",
    fields: [
      { name: "source", label: "Source exchange", value: source, required: true },
      {
        name: "kind",
        label: "Destination type",
        kind: "choice",
        options: [
          ["queue", "queue"],
          ["exchange", "exchange"],
        ],
        value: kind,
      },
      { name: "destination", label: "Destination", value: destination, required: true },
      { name: "key", label: "Routing key" },
      {
        name: "arguments",
        label: "Arguments",
        kind: "json",
        value: "{}",
        hint: "JSON. For a headers exchange: the headers to match, and x-match.",
      },
    ],
    run: async (values) => {
      const to = values.kind === "queue" ? "q" : "e";
      const where = bindingPath(vhost, values.source, to, values.destination);
      await post(where, { routing_key: values.key, arguments: jsonIn(values.arguments || "{}", "What stands in arguments") });
      then();
      return "The binding is added.";
    },
  });
}

export function unbind(binding, then) {
  const to = binding.destination_type === "queue" ? "q" : "e";
  confirm({
    title: "Remove binding",
    intro: el("p", {}, `${binding.source} no longer routes to ${binding.destination} for "${binding.routing_key}".`),
    action: "Remove",
    run: async () => {
      await remove(bindingPath(binding.vhost, binding.source, to, binding.destination) + path`/${binding.properties_key}`);
      return "The binding is removed.";
    },
    then,
  });
}

function bindingPath(vhost, source, to, destination) {
  return path`bindings/${vhost}/e/${source === "" ? "amq.default" : source}/${to}/${destination}`;
}
