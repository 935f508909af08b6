// Preview: draws one slice of an array, whose elements are read from the service's plain store.
import { css, MAP_NAMES, table } from "./colour.js";
import { count, fill, h, onTheme, plural, size } from "./dom.js";
import { meaning, physical, spell } from "./values.js";
import { PlainArray, picture, plan } from "./zarr.js";
import { drawLine } from "./line.js";

/** Maximum size of the decoded chunks that one picture reads, in MiB. */
const BUDGETS = [16, 64, 256];
/** Maximum width to which a small picture is enlarged, in CSS pixels. */
const WIDE = 640;

const field = (label, control, more = {}) => h("label", { class: "field", ...more }, h("span", {}, label), control);

/** The panel; `coordinates(name)` finds the array of a dimension's coordinates, as `{path, attributes}` or null. */
export class QuickLook {
  constructor(host, coordinates) {
    this.host = host;
    this.coordinates = coordinates;
  }

  /** Shows an array of a source. `plain`: its chunks are stored as bare elements, and can be read in parts. */
  async show(source, path, plain, signal) {
    fill(this.host, h("p", { class: "mute" }, "Reading …"));
    this.signal = signal;
    this.array = await PlainArray.open(source, path, signal);
    this.array.plain = plain;
    this.path = path;
    this.means = meaning(this.array.attributes, this.array.type);
    const axes = this.array.shape.length;
    this.axes = axes > 1 ? [axes - 2, axes - 1] : [null, axes ? 0 : null];
    this.at = this.array.shape.map(() => 0);
    this.range = null;
    this.cursor = { x: 0, y: 0 };
    this.budget = BUDGETS[1] << 20;
    this.map = MAP_NAMES[0];
    if (this.array.shape.includes(0)) return fill(this.host, h("p", { class: "mute" }, "The array has no elements."));
    onTheme(() => this.draw(), signal);
    new ResizeObserver(() => { if (this.slice) this.draw(); }).observe(this.host);
    this.lines = await this.readCoordinates(source);
    this.flip = this.wantsFlip();
    this.build();
    return this.load();
  }

  name = (axis) => this.array.names[axis] ?? `axis ${axis}`;

  async readCoordinates(source) {
    return Promise.all(this.array.shape.map(async (length, axis) => {
      const found = this.array.names[axis] ? this.coordinates(this.array.names[axis], length) : null;
      if (!found || found.path === this.path) return null;
      try {
        const line = await PlainArray.open(source, found.path, this.signal);
        const values = await line.line(this.signal);
        const means = meaning(line.attributes, line.type);
        return values && { at: (n) => physical(values[n], means, line.type), units: found.attributes.units, attributes: found.attributes, type: line.type };
      } catch (error) {
        if (error.name === "AbortError") throw error;
        return null; // The picture is shown without coordinates.
      }
    }));
  }

  /** Returns whether to flip the picture: increasing latitudes are drawn upwards. */
  wantsFlip() {
    const line = this.axes[0] === null ? null : this.lines[this.axes[0]];
    if (!line) return false;
    const upward = /degrees?_?n/i.test(line.units ?? "") || line.attributes.axis === "Y" || /latitude|projection_y/.test(line.attributes.standard_name ?? "");
    return upward && line.at(this.array.shape[this.axes[0]] - 1) > line.at(0);
  }

