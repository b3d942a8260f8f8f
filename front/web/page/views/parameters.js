// Runtime parameters of components, and global ones.

import { path, put, remove } from "../core/api.js";
import { firstOf, nameField, vhostNames } from "../core/broker.js";
import { el } from "../core/dom.js";
import { confirm, jsonIn, openDialog } from "../parts/dialog.js";
import { icon } from "../parts/icons.js";
import { button, emptyState, heading, panel } from "../parts/pieces.js";
import { listing, listQuery, table } from "../parts/table.js";

export const parameters = {
  title: () => "Parameters",

  async load(ask, place) {
    const [page, global, vhosts] = await Promise.all([
      ask("parameters", listQuery(place)),
      firstOf(ask, "global-parameters"),
      vhostNames(ask),
    ]);
    return { page, global, vhosts };
  },

  render({ page, global, vhosts }, place, screen) {
    const then = () => screen.refresh();
    return [
      heading("Parameters", {
        actions: [button("Set parameter", () => set(vhosts, then), { kind: "primary", icon: icon("plus") })],
      }),
      listing({
        id: "parameters",
        columns: columns(then),
        page,
        place,
        label: "Parameters",
        key: (one) => `${one.component}\n${one.vhost}\n${one.name}`,
        empty: { title: "No parameters", text: "Components such as shovels and federation store their configuration here." },
      }),
      panel(
        "Global parameters",
        global.length === 0
          ? emptyState("No global parameters", "Global parameters apply to the whole cluster.")
          : globalTable(global, then),
      ),
    ];
  },
};

const value = (one) => el("code", {}, JSON.stringify(one.value));

function columns(then) {
  return [
    { id: "name", title: "Name", sort: "name", cell: (one) => one.name },
    { id: "component", title: "Component", sort: "component", cell: (one) => one.component },
    { id: "vhost", title: "Virtual host", sort: "vhost", rank: 2, cell: (one) => one.vhost },
    { id: "value", title: "Value", class: "wrap", cell: value },
    {
      id: "clear",
      title: el("span", { class: "sr" }, "Actions"),
      number: true,
      cell: (one) =>
        button("Clear", () => clear(path`parameters/${one.component}/${one.vhost}/${one.name}`, one.name, then), {
          kind: "link",
        }),
    },
  ];
}

function globalTable(global, then) {
  const shown = [
    { id: "name", title: "Name", cell: (one) => one.name },
    { id: "value", title: "Value", class: "wrap", cell: value },
    {
      id: "clear",
      title: el("span", { class: "sr" }, "Actions"),
      number: true,
      cell: (one) => button("Clear", () => clear(path`global-parameters/${one.name}`, one.name, then), { kind: "link" }),
    },
  ];
  return table(shown, global, { key: (one) => one.name, label: "Global parameters" });
}

function set(vhosts, then) {
  openDialog({
    title: "Set parameter",
    action: "Set",
    fields: [
      {
        name: "scope",
        label: "Scope",
        kind: "choice",
        options: [
          ["vhost", "component in a virtual host"],
          ["global", "global"],
        ],
      },
      { name: "component", label: "Component", required: true, when: ({ scope }) => scope === "vhost" },
      nameField("vhost", "Virtual host", vhosts, { when: ({ scope }) => scope === "vhost" }),
      { name: "name", label: "Name", required: true },
      { name: "value", label: "Value", kind: "json", required: true, hint: "JSON; strings need quotes." },
    ],
    run: async ({ scope, component, vhost, name, value: text }) => {
      const where = scope === "global" ? path`global-parameters/${name}` : path`parameters/${component}/${vhost}/${name}`;
      await put(where, { value: jsonIn(text, "The value") });
      then();
      return `${name} is set.`;
    },
  });
}

function clear(where, name, then) {
  confirm({
    title: `Clear ${name}`,
    intro: el("p", {}, "The component stops whatever this parameter configures."),
    action: "Clear",
    run: async () => {
      await remove(where);
      return `${name} is cleared.`;
    },
    then,
  });
}
