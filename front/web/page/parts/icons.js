// Icons in the colour of the surrounding text. They are always next to a label, never alone.

import { svg } from "../core/dom.js";

const SHAPES = {
  overview: "M3 12h4l3-8 4 16 3-8h4",
  queues: "M4 6h16M4 12h16M4 18h10",
  exchanges: "M4 8h13l-3-3M20 16H7l3 3",
  connections: "M9 7V3M15 7V3M6 7h12v4a6 6 0 0 1-12 0zM12 17v4",
  channels: "M4 7c5 0 5 10 10 10h6M4 17c5 0 5-10 10-10h6",
  consumers: "M12 3v11M7 10l5 5 5-5M4 20h16",
  links: "M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1",
  federation: "M4 6h5v5H4zM4 14h5v5H4zM9 8.500h4l3 3.500h4M9 16.500h4l3-4.500M17 9l3 3-3 3",
  alarms: "M12 4l9 16H3zM12 10v4M12 17v.5",
  nodes: "M4 5h16v6H4zM4 13h16v6H4zM8 8h.5M8 16h.5",
  cluster: "M12 4v6M12 10l-7 8M12 10l7 8M12 4h.1M5 18h.1M19 18h.1M5 18h14",
  groups: "M4 18l5-6 4 3 7-9M15 6h5v5",
  dead: "M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13M10 11v5M14 11v5",
  activity: "M12 4a8 8 0 1 1-8 8M4 5v7h7M12 8v5l3 2",
  users: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8M4 21c0-4 4-6 8-6s8 2 8 6",
  vhosts: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  permissions: "M6 11h12v9H6zM9 11V7a3 3 0 0 1 6 0v4",
  policies: "M6 3h9l4 4v14H6zM9 12h7M9 16h7M9 8h3",
  limits: "M4 18a8 8 0 1 1 16 0M12 18l4-6",
  parameters: "M4 7h9M17 7h3M4 17h3M11 17h9M13 4v6M7 14v6",
  definitions: "M12 4v11M8 8l4-4 4 4M4 16v4h16v-4",
  features: "M6 3v18M6 4h12l-3 4 3 4H6",
  menu: "M4 7h16M4 12h16M4 17h16",
  theme: "M12 3v18M12 3a9 9 0 1 1 0 18",
  leave: "M10 4H5v16h5M14 8l4 4-4 4M18 12H9",
  pause: "M9 5v14M15 5v14",
  play: "M8 5l11 7-11 7z",
  plus: "M12 5v14M5 12h14",
  check: "M5 13l4 4 10-10",
  up: "M7 14l5-5 5 5",
  down: "M7 10l5 5 5-5",
};

export function icon(name) {
  return svg(
    "svg",
    { viewBox: "0 0 24 24", width: 16, height: 16, class: "icon", "aria-hidden": "true" },
    svg("path", {
      d: SHAPES[name],
      fill: "none",
      stroke: "currentColor",
      "stroke-width": 1.8,
      "stroke-linecap": "round",
      "stroke-linejoin": "round",
    }),
  );
}

const HARE = [
  "M12.9 16.2C10.2 12.6 9 7.6 10.2 5.2c.5-.9 1.6-.9 2.2 0 1.6 2.3 2.7 6.5 2.9 10z",
  "M17.3 15.2C17 11.5 17.7 7 19.5 4.900c.7-.8 1.8-.6 2.1.4.900 2.8-.3 7.6-2.3 10.7z",
  "M16.2 14.6c4.7 0 7.8 2.9 7.8 6.8 0 3.6-3.200 6-7.8 6s-8.2-2.3-8.2-5.8c0-4 3.5-7 8.2-7z",
];

export function logo() {
  return svg(
    "svg",
    { viewBox: "0 0 32 32", width: 28, height: 28, class: "logo", "aria-hidden": "true" },
    svg("rect", { width: 32, height: 32, rx: 8, class: "logo-ground" }),
    HARE.map((d) => svg("path", { d, class: "logo-hare" })),
  );
}
