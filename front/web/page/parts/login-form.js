// The login form.

import { el } from "../core/dom.js";
import { logo } from "./icons.js";

export function loginForm(notice, enter) {
  const name = el("input", {
    name: "username",
    id: "username",
    autocomplete: "username",
    required: true,
    spellcheck: "false",
    autocapitalize: "none",
  });
  const password = el("input", { name: "password", id: "password", type: "password", autocomplete: "current-password" });
  const said = el("p", { class: "error", role: "alert", hidden: notice === "" }, notice);
  const button = el("button", { class: "primary", type: "submit" }, "Log in");
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    said.hidden = true;
    try {
      await enter(name.value, password.value);
    } catch (error) {
      said.textContent = error.status === 401 ? "Wrong user name or password, or no management tag." : error.message;
      said.hidden = false;
      password.select();
    } finally {
      button.disabled = false;
    }
  };
  return el(
    "main",
    { class: "login", "data-fixed": "", "data-key": "login" },
    el(
      "form",
      { onsubmit: submit },
      el("div", { class: "brand" }, logo(), el("h1", {}, "Leveret")),
      el("p", { class: "quiet" }, "Log in as a broker user with a management tag."),
      said,
      el("label", { for: "username" }, "User"),
      name,
      el("label", { for: "password" }, "Password"),
      password,
      button,
    ),
  );
}
