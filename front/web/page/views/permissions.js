// Who may do what where, of all users and virtual hosts.

import { el } from "../core/dom.js";
import { icon } from "../parts/icons.js";
import { permissionColumns, permissionKey, setPermission, topicTable } from "../parts/permissions.js";
import { button, heading, panel } from "../parts/pieces.js";
import { listing, listQuery } from "../parts/table.js";

export const permissions = {
  title: () => "Permissions",

  async load(ask, place) {
    const [page, topics, without, vhosts, users] = await Promise.all([
      ask("permissions", listQuery(place)), ask("topic-permissions"), ask("users/without-permissions", { columns: "name" }), ask("vhosts", { columns: "name" }), ask("users", { columns: "name" }),
    ]);
    return { page, topics, without: without.map((one) => one.name), vhosts: vhosts.map((one) => one.name), users: users.map((one) => one.name) };
  },

  render({ page, topics, without, vhosts, users }, place, screen) {
    const then = () => screen.refresh();
    return [
      heading("Permissions", { actions: [button("Set permissions", () => setPermission({ users, vhosts, then }), { kind: "primary", icon: icon("plus") })] }),
      without.length > 0 && el("p", { class: "notice warn" }, `Can log in, but use nothing: ${without.join(", ")}.`),
      listing({
        id: "permissions", columns: permissionColumns("both", then), page, place, label: "Permissions", key: permissionKey,
        empty: { title: "No permissions", text: "Without permissions in a virtual host a user can use nothing in it." },
      }),
      panel("Topic permissions", topicTable(topics, then)),
    ];
  },
};
