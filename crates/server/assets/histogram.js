// The colour bar: a histogram of the values over their colours, with handles for the range.
import { numberTicks } from "./axes.js";
import { css, placer, table } from "./colour.js";
import { FONT, resolved, shortened, sized } from "./figure.js";
import { h, visible } from "./dom.js";
import { measured, written } from "./values.js";

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

  /** Shows values: `sorted` are the finite ones in order, `range` that of the colours. */
  show(sorted, { range, scale, map, reverse, units }) {
    Object.assign(this, { sorted, range, scale, map, reverse, units });
    this.draw();
  }

  /**
   * Returns the range of the histogram: somewhat more than that of the colours, within that of the values. It is kept
   * while a handle is dragged.
   */
  extent() {
    if (this.held) return this.held;
    const list = this.scale === "log" ? this.sorted.subarray(Math.max(0, this.sorted.findIndex((value) => value > 0))) : this.sorted;
    const place = placer({ low: this.range[0], high: this.range[1], scale: this.scale });
    const [first, last] = list.length ? [list[0], list.at(-1)] : this.range;
    const [low, high] = [Math.min(this.range[0], place(first) < -WIDER ? this.value(-WIDER, ...this.range) : first), Math.max(this.range[1], place(last) > 1 + WIDER ? this.value(1 + WIDER, ...this.range) : last)];
    return low < high ? { low, high } : { low: low - 0.5, high: high + 0.5 };
  }

  draw() {
    const width = Math.max(160, this.box.clientWidth);
    const context = sized(this.canvas, width, HEIGHT);
    const colours = resolved(this.box);
    const extent = this.extent();
    drawBar(context, { left: EDGE, top: 0, width: width - 2 * EDGE }, { ...this, extent }, colours);
    const place = placer({ ...extent, scale: this.scale });
    this.handles.forEach((handle, which) => {
      const value = this.range[which];
      const at = Math.min(1, Math.max(0, place(value) || 0));
      handle.style.left = `${EDGE + at * (width - 2 * EDGE)}px`;
      handle.setAttribute("aria-valuenow", String(value));
      handle.setAttribute("aria-valuemin", String(extent.low));
      handle.setAttribute("aria-valuemax", String(extent.high));
      handle.setAttribute("aria-valuetext", visible(measured(Number(value.toPrecision(7)), { units: this.units })));
    });
  }

  /** Returns the value at a position: 0 is `low`, 1 is `high`. */
  value(at, low, high) {
    return this.scale === "log" ? low * (high / low) ** at : low + at * (high - low);
  }

  /** Returns the value at a position of the histogram. */
  valueAt(at) {
    const { low, high } = this.extent();
    return this.value(Math.min(1, Math.max(0, at)), low, high);
  }

  move(which, value) {
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
    const drag = (moved) => this.move(which, this.valueAt((moved.clientX - box.left - EDGE) / (box.width - 2 * EDGE)));
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
    const place = placer({ ...this.extent(), scale: this.scale })(this.range[which]);
    this.move(which, this.valueAt((Number.isFinite(place) ? place : 0) + by));
  }
}

/** Draws histogram, colours and ticks into a box; for the panel and for exported pictures. */
export function drawBar(context, { left, top, width }, { sorted, range, scale, map, reverse, units, extent }, colours) {
  const place = placer({ ...extent, scale });
  const inner = placer({ low: range[0], high: range[1], scale });
  const pixels = table(map, reverse);
  const colourAt = (at) => {
    const value = scale === "log" ? extent.low * (extent.high / extent.low) ** at : extent.low + at * (extent.high - extent.low);
    const within = inner(value);
    return css(pixels[Math.round(255 * Math.min(1, Math.max(0, Number.isFinite(within) ? within : 0)))]);
  };
  const bins = count(sorted, place);
  const most = Math.max(1, ...bins);
  context.fillStyle = colours.mute;
  bins.forEach((number, n) => {
    const height = number ? Math.max(1, Math.sqrt(number / most) * (HISTOGRAM - 4)) : 0;
    context.globalAlpha = 0.55;
    context.fillRect(left + (n / BINS) * width, top + HISTOGRAM - height, width / BINS - 0.5, height);
  });
  context.globalAlpha = 1;
  for (let x = 0; x < width; x += 1) {
    context.fillStyle = colourAt((x + 0.5) / width);
    context.fillRect(left + x, top + HISTOGRAM, Math.min(1.5, width - x), RAMP);
  }
  context.strokeStyle = colours.strong;
  context.lineWidth = 1;
  context.strokeRect(left - 0.5, top + HISTOGRAM - 0.5, width + 1, RAMP + 1);
  drawTicks(context, { left, top: top + HISTOGRAM + RAMP, width }, { extent, scale, place, units }, colours);
}

function drawTicks(context, { left, top, width }, { extent, scale, place, units: text }, colours) {
  context.font = `${FONT}px ${colours.family}`;
  context.textBaseline = "top";
  context.textAlign = "center";
  const found = scale === "log" ? powers(extent, width) : numberTicks(extent.low, extent.high, width / 80);
  let past = -Infinity;
  const units = text ? shortened(context, text, width / 2) : "";
  const end = left + width - (units ? context.measureText(units).width + 14 : 0);
  for (const { value, label } of found) {
    const x = left + place(value) * width;
    const half = context.measureText(label).width / 2;
    const centre = Math.min(Math.max(x, half), left + width + EDGE - half);
    context.fillStyle = colours.strong;
    context.fillRect(Math.round(x) - 0.5, top, 1, 4);
    if (centre - half < past + 8 || centre + half > end) continue;
    past = centre + half;
    context.fillStyle = colours.ink;
    context.fillText(label, centre, top + 7);
  }
  if (!units) return;
  context.textAlign = "right";
  context.fillStyle = colours.mute;
  context.fillText(units, left + width + EDGE, top + 7);
}

function powers({ low, high }, width) {
  const [from, to] = [Math.ceil(Math.log10(low)), Math.floor(Math.log10(high))];
  if (to - from < 1) return numberTicks(low, high, width / 80);
  return Array.from({ length: to - from + 1 }, (_, n) => ({ value: 10 ** (from + n), label: from + n >= -4 && from + n < 10 ? written(10 ** (from + n)) : `1e${from + n}` }));
}

/** Counts sorted values in bins of equal width on the scale. */
function count(sorted, place) {
  const bins = new Array(BINS).fill(0);
  for (const value of sorted) {
    const at = place(value);
    if (at >= 0 && at <= 1) bins[Math.min(BINS - 1, Math.floor(at * BINS))] += 1;
  }
  return bins;
}

/** Height of the bar. */
export const BAR = HEIGHT;
