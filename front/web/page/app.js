// The page begins here: who is logged in, which view the address names, and what is around it.

import { el, morph } from "./core/dom.js";
import { listenForKeys } from "./core/keys.js";
import { isSignedIn, isStillSignedIn, resume, signIn, signOut, user } from "./core/login.js";
import { here } from "./core/routes.js";
import { Screen } from "./core/screen.js";
import { forgetTrends } from "./core/trend.js";
import { closeDialogs } from "./parts/dialog.js";
import { loginForm } from "./parts/login-form.js";
import { shell } from "./parts/shell.js";
import { viewOf } from "./views/all.js";

const root = el("div", { id: "app" });
let screen = null;
let leaving = "";

function open() {
  if (!isSignedIn()) return askForLogin();
  const place = here();
  const view = viewOf(place);
  closeDialogs();
  if (screen !== null && screen.view === view && samePlace(screen.place, place)) return void screen.moved(place);
  screen?.stop();
  screen = new Screen(view, place, show);
  show(screen);
  scrollTo(0, 0);
  screen.refresh();
}

// Only the query differs: another page of the same list.
function samePlace(one, other) {
  return one.parts.join("\n") === other.parts.join("\n");
}

function show(shown) {
  if (shown !== screen) return;
  if (shown.error?.status === 401) askAboutLogin(shown);
  document.title = `${shown.view.title(shown.place)} · Leveret`;
  root.className = "with-menu";
  morph(root, ...shell(shown, user(), leave));
}

// A refusal may be about one view, or the login has ended.
async function askAboutLogin(shown) {
  const refused = shown.error;
  const isAccepted = await isStillSignedIn();
  if (shown !== screen || shown.error !== refused) return;
  if (!isAccepted) leave("The login has ended. Log in again.");
  else if (shown.data !== null) shown.refresh();
}

function askForLogin() {
  screen?.stop();
  screen = null;
  document.title = "Log in · Leveret";
  root.className = "";
  morph(root, loginForm(leaving, enter));
  document.querySelector("input[name=username]")?.focus();
}

async function enter(name, password) {
  await signIn(name, password);
  leaving = "";
  open();
}

function leave(reason = "") {
  signOut();
  forgetTrends();
  closeDialogs();
  leaving = reason;
  askForLogin();
}

document.body.append(root);
addEventListener("hashchange", open);
listenForKeys();
resume().then(open);
