// Permissions of all users in all virtual hosts.

import { firstOf, namesOf, vhostNames } from "../core/broker.js";
import { el } from "../core/dom.js";
import { names } from "../core/format.js";
import { icon } from "../parts/icons.js";
import { permissionColumns, permissionKey, setPermission, topicTable } from "../parts/permissions.js";
import { button, heading, panel } from "../parts/pieces.js";
import { listing, listQuery } from "../parts/table.js";

export const permissions = {
  title: () => "Permissions",

  async load(ask, place) {
    const [page, topics, without, vhosts, users] = await Promise.all([
      ask("permissions", listQuery(place)),
      firstOf(ask, "topic-permissions"),
      namesOf(ask, "users/without-permissions"),
      vhostNames(ask),
      namesOf(ask, "users"),
    ]);
    return { page, topics, without, vhosts, users };
  },

  render({ page, topics, without, vhosts, users }, place, screen) {
    const then = () => screen.refresh();
    return [
      heading("Permissions", {
        actions: [
          button("Set permissions", () => setPermission({ users, vhosts, then }), { kind: "primary", icon: icon("plus") }),
        ],
      }),
      without.length > 0 && el("p", { class: "notice warn" }, `Users without permissions: ${names(without, 20)}.`),
      listing({
        id: "permissions",
        columns: permissionColumns("both", then),
        page,
        place,
        label: "Permissions",
        key: permissionKey,
        empty: { title: "No permissions", text: "Users need permissions to use a virtual host." },
      }),
      panel("Topic permissions", topicTable(topics, then)),
    ];
  },
};
