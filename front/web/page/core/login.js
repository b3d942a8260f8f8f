// Who is logged in. This is the one module that knows how: what the others need is `signIn`, `signOut`, `authorize` and `user`.
//
// Name and password stay in the memory of this tab: they are in no storage and no cookie, and a reload asks again.

let authorization = null;
let known = null;

export const user = () => known;

export const isSignedIn = () => known !== null;

// The headers of a request, with what says who asks.
export function authorize(headers) {
  return authorization === null ? headers : { ...headers, Authorization: authorization };
}

// `who` is asked for the user behind the login, and throws where there is none.
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

// Whether the user has a tag that stands for this right. The node decides; the page only does not offer in vain.
export function may(right) {
  return (known?.tags ?? []).some((tag) => TAGS[right].includes(tag));
}

function base64(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
