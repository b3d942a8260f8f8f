// What is around every view: the menu, the bar with the state of the data, and what has to be told about the node.

import { choose, chosen } from "../core/choices.js";
import { el } from "../core/dom.js";
import { duration, names, timeOfDay } from "../core/format.js";
import { may } from "../core/login.js";
import { link } from "../core/routes.js";
import { MENU } from "../views/all.js";
import { icon, logo } from "./icons.js";
import { emptyState } from "./pieces.js";

export function shell(screen, user, leave) {
  return [
    el("a", { class: "skip", href: "#main", "data-key": "skip", onclick: toMain }, "Skip to the view"),
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
  if (screen.error === null) return el("div", { class: "loading", role: "status" }, "Asking the node…");
  if (screen.error.status === 404) return emptyState("There is no such thing", screen.error.message);
  if (screen.error.status === 401) return emptyState("Not allowed", `This user may not see this: ${screen.error.message}`);
  return emptyState("The node could not be asked", screen.error.message);
}

// The menu

function menu(screen, user, leave) {
  const isOpen = document.documentElement.dataset.menu === "open";
  return el(
    "header",
    { class: "side", "data-key": "side" },
    el("div", { class: "side-top" },
      el("a", { class: "brand", href: "#/" }, logo(), el("span", {}, "Leveret")),
      el("button", { class: "icon-button menu-button", "aria-expanded": String(isOpen), "aria-controls": "menu", onclick: toggleMenu }, icon("menu"), el("span", {}, "Menu"))),
    el("nav", { id: "menu", "aria-label": "Views" }, MENU.map((group) => menuGroup(group, screen))),
    el("div", { class: "side-end" }, themeSwitch(), whoIsThere(user, leave)),
  );
}

function menuGroup({ title, views }, screen) {
  const shown = views.filter((view) => !view.right || may(view.right));
  if (shown.length === 0) return null;
  return el("section", {}, title && el("h2", {}, title), el("ul", {}, shown.map((view) => menuEntry(view, screen))));
}

function menuEntry(view, screen) {
  const isHere = view.name === screen.place.parts[0];
  return el("li", {},
    el("a", { href: link([view.name]), "aria-current": isHere ? "page" : null, onclick: closeMenu }, icon(view.icon), el("span", {}, view.label)));
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
  return el("div", { class: "segmented", role: "group", "aria-label": "Theme" },
    ["light", "dark", "system"].map((theme) =>
      el("button", { "aria-pressed": String(theme === now), onclick: (event) => setTheme(theme, event) }, theme === "system" ? "Auto" : theme === "light" ? "Light" : "Dark")));
}

function setTheme(theme, event) {
  choose("theme", theme === "system" ? null : theme);
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  for (const one of event.currentTarget.parentNode.children) one.setAttribute("aria-pressed", String(one === event.currentTarget));
  dispatchEvent(new Event("theme"));
}

function whoIsThere(user, leave) {
  return el("div", { class: "user" },
    el("div", {}, el("strong", {}, user.name), el("small", {}, user.tags.join(", ") || "no tags")),
    el("button", { class: "icon-button", title: "Log out", onclick: () => leave() }, icon("leave"), el("span", { class: "sr" }, "Log out")));
}

// How old the data is

function bar(screen) {
  const { error, loadedAt, paused } = screen;
  const state = error !== null && loadedAt ? "lost" : paused ? "paused" : "live";
  const said = loadedAt === 0 ? "No data yet" : `Data of ${timeOfDay(loadedAt)}`;
  return el("div", { class: "bar" },
    el("div", { class: `freshness ${state}` },
      el("span", { class: "dot", "aria-hidden": "true" }),
      el("span", {}, said),
      el("span", { class: "quiet" }, { live: "every 5 s", paused: "paused", lost: "the node is silent" }[state])),
    el("button", { class: "quiet-button", "aria-pressed": String(paused), onclick: () => screen.pause(!paused) }, icon(paused ? "play" : "pause"), paused ? "Go on" : "Pause"));
}

function notices(screen) {
  const { error, loadedAt, missing } = screen;
  return el("div", { class: "notices", role: "alert" },
    error !== null && loadedAt > 0 && el("p", { class: "notice bad" },
      el("strong", {}, error.status === 0 ? "The node does not answer. " : "The node refuses to answer. "),
      `${error.message} What is shown is ${duration(Date.now() - loadedAt) || "0 s"} old; the page goes on asking.`),
    missing.length > 0 && el("p", { class: "notice warn" },
      el("strong", {}, "Not complete. "),
      `${names(missing)} did not answer in time: what only ${missing.length === 1 ? "that node" : "those nodes"} know is not shown.`));
}
