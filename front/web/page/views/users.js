// Users, their tags, permissions and limits.

import { get, path, put, remove } from "../core/api.js";
import { nameField, vhostNames } from "../core/broker.js";
import { el } from "../core/dom.js";
import { count } from "../core/format.js";
import { user as me } from "../core/login.js";
import { go, link } from "../core/routes.js";
import { confirm, openDialog } from "../parts/dialog.js";
import { icon } from "../parts/icons.js";
import { limitTable, setLimit } from "../parts/limits.js";
import { permissionTable, setPermission, topicTable } from "../parts/permissions.js";
import { badge, button, heading, panel } from "../parts/pieces.js";
import { listing, listQuery } from "../parts/table.js";

const TAGS = [
  ["administrator", "administrator: full access"],
  ["monitoring", "monitoring: read access to everything"],
  ["policymaker", "policymaker: policies in its virtual hosts"],
  ["management", "management: this page, for its virtual hosts"],
];

export const users = {
  title: () => "Users",

  load: (ask, place) => ask("users", listQuery(place)),

  render(page, place, screen) {
    const add = () => edit(null, () => screen.refresh());
    return [
      heading("Users", { actions: [button("Add user", add, { kind: "primary", icon: icon("plus") })] }),
      listing({
        id: "users",
        columns: COLUMNS,
        page,
        place,
        label: "Users",
        key: (one) => one.name,
        empty: { title: "No users", text: "There are no users." },
      }),
    ];
  },
};

const COLUMNS = [
  {
    id: "name",
    title: "Name",
    sort: "name",
    cell: (one) => el("a", { class: "name", href: link(["users", one.name]) }, one.name),
  },
  { id: "tags", title: "Tags", cell: tagBadges },
  {
    id: "limits",
    title: "Limits",
    cell: (one) =>
      Object.entries(one.limits)
        .map(([name, value]) => `${name} ${count(value)}`)
        .join(", ") || el("span", { class: "quiet" }, "none"),
  },
];

function tagBadges(one) {
  if (one.tags.length === 0) return el("span", { class: "quiet" }, "none");
  return el(
    "span",
    { class: "badges" },
    one.tags.map((tag) => badge(tag, tag === "administrator" ? "warn" : "plain")),
  );
}

export const user = {
  title: ({ parts }) => parts[1],

  async load(ask, place) {
    const where = path`users/${place.parts[1]}`;
    const [told, permissions, topics, vhosts] = await Promise.all([
      ask(where),
      ask(`${where}/permissions`),
      ask(`${where}/topic-permissions`),
      vhostNames(ask),
    ]);
    return { told, permissions, topics, vhosts };
  },

  render({ told, permissions, topics, vhosts }, place, screen) {
    const then = () => screen.refresh();
    return [
      heading(told.name, {
        above: [el("a", { href: link(["users"]) }, "Users")],
        badges: [tagBadges(told), told.name === me().name && badge("you", "info")].filter(Boolean),
        actions: [
          button("Check access", () => checkAccess(told.name, vhosts)),
          button("Edit", () => edit(told, then)),
          button("Delete", () => deleteUser(told), { kind: "danger-quiet" }),
        ],
      }),
      panel(
        ["Permissions", button("Set permissions", () => setPermission({ user: told.name, vhosts, then }))],
        permissionTable(permissions, { by: "vhost", then }),
      ),
      panel("Topic permissions", topicTable(topics, then)),
      panel(
        ["Limits", button("Set limit", () => setLimit("user", told.name, then))],
        limitTable("user", [{ user: told.name, value: told.limits }], then),
      ),
    ];
  },
};

const ACCESSES = [
  ["configure", "declare and delete"],
  ["write", "publish to it, bind it as a queue"],
  ["read", "consume, purge, bind from it"],
];

function checkAccess(name, vhosts) {
  openDialog({
    title: `What may ${name} do?`,
    action: "Check",
    keep: true,
    fields: [
      nameField("vhost", "Virtual host", vhosts),
      { name: "of", label: "Queue or exchange", hint: "It need not exist. Empty: the default exchange." },
    ],
    run: async ({ vhost, of }) => {
      const found = await get(path`leveret/users/${name}/access`, { vhost, name: of || "amq.default" });
      if (!found.enter) return `${name} may not use virtual host ${vhost} at all.`;
      const verbs = ACCESSES.map(([access, does]) => `${access} (${does}): ${found[access] ? "yes" : "no"}`);
      return `${of || "The default exchange"}: ${verbs.join("; ")}.`;
    },
  });
}

function edit(told, then) {
  const isNew = told === null;
  openDialog({
    title: isNew ? "Add user" : `Edit ${told.name}`,
    action: isNew ? "Add" : "Save",
    fields: [
      ...(isNew ? [{ name: "name", label: "Name", required: true }] : []),
      {
        name: "password",
        label: "Password",
        kind: "password",
        required: true,
        hint: isNew ? null : "Replaces the current password.",
      },
      { name: "again", label: "Repeat password", kind: "password", required: true },
      ...TAGS.map(([tag, label]) => ({ name: `tag ${tag}`, label, kind: "check", value: told?.tags.includes(tag) })),
      {
        name: "other",
        label: "Other tags",
        value: (told?.tags ?? []).filter((tag) => !TAGS.some(([known]) => known === tag)).join(","),
        hint: "Comma-separated.",
      },
    ],
    run: async (values) => {
      if (values.password !== values.again) throw new Error("The two passwords differ.");
      const name = isNew ? values.name : told.name;
      const tags = [
        ...TAGS.map(([tag]) => tag).filter((tag) => values[`tag ${tag}`]),
        ...values.other
          .split(",")
          .map((tag) => tag.trim())
          .filter(Boolean),
      ];
      await put(path`users/${name}`, { password: values.password, tags });
      then();
      return isNew ? `${name} is added. Grant permissions next.` : `${name} is updated.`;
    },
  });
}

function deleteUser(told) {
  confirm({
    title: `Delete ${told.name}`,
    intro: el("p", {}, "Its permissions and limits are deleted, and its connections are closed."),
    action: "Delete",
    typed: told.name,
    run: async () => {
      await remove(path`users/${told.name}`);
      return `${told.name} is deleted.`;
    },
    then: () => go(link(["users"])),
  });
}
