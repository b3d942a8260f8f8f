// Tables. A column is
//
//     {id, title, cell(row), sort?, number?, rank?, off?}
//
// `sort` is the field that the node sorts by, `number` aligns to the right, `rank` 3, 2 and 1 are hidden in this order where a
// table is narrow, and columns that are `off` are hidden by default.

import { choose, chosen } from "../core/choices.js";
import { el } from "../core/dom.js";
import { count } from "../core/format.js";
import { changed, go } from "../core/routes.js";
import { icon } from "./icons.js";
import { button, emptyState } from "./pieces.js";

const SIZES = [25, 50, 100, 250, 500];
export const SIZE = 50;
const TYPING_MS = 250;

export function table(columns, rows, { key, label, order = null } = {}) {
  const head = columns.findIndex((column) => column.id !== "selection");
  return el(
    "div",
    { class: "table-frame", tabindex: "0", role: "region", "aria-label": label },
    el(
      "table",
      {},
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          columns.map((column) => headCell(column, order)),
        ),
      ),
      el(
        "tbody",
        {},
        rows.map((row) =>
          el(
            "tr",
            { "data-key": `row ${key(row)}` },
            columns.map((column, at) => bodyCell(column, row, at === head)),
          ),
        ),
      ),
    ),
  );
}

function classes(column) {
  return [column.number ? "number" : "", column.rank ? `rank-${column.rank}` : "", column.class ?? ""].join(" ").trim() || null;
}

function headCell(column, order) {
  if (!column.sort || order === null) return el("th", { scope: "col", class: classes(column) }, column.title);
  const isOrdered = order.sort === column.sort;
  const next = isOrdered ? !order.reverse : Boolean(column.number);
  return el(
    "th",
    { scope: "col", class: classes(column), "aria-sort": isOrdered ? (order.reverse ? "descending" : "ascending") : null },
    el(
      "button",
      { type: "button", class: "sort", onclick: () => go(changed({ sort: column.sort, desc: next ? "1" : "", page: "" })) },
      column.title,
      isOrdered && icon(order.reverse ? "down" : "up"),
    ),
  );
}

function bodyCell(column, row, isHead) {
  const inside = column.cell(row);
  return isHead ? el("th", { scope: "row", class: classes(column) }, inside) : el("td", { class: classes(column) }, inside);
}

// The query for the page of a list that the address asks for.
export function listQuery(place, { sort = "", reverse = false, fields = "" } = {}) {
  const { query } = place;
  return {
    page: query.page || 1,
    page_size: query.size || SIZE,
    name: query.name,
    use_regex: query.name && query.regex ? "true" : undefined,
    sort: query.sort || sort,
    sort_reverse: (query.sort ? query.desc === "1" : reverse) ? "true" : undefined,
    columns: fields,
  };
}

// A list that is filtered, sorted and paged by the node.
export function listing({
  id,
  columns,
  page,
  place,
  key,
  label,
  sort = "",
  reverse = false,
  tools = [],
  empty,
  filter = true,
  vhosts = null,
}) {
  const hidden = hiddenColumns(id, columns);
  const shown = columns.filter((column) => !hidden.has(column.id));
  const order = place.query.sort ? { sort: place.query.sort, reverse: place.query.desc === "1" } : { sort, reverse };
  return [
    el(
      "div",
      { class: "toolbar" },
      filter && filterBox(place),
      vhosts && vhostBox(place, vhosts),
      tools,
      columns.length > 3 && columnMenu(id, columns, hidden),
    ),
    page.items.length === 0 ? nothing(page, empty) : table(shown, page.items, { key, label, order }),
    page.items.length > 0 && pager(page),
  ];
}

function nothing(page, empty) {
  if (page.total_count === 0) return emptyState(empty.title, empty.text, empty.action);
  return emptyState(
    "No matches",
    `None of the ${count(page.total_count)} names matches the filter.`,
    button("Clear filter", () => go(changed({ name: "", regex: "", page: "" }))),
  );
}

let typing = 0; // a timer: each letter makes the list wait a little longer

function filterBox(place) {
  const apply = (change) => go(changed({ ...change, page: "" }), { replace: true });
  const typed = (event) => {
    clearTimeout(typing);
    const text = event.target.value;
    typing = setTimeout(() => apply({ name: text }), TYPING_MS);
  };
  return el(
    "div",
    { class: "filter", role: "search" },
    el("label", { class: "sr", for: "filter" }, "Filter by name"),
    el("input", {
      id: "filter",
      type: "search",
      placeholder: "Filter by name  /",
      value: place.query.name ?? "",
      autocomplete: "off",
      spellcheck: "false",
      oninput: typed,
    }),
    el(
      "label",
      { class: "check" },
      el("input", {
        type: "checkbox",
        checked: Boolean(place.query.regex),
        onchange: (event) => apply({ regex: event.target.checked ? "1" : "" }),
      }),
      "Regex",
    ),
  );
}

function vhostBox(place, vhosts) {
  if (vhosts.length < 2) return null;
  return el(
    "label",
    { class: "select" },
    el("span", { class: "sr" }, "Virtual host"),
    el(
      "select",
      { onchange: (event) => go(changed({ vhost: event.target.value, page: "" })) },
      el("option", { value: "", selected: !place.query.vhost }, "All virtual hosts"),
      vhosts.map((name) => el("option", { value: name, selected: name === place.query.vhost }, name)),
    ),
  );
}

function hiddenColumns(id, columns) {
  const turned = new Set(chosen(`columns.${id}`, []));
  return new Set(columns.filter((column) => Boolean(column.off) !== turned.has(column.id)).map((column) => column.id));
}

function columnMenu(id, columns, hidden) {
  return el(
    "details",
    { class: "menu", "data-key": `columns of ${id}` },
    el("summary", {}, "Columns"),
    el(
      "fieldset",
      { class: "menu-list" },
      el("legend", { class: "sr" }, "Columns"),
      columns
        .filter((column) => column.id !== "selection" && column.id !== "name")
        .map((column) =>
          el(
            "label",
            { class: "check" },
            el("input", { type: "checkbox", checked: !hidden.has(column.id), onchange: () => turn(id, column.id) }),
            column.menu ?? column.title,
          ),
        ),
    ),
  );
}

function turn(id, column) {
  const turned = new Set(chosen(`columns.${id}`, []));
  if (!turned.delete(column)) turned.add(column);
  choose(`columns.${id}`, [...turned]);
  go(changed({}), { replace: true });
}

function pager(page) {
  const first = (page.page - 1) * page.page_size + 1;
  const last = first + page.item_count - 1;
  const whole =
    page.filtered_count === page.total_count
      ? count(page.total_count)
      : `${count(page.filtered_count)} matching of ${count(page.total_count)}`;
  const to = (number, label) =>
    button(label, () => go(changed({ page: String(number) })), {
      disabled: number < 1 || number > page.page_count ? "No such page." : "",
    });
  return el(
    "nav",
    { class: "pager", "aria-label": "Pages" },
    el("span", {}, `${count(first)}–${count(last)} of ${whole}`),
    el("span", { class: "toolbar-gap" }),
    el(
      "label",
      { class: "select" },
      el("span", {}, "Rows"),
      el(
        "select",
        { onchange: (event) => go(changed({ size: event.target.value, page: "" })) },
        SIZES.map((size) => el("option", { value: String(size), selected: size === page.page_size }, String(size))),
      ),
    ),
    to(page.page - 1, "Previous"),
    el("span", { class: "quiet" }, `Page ${count(page.page)} of ${count(page.page_count)}`),
    to(page.page + 1, "Next"),
  );
}
