// Where in the page one is: what stands behind the # of the address. Links are made here, so that any name can be in one.
//
//     #/queues/%2F/orders?tab=messages      {parts: ["queues", "/", "orders"], query: {tab: "messages"}}

export function here() {
  const [where, search = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { parts: where.split("/").map(decoded), query: Object.fromEntries(new URLSearchParams(search)) };
}

export function link(parts, query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = pairs.length === 0 ? "" : `?${new URLSearchParams(pairs)}`;
  return `#/${parts.map(encoded).join("/")}${search}`;
}

// The same place with some of its query changed; what is "" goes away.
export function changed(change) {
  const { parts, query } = here();
  return link(parts, { ...query, ...change });
}

export function go(address, { replace = false } = {}) {
  if (replace) {
    history.replaceState(null, "", address);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = address;
  }
}

function encoded(part) {
  return encodeURIComponent(String(part).toWellFormed());
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
