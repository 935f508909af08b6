// Line plots: the values along one axis, and the profile through the element under the cursor.
import { numberTicks, placeIn, powerTicks } from "./axes.js";
import { placer } from "./colour.js";
import { readSlice } from "./data.js";
import { count, failure, fill, h } from "./dom.js";
import { ABOVE, BELOW, drawAxes, drawHeading, leftOf, resolved, sized, widest } from "./figure.js";
import { gestures, magnified, moved } from "./gestures.js";
import { measured } from "./values.js";
import { extent } from "./vendor.js";

/** Returns the range of finite values, somewhat widened. */
function rangeOf(values) {
  const [low, high] = extent(values, (value) => (Number.isFinite(value) ? value : NaN));
  if (low === undefined) return [0, 1];
  const wider = low === high ? Math.abs(low || 1) * 0.05 : (high - low) * 0.04;
  return [low - wider, high + wider];
}

/**
 * Returns where samples are between the ends of a window, from 0 to 1: by coordinate if coordinates are in order,
 * otherwise by index. `window`: the first element, and the one after the last.
 */
function places(axis, window) {
  const { start, step, count: samples, indices } = axis.span;
  const sample = (index) => (indices ? placeIn(indices, index) : (index - start) / step);
  const ends = [sample(window[0]), sample(window[1] - 1)];
  const along = axis.isMonotonic ? (n) => axis.valueAt(n) : (n) => axis.index(n);
  const back = axis.isMonotonic ? axis.place : sample;
  const [first, last] = ends.map(along);
  const [low, high] = first < last ? [first, last] : [last, first];
  const of = (n) => (high === low ? 0.5 : (along(n) - low) / (high - low));
  const nearest = (place) => Math.min(samples - 1, Math.max(0, Math.round(back(low + place * (high - low)))));
  return { of, nearest, ends, isBackward: first > last, ticks: (most) => axis.ticks(most, ends).map(({ place, label }) => ({ at: of(place), label })) };
}

/**
 * Draws values along an axis, broken where there is no data, with a mark at the sample `cursor`. `window` is the visible
 * range of elements; the range of values is that of the visible ones, unless `range` is given. Returns functions of a
 * horizontal position in CSS pixels: `nearest`, the nearest sample, and `part`, its place in the window.
 */
export function drawLine(canvas, { values, axis, window, range = null, heading, title, cursor = null, height = 260, scale = "linear", ratio = undefined }) {
  const width = Math.max(200, canvas.parentElement.clientWidth);
  const colours = resolved(canvas);
  const context = sized(canvas, width, height, ratio);
  const along = places(axis, window);
  const visible = [Math.max(0, Math.floor(along.ends[0])), Math.min(values.length, Math.ceil(along.ends[1]) + 1)];
  const shown = range ?? rangeOf(values.subarray(...visible));
  const isLog = scale === "log" && shown[1] > 0;
  const [low, high] = isLog ? [Math.max(shown[0], shown[1] / 1e12, Number.MIN_VALUE), shown[1]] : shown;
  const up = placer({ low, high, scale: isLog ? "log" : "linear" });
  const yTicks = (isLog ? powerTicks : numberTicks)(low, high, height / 45).map(({ value, label }) => ({ at: up(value), label }));
  const left = leftOf(widest(context, yTicks.map(({ label }) => label), colours.family));
  const box = { left, top: heading ? ABOVE : 10, width: width - left - 14, height: height - (heading ? ABOVE : 10) - BELOW };
  const edge = 6;
  const inner = box.width - 2 * edge;
  const x = (n) => box.left + edge + along.of(n) * inner;
  const y = (value) => box.top + (1 - up(value)) * box.height;
  const xTicks = along.ticks(box.width / 90).map(({ at, label }) => ({ at: (edge + at * inner) / box.width, label })).filter(({ at }) => at >= 0 && at <= 1);
  drawAxes(context, box, { x: { title: axis.title, ticks: xTicks }, y: { title, ticks: yTicks }, grid: true }, colours);
  if (heading) drawHeading(context, heading, width, colours);
  context.save();
  context.beginPath();
  context.rect(box.left, box.top, box.width, box.height);
  context.clip();
  stroke(context, values, visible, { x, y }, colours);
  if (cursor !== null && cursor < values.length) {
    context.fillStyle = colours.ink;
    context.fillRect(Math.round(x(cursor)) - 0.5, box.top, 1, box.height);
    if (Number.isFinite(y(values[cursor]))) dot(context, x(cursor), y(values[cursor]), 4);
  }
  context.restore();
  canvas.dataset.drawn = String(Number(canvas.dataset.drawn ?? 0) + 1);
  const part = (place) => (place - box.left - edge) / inner;
  return { nearest: (place) => along.nearest(part(place)), part: (place) => (along.isBackward ? 1 - part(place) : part(place)), width: along.isBackward ? -inner : inner };
}

