// Who is logged in. The browser keeps a cookie, which no script can read, so that a reload does not ask again. Name and
// password stay in the memory of this tab, for a node that was restarted and knows its logins no more.

import { get, post, remove } from "./api.js";

let given = null;
let known = null;

export const user = () => known;

export const isSignedIn = () => known !== null;

export async function signIn(username, password) {
  known = (await post("login", { username, password })).user;
  given = { username, password };
}

// By the cookie of an earlier login, if it is still good.
export async function resume() {
  known = await get("whoami").catch(() => null);
}

export function signOut() {
  known = null;
  given = null;
  return remove("login").catch(() => {});
}

// After a refusal: whether it was meant for what was asked for, and not for the login. Logs in anew where the node has
// forgotten it. A node that is away says nothing about the login.
export async function isStillSignedIn() {
  return (
    (await isAccepted(() => get("whoami"))) ||
    (given !== null && (await isAccepted(() => signIn(given.username, given.password))))
  );
}

async function isAccepted(ask) {
  try {
    await ask();
    return true;
  } catch (error) {
    return error.status !== 401;
  }
}

const TAGS = {
  monitoring: ["monitoring", "administrator"],
  policymaker: ["policymaker", "administrator"],
  administrator: ["administrator"],
};

// Whether the user has a tag with this right. The node decides; this is for what the page offers.
export function may(right) {
  return (known?.tags ?? []).some((tag) => TAGS[right].includes(tag));
}
