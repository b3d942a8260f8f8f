// A chart of what was counted over time: <lev-chart>, whose `data` is
//
//     {title, times (s), series: [{label, colour, values}], format}
//
// uPlot draws it. Below it stands what each line means, with its value where the pointer is, or the newest.

import { el, morph } from "../core/dom.js";
import { timeOfDay } from "../core/format.js";

const HEIGHT = 168;
// Ticks of the value axis: whole numbers, whatever the range.
const STEPS = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();

class Chart extends HTMLElement {
  #data = null;
  #plot = null;
  #resized = new ResizeObserver(() => this.#resize());
  #themed = () => this.#draw();
  #drawn = el("div", { class: "chart-drawn", "aria-hidden": "true" });
  #legend = el("ul", { class: "chart-legend" });

  set data(data) {
    const same = this.#data !== null && labels(this.#data) === labels(data);
    this.#data = data;
    if (!this.isConnected) return;
    if (same && this.#plot !== null) this.#plot.setData(columns(data));
    else this.#draw();
    this.#tell(null);
  }

  get data() {
    return this.#data;
  }

  connectedCallback() {
    this.append(this.#drawn, this.#legend);
    addEventListener("theme", this.#themed);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", this.#themed);
    this.#resized.observe(this);
    this.#draw();
    this.#tell(null);
  }

  disconnectedCallback() {
    removeEventListener("theme", this.#themed);
    matchMedia("(prefers-color-scheme: dark)").removeEventListener("change", this.#themed);
    this.#resized.disconnect();
    this.#plot?.destroy();
    this.#plot = null;
  }

  #draw() {
    this.#plot?.destroy();
    this.#plot = null;
    const isDrawable = this.#data !== null && this.#data.times.length > 1;
    this.#drawn.replaceChildren(isDrawable ? "" : el("span", { class: "chart-wait" }, "Collecting samples…"));
    if (isDrawable) this.#plot = new globalThis.uPlot(this.#options(), columns(this.#data), this.#drawn);
  }

  #options() {
    const quiet = this.#colour("var(--text-quiet)");
    const line = this.#colour("var(--line-quiet)");
    const font = `11px ${getComputedStyle(this).fontFamily}`;
    const axis = { stroke: quiet, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
    return {
      width: Math.max(120, this.clientWidth),
      height: HEIGHT,
      legend: { show: false },
      padding: [10, 8, 0, 0],
      cursor: { y: false, points: { size: 6 } },
      hooks: { setCursor: [(plot) => this.#tell(plot.cursor.idx)] },
      scales: { y: { range: (plot, least, most) => [0, Math.max(1, most ?? 1) * 1.1] } },
      axes: [
        {
          ...axis,
          grid: { show: false },
          size: 26,
          space: 80,
          values: (plot, times) => times.map((time) => timeOfDay(time * 1000)),
        },
        {
          ...axis,
          size: 62,
          space: 30,
          incrs: STEPS,
          values: (plot, values) => values.map((value) => this.#data.format(value)),
        },
      ],
      series: [{}, ...this.#data.series.map((one, at) => this.#line(one, at))],
    };
  }

  // Only the first line is filled: areas on top of each other hide what is below.
  #line({ label, colour }, at) {
    const stroke = this.#colour(`var(--${colour})`);
    const fill = at === 0 ? this.#colour(`color-mix(in srgb, var(--${colour}) 10%, transparent)`) : undefined;
    return { label, stroke, width: 1.75, points: { show: false }, fill };
  }

  // A canvas knows no custom properties.
  #colour(value) {
    this.#drawn.style.color = value;
    const computed = getComputedStyle(this.#drawn).color;
    this.#drawn.style.color = "";
    return computed;
  }

  #resize() {
    if (this.#plot !== null && this.clientWidth > 0) this.#plot.setSize({ width: this.clientWidth, height: HEIGHT });
  }

  #tell(at) {
    const { series, times, format } = this.#data ?? { series: [], times: [] };
    const place = at ?? times.length - 1;
    morph(
      this.#legend,
      series.map(({ label, colour, values }) =>
        el(
          "li",
          {},
          el("i", { class: `swatch ${colour}`, "aria-hidden": "true" }),
          label,
          " ",
          el("strong", {}, format(values[place])),
        ),
      ),
    );
  }
}

customElements.define("lev-chart", Chart);

function columns({ times, series }) {
  return [times, ...series.map((one) => one.values)];
}

const labels = (data) => data.series.map((one) => one.label + one.colour).join();

export function chart(data) {
  return el("figure", { class: "chart" }, el("figcaption", {}, data.title), el("lev-chart", { data }));
}
