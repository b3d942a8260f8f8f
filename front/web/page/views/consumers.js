// Consumers of all queues.

import { inVhost, vhostNames } from "../core/broker.js";
import { consumerColumns, consumerKey } from "../parts/consumer-table.js";
import { heading } from "../parts/pieces.js";
import { listing, listQuery } from "../parts/table.js";

export const consumers = {
  title: () => "Consumers",

  async load(ask, place) {
    const [page, vhosts] = await Promise.all([ask(inVhost("consumers", place), listQuery(place)), vhostNames(ask)]);
    return { page, vhosts };
  },

  render({ page, vhosts }, place, screen) {
    return [
      heading("Consumers"),
      listing({
        id: "consumers",
        columns: consumerColumns(() => screen.refresh()),
        page,
        place,
        vhosts,
        label: "Consumers",
        key: consumerKey,
        empty: { title: "No consumers", text: "Nothing is consuming from any queue." },
      }),
    ];
  },
};
