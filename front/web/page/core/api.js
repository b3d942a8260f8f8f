// Requests to the node's management API.

const ANSWER_MS = 4000;
const CHANGE_MS = 35000; // a publish waits for its confirm for 30 s

// The node's own reason, or why there was no answer; then `status` is 0.
class ApiError extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

// path`queues/${vhost}/${queue}`: each part as it is called, whatever characters it has.
export function path(texts, ...parts) {
  return texts.reduce((whole, text, at) => whole + text + (at < parts.length ? encoded(parts[at]) : ""), "");
}

function encoded(part) {
  const text = String(part);
  if (text === "." || text === "..") {
    throw new ApiError(0, `A browser cannot ask for something that is called "${text}": use leveretctl for it.`);
  }
  try {
    return encodeURIComponent(text);
  } catch {
    throw new ApiError(0, "This name is no valid Unicode, and a browser cannot ask for it: use leveretctl for it.");
  }
}

// The answer, and the names of nodes whose part is missing in it.
export async function look(where, query = {}, signal = null) {
  const response = await answered("GET", where + search(query), undefined, ANSWER_MS, signal);
  const missing = response.headers.get("X-Leveret-Missing-Nodes");
  return { data: await json(response), missing: missing ? missing.split(",") : [] };
}

export async function get(where, query = {}, signal = null) {
  return (await look(where, query, signal)).data;
}

// A health check: it answers with 503 where something is wrong, and that is what is asked for.
export async function check(where, signal = null) {
  const response = await sent("GET", where, undefined, ANSWER_MS, signal);
  if (response.ok || response.status === 503) return json(response);
  throw await refusal(response);
}

export const put = (where, body) => change("PUT", where, body);
export const post = (where, body) => change("POST", where, body);
export const remove = (where, body, query = {}, headers = {}) => change("DELETE", where + search(query), body, headers);

async function change(method, where, body, headers = {}) {
  return json(await answered(method, where, body, CHANGE_MS, null, headers));
}

async function answered(method, where, body, limit, signal, headers = {}) {
  const response = await sent(method, where, body, limit, signal, headers);
  if (!response.ok) throw await refusal(response);
  return response;
}

async function sent(method, where, body, limit, signal, more = {}) {
  const timeout = AbortSignal.timeout(limit);
  const headers = { Accept: "application/json", "X-Requested-With": "XMLHttpRequest", ...more };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    return await fetch(`api/${where}`, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
      signal: signal === null ? timeout : AbortSignal.any([timeout, signal]),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(
      0,
      timeout.aborted ? `The node did not answer within ${limit / 1000} s.` : "The node cannot be reached.",
    );
  }
}

async function refusal(response) {
  try {
    const said = await response.json();
    return new ApiError(response.status, String(said.reason ?? said.error));
  } catch {
    return new ApiError(response.status, `The node answered with status ${response.status}.`);
  }
}

async function json(response) {
  const text = await response.text();
  return text === "" ? null : JSON.parse(text);
}

function search(query) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return pairs.length === 0 ? "" : `?${new URLSearchParams(pairs)}`;
}
