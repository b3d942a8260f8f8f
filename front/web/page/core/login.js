// Who is logged in, and how requests prove it. No other module knows how.
//
// Name and password stay in the memory of this tab: they are in no storage and no cookie, and a reload asks again.

let authorization = null;
let known = null;

export const user = () => known;

export const isSignedIn = () => known !== null;

// The options of a request, with what proves who asks. Without cookies the browser never asks for a password by itself.
export function authorized(options) {
  const headers = authorization === null ? options.headers : { ...options.headers, Authorization: authorization };
  return { ...options, headers, credentials: "omit" };
}

// `who` asks the node for the user behind the login, and throws if the login is refused.
export async function signIn(name, password, who) {
  authorization = `Basic ${base64(`${name}:${password}`)}`;
  try {
    known = await who();
  } catch (error) {
    signOut();
    throw error;
  }
}

export function signOut() {
  authorization = null;
  known = null;
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

function base64(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
