// The cursor of the viewer: the element whose value is read out, moved by pointer and keyboard.
import { bandNames, categories } from "./colour.js";
import { readElement } from "./data.js";
import { count, fill } from "./dom.js";
import { place } from "./figure.js";
import { measured, spell, spellStored, written } from "./values.js";

/** Milliseconds that the pointer rests before an element that the picture does not show is read. */
const REST = 50;

/** The cursor; `at` is its row `y` and column `x` in the array at full resolution. */
export class Cursor {
  constructor(look) {
    Object.assign(this, { look, at: { x: 0, y: 0 } });
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
      const index = which ? this.at.x : this.at.y;
      const at = ((index + 0.5) * look.array.shape[axis]) / look.base.shape[axis];
      const n = indices ? indices.findLastIndex((each) => each <= index) : Math.floor((at - start) / step);
      isExact &&= n < 0 || (indices?.[n] ?? start + n * step) === index;
      return n < samples ? n : -1;
    });
    return found.some((n) => n < 0) ? null : { y: found[0], x: found[1], isExact };
  }

  /** Keeps the cursor within the array, or within a slice that is only its middle. */
  clamp({ plan: { spans, isCut } }) {
    const [y, x] = spans.map(({ axis, start, step, count: samples }, which) => {
      if (axis === null) return 0;
      const length = this.look.base.shape[axis];
      const scale = length / this.look.array.shape[axis];
      const [first, last] = isCut ? [Math.ceil(start * scale), Math.floor((start + (samples - 1) * step) * scale)] : [0, length - 1];
      return Math.min(last, Math.max(first, which ? this.at.x : this.at.y));
    });
    this.at = { x, y };
  }

  point(event) {
    const { look } = this;
    if (!look.slice) return;
    const places = look.placesAt(event);
    const [y, x] = look.view.axes.map((axis, which) => (axis === null ? 0 : Math.min(look.base.shape[axis] - 1, Math.max(0, Math.floor(places[which] * look.base.shape[axis])))));
    this.at = { x, y };
    this.say();
  }

  key(event) {
    const { look } = this;
    if (!look.slice || event.ctrlKey || event.metaKey || event.altKey) return;
    const by = event.shiftKey ? 10 : 1;
    const up = look.view.flip ? by : -by;
    const to = { ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, up], ArrowDown: [0, -up], Home: [-Infinity, 0], End: [Infinity, 0], PageUp: [0, 10 * up], PageDown: [0, -10 * up] }[event.key];
    const act = { "+": () => this.zoom(2), "=": () => this.zoom(2), "-": () => this.zoom(0.5), _: () => this.zoom(0.5), 0: () => look.reset(), Enter: () => look.showProfile() }[event.key];
    if (!to && !act) return;
    event.preventDefault();
    if (act) { act(); return; }
    const [x, y] = look.view.axes.toReversed().map((axis, n) => {
      const which = 1 - n;
      if (axis === null) return 0;
      const { start, step, count: samples, indices } = look.slice.plan.spans[which];
      const length = look.base.shape[axis];
      const wanted = (which ? this.at.x : this.at.y) + Math.round(to[n] * this.step(which));
      const last = indices ? length - 1 : Math.min(length - 1, Math.floor(((start + (samples - 1) * step) * length) / look.array.shape[axis]));
      return Math.max(0, Math.min(to[n] === Infinity ? last : length - 1, to[n] === -Infinity ? Math.ceil((start * length) / look.array.shape[axis]) : wanted));
    });
    this.at = { x, y };
    look.reveal(x, y);
    this.say();
  }

  /** Magnifies around the cursor. */
  zoom(by) {
    const { look } = this;
    look.magnify(by, look.view.axes.map((axis, which) => (axis === null ? 0.5 : ((which ? this.at.x : this.at.y) + 0.5) / look.base.shape[axis])));
  }

  /** Returns the index along each axis of the element under the cursor. */
  index() {
    const { view } = this.look;
    return view.at.map((at, axis) => (axis === view.axes[0] ? this.at.y : axis === view.axes[1] ? this.at.x : at));
  }

  /** Shows the value under the cursor: that of the file, which is read unless the picture shows it. */
  say() {
    const { look } = this;
    clearTimeout(this.waiting);
    this.reading?.abort();
    const { signal } = (this.reading = new AbortController());
    const index = this.index();
    const sample = this.sample();
    this.mark();
    if (look.isLine()) look.draw();
    if (sample?.isExact) {
      const { slice } = look;
      const values = slice.numbers.map((number, plane) => ({ stored: slice.stored(sample.y, sample.x, number), value: slice.planes[plane][sample.y * slice.width + sample.x], isMasked: slice.isMasked?.(sample.y, sample.x) }));
      this.show(index, values, this.places(index, signal, true));
      return;
    }
    Object.assign(look.readout.dataset, { index: JSON.stringify(index), value: "" });
    this.waiting = setTimeout(async () => {
      try {
        const [values, places] = await Promise.all([readElement(look.base, look.view.axes, index, look.view.bands, look.signal), this.places(index, look.signal)]);
        if (!signal.aborted) this.show(index, values, places);
      } catch (error) {
        if (error.name !== "AbortError" && !signal.aborted) fill(look.readout, error.message);
      }
    }, REST);
  }

  /** Returns the coordinates of an element, as far as they were read, or all of them. */
  places(index, signal, isQuick = false) {
    const { look } = this;
    const asked = index.map((at, axis) => (axis === look.view.bands?.axis ? null : isQuick ? look.coordinateNow(axis, at) : look.coordinate(axis, at, signal).catch(() => null)));
    return isQuick ? asked : Promise.all(asked);
  }

  show(index, values, places) {
    const { look } = this;
    const { bands } = look.view;
    const names = bands && bandNames(look.base, bands.axis);
    const said = index.map((at, axis) => (axis === bands?.axis || look.base.shape[axis] < 2 ? null : `${look.base.name(axis)} ${count(at)}${places[axis] ? ` (${places[axis]})` : ""}`)).filter(Boolean).join(", ");
    const texts = values.map((each, n) => (bands ? `${names?.[bands.numbers[n]] ?? `${look.base.name(bands.axis)} ${bands.numbers[n]}`}: ${this.value(each)}` : this.value(each)));
    fill(look.readout, `${said ? `${said}: ` : ""}${texts.join(", ")}`);
    Object.assign(look.readout.dataset, { index: JSON.stringify(index), value: String(values[0].value) });
    this.mark();
  }

  value({ stored, value, isMasked }) {
    const { type, means, attributes } = this.look.base;
    if (isMasked) return "no data (masked)";
    if (value !== value && !Array.isArray(stored)) return `no data (stored ${spellStored(stored, type)})`;
    if (means.packed) return `${measured(value, attributes)} (stored ${spell(stored)})`;
    const meaning = this.look.view.bands ? null : categories(attributes)?.find((each) => each.value === value);
    if (Array.isArray(stored) || typeof stored === "boolean") return spellStored(stored, type, written);
    return `${measured(stored, attributes, type)}${meaning ? ` (${meaning.label})` : ""}`;
  }

  /** Places a ring around the cursor; a separate element, so that the pixels of the picture stay unchanged. */
  mark() {
    const { look } = this;
    if (look.isLine() || look.isMap() || !look.planned) return;
    const [y, x] = look.view.axes.map((axis, which) => {
      const length = look.base.shape[axis];
      const [from, past] = look.shown(which);
      const size = this.step(which) / length;
      const start = Math.floor((which ? this.at.x : this.at.y) / this.step(which) + 1e-9) * size;
      return [(start - from) / (past - from), size / (past - from)];
    });
    const { box } = look.planned;
    look.ring.hidden = !look.readout.dataset.index;
    place(look.ring, { left: x[0] * box.width, top: (look.view.flip ? 1 - y[0] - y[1] : y[0]) * box.height, width: x[1] * box.width, height: y[1] * box.height });
  }
}