  build() {
    this.canvas = h("canvas", {
      class: "picture", tabindex: "0", role: "application", "aria-roledescription": "picture of values",
      "aria-label": `Values of ${this.path}. Arrow keys move the cursor, Shift by ten, Home and End to the ends of a row.`,
    });
    this.readout = h("output", { class: "readout", "aria-live": "polite" }, "Point at the picture, or move with the arrow keys, to read values.");
    this.status = h("p", { class: "mute status", role: "status" });
    this.bar = h("div", { class: "colourbar", "aria-hidden": "true" });
    this.low = h("input", { type: "text", inputMode: "decimal", size: 9, name: "low", onchange: () => this.setRange() });
    this.high = h("input", { type: "text", inputMode: "decimal", size: 9, name: "high", onchange: () => this.setRange() });
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    const drawn = this.array.shape.length > 1;
    fill(this.host,
      h("div", { class: "controls" }, drawn ? this.axisFields() : null, this.indexFields(), this.colourFields(drawn)),
      h("div", { class: "frame" }, this.canvas), this.readout,
      h("div", { class: "range" }, field("From", this.low), drawn ? this.bar : null, field("To", this.high),
        h("button", { type: "button", class: "quiet", onclick: () => this.autoRange(0) }, "All values"),
        h("button", { type: "button", class: "quiet", onclick: () => this.autoRange(0.02) }, "2 to 98 %")),
      this.status);
    this.host.querySelector(".range").hidden = this.array.shape.length === 0;
  }

  axisFields() {
    const choice = (which) => h("select", { name: which ? "columns" : "rows", onchange: (event) => this.setAxis(which, Number(event.target.value)) },
      this.array.shape.map((length, axis) => h("option", { value: axis, selected: axis === this.axes[which] }, `${this.name(axis)} (${count(length)})`)));
    return [field("Down", choice(0)), field("Across", choice(1))];
  }

  indexFields() {
    return this.array.shape.map((length, axis) => {
      if (this.axes.includes(axis) || length < 2) return null;
      const label = `${this.name(axis)}, 0 to ${count(length - 1)}`;
      const set = (value) => {
        const index = Math.min(length - 1, Math.max(0, Math.round(Number(value) || 0)));
        slider.value = index;
        number.value = index;
        if (index === this.at[axis]) return;
        this.at[axis] = index;
        this.load();
      };
      const slider = h("input", { type: "range", min: 0, max: length - 1, value: this.at[axis], "aria-label": `${label}, slider`, onchange: (event) => set(event.target.value), oninput: (event) => { number.value = event.target.value; } });
      const number = h("input", { type: "number", min: 0, max: length - 1, value: this.at[axis], name: `at-${axis}`, onchange: (event) => set(event.target.value) });
      return h("div", { class: "index" }, field(label, number), slider);
    });
  }

  colourFields(drawn) {
    const maps = h("select", { name: "map", onchange: (event) => { this.map = event.target.value; this.draw(); } }, MAP_NAMES.map((name) => h("option", { selected: name === this.map }, name)));
    const budget = h("select", { name: "budget", onchange: (event) => { this.budget = Number(event.target.value) << 20; this.load(); } },
      BUDGETS.map((most) => h("option", { value: most, selected: most << 20 === this.budget }, `${most} MiB`)));
    const flip = h("input", { type: "checkbox", name: "flip", checked: this.flip, onchange: (event) => { this.flip = event.target.checked; this.draw(); this.say(); } });
    return [drawn ? field("Colours", maps) : null, field("Read at most", budget), drawn ? h("label", { class: "check" }, flip, "First row at the bottom") : null];
  }

  setAxis(which, axis) {
    if (this.axes[1 - which] === axis) this.axes[1 - which] = this.axes[which];
    this.axes[which] = axis;
    this.cursor = { x: 0, y: 0 };
    this.flip = this.wantsFlip();
    this.build();
    this.host.querySelector(`select[name=${which ? "columns" : "rows"}]`).focus();
    this.load();
  }

  /** Reads the slice again, and aborts the previous read. */
  async load() {
    this.reading?.abort();
    const reading = new AbortController();
    this.reading = reading;
    const signal = AbortSignal.any([reading.signal, this.signal]);
    const planned = plan(this.array, this.axes, this.at, this.budget);
    if (planned.tooLarge) {
      this.status.textContent = `One piece takes ${size(planned.tooLarge)}, more than may be read. Choose a larger limit.`;
      return;
    }
    try {
      this.host.setAttribute("aria-busy", "true");
      const progress = (done, all) => { if (all > 1) this.status.textContent = `Reading chunk ${count(done)} of ${count(all)} …`; };
      const read = await picture(this.array, planned, signal, progress);
      this.planned = planned;
      this.slice = { ...read, values: Float64Array.from(read.elements, (element) => physical(element, this.means, this.array.type)) };
      this.cursor = { x: Math.min(this.cursor.x, read.width - 1), y: Math.min(this.cursor.y, read.height - 1) };
      this.status.textContent = this.told();
      if (!this.range) this.autoRange(0);
      else this.draw();
      if (document.activeElement === this.canvas || !this.array.shape.length) this.say();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.status.replaceChildren(h("span", { class: "error" }, error.message), error.hint ? ` ${error.hint}` : "");
    } finally {
      if (this.reading === reading) this.host.removeAttribute("aria-busy");
    }
  }

