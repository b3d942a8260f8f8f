// Virtual hosts, their permissions and limits.

import { path, post, put, remove } from "../core/api.js";
import { namesOf } from "../core/broker.js";
import { el } from "../core/dom.js";
import { may } from "../core/login.js";
import { go, link } from "../core/routes.js";
import { confirm, openDialog } from "../parts/dialog.js";
import { icon } from "../parts/icons.js";
import { limitTable, setLimit } from "../parts/limits.js";
import { permissionTable, setPermission, vhostLink } from "../parts/permissions.js";
import { badge, button, facts, heading, needs, panel, typeBadge } from "../parts/pieces.js";
import { listing, listQuery } from "../parts/table.js";

export const vhosts = {
  title: () => "Virtual hosts",

  load: (ask, place) => ask("vhosts", listQuery(place)),

  render(page, place, screen) {
    const add = () => edit(null, () => screen.refresh());
    return [
      heading("Virtual hosts", {
        actions: [
          button("Add virtual host", add, {
            kind: "primary",
            icon: icon("plus"),
            disabled: needs(may("administrator"), "administrator"),
          }),
        ],
      }),
      listing({
        id: "vhosts",
        columns: COLUMNS,
        page,
        place,
        label: "Virtual hosts",
        key: (one) => one.name,
        empty: { title: "No virtual hosts", text: "This user has no access to a virtual host." },
      }),
    ];
  },
};

const COLUMNS = [
  { id: "name", title: "Name", sort: "name", cell: (one) => (may("administrator") ? vhostLink(one.name) : one.name) },
  { id: "description", title: "Description", sort: "description", class: "wrap", cell: (one) => one.description },
  {
    id: "tags",
    title: "Tags",
    rank: 2,
    cell: (one) =>
      el(
        "span",
        { class: "badges" },
        one.tags.map((tag) => badge(tag, "plain")),
      ),
  },
  { id: "type", title: "Default queue type", cell: (one) => typeBadge(one.default_queue_type) },
  {
    id: "protected",
    title: "Protected",
    rank: 2,
    cell: (one) => (one.protected_from_deletion ? badge("protected", "info") : ""),
  },
  {
    id: "look",
    title: el("span", { class: "sr" }, "Look"),
    number: true,
    cell: (one) => el("a", { href: link(["queues"], { vhost: one.name }), "aria-label": `Queues of ${one.name}` }, "Queues"),
  },
];

export const vhost = {
  title: ({ parts }) => parts[1],

  async load(ask, place) {
    const name = place.parts[1];
    const [told, permissions, limits, users] = await Promise.all([
      ask(path`vhosts/${name}`),
      ask(path`vhosts/${name}/permissions`),
      ask(path`vhost-limits/${name}`),
      namesOf(ask, "users"),
    ]);
    return { told, permissions, limits, users };
  },

  render({ told, permissions, limits, users }, place, screen) {
    const then = () => screen.refresh();
    return [
      heading(told.name, {
        above: [el("a", { href: link(["vhosts"]) }, "Virtual hosts")],
        badges: [told.protected_from_deletion && badge("protected", "info"), told.tracing && badge("traced", "warn")].filter(
          Boolean,
        ),
        below: told.description || null,
        actions: [
          button("Edit", () => edit(told, then)),
          button(told.tracing ? "Stop tracing" : "Trace messages", () => trace(told, then)),
          button(told.protected_from_deletion ? "Remove protection" : "Protect", () => protect(told, then)),
          button("Delete", () => deleteVhost(told), {
            kind: "danger-quiet",
            disabled: told.protected_from_deletion ? "Protected from deletion." : "",
          }),
        ],
      }),
      panel(
        "Details",
        facts([
          ["Default queue type", typeBadge(told.default_queue_type)],
          ["Tags", told.tags.join(", ") || "none"],
          [
            "Contents",
            el(
              "span",
              {},
              ["queues", "exchanges", "connections"].map((name, at) => [
                at > 0 && ", ",
                el("a", { href: link([name], { vhost: told.name }) }, name),
              ]),
            ),
          ],
        ]),
      ),
      panel(
        ["Permissions", button("Set permissions", () => setPermission({ vhost: told.name, users, then }))],
        permissionTable(permissions, { by: "user", then }),
      ),
      panel(["Limits", button("Set limit", () => setLimit("vhost", told.name, then))], limitTable("vhost", limits, then)),
    ];
  },
};

function edit(told, then) {
  const isNew = told === null;
  openDialog({
    title: isNew ? "Add virtual host" : `Edit ${told.name}`,
    action: isNew ? "Add" : "Save",
    fields: [
      ...(isNew ? [{ name: "name", label: "Name", required: true }] : []),
      { name: "description", label: "Description", value: told?.description ?? "" },
      { name: "tags", label: "Tags", value: (told?.tags ?? []).join(","), hint: "Comma-separated." },
      {
        name: "type",
        label: "Default queue type",
        kind: "choice",
        options: ["classic", "quorum", "stream"].map((type) => [type, type]),
        value: told?.default_queue_type ?? "classic",
      },
    ],
    run: async ({ name, description, tags, type }) => {
      const whose = isNew ? name : told.name;
      await put(path`vhosts/${whose}`, {
        description,
        tags,
        default_queue_type: type,
        protected_from_deletion: Boolean(told?.protected_from_deletion),
      });
      then();
      return isNew ? `${whose} is added.` : `${whose} is updated.`;
    },
  });
}

function trace(told, then) {
  confirm({
    title: told.tracing ? `Stop tracing ${told.name}` : `Trace messages of ${told.name}`,
    intro: el(
      "p",
      {},
      told.tracing
        ? "Nothing more is copied to amq.rabbitmq.trace."
        : "Copies of what is published and delivered go to amq.rabbitmq.trace: bind a queue to it, by # or deliver.orders.",
    ),
    action: told.tracing ? "Stop tracing" : "Trace",
    run: async () =>
      void (await put(path`vhosts/${told.name}`, {
        description: told.description,
        tags: told.tags.join(","),
        default_queue_type: told.default_queue_type,
        protected_from_deletion: told.protected_from_deletion,
        tracing: !told.tracing,
      })),
    then,
  });
}

function protect(told, then) {
  const where = path`vhosts/${told.name}/deletion/protection`;
  confirm({
    title: told.protected_from_deletion ? `Remove protection of ${told.name}` : `Protect ${told.name}`,
    intro: el(
      "p",
      {},
      told.protected_from_deletion
        ? "Administrators will be able to delete it with everything in it."
        : "It cannot be deleted until the protection is removed.",
    ),
    action: told.protected_from_deletion ? "Remove protection" : "Protect",
    run: async () => void (await (told.protected_from_deletion ? remove(where) : post(where))),
    then,
  });
}

function deleteVhost(told) {
  confirm({
    title: `Delete ${told.name}`,
    intro: el(
      "p",
      {},
      el("strong", {}, "All of its queues with their messages, exchanges, bindings, policies and permissions are deleted."),
      " Its clients are disconnected.",
    ),
    action: "Delete",
    typed: told.name,
    run: async () => {
      await remove(path`vhosts/${told.name}`);
      return `${told.name} is deleted.`;
    },
    then: () => go(link(["vhosts"])),
  });
}
