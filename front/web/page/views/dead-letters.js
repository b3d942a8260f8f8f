// Queues in which messages lie that died elsewhere, and the way to why.

import { inVhost, vhostNames } from "../core/broker.js";
import { el } from "../core/dom.js";
import { count } from "../core/format.js";
import { link } from "../core/routes.js";
import { heading, queueLink, typeBadge } from "../parts/pieces.js";
import { listing, listQuery } from "../parts/table.js";

// How such queues are mostly called; another filter shows others.
const USUAL_NAMES = "dead|dlq|dlx|error|fail|retry|park";
const FIELDS = "name,vhost,type,messages,messages_ready,effective_policy_definition,arguments";

export const deadLetters = {
  title: () => "Dead letters",

  async load(ask, place) {
    const query = place.query.name === undefined ? { ...place.query, name: USUAL_NAMES, regex: "1" } : place.query;
    const shown = { ...place, query };
    const options = { fields: FIELDS, sort: "messages", reverse: true };
    const [page, vhosts] = await Promise.all([ask(inVhost("queues", place), listQuery(shown, options)), vhostNames(ask)]);
    return { page, vhosts, shown };
  },

  render({ page, vhosts, shown }) {
    return [
      heading("Dead letters", {
        below: "A message dies when a consumer rejects it, when it waits too long, comes back too often, or when its queue is full. With a dead letter exchange it goes on to another queue, and says in its headers why. Choose a queue to see the causes; filter for another name if yours are called differently.",
      }),
      listing({
        id: "dead-letters", columns: COLUMNS, page, place: shown, vhosts, label: "Queues for dead letters", key: (one) => `${one.vhost}\n${one.name}`,
        sort: "messages", reverse: true,
        empty: { title: "No queues yet", text: "Where there are no queues, nothing can die." },
      }),
    ];
  },
};

const COLUMNS = [
  { id: "name", title: "Queue", sort: "name", cell: (one) => queueLink(one.vhost, one.name) },
  { id: "vhost", title: "Virtual host", sort: "vhost", rank: 2, cell: (one) => one.vhost },
  { id: "type", title: "Type", sort: "type", cell: (one) => typeBadge(one.type) },
  { id: "messages", title: "Messages", sort: "messages", number: true, cell: (one) => count(one.messages) },
  { id: "causes", title: el("span", { class: "sr" }, "Causes"), number: true, cell: (one) => el("a", { href: link(["queues", one.vhost, one.name], { tab: "causes" }), "aria-label": `Why messages in ${one.name} died` }, "Why they died") },
];
