// Feature flags, for RabbitMQ's tools.

import { el } from "../core/dom.js";
import { heading, stateBadge } from "../parts/pieces.js";
import { listing, listQuery } from "../parts/table.js";

export const features = {
  title: () => "Feature flags",

  load: (ask, place) => ask("feature-flags", listQuery(place)),

  render: (page, place) => [
    heading("Feature flags", {
      below: "Queried by RabbitMQ's tools. All of them are enabled: the nodes of a cluster run one version.",
    }),
    listing({
      id: "features",
      columns: COLUMNS,
      page,
      place,
      label: "Feature flags",
      key: (one) => one.name,
      empty: { title: "No feature flags", text: "There are no feature flags." },
    }),
  ],
};

const COLUMNS = [
  { id: "name", title: "Name", sort: "name", cell: (one) => el("code", {}, one.name) },
  { id: "state", title: "State", sort: "state", cell: (one) => stateBadge(one.state) },
  { id: "description", title: "Description", class: "wrap", cell: (one) => one.desc },
  { id: "stability", title: "Stability", rank: 2, cell: (one) => one.stability },
];
