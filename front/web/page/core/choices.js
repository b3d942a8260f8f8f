// What somebody has chosen on this machine: theme, columns, whether the menu is open. Nothing of the broker is kept here.

const PREFIX = "leveret.";
const kept = new Map(); // where storage is switched off, until the page is closed

export function chosen(name, otherwise) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? (kept.get(name) ?? otherwise) : read(text);
  } catch {
    return kept.get(name) ?? otherwise;
  }
}

export function choose(name, value) {
  kept.set(name, value);
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, typeof value === "string" ? value : JSON.stringify(value));
  } catch {
    // it is in `kept`
  }
}

function read(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
