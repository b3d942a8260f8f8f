// An address that leads nowhere.

import { emptyState, heading } from "../parts/pieces.js";

export const nowhere = {
  title: () => "Nothing here",
  load: async () => ({}),
  render: () => [heading("Nothing here"), emptyState("This page has no such view", "Choose one from the menu.")],
};