  /** Describes what was read, and what was not. */
  told() {
    const { rows, columns, wanted, all, bytes } = this.planned;
    const piece = this.planned.ranged ? "part" : "chunk";
    const said = [`${plural(wanted.length, piece)} read, ${size(bytes)}.`];
    const steps = [rows, columns].filter((side) => side.step > 1).map((side) => `one in ${count(side.step)} along ${this.name(side.axis)}`);
    if (steps.length) said.push(`Elements shown: ${steps.join(", ")}.`);
    if (wanted.length < all) said.push(`The slice needs ${plural(all, piece)}, more than the limit: ${count(all - wanted.length)} are not read, and hatched.`);
    const missing = this.slice.values.reduce((sum, value, n) => sum + (this.slice.read[n] && value !== value ? 1 : 0), 0);
    if (missing) said.push(`${plural(missing, "value")} without data.`);
    return said.join(" ");
  }

  /** Sets the range from the smallest to the largest value, excluding a fraction at either end. */
  autoRange(part) {
    const { values, read } = this.slice;
    const known = values.filter((value, n) => read[n] && Number.isFinite(value)).sort();
    const last = known.length - 1;
    this.range = known.length ? [known[Math.floor(part * last)], known[Math.ceil((1 - part) * last)]] : [0, 1];
    this.low.value = spell(this.range[0], "float32");
    this.high.value = spell(this.range[1], "float32");
    this.draw();
  }

  setRange() {
    const range = [Number(this.low.value), Number(this.high.value)];
    const bad = [this.low, this.high].map((input, n) => {
      const wrong = input.value.trim() === "" || !Number.isFinite(range[n]);
      input.setAttribute("aria-invalid", String(wrong));
      return wrong;
    });
    if (bad.includes(true)) return;
    this.range = range;
    this.draw();
  }

  draw() {
    if (!this.slice) return;
    const { width, height } = this.slice;
    if (this.array.shape.length < 2) {
      this.canvas.classList.add("line");
      drawLine(this.canvas, this.slice, this.range, this.cursor.x);
      return;
    }
    this.canvas.width = width;
    this.canvas.height = height;
    const context = this.canvas.getContext("2d");
    const image = context.createImageData(width, height);
    this.paint(image.data);
    context.putImageData(image, 0, 0);
    const scale = Math.max(1, Math.min(Math.floor(WIDE / width), Math.floor(480 / height)));
    this.canvas.style.width = `${width * scale}px`;
    this.canvas.style.height = "auto";
    this.canvas.style.aspectRatio = `${width} / ${height}`;
    this.bar.style.background = `linear-gradient(90deg, ${Array.from({ length: 17 }, (_, n) => css(this.map, n / 16)).join(", ")})`;
    this.canvas.dataset.drawn = String(Number(this.canvas.dataset.drawn ?? 0) + 1);
  }

  /** Draws the picture: missing data is transparent, unread elements are hatched. */
  paint(pixels) {
    const { width, height, values, read } = this.slice;
    const colours = table(this.map);
    const [low, high] = this.range;
    for (let y = 0; y < height; y += 1) {
      const line = (this.flip ? height - 1 - y : y) * width;
      for (let x = 0; x < width; x += 1) {
        const to = 4 * (y * width + x);
        const value = values[line + x];
        if (!read[line + x]) {
          pixels.set((x + y) % 6 === 0 ? [128, 128, 128, 160] : [128, 128, 128, 40], to);
        } else if (value === value) {
          const place = high === low ? 0.5 : (value - low) / (high - low);
          const from = 3 * Math.round(255 * Math.min(1, Math.max(0, place)));
          pixels[to] = colours[from];
          pixels[to + 1] = colours[from + 1];
          pixels[to + 2] = colours[from + 2];
          pixels[to + 3] = 255;
        }
      }
    }
  }

