// Policies and operator policies.

import { get, path, put, remove } from "../core/api.js";
import { inVhost, nameField, vhostNames } from "../core/broker.js";
import { el } from "../core/dom.js";
import { count, names, plural } from "../core/format.js";
import { may } from "../core/login.js";
import { changed } from "../core/routes.js";
import { confirm, numberIn, openDialog, pairsIn, pairsText } from "../parts/dialog.js";
import { icon } from "../parts/icons.js";
import { button, heading, needs, pairsOf, tabs } from "../parts/pieces.js";
import { listing, listQuery } from "../parts/table.js";

const APPLY_TO = ["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"];
const SHOWN = 5;

export const policies = {
  title: () => "Policies",

  async load(ask, place) {
    const [page, vhosts] = await Promise.all([ask(inVhost(listOf(place), place), listQuery(place)), vhostNames(ask)]);
    return { page, vhosts };
  },

  render({ page, vhosts }, place, screen) {
    const kind = listOf(place);
    const cannot =
      kind === "policies"
        ? needs(may("policymaker"), "policymaker or administrator")
        : needs(may("administrator"), "administrator");
    const then = () => screen.refresh();
    const add = () => edit(kind, null, vhosts, place.query.vhost || vhosts[0], then);
    return [
      heading("Policies", {
        below:
          kind === "policies"
            ? "Of all policies that match a name, the one with the highest priority applies."
            : "Operator policies are merged with user policies; where both set a limit, the lower one applies.",
        actions: [button("Add", add, { kind: "primary", icon: icon("plus"), disabled: cannot })],
      }),
      tabs(
        [
          { name: "policies", label: "Policies" },
          { name: "operator-policies", label: "Operator policies" },
        ],
        kind,
        (name) => changed({ kind: name === "policies" ? "" : name, page: "" }),
      ),
      listing({
        id: "policies",
        columns: columns(kind, vhosts, cannot, then),
        page,
        place,
        vhosts,
        label: "Policies",
        key: (one) => `${one.vhost}\n${one.name}`,
        sort: "priority",
        reverse: true,
        empty: {
          title: "No policies",
          text: "Policies set limits, TTLs and dead letter exchanges for all queues whose names match a pattern.",
        },
      }),
    ];
  },
};

const listOf = (place) => (place.query.kind === "operator-policies" ? "operator-policies" : "policies");

function columns(kind, vhosts, cannot, then) {
  return [
    {
      id: "name",
      title: "Name",
      sort: "name",
      cell: (one) => button(one.name, () => edit(kind, one, vhosts, one.vhost, then), { kind: "link name", disabled: cannot }),
    },
    { id: "vhost", title: "Virtual host", sort: "vhost", rank: 2, off: vhosts.length < 2, cell: (one) => one.vhost },
    { id: "pattern", title: "Pattern", sort: "pattern", class: "wrap", cell: (one) => el("code", {}, one.pattern) },
    { id: "apply", title: "Apply to", sort: "apply-to", rank: 2, cell: (one) => one["apply-to"].replaceAll("_", " ") },
    { id: "definition", title: "Definition", class: "wrap", cell: (one) => pairsOf(one.definition) },
    { id: "priority", title: "Priority", sort: "priority", number: true, cell: (one) => count(one.priority) },
    {
      id: "delete",
      title: el("span", { class: "sr" }, "Actions"),
      number: true,
      cell: (one) => button("Delete", () => deletePolicy(kind, one, then), { kind: "link", disabled: cannot }),
    },
  ];
}

function edit(kind, told, vhosts, vhost, then) {
  const isNew = told === null;
  const matches = el("span", { role: "status", class: "quiet" });
  openDialog({
    title: isNew ? "Add policy" : `Edit ${told.name}`,
    action: isNew ? "Add" : "Save",
    intro: el(
      "p",
      {},
      button("Preview matching queues", () => showMatches(matches, told, vhost), { kind: "link" }),
      " ",
      matches,
    ),
    fields: [
      ...(isNew
        ? [nameField("vhost", "Virtual host", vhosts, { value: vhost }), { name: "name", label: "Name", required: true }]
        : []),
      {
        name: "pattern",
        label: "Pattern",
        value: told?.pattern ?? "",
        required: true,
        placeholder: "^orders\\.",
        hint: "A regular expression matched against names of queues and exchanges.",
      },
      {
        name: "apply",
        label: "Apply to",
        kind: "choice",
        options: APPLY_TO.map((one) => [one, one.replaceAll("_", " ")]),
        value: told?.["apply-to"] ?? "all",
      },
      {
        name: "definition",
        label: "Definition",
        kind: "pairs",
        value: pairsText(told?.definition),
        required: true,
        placeholder: "max-length = 10000\nmessage-ttl = 60000",
        hint: "One per line.",
      },
      { name: "priority", label: "Priority", kind: "number", value: String(told?.priority ?? 0) },
    ],
    run: async (values) => {
      const [where, name] = isNew ? [values.vhost, values.name] : [told.vhost, told.name];
      const body = {
        pattern: values.pattern,
        "apply-to": values.apply,
        definition: pairsIn(values.definition),
        priority: numberIn(values.priority, "The priority") ?? 0,
      };
      await put(path`${kind}/${where}/${name}`, body);
      then();
      return `${name} is applied.`;
    },
  });
}

// With the name filter of lists, which ignores case.
async function showMatches(place, told, vhost) {
  const form = place.closest("form");
  const where = told?.vhost ?? form.elements.vhost?.value ?? vhost;
  try {
    const page = await get(path`queues/${where}`, {
      page: 1,
      page_size: SHOWN,
      name: form.elements.pattern.value,
      use_regex: "true",
      columns: "name",
    });
    const found = page.items.map((one) => one.name);
    const rest = page.filtered_count > SHOWN ? " and more" : "";
    place.textContent =
      page.filtered_count === 0
        ? "No queue name matches."
        : `${plural(page.filtered_count, "queue")} match, ignoring case: ${names(found)}${rest}.`;
  } catch (error) {
    place.textContent = error.message;
  }
}

function deletePolicy(kind, one, then) {
  confirm({
    title: `Delete ${one.name}`,
    intro: [el("p", {}, "Matching objects lose this definition:"), pairsOf(one.definition)],
    action: "Delete",
    run: async () => {
      await remove(path`${kind}/${one.vhost}/${one.name}`);
      return `${one.name} is deleted.`;
    },
    then,
  });
}
