// Elements, made of texts: nothing here parses markup, so no name can become any (Trusted Types hold that, too).
//
// Views make their elements anew with each answer of the node. `morph` brings what is on the page to that state and keeps
// every element that can stay, with its focus, scroll position and selection.

const SVG = "http://www.w3.org/2000/svg";
const HANDLERS = Symbol("handlers");

// el("button", {class: "quiet", onclick: close}, "Close"); properties of our own elements and handlers are set as they are.
export function el(tag, attributes = {}, ...children) {
  return made(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return made(document.createElementNS(SVG, tag), attributes, children);
}

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) set(node, name, value);
  node.append(...flat(children));
  return node;
}

function set(node, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) {
    node[name] = value;
    (node[HANDLERS] ??= {})[name] = value;
  } else if (name === "data" || name === "value" || name === "checked" || name === "selected") {
    node[name] = value;
  } else {
    node.setAttribute(name, value === true ? "" : String(value));
  }
}

function flat(children) {
  return children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false);
}

// What stands in `parent` becomes `children`: elements and texts, lists of them, nothing for null and false.
export function morph(parent, ...children) {
  const wanted = flat(children).map((one) => (one instanceof Node ? one : document.createTextNode(String(one))));
  const keyed = new Map();
  for (const old of parent.childNodes) if (old.dataset?.key) keyed.set(old.dataset.key, old);
  let place = parent.firstChild;
  for (const next of wanted) {
    const old = next.dataset?.key ? keyed.get(next.dataset.key) : place?.dataset?.key ? null : place;
    if (old && isSame(old, next)) {
      if (old === place) place = place.nextSibling;
      else move(parent, old, place);
      update(old, next);
    } else {
      parent.insertBefore(next, place);
    }
  }
  while (place) {
    const gone = place;
    place = place.nextSibling;
    gone.remove();
  }
}

// Moving takes the focus away.
function move(parent, node, place) {
  const focused = node.contains(document.activeElement) ? document.activeElement : null;
  parent.insertBefore(node, place);
  focused?.focus({ preventScroll: true });
}

function isSame(old, next) {
  return old.nodeName === next.nodeName && (old.dataset?.key ?? "") === (next.dataset?.key ?? "");
}

function update(old, next) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return;
  }
  takeHandlers(old, next);
  takeAttributes(old, next);
  if (old.localName.includes("-")) old.data = next.data;
  else if (!("fixed" in old.dataset)) morph(old, ...next.childNodes);
  takeValue(old, next);
}

function takeHandlers(old, next) {
  const before = old[HANDLERS] ?? {};
  const after = next[HANDLERS] ?? {};
  for (const name of Object.keys(before)) if (!(name in after)) old[name] = null;
  Object.assign(old, after);
  old[HANDLERS] = after;
}

function takeAttributes(old, next) {
  for (const { name } of [...old.attributes]) {
    if (!next.hasAttribute(name) && !isPersons(old, name)) old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value && !isPersons(old, name)) takeAttribute(old, name, value);
  }
}

// A style as an attribute is refused by the content security policy, and as a property is not.
function takeAttribute(node, name, value) {
  if (name === "style") node.style.cssText = value;
  else node.setAttribute(name, value);
}

// What people change by hand is not taken back: an opened <details> stays open.
function isPersons(node, name) {
  return node.localName === "details" && name === "open";
}

function takeValue(old, next) {
  if (!("value" in old) || old === document.activeElement) return;
  if (["input", "select", "textarea"].includes(old.localName)) {
    if (old.value !== next.value) old.value = next.value;
    if (old.checked !== next.checked) old.checked = next.checked;
  }
}