/** Strokes the visible part of the line. Of many samples in one column of pixels, the extremes are drawn. */
function stroke(context, values, [from, past], { x, y }, colours) {
  Object.assign(context, { strokeStyle: colours.accent, fillStyle: colours.accent, lineWidth: 1.5, lineJoin: "round" });
  const isDense = past - from > 4000;
  const columns = [];
  for (let n = from; n < past; n += 1) {
    const value = y(values[n]);
    const at = isDense ? Math.round(x(n) * 2) / 2 : x(n);
    const column = columns.at(-1);
    if (!Number.isFinite(value)) columns.push(null);
    else if (column?.at !== at) columns.push({ at, first: value, low: value, high: value, last: value });
    else Object.assign(column, { low: Math.min(column.low, value), high: Math.max(column.high, value), last: value });
  }
  context.beginPath();
  columns.forEach((column, n) => {
    if (!column) return;
    const { at, first, low, high, last } = column;
    if (columns[n - 1]) context.lineTo(at, first);
    else context.moveTo(at, first);
    if (low !== high) for (const value of [low, high, last]) context.lineTo(at, value);
  });
  context.stroke();
  if (past - from <= 200) for (const column of columns) if (column) dot(context, column.at, column.first, 2);
}

function dot(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}

export class Profile {
  constructor(host, look) {
    Object.assign(this, { host, look, slice: null });
  }

  /** Returns the axis to start with: the first that the picture does not show, otherwise that of the columns. */
  first() {
    const { base, view } = this.look;
    const others = base.shape.map((_, axis) => axis).filter((axis) => base.shape[axis] > 1 && !view.axes.includes(axis));
    return others.find((axis) => this.look.others[axis]?.time) ?? others[0] ?? view.axes[1];
  }

