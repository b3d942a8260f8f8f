// Before anything is painted: the theme that was chosen here last. Without a choice the browser's own holds.
"use strict";
(() => {
  try {
    const chosen = localStorage.getItem("leveret.theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // Storage can be switched off; then a choice holds until the page is closed.
  }
})();
