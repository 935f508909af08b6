// The profile of an array through the element under the cursor, along any axis.
import { count, fill, h } from "./dom.js";
import { drawLine, rangeOf } from "./lines.js";
import { readSlice } from "./slice.js";
import { spell } from "./values.js";

export class Profile {
  constructor(host, look) {
    Object.assign(this, { host, look, slice: null });
  }

  /** Returns the axis to start with: the first that the picture does not show, otherwise that of the columns. */
  first() {
    const { base, view } = this.look;
    const others = base.shape.map((_, axis) => axis).filter((axis) => base.shape[axis] > 1 && !view.axes.includes(axis));
    return others[0] ?? view.axes[1];
  }

  build() {
    const { look } = this;
    const entries = look.base.shape.map((length, axis) => [axis, length]).filter(([, length]) => length > 1);
    const axis = h("select", { name: "profile", onchange: (event) => { look.view.profile = Number(event.target.value); look.changed(); this.load(look.signal); } },
      entries.map(([each]) => h("option", { value: each, selected: each === look.view.profile }, look.base.name(each))));
    this.canvas = h("canvas", { class: "picture line", tabindex: "0", role: "application", "aria-roledescription": "line plot", "aria-label": "Profile. Left and right arrow keys move the cursor." });
    this.readout = h("output", { class: "readout", "aria-live": "polite" });
    this.canvas.addEventListener("pointermove", (event) => { if (this.nearest) this.move(this.nearest(event.clientX - this.canvas.getBoundingClientRect().left)); });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    fill(this.host, h("div", { class: "controls" }, h("label", { class: "field" }, h("span", {}, "Profile along"), axis),
      h("button", { type: "button", class: "quiet", name: "profile-close", onclick: () => this.close() }, "Close")), h("div", { class: "figure" }, this.canvas), this.readout);
  }

  close() {
    this.look.view.profile = null;
    this.slice = null;
    this.canvas = null;
    fill(this.host);
    this.look.changed();
    this.look.canvas.focus();
  }

  /** Reads the profile through the element under the cursor; aborts the previous read. */
  async load(outer) {
    const { look } = this;
    this.reading?.abort();
    this.reading = new AbortController();
    const signal = AbortSignal.any([this.reading.signal, outer]);
    if (!this.canvas) this.build();
    try {
      const at = look.cursor.index();
      const { array } = look;
      this.at = at;
      this.slice = await readSlice(array, { axes: [null, look.view.profile], at, windows: null, budget: look.view.budget, bands: null }, signal);
      this.slice.place = at.map((index, axis) => (axis === look.view.profile ? null : `${array.name(axis)} ${count(index)}`)).filter(Boolean).join(", ");
      const [, span] = this.slice.plan.spans;
      this.cursor = Math.max(0, Math.min(span.count - 1, Math.floor((at[look.view.profile] - span.start) / span.step)));
      this.move(this.cursor);
    } catch (error) {
      if (error.name !== "AbortError") fill(this.readout, h("span", { class: "error" }, error.message));
    }
  }

  key(event) {
    const by = (event.shiftKey ? 10 : 1) * ({ ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0);
    if (!by || !this.slice) return;
    event.preventDefault();
    this.move(this.cursor + by);
  }

  move(cursor) {
    const { look, slice } = this;
    this.cursor = Math.max(0, Math.min(slice.width - 1, cursor));
    const axis = slice.axes[1];
    const { units } = look.base.attributes;
    const value = slice.planes[0][this.cursor];
    const place = axis.coordinate(this.cursor);
    fill(this.readout, `${axis.name} ${count(axis.index(this.cursor))}${place ? ` (${place})` : ""}: ${value !== value ? "no data" : `${spell(value, look.base.means.packed ? "float64" : look.base.type)}${typeof units === "string" && units !== "1" ? ` ${units}` : ""}`}`);
    this.readout.dataset.value = String(value);
    this.draw();
  }

  draw() {
    if (!this.slice || !this.canvas) return;
    const { look, slice } = this;
    const { units } = look.base.attributes;
    this.nearest = drawLine(this.canvas, { values: slice.planes[0], axis: slice.axes[1], range: rangeOf(slice.planes[0]), heading: slice.place, title: typeof units === "string" ? units : "", cursor: this.cursor });
  }
}
