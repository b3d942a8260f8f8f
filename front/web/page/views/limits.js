// Limits of virtual hosts and users.

import { firstOf, namesOf, vhostNames } from "../core/broker.js";
import { limitTable, setLimit } from "../parts/limits.js";
import { button, heading, panel } from "../parts/pieces.js";

export const limits = {
  title: () => "Limits",

  async load(ask) {
    const [vhostLimits, userLimits, vhosts, users] = await Promise.all([
      firstOf(ask, "vhost-limits"),
      firstOf(ask, "user-limits"),
      vhostNames(ask),
      namesOf(ask, "users"),
    ]);
    return { vhostLimits, userLimits, vhosts, users };
  },

  render({ vhostLimits, userLimits, vhosts, users }, place, screen) {
    const then = () => screen.refresh();
    return [
      heading("Limits"),
      panel(
        ["Virtual host limits", button("Set limit", () => setLimit("vhost", null, then, vhosts))],
        limitTable("vhost", vhostLimits, then),
      ),
      panel(
        ["User limits", button("Set limit", () => setLimit("user", null, then, users))],
        limitTable("user", userLimits, then),
      ),
    ];
  },
};
