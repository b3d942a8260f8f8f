// Dead letter queues, and links to their causes.

import { inVhost, vhostNames } from "../core/broker.js";
import { el } from "../core/dom.js";
import { count } from "../core/format.js";
import { link } from "../core/routes.js";
import { heading, queueLink, typeBadge } from "../parts/pieces.js";
import { listing, listQuery } from "../parts/table.js";

// Usual names of dead letter queues, until the operator filters for something else.
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
        below:
          "Messages are dead-lettered when they are rejected, expire, exceed the delivery limit, or are dropped from a full " +
          "queue. Open a queue to see the causes, read from the x-death headers. The filter matches the usual names; " +
          "change it if yours differ.",
      }),
      listing({
        id: "dead-letters",
        columns: COLUMNS,
        page,
        place: shown,
        vhosts,
        label: "Queues for dead letters",
        key: (one) => `${one.vhost}\n${one.name}`,
        sort: "messages",
        reverse: true,
        empty: { title: "No queues yet", text: "Dead letter queues appear here." },
      }),
    ];
  },
};

const COLUMNS = [
  { id: "name", title: "Queue", sort: "name", cell: (one) => queueLink(one.vhost, one.name) },
  { id: "vhost", title: "Virtual host", sort: "vhost", rank: 2, cell: (one) => one.vhost },
  { id: "type", title: "Type", sort: "type", cell: (one) => typeBadge(one.type) },
  { id: "messages", title: "Messages", sort: "messages", number: true, cell: (one) => count(one.messages) },
  {
    id: "causes",
    title: el("span", { class: "sr" }, "Causes"),
    number: true,
    cell: (one) =>
      el(
        "a",
        { href: link(["queues", one.vhost, one.name], { tab: "causes" }), "aria-label": `Dead-letter causes in ${one.name}` },
        "Causes",
      ),
  },
];
