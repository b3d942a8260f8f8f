// Permissions of users in virtual hosts.

import { path, put, remove } from "../core/api.js";
import { nameField } from "../core/broker.js";
import { el } from "../core/dom.js";
import { link } from "../core/routes.js";
import { confirm, openDialog } from "./dialog.js";
import { button, emptyState } from "./pieces.js";
import { table } from "./table.js";

const userLink = (name) => el("a", { class: "name", href: link(["users", name]) }, name);
export const vhostLink = (name) => el("a", { class: "name", href: link(["vhosts", name]) }, name);

const pattern = (text) => (text === "" ? el("span", { class: "quiet" }, "none") : el("code", {}, text));

export function permissionColumns(by, then) {
  const user = { id: "user", title: "User", sort: "user", cell: (one) => userLink(one.user) };
  const vhost = { id: "vhost", title: "Virtual host", sort: "vhost", cell: (one) => vhostLink(one.vhost) };
  return [
    ...(by === "vhost" ? [vhost] : by === "user" ? [user] : [user, vhost]),
    { id: "configure", title: "Configure", sort: "configure", class: "wrap", cell: (one) => pattern(one.configure) },
    { id: "write", title: "Write", sort: "write", class: "wrap", cell: (one) => pattern(one.write) },
    { id: "read", title: "Read", sort: "read", class: "wrap", cell: (one) => pattern(one.read) },
    {
      id: "clear",
      title: el("span", { class: "sr" }, "Actions"),
      number: true,
      cell: (one) => button("Clear", () => clear(one, then), { kind: "link" }),
    },
  ];
}

export const permissionKey = (one) => `${one.vhost}\n${one.user}`;

// `by`: what differs in the list, the user or the vhost.
export function permissionTable(permissions, { by, then }) {
  if (permissions.length === 0)
    return emptyState(
      "No permissions",
      by === "vhost" ? "This user has no access to any virtual host." : "No user has access to this virtual host.",
    );
  return table(permissionColumns(by, then), permissions, { key: permissionKey, label: "Permissions" });
}

function clear(one, then) {
  confirm({
    title: `Clear permissions of ${one.user} in ${one.vhost}`,
    intro: el("p", {}, "The user loses access to this virtual host."),
    action: "Clear",
    run: async () => {
      await remove(path`permissions/${one.vhost}/${one.user}`);
      return "The permissions are cleared.";
    },
    then,
  });
}

export function setPermission({ user = null, vhost = null, users = [], vhosts = [], then }) {
  openDialog({
    title: "Set permissions",
    intro: el(
      "p",
      { class: "quiet" },
      "Regular expressions matched against names; .* allows everything, an empty one nothing.",
    ),
    action: "Set",
    fields: [
      ...(user === null ? [nameField("user", "User", users)] : []),
      ...(vhost === null ? [nameField("vhost", "Virtual host", vhosts)] : []),
      { name: "configure", label: "Configure: declare and delete", value: ".*" },
      { name: "write", label: "Write: publish, bind queues", value: ".*" },
      { name: "read", label: "Read: consume, get, purge", value: ".*" },
    ],
    run: async (values) => {
      const { configure, write, read } = values;
      await put(path`permissions/${vhost ?? values.vhost}/${user ?? values.user}`, { configure, write, read });
      then();
      return "The permissions are set.";
    },
  });
}

export function topicTable(topics, then) {
  if (topics.length === 0)
    return emptyState(
      "No topic permissions",
      "Topic permissions restrict the routing keys a user may use with a topic exchange.",
    );
  const columns = [
    { id: "exchange", title: "Exchange", cell: (one) => one.exchange || "(default)" },
    { id: "vhost", title: "Virtual host", cell: (one) => vhostLink(one.vhost) },
    { id: "write", title: "Write", class: "wrap", cell: (one) => pattern(one.write) },
    { id: "read", title: "Read", class: "wrap", cell: (one) => pattern(one.read) },
    {
      id: "clear",
      title: el("span", { class: "sr" }, "Actions"),
      number: true,
      cell: (one) => button("Clear", () => clearTopic(one, then), { kind: "link" }),
    },
  ];
  return table(columns, topics, { key: (one) => `${one.vhost}\n${one.exchange}`, label: "Topic permissions" });
}

function clearTopic(one, then) {
  confirm({
    title: `Clear the topic permissions of ${one.user} for ${one.exchange}`,
    intro: el("p", {}, "Routing keys are then unrestricted."),
    action: "Clear",
    run: async () => {
      await remove(path`topic-permissions/${one.vhost}/${one.user}/${one.exchange || "amq.default"}`);
      return "The topic permissions are cleared.";
    },
    then,
  });
}
