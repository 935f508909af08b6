// The cursor of the viewer: the element whose value is read out, moved by pointer and keyboard.
import { count, fill } from "./dom.js";
import { categories } from "./shading.js";
import { spell, spellStored } from "./values.js";

/** The cursor; `at` is its sample `{x, y}` in the slice that the viewer shows. */
export class Cursor {
  constructor(look) {
    Object.assign(this, { look, at: { x: 0, y: 0 } });
  }

  /** Keeps the cursor within a slice. */
  clamp({ width, height }) {
    this.at = { x: Math.min(this.at.x, width - 1), y: Math.min(this.at.y, height - 1) };
  }

  /** Changes the visible part: `by` below 1 zooms in around the cursor, above 1 out. */
  zoom(by) {
    if (!this.look.slice || this.look.isLine()) return;
    const windows = { ...this.look.view.windows };
    this.look.view.axes.forEach((axis, which) => {
      const [from, past] = this.look.part(axis);
      const { start, step } = this.look.slice.plan.spans[which];
      const length = this.look.array.shape[axis];
      const centre = (start + (which ? this.at.x : this.at.y) * step + 0.5) / length;
      const wide = Math.min(1, Math.max((past - from) * by, 4 / this.look.base.shape[axis]));
      const low = Math.min(1 - wide, Math.max(0, centre - wide / 2));
      if (wide >= 1) delete windows[axis];
      else windows[axis] = [low, low + wide];
    });
    const before = this.place();
    this.look.set({ windows }).then(() => this.moveTo(before));
  }

  /** Returns the position of the cursor as parts of the axes, and moves there. */
  place = () => this.look.slice.plan.spans.map(({ axis, start, step }, which) => (axis === null ? 0 : (start + (which ? this.at.x : this.at.y) * step + 0.5) / this.look.array.shape[axis]));

  moveTo(place) {
    const [y, x] = this.look.slice.plan.spans.map(({ axis, start, step, count: most }, which) => (axis === null ? 0 : Math.min(most - 1, Math.max(0, Math.floor((place[which] * this.look.array.shape[axis] - start) / step)))));
    this.at = { x, y };
    this.say();
  }

  point(event) {
    if (!this.look.slice) return;
    const box = this.look.canvas.getBoundingClientRect();
    if (this.look.isLine()) {
      this.at = { x: this.look.nearest(event.clientX - box.left), y: 0 };
    } else {
      const part = (at, from, length, samples) => Math.min(samples - 1, Math.max(0, Math.floor(((at - from) / length) * samples)));
      const row = part(event.clientY, box.top, box.height, this.look.slice.height);
      this.at = { x: part(event.clientX, box.left, box.width, this.look.slice.width), y: this.look.view.flip ? this.look.slice.height - 1 - row : row };
    }
    this.say();
  }

  key(event) {
    if (!this.look.slice || event.ctrlKey || event.metaKey || event.altKey) return;
    const by = event.shiftKey ? 10 : 1;
    const up = this.look.view.flip ? by : -by;
    const { x, y } = this.at;
    const to = { ArrowLeft: [x - by, y], ArrowRight: [x + by, y], ArrowUp: [x, y + up], ArrowDown: [x, y - up], Home: [0, y], End: [Infinity, y], PageUp: [x, y + 10 * up], PageDown: [x, y - 10 * up] }[event.key];
    const act = { "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.zoom(Infinity), Enter: () => this.look.showProfile() }[event.key];
    if (!to && !act) return;
    event.preventDefault();
    if (act) { act(); return; }
    this.at = { x: Math.max(0, Math.min(this.look.slice.width - 1, to[0])), y: Math.max(0, Math.min(this.look.slice.height - 1, to[1])) };
    this.say();
  }

  /** Returns the index along each axis of the element under the cursor, in the array that is read. */
  index() {
    const [rows, columns] = this.look.slice.plan.spans;
    return this.look.view.at.map((at, axis) => (axis === rows.axis ? rows.start + this.at.y * rows.step : axis === columns.axis ? columns.start + this.at.x * columns.step : at));
  }

  /** Shows the value under the cursor, with its index, its coordinates, and the stored value if it differs. */
  say() {
    const { x, y } = this.at;
    const index = this.index();
    const bands = this.look.view.bands;
    const said = index.map((at, axis) => (axis === bands?.axis ? null : `${this.look.array.name(axis)} ${count(at)}${this.coordinate(axis, at)}`)).filter(Boolean).join(", ");
    const values = bands ? bands.numbers.map((number, n) => `${this.look.array.name(bands.axis)} ${number}: ${this.value(y, x, n)}`).join(", ") : this.value(y, x, 0);
    fill(this.look.readout, `${said ? `${said}: ` : ""}${values}`);
    this.look.readout.dataset.index = JSON.stringify(index);
    this.look.readout.dataset.value = String(this.look.slice.planes[0][y * this.look.slice.width + x]);
    this.mark();
    if (this.look.isLine()) this.look.draw();
  }

  coordinate(axis, at) {
    const which = this.look.view.axes.indexOf(axis);
    const text = which >= 0 ? this.look.slice.axes[which]?.coordinate(which ? this.at.x : this.at.y) : this.look.others?.[axis]?.coordinate(at);
    return text ? ` (${text})` : "";
  }

  value(y, x, plane) {
    const stored = this.look.slice.stored(y, x, this.look.slice.numbers[plane]);
    const value = this.look.slice.planes[plane][y * this.look.slice.width + x];
    const { type, means, attributes } = this.look.base;
    const units = typeof attributes.units === "string" && attributes.units !== "1" ? ` ${attributes.units}` : "";
    if (value !== value && !Array.isArray(stored)) return `no data (stored ${spellStored(stored, type)})`;
    if (means.packed) return `${spell(value)}${units} (stored ${spell(stored)})`;
    const meaning = this.look.view.bands ? null : categories(attributes)?.find((each) => each.value === value);
    return `${spellStored(stored, type)}${units}${meaning ? ` (${meaning.label})` : ""}`;
  }

  /** Places a ring around the cursor; a separate element, so that the pixels of the picture stay unchanged. */
  mark() {
    if (this.look.isLine() || this.look.isMap() || !this.look.planned) return;
    const { box } = this.look.planned;
    const row = this.look.view.flip ? this.look.slice.height - 1 - this.at.y : this.at.y;
    const across = box.width / this.look.slice.width;
    const down = box.height / this.look.slice.height;
    this.look.ring.hidden = !this.look.readout.dataset.index;
    Object.assign(this.look.ring.style, { left: `${box.left + this.at.x * across}px`, top: `${box.top + row * down}px`, width: `${across}px`, height: `${down}px` });
  }
}
