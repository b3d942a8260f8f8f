// What keys do everywhere: "/" focuses the filter of the list, Escape closes a menu. So does a click outside of it.

export function listenForKeys() {
  addEventListener("click", (event) => closeMenus((menu) => !menu.contains(event.target)));
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") closeMenus(() => true);
    if (event.key !== "/" || event.ctrlKey || event.altKey || event.metaKey || isTyping(event.target)) return;
    const filter = document.getElementById("filter");
    if (filter === null || document.querySelector("dialog[open]") !== null) return;
    event.preventDefault();
    filter.focus();
    filter.select();
  });
}

function closeMenus(isMeant) {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!isMeant(menu)) continue;
    if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
    menu.open = false;
  }
}

function isTyping(target) {
  return target.matches?.("input, select, textarea") ?? false;
}
