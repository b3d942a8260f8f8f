// An unknown address.

import { emptyState, heading } from "../parts/pieces.js";

export const nowhere = {
  title: () => "Not found",
  load: async () => ({}),
  render: () => [heading("Not found"), emptyState("Unknown view", "Choose a view from the menu.")],
};
