// The frame around every view: menu, freshness of the data, notices about the node.

import { choose, chosen } from "../core/choices.js";
import { el } from "../core/dom.js";
import { names, timeOfDay } from "../core/format.js";
import { may } from "../core/login.js";
import { link } from "../core/routes.js";
import { MENU } from "../views/all.js";
import { icon, logo } from "./icons.js";
import { emptyState } from "./pieces.js";

export function shell(screen, user, leave) {
  return [
    el("a", { class: "skip", href: "#main", "data-key": "skip", onclick: toMain }, "Skip to content"),
    menu(screen, user, leave),
    el(
      "div",
      { class: "page", "data-key": "page" },
      bar(screen),
      notices(screen),
      el("main", { id: "main", tabindex: "-1" }, content(screen)),
    ),
    el("div", { class: "toasts", role: "status", "aria-live": "polite", "data-key": "toasts", "data-fixed": "" }),
  ];
}

function toMain(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function content(screen) {
  if (screen.data !== null) return screen.view.render(screen.data, screen.place, screen);
  if (screen.error === null) return el("div", { class: "loading", role: "status" }, "Loading…");
  if (screen.error.status === 404) return emptyState("Not found", screen.error.message);
  if (screen.error.status === 401)
    return emptyState("Not allowed", `This user has no access to this view: ${screen.error.message}`);
  return emptyState("The node is unavailable", screen.error.message);
}

// The menu

function menu(screen, user, leave) {
  const isOpen = document.documentElement.dataset.menu === "open";
  return el(
    "header",
    { class: "side", "data-key": "side" },
    el(
      "div",
      { class: "side-top" },
      el("a", { class: "brand", href: "#/" }, logo(), el("span", {}, "Leveret")),
      el(
        "button",
        { class: "icon-button menu-button", "aria-expanded": String(isOpen), "aria-controls": "menu", onclick: toggleMenu },
        icon("menu"),
        el("span", {}, "Menu"),
      ),
    ),
    el(
      "nav",
      { id: "menu", "aria-label": "Views" },
      MENU.map((group) => menuGroup(group, screen)),
    ),
    el("div", { class: "side-end" }, themeSwitch(), whoIsThere(user, leave)),
  );
}

function menuGroup({ title, views }, screen) {
  const shown = views.filter((view) => !view.right || may(view.right));
  if (shown.length === 0) return null;
  return el(
    "section",
    {},
    title && el("h2", {}, title),
    el(
      "ul",
      {},
      shown.map((view) => menuEntry(view, screen)),
    ),
  );
}

function menuEntry(view, screen) {
  const isHere = view.name === (screen.place.parts[0] || "overview");
  return el(
    "li",
    {},
    el(
      "a",
      { href: link([view.name]), "aria-current": isHere ? "page" : null, onclick: closeMenu },
      icon(view.icon),
      el("span", {}, view.label),
    ),
  );
}

function toggleMenu(event) {
  const root = document.documentElement;
  const open = root.dataset.menu !== "open";
  root.dataset.menu = open ? "open" : "closed";
  event.currentTarget.setAttribute("aria-expanded", String(open));
}

function closeMenu() {
  document.documentElement.dataset.menu = "closed";
}

function themeSwitch() {
  const now = chosen("theme", "system");
  return el(
    "div",
    { class: "segmented", role: "group", "aria-label": "Theme" },
    ["light", "dark", "system"].map((theme) =>
      el(
        "button",
        { "aria-pressed": String(theme === now), onclick: (event) => setTheme(theme, event) },
        theme === "system" ? "Auto" : theme === "light" ? "Light" : "Dark",
      ),
    ),
  );
}

function setTheme(theme, event) {
  choose("theme", theme === "system" ? null : theme);
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  for (const one of event.currentTarget.parentNode.children)
    one.setAttribute("aria-pressed", String(one === event.currentTarget));
  dispatchEvent(new Event("theme"));
}

function whoIsThere(user, leave) {
  return el(
    "div",
    { class: "user" },
    el("div", {}, el("strong", {}, user.name), el("small", {}, user.tags.join(", ") || "no tags")),
    el(
      "button",
      { class: "icon-button", title: "Log out", onclick: () => leave() },
      icon("leave"),
      el("span", { class: "sr" }, "Log out"),
    ),
  );
}

// Freshness of the data

function bar(screen) {
  const { error, loadedAt, paused } = screen;
  const state = error !== null && loadedAt ? "lost" : paused ? "paused" : "live";
  const said = loadedAt === 0 ? "No data yet" : `Updated ${timeOfDay(loadedAt)}`;
  return el(
    "div",
    { class: "bar" },
    el(
      "div",
      { class: `freshness ${state}` },
      el("span", { class: "dot", "aria-hidden": "true" }),
      el("span", {}, said),
      el("span", { class: "quiet" }, { live: "every 5 s", paused: "paused", lost: "no answer" }[state]),
    ),
    el(
      "button",
      { class: "quiet-button", "aria-pressed": String(paused), onclick: () => screen.pause(!paused) },
      icon(paused ? "play" : "pause"),
      paused ? "Resume" : "Pause",
    ),
  );
}

function notices(screen) {
  const { error, loadedAt, missing } = screen;
  return el(
    "div",
    { class: "notices", role: "alert" },
    error !== null &&
      loadedAt > 0 &&
      el(
        "p",
        { class: "notice bad" },
        el("strong", {}, error.status === 0 ? "Connection lost. " : "The node refused the request. "),
        `${error.message} Showing data of ${timeOfDay(loadedAt)}; retrying.`,
      ),
    missing.length > 0 &&
      el(
        "p",
        { class: "notice warn" },
        el("strong", {}, "Incomplete data. "),
        `${names(missing)} did not answer in time; their objects are missing here.`,
      ),
  );
}