  point(event) {
    if (!this.slice) return;
    const box = this.canvas.getBoundingClientRect();
    const part = (at, from, length, samples) => Math.min(samples - 1, Math.max(0, Math.floor(((at - from) / length) * samples)));
    const row = part(event.clientY, box.top, box.height, this.slice.height);
    this.cursor = { x: part(event.clientX, box.left, box.width, this.slice.width), y: this.flip ? this.slice.height - 1 - row : row };
    this.say();
  }

  key(event) {
    if (!this.slice) return;
    const by = event.shiftKey ? 10 : 1;
    const up = this.flip ? by : -by;
    const { x, y } = this.cursor;
    const to = { ArrowLeft: [x - by, y], ArrowRight: [x + by, y], ArrowUp: [x, y + up], ArrowDown: [x, y - up], Home: [0, y], End: [Infinity, y], PageUp: [x, y + 10 * up], PageDown: [x, y - 10 * up] }[event.key];
    if (!to) return;
    event.preventDefault();
    this.cursor = { x: Math.max(0, Math.min(this.slice.width - 1, to[0])), y: Math.max(0, Math.min(this.slice.height - 1, to[1])) };
    this.say();
  }

  /** Shows the value under the cursor, with its index, its coordinates, and the stored value if it differs. */
  say() {
    const { rows, columns } = this.planned;
    const { x, y } = this.cursor;
    const n = y * this.slice.width + x;
    const index = this.at.map((at, axis) => (axis === rows.axis ? y * rows.step : axis === columns.axis ? x * columns.step : at));
    const place = index.map((at, axis) => `${this.name(axis)} ${count(at)}${this.coordinate(axis, at)}`).join(", ");
    this.readout.textContent = `${place ? `${place}: ` : ""}${this.value(n)}`;
    this.readout.dataset.index = JSON.stringify(index);
    this.readout.dataset.value = this.slice.read[n] ? String(this.slice.values[n]) : "";
    this.mark();
  }

  coordinate(axis, at) {
    const line = this.lines[axis];
    return line ? ` (${spell(line.at(at), line.type)}${line.units ? ` ${line.units}` : ""})` : "";
  }

  value(n) {
    if (!this.slice.read[n]) return "not read";
    const stored = this.slice.elements[n];
    const value = this.slice.values[n];
    const units = typeof this.array.attributes.units === "string" ? ` ${this.array.attributes.units}` : "";
    if (value !== value) return `no data (stored ${spell(stored, this.array.type)})`;
    if (this.means.packed) return `${spell(value)}${units} (stored ${spell(stored)})`;
    if (this.array.type === "bool") return stored ? "true" : "false";
    return `${spell(stored, this.array.type)}${units}`;
  }

  /** Places a ring around the cursor; a separate element, so that the pixels of the picture stay unchanged. */
  mark() {
    if (this.array.shape.length < 2) { this.draw(); return; }
    this.ring ??= h("span", { class: "ring", "aria-hidden": "true" });
    if (this.ring.parentElement !== this.canvas.parentElement) this.canvas.after(this.ring);
    const row = this.flip ? this.slice.height - 1 - this.cursor.y : this.cursor.y;
    const across = this.canvas.clientWidth / this.slice.width;
    const down = this.canvas.clientHeight / this.slice.height;
    this.ring.style.left = `${this.canvas.offsetLeft + this.canvas.clientLeft + this.cursor.x * across}px`;
    this.ring.style.top = `${this.canvas.offsetTop + this.canvas.clientTop + row * down}px`;
    this.ring.style.width = `${across}px`;
    this.ring.style.height = `${down}px`;
  }
}
