// The colour bar: a histogram of the values over their colours, with handles for the range.
import { numberTicks, powerTicks } from "./axes.js";
import { css, placer, positive, table, valueAt } from "./colour.js";
import { h, visible } from "./dom.js";
import { FONT, drawBottom, resolved, sized } from "./figure.js";
import { measured } from "./values.js";

const BINS = 96;
const HISTOGRAM = 44;
const RAMP = 14;
const EDGE = 9;
/** Part of the range of the colours by which the histogram is wider at either end. */
const WIDER = 0.25;
const HEIGHT = HISTOGRAM + RAMP + 8 + FONT + 4;

/** The histogram; calls `changed(range)` when a handle was moved. */
export class Histogram {
  constructor(host, changed) {
    this.changed = changed;
    this.canvas = h("canvas", { class: "bins", "aria-hidden": "true" });
    this.handles = ["lower", "upper"].map((name, which) => h("span", {
      class: "handle", role: "slider", tabindex: "0", "aria-label": `${name} end of the colours`, "aria-orientation": "horizontal",
      onkeydown: (event) => this.key(event, which), onpointerdown: (event) => this.grab(event, which),
    }));
    this.box = h("div", { class: "histogram" }, this.canvas, this.handles);
    host.append(this.box);
  }

  /** Shows values: `sorted` are the finite ones in order, `range` is that of the colours. */
  show(sorted, { range, scale, map, reverse, units, ratio }) {
    Object.assign(this, { sorted, range, scale, map, reverse, units, ratio });
    this.draw();
  }

  /**
   * Returns the range of the histogram: somewhat more than that of the colours, within that of the values. It is kept
   * while a handle is dragged.
   */
  extent() {
    if (this.held) return this.held;
    const { scale, sorted, range: [low, high] } = this;
    const list = scale === "log" ? positive(sorted) : sorted;
    const colours = { low, high, scale };
    const place = placer(colours);
    const [first, last] = list.length ? [list[0], list.at(-1)] : [low, high];
    const from = Math.min(low, place(first) < -WIDER ? valueAt(colours, -WIDER) : first);
    const to = Math.max(high, place(last) > 1 + WIDER ? valueAt(colours, 1 + WIDER) : last);
    return from < to ? { low: from, high: to, scale } : { low: from - 0.5, high: to + 0.5, scale };
  }

  /** Draws histogram, colours and ticks, and places the handles. */
  draw() {
    const width = Math.max(160, this.box.clientWidth) - 2 * EDGE;
    const context = sized(this.canvas, width + 2 * EDGE, HEIGHT, this.ratio);
    const colours = resolved(this.box);
    const { sorted, range, scale, map, reverse, units } = this;
    const extent = this.extent();
    const place = placer(extent);
    const bins = new Array(BINS).fill(0);
    for (const at of sorted.map(place)) if (at >= 0 && at <= 1) bins[Math.min(BINS - 1, Math.floor(at * BINS))] += 1;
    const most = Math.max(1, ...bins);
    context.fillStyle = colours.mute;
    context.globalAlpha = 0.55;
    bins.forEach((number, n) => {
      const height = number ? Math.max(1, Math.sqrt(number / most) * (HISTOGRAM - 4)) : 0;
      context.fillRect(EDGE + (n / BINS) * width, HISTOGRAM - height, width / BINS - 0.5, height);
    });
    context.globalAlpha = 1;
    const pixels = table(map, reverse);
    const inner = placer({ low: range[0], high: range[1], scale });
    for (let x = 0; x < width; x += 1) {
      const at = inner(valueAt(extent, (x + 0.5) / width));
      context.fillStyle = css(pixels[Math.round(255 * Math.min(1, Math.max(0, Number.isFinite(at) ? at : 0)))]);
      context.fillRect(EDGE + x, HISTOGRAM, Math.min(1.5, width - x), RAMP);
    }
    context.strokeStyle = colours.strong;
    context.lineWidth = 1;
    context.strokeRect(EDGE - 0.5, HISTOGRAM - 0.5, width + 1, RAMP + 1);
    const ticks = (scale === "log" ? powerTicks : numberTicks)(extent.low, extent.high, width / 80).map(({ value, label }) => ({ at: place(value), label }));
    drawBottom(context, { left: EDGE, bottom: HISTOGRAM + RAMP, width }, { ticks, units }, colours);
    this.handles.forEach((handle, which) => {
      const value = range[which];
      handle.style.left = `${EDGE + Math.min(1, Math.max(0, place(value) || 0)) * width}px`;
      const text = visible(measured(Number(value.toPrecision(7)), { units }));
      for (const [name, each] of Object.entries({ now: value, min: extent.low, max: extent.high, text })) handle.setAttribute(`aria-value${name}`, String(each));
    });
  }

  /** Moves an end of the range to a place of the histogram, from 0 to 1. */
  move(which, place) {
    const value = valueAt(this.extent(), Math.min(1, Math.max(0, place)));
    const range = [...this.range];
    range[which] = which ? Math.max(value, range[0]) : Math.min(value, range[1]);
    this.changed(range);
  }

  grab(event, which) {
    event.preventDefault();
    const handle = this.handles[which];
    handle.focus();
    handle.setPointerCapture(event.pointerId);
    const box = this.canvas.getBoundingClientRect();
    const drag = (moved) => this.move(which, (moved.clientX - box.left - EDGE) / (box.width - 2 * EDGE));
    const drop = new AbortController();
    this.held = this.extent();
    drop.signal.addEventListener("abort", () => { this.held = null; this.draw(); });
    handle.addEventListener("pointermove", drag, { signal: drop.signal });
    for (const name of ["pointerup", "pointercancel"]) handle.addEventListener(name, () => drop.abort(), { signal: drop.signal });
  }

  key(event, which) {
    const by = { ArrowLeft: -0.01, ArrowDown: -0.01, ArrowRight: 0.01, ArrowUp: 0.01, PageDown: -0.1, PageUp: 0.1, Home: -1, End: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const place = placer(this.extent())(this.range[which]);
    this.move(which, (Number.isFinite(place) ? place : 0) + by);
  }
}