  build() {
    const { look } = this;
    const entries = look.base.shape.map((length, axis) => [axis, length]).filter(([, length]) => length > 1);
    const axis = h("select", { name: "profile", onchange: (event) => { look.view.profile = Number(event.target.value); look.changed(); this.load(look.signal, this.at); } },
      entries.map(([each]) => h("option", { value: each, selected: each === look.view.profile }, look.base.name(each))));
    this.canvas = h("canvas", { class: "picture line", tabindex: "0", role: "application", "aria-roledescription": "line plot", "aria-label": "Profile. Left and right arrow keys move the cursor." });
    this.readout = h("output", { class: "readout", "aria-live": "polite" });
    gestures(this.canvas, {
      move: (right) => this.show(moved(this.window, (-right / this.drawn.width) * (this.window[1] - this.window[0]))), zoom: (by, x) => this.zoom(by, this.drawn.part(x)), reset: () => this.zoom(0),
      click: (x) => this.point(x), point: (x) => this.point(x),
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    fill(this.host, h("div", { class: "controls" }, h("label", { class: "field" }, h("span", {}, "Profile along"), axis),
      h("button", { type: "button", class: "quiet", name: "profile-close", onclick: () => this.close() }, "Close")), h("div", { class: "figure" }, this.canvas), this.readout);
  }

  close() {
    this.look.view.profile = null;
    this.slice = null;
    this.at = null;
    this.canvas = null;
    fill(this.host);
    this.look.changed();
    this.look.canvas.focus();
  }

  /** Reads the profile again if the indices of the axes that are not shown have changed. */
  follow() {
    const { view, cursor, signal } = this.look;
    const at = this.at?.map((index, axis) => (view.axes.includes(axis) ? index : view.at[axis])) ?? cursor.index();
    const isSame = this.slice && at.every((index, axis) => axis === view.profile || index === this.at[axis]);
    if (!isSame) this.load(signal, at);
  }

  /** Reads the profile through an element, by default that under the cursor; aborts the previous read. */
  async load(outer, at = this.look.cursor.index()) {
    const { look } = this;
    this.reading?.abort();
    this.reading = new AbortController();
    const signal = AbortSignal.any([this.reading.signal, outer]);
    if (!this.canvas) this.build();
    const along = look.view.profile;
    try {
      const { base } = look;
      this.at = at;
      this.window = [0, 1];
      this.slice = await readSlice(base, { axes: [null, along], at, windows: null, budget: look.view.budget, bands: null }, signal);
      const places = await Promise.all(at.map((index, axis) => (axis === along || base.shape[axis] < 2 ? null : look.coordinate(axis, index, signal))));
      this.host.dataset.place = this.slice.place = places.map((place, axis) => (axis === along || base.shape[axis] < 2 ? null : place ?? `${base.name(axis)} ${count(at[axis])}`)).filter(Boolean).join(", ");
      const [, { indices, start, step, count: samples }] = this.slice.plan.spans;
      const cursor = indices ? indices.findLastIndex((each) => each <= at[along]) : Math.floor((at[along] - start) / step);
      this.move(Math.max(0, Math.min(samples - 1, cursor)));
    } catch (error) {
      if (error.name !== "AbortError") fill(this.readout, failure(error));
    }
  }

  point(x) {
    if (this.drawn) this.move(this.drawn.nearest(x));
  }

  /** Magnifies around a place in the window; 0 shows everything. Returns false at a limit. */
  zoom(by, place = 0.5) {
    const least = Math.min(1, 4 / this.look.base.shape[this.look.view.profile]);
    return this.show(by ? magnified(this.window, by, place, least) : [0, 1]);
  }

  show(window) {
    if (!this.slice || String(window) === String(this.window)) return false;
    this.window = window;
    this.draw();
    return true;
  }

  key(event) {
    const by = (event.shiftKey ? 10 : 1) * ({ ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0);
    const zoom = { "+": 2, "=": 2, "-": 0.5, 0: 0 }[event.key];
    if ((!by && zoom === undefined) || !this.slice) return;
    event.preventDefault();
    if (by) this.move(this.cursor + by);
    else this.zoom(zoom);
  }

  move(cursor) {
    const { look, slice } = this;
    this.cursor = Math.max(0, Math.min(slice.width - 1, cursor));
    const axis = slice.axes[1];
    const value = slice.planes[0][this.cursor];
    const place = axis.coordinate(this.cursor);
    const { base } = look;
    fill(this.readout, `${place ?? `${axis.name} ${count(axis.index(this.cursor))}`}: ${value !== value ? "no data" : measured(value, base.attributes, base.means.packed ? "" : base.type)}`);
    Object.assign(this.readout.dataset, { value: String(value), index: axis.index(this.cursor) });
    this.draw();
  }

  draw() {
    if (!this.slice || !this.canvas) return;
    const { look, slice } = this;
    const { units } = look.base.attributes;
    this.drawn = drawLine(this.canvas, { values: slice.planes[0], axis: slice.axes[1], window: this.window.map((part) => part * look.base.shape[look.view.profile]), heading: slice.place, title: typeof units === "string" ? units : "", cursor: this.cursor });
  }
}
