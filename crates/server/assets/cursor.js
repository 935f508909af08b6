// The cursor of the viewer: the element whose value is read out, moved by pointer and keyboard.
import { readElement } from "./data.js";
import { count } from "./dom.js";
import { place } from "./figure.js";
import { Readout, describe } from "./readout.js";

/** The cursor; `at` is its row and column in the array at full resolution. */
export class Cursor extends Readout {
  constructor(look) {
    super("Point at the picture, or move with the arrow keys, to read values.");
    Object.assign(this, { look, at: [0, 0] });
  }

  /** Returns the number of elements from one sample of the slice to the next, along the axis of rows (0) or columns (1). */
  step(which) {
    const { axis, step } = this.look.slice.plan.spans[which];
    return axis === null ? 1 : Math.max(1, (step * this.look.base.shape[axis]) / this.look.array.shape[axis]);
  }

  /** Returns the sample of the slice at the cursor as `[y, x]`, and whether the slice shows that very element; null outside of the slice. */
  sample() {
    const { look } = this;
    let isExact = look.array === look.base;
    const found = look.slice.plan.spans.map(({ axis, start, step, count: samples, indices }, which) => {
      if (axis === null) return 0;
      const index = this.at[which];
      const at = ((index + 0.5) * look.array.shape[axis]) / look.base.shape[axis];
      const n = indices ? indices.findLastIndex((each) => each <= index) : Math.floor((at - start) / step);
      isExact &&= n < 0 || (indices?.[n] ?? start + n * step) === index;
      return n < samples ? n : -1;
    });
    return found.some((n) => n < 0) ? null : { y: found[0], x: found[1], isExact };
  }

  /** Keeps the cursor within the array, or within a slice that is only its middle. */
  clamp({ plan: { spans, isCut } }) {
    this.at = spans.map(({ axis, start, step, count: samples }, which) => {
      if (axis === null) return 0;
      const length = this.look.base.shape[axis];
      const scale = length / this.look.array.shape[axis];
      const [first, last] = isCut ? [Math.ceil(start * scale), Math.floor((start + (samples - 1) * step) * scale)] : [0, length - 1];
      return Math.min(last, Math.max(first, this.at[which]));
    });
  }

  point(x, y) {
    const { look } = this;
    if (!look.slice) return;
    const { axes } = look.view;
    const places = look.isLine() ? [0, (look.slice.axes[1].index(look.drawn.nearest(x)) + 0.5) / look.base.shape[0]] : look.placesAt(x, y);
    this.at = axes.map((axis, which) => (axis === null ? 0 : Math.min(look.base.shape[axis] - 1, Math.max(0, Math.floor(places[which] * look.base.shape[axis])))));
    this.say();
  }

  key(event) {
    const { look } = this;
    if (!look.slice || event.ctrlKey || event.metaKey || event.altKey) return;
    const by = event.shiftKey ? 10 : 1;
    const up = look.view.flip ? by : -by;
    const to = { ArrowLeft: [0, -by], ArrowRight: [0, by], ArrowUp: [up, 0], ArrowDown: [-up, 0], Home: [0, -Infinity], End: [0, Infinity], PageUp: [10 * up, 0], PageDown: [-10 * up, 0] }[event.key];
    const act = { "+": () => this.zoom(2), "=": () => this.zoom(2), "-": () => this.zoom(0.5), _: () => this.zoom(0.5), 0: () => look.reset(), Enter: () => look.showProfile() }[event.key];
    if (!to && !act) return;
    event.preventDefault();
    if (act) { act(); return; }
    this.at = look.slice.plan.spans.map(({ axis, start, step, count: samples, indices }, which) => {
      if (axis === null) return 0;
      const length = look.base.shape[axis];
      const scale = length / look.array.shape[axis];
      const last = indices ? length - 1 : Math.min(length - 1, Math.floor((start + (samples - 1) * step) * scale));
      if (to[which] === -Infinity) return Math.ceil(start * scale);
      return Math.max(0, Math.min(to[which] === Infinity ? last : length - 1, this.at[which] + Math.round(to[which] * this.step(which))));
    });
    look.reveal();
    this.say();
  }

  /** Magnifies around the cursor. */
  zoom(by) {
    const { look } = this;
    look.magnify(by, look.view.axes.map((axis, which) => (axis === null ? 0.5 : (this.at[which] + 0.5) / look.base.shape[axis])));
  }

  /** Returns the index along each axis of the element under the cursor. */
  index() {
    const { view } = this.look;
    return view.at.map((at, axis) => (this.at[view.axes.indexOf(axis)] ?? at));
  }

  /** Shows the value under the cursor: that of the file, which is read unless the picture shows it. */
  say() {
    const { look } = this;
    const { base, slice, view } = look;
    const index = this.index();
    const text = (values, places) => {
      const named = index.map((at, axis) => (axis === view.bands?.axis || base.shape[axis] < 2 ? null : `${base.name(axis)} ${count(at)}${places[axis] ? ` (${places[axis]})` : ""}`)).filter(Boolean);
      return { text: [named.join(", "), describe(base, values, view.bands)].filter(Boolean).join(": "), data: { index: JSON.stringify(index), value: String(values[0].value) } };
    };
    const sample = this.sample();
    if (!sample?.isExact) Object.assign(this.element.dataset, { index: JSON.stringify(index), value: "" });
    this.tell(sample?.isExact ? text(slice.at(sample.y, sample.x), index.map((at, axis) => look.coordinateNow(axis, at))) : null, async (signal) => {
      const places = index.map((at, axis) => (axis === view.bands?.axis ? null : look.coordinate(axis, at, signal).catch(() => null)));
      return text(await readElement(base, view.axes, index, view.bands, look.signal), await Promise.all(places));
    });
    this.mark();
    if (look.isLine()) look.draw();
  }

  /** Places a ring around the cursor; a separate element, so that the pixels of the picture stay unchanged. */
  mark() {
    const { look } = this;
    if (look.isLine() || look.isMap() || !look.planned) return;
    const [y, x] = look.parts.map(([from, past], which) => {
      const size = this.step(which) / look.base.shape[look.view.axes[which]];
      const start = Math.floor(this.at[which] / this.step(which) + 1e-9) * size;
      return [(start - from) / (past - from), size / (past - from)];
    });
    const { box } = look.planned;
    look.ring.hidden = !this.element.dataset.index;
    place(look.ring, { left: x[0] * box.width, top: (look.view.flip ? 1 - y[0] - y[1] : y[0]) * box.height, width: x[1] * box.width, height: y[1] * box.height });
  }
}
