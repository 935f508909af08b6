// The viewer of an array: a picture or a line of a slice, its colours, profiles, a table, and exports.
import { title } from "./axes.js";
import { bandAxis, categories, composite, css, defaultMap, imageAxes, paintPlanes, palette, rangeOf } from "./colour.js";
import { axisFields, bandFields, colourFields, indexFields, read as readState, viewButtons, write as writeState, zoomButtons } from "./controls.js";
import { Cursor } from "./cursor.js";
import { BUDGETS, DataArray, coordinatesOf, levels, readAxis, readSlice, rootOf } from "./data.js";
import { drawSummary } from "./details.js";
import { count, failure, fill, h, onTheme, plural, size } from "./dom.js";
import { drawFrame } from "./figure.js";
import { georeference, placeOf } from "./georeference.js";
import { gestures, magnified, moved } from "./gestures.js";
import { Histogram } from "./histogram.js";
import { Profile, drawLine } from "./plot.js";
import { Table, exportCsv, exportPng } from "./table.js";
import { spell } from "./values.js";

/** Largest number of elements along an axis of the level of a pyramid that is chosen for the screen. */
const SCREEN = 1024;
/** Longest axis whose coordinates are read as a whole. */
const LABELS = 65536;
/** Milliseconds without a gesture after which the visible part is read. */
const REST = 90;
/** Number of slices that are read ahead of a slider, and maximum size of the decoded chunks of one of them, in bytes. */
const AHEAD = 2;
const AHEAD_BYTES = 32 << 20;

/** The viewer. `node` is the array's node in the tree, `source` names the file in URLs of the service. */
export class QuickLook {
  constructor(host, node, source) {
    Object.assign(this, { host, node, source, onchange: null, slice: null });
    this.others = {};
    this.ahead = new Map();
    this.cursor = new Cursor(this);
    this.levels = levels(node).map((level) => new DataArray(source, level));
    this.base = this.levels[0];
    this.view = this.initial();
  }

  /** Returns the view to start with. */
  initial() {
    const { shape, isNumeric } = this.base;
    const last = shape.length - 1;
    const axes = shape.length > 1 ? imageAxes(this.base) : [null, last < 0 ? null : 0];
    return {
      axes, at: shape.map(() => 0), windows: {}, budget: BUDGETS[0] << 20, mode: isNumeric ? "picture" : "table",
      map: null, reverse: false, scale: "linear", range: null, part: 0.02, flip: null,
      place: {}, bands: composite(this.base, bandAxis(this.base, axes)), profile: null,
    };
  }

  /** Shows the array, in a state that `state()` returned. */
  async show(signal, state = {}) {
    this.signal = signal;
    fill(this.host, h("p", { class: "mute" }, "Reading …"));
    if (this.base.shape.includes(0)) return fill(this.host, h("p", { class: "mute" }, "The array has no elements."));
    readState(this, state);
    onTheme(() => this.draw(), signal);
    let width = 0;
    const resized = ([{ contentRect }]) => {
      if (contentRect.width !== width && this.slice) requestAnimationFrame(() => this.draw());
      width = contentRect.width;
    };
    const observer = new ResizeObserver(resized);
    observer.observe(this.host);
    signal.addEventListener("abort", () => observer.disconnect());
    this.build();
    this.labels();
    return this.load();
  }

  /** Returns what is shown as short texts. */
  state = () => writeState(this);

  /** Shows a state that `state()` returned. */
  async restore(state) {
    this.view = this.initial();
    readState(this, state);
    this.build();
    return this.load();
  }

  changed() {
    if (this.map) this.view.place = this.map.state();
    this.onchange?.(this.state());
  }

  /** Returns the array or overview that is drawn. */
  get array() { return this.slice?.array ?? this.wanted; }

  /** Returns the array or overview to read: the finest whose window fits the screen. */
  get wanted() {
    const zoom = this.view.axes.reduce((most, axis) => Math.min(most, axis === null ? 1 : this.part(axis)[1] - this.part(axis)[0]), 1);
    return this.levels.find(({ shape }) => shape.slice(-2).every((length) => length <= SCREEN / zoom)) ?? this.levels.at(-1);
  }

  /** Returns the visible part of an axis: two numbers from 0 to 1. */
  part = (axis) => this.view.windows[axis] ?? [0, 1];

  /** Returns the visible range of each axis in elements of an array. */
  windows({ shape }) {
    return shape.map((length, axis) => {
      const [from, past] = this.part(axis);
      const start = Math.min(length - 1, Math.max(0, Math.floor(from * length + 1e-6)));
      return [start, Math.max(start + 1, Math.min(length, Math.ceil(past * length - 1e-6)))];
    });
  }

  /** Returns the parts of the axes of rows and columns that the figure shows. */
  get parts() {
    const { spans, isCut } = this.slice.plan;
    return spans.map(({ axis, start, step, count: samples }) => {
      if (axis === null || !isCut) return axis === null ? [0, 1] : this.part(axis);
      return [start, start + samples * step].map((at) => at / this.array.shape[axis]);
    });
  }

  /** Returns the window of the figure, in elements of the array that is read, and the size of that array. */
  frameOf() {
    const whole = this.view.axes.map((axis) => (axis === null ? 1 : this.array.shape[axis]));
    return { whole, window: this.parts.map((part, which) => part.map((at) => at * whole[which])) };
  }

  /** Returns the place of a point of the figure along the axes of rows and columns, from 0 to 1. */
  placesAt(x, y) {
    const { width, height } = this.planned?.box ?? {};
    const at = this.isLine() ? [0.5, this.drawn.part(x)] : [this.view.flip ? 1 - y / height : y / height, x / width];
    return this.parts.map(([from, past], which) => from + at[which] * (past - from));
  }

  /** Magnifies around places along the axes of rows and columns; returns false at a limit. */
  magnify(by, places) {
    if (!this.slice) return false;
    const { parts } = this;
    // Both axes are magnified alike, until one of them shows four elements.
    const limits = parts.map(([from, past], which) => Math.max(1, ((past - from) * (this.base.shape[this.view.axes[which]] ?? Infinity)) / 4));
    return this.reveals(parts.map(([from, past], which) => magnified([from, past], Math.min(by, ...limits), (places[which] - from) / (past - from), 0)));
  }

  /** Moves the visible part by parts of the figure. */
  move(by) {
    if (this.slice) this.reveals(this.parts.map(([from, past], which) => moved([from, past], by[which] * (past - from))));
  }

  reset() {
    if (this.slice) this.reveals([[0, 1], [0, 1]]);
  }

  /** Moves the visible part so that it contains the cursor. */
  reveal() {
    this.reveals(this.parts.map(([from, past], which) => {
      const length = this.base.shape[this.view.axes[which]] ?? 1;
      const [first, last] = [this.cursor.at[which] / length, (this.cursor.at[which] + 1) / length];
      return moved([from, past], first < from ? first - from : last > past ? last - past : 0);
    }));
  }

  /** Shows parts of the axes of rows and columns: what was read at once, the rest when no gesture follows. */
  reveals(parts) {
    const before = this.parts.flat();
    if (parts.flat().every((at, n) => Math.abs(at - before[n]) < 1e-12)) return false;
    const windows = {};
    this.view.axes.forEach((axis, which) => { if (axis !== null && parts[which][1] - parts[which][0] < 1) windows[axis] = parts[which]; });
    this.view.windows = windows;
    this.slice.plan.isCut = false;
    this.draw({ isSame: true });
    clearTimeout(this.resting);
    this.resting = setTimeout(() => { this.changed(); this.load(); }, REST);
    return true;
  }

  isLine = () => this.base.shape.length < 2;
  isMap = () => this.view.mode === "map";

  build() {
    const name = `Values of ${this.base.path}. Arrow keys move the cursor, Shift by ten, Home and End to the ends of a row, plus and minus zoom, 0 shows all, Enter shows the profile.`;
    this.canvas = h("canvas", { class: "picture", tabindex: "0", role: "application", "aria-roledescription": "picture of values", "aria-label": name });
    this.frame = h("canvas", { class: "axes", "aria-hidden": "true" });
    this.ring = h("span", { class: "ring", hidden: true, "aria-hidden": "true" });
    this.plate = this.isLine() ? this.canvas : h("div", { class: "plate" }, this.canvas, this.ring);
    this.figure = h("div", { class: "figure" }, this.isLine() ? this.canvas : [this.frame, this.plate]);
    this.status = h("p", { class: "mute status", role: "status" });
    this.legend = h("div", { class: "shades" });
    this.below = h("div", { class: "profile" });
    this.map?.close();
    this.map = null;
    this.mapHost = h("div");
    this.table = null;
    this.histogram = null;
    gestures(this.plate, {
      move: (right, down) => this.move(this.isLine() ? [0, -right / this.drawn.width] : [(this.view.flip ? down : -down) / this.planned.box.height, -right / this.planned.box.width]),
      zoom: (by, x, y) => this.slice && this.magnify(by, this.placesAt(x, y)),
      reset: () => this.reset(),
      click: (x, y) => { this.cursor.point(x, y); this.showProfile(); },
      point: (x, y) => this.cursor.point(x, y),
    });
    this.canvas.addEventListener("keydown", (event) => this.cursor.key(event));
    const isTable = this.view.mode === "table";
    const save = (name, work) => h("button", { type: "button", class: "quiet", name, onclick: () => work(this).then((text) => fill(this.status, text), this.fail) }, name.toUpperCase());
    fill(this.host, h("div", { class: "toolbar" }, viewButtons(this), isTable || this.isMap() ? null : zoomButtons(this), h("div", { class: "buttons save" }, save("csv", exportCsv), isTable ? null : save("png", exportPng))),
      h("div", { class: "controls" }, indexFields(this), this.isLine() || this.isMap() ? null : axisFields(this), isTable ? null : bandFields(this)),
      isTable ? (this.grid = h("div", { class: "values" })) : [this.isMap() ? this.mapHost : [this.figure, this.cursor.element], this.legend, h("div", { class: "controls colours" }, colourFields(this))], this.status, this.below);
    this.profile = new Profile(this.below, this);
  }

  /** Changes the view, and reads again. `rebuild`: the controls change too. */
  set(change, { rebuild = false, reload = true } = {}) {
    const focused = document.activeElement?.name;
    Object.assign(this.view, change);
    if (rebuild) { this.build(); if (focused) this.host.querySelector(`[name="${CSS.escape(focused)}"]`)?.focus(); }
    this.changed();
    return reload ? this.load() : this.draw();
  }

  /** Shows other indices while a slider moves: the next ones are read when the last ones are shown, and some ahead. */
  async slide(at) {
    const axis = at.findIndex((index, each) => index !== this.view.at[each]);
    this.direction = { axis, by: Math.sign(at[axis] - this.view.at[axis]) };
    this.view.at = at;
    if (this.sliding) { this.isBehind = true; return; }
    this.sliding = true;
    do {
      this.isBehind = false;
      this.changed();
      await this.load();
      this.readAhead(this.direction);
    } while (this.isBehind && !this.signal.aborted);
    this.sliding = false;
  }

  /** Reads the slices that a slider shows next, and aborts the reads of others. */
  readAhead({ axis, by }) {
    const next = [];
    const isSmall = this.slice && this.view.mode !== "table" && this.slice.plan.bytes <= AHEAD_BYTES;
    for (let n = 1; n <= AHEAD && isSmall; n += 1) {
      const index = this.view.at[axis] + n * by;
      if (index >= 0 && index < this.base.shape[axis]) next.push(this.selected(this.view.at.with(axis, index)));
    }
    for (const [key, { stop }] of this.ahead) {
      if (next.some((each) => each.key === key)) continue;
      this.ahead.delete(key);
      stop.abort();
    }
    for (const { key, array, view } of next) {
      if (this.ahead.has(key)) continue;
      const stop = new AbortController();
      const signal = AbortSignal.any([stop.signal, this.signal]);
      const reading = readSlice(array, view, signal);
      this.map?.tiles?.readAhead(view.at, signal);
      reading.catch(() => this.ahead.delete(key));
      this.ahead.set(key, { reading, stop });
    }
  }

  /** Returns what `readSlice` reads to show indices, and a key that identifies it. */
  selected(at) {
    const array = this.wanted;
    const { axes, budget, bands } = this.view;
    const view = { axes, at, budget, bands, windows: this.windows(array) };
    return { array, view, key: JSON.stringify([array.path, view]) };
  }

  setAxis(which, axis) {
    const axes = [...this.view.axes];
    if (axes[1 - which] === axis) axes[1 - which] = axes[which];
    axes[which] = axis;
    this.cursor.at = [0, 0];
    const bands = this.view.bands && !axes.includes(this.view.bands.axis) ? this.view.bands : null;
    this.set({ axes, flip: null, windows: {}, bands }, { rebuild: true });
    this.labels();
  }

  /** Reads the slice again, and aborts the previous read. */
  async load() {
    this.reading?.abort();
    const reading = new AbortController();
    this.reading = reading;
    const signal = AbortSignal.any([reading.signal, this.signal]);
    this.host.setAttribute("aria-busy", "true");
    try {
      if (this.isMap() && !placeOf(this)) this.set({ mode: "picture" }, { rebuild: true, reload: false });
      if (this.view.mode === "table") await (this.table ??= new Table(this.grid, this)).load(signal);
      else await this.loadSlice(signal);
    } catch (error) {
      this.fail(error);
    } finally {
      if (this.reading === reading) this.host.removeAttribute("aria-busy");
    }
  }

  async loadSlice(signal) {
    const { array, view, key } = this.selected(this.view.at);
    const ahead = this.ahead.get(key);
    this.ahead.delete(key);
    this.map?.tiles?.readAhead(view.at, signal);
    const slice = await (ahead?.reading ?? readSlice(array, view, signal));
    signal.throwIfAborted();
    if (slice.plan.isTooLarge) {
      this.status.textContent = `One chunk takes ${size(slice.plan.bytes)}, more than may be read. Choose a larger limit.`;
      return;
    }
    this.slice = Object.assign(slice, { array });
    this.cursor.clamp(slice);
    this.view.flip ??= await this.wantsFlip(signal);
    const flip = this.host.querySelector("[name=flip]");
    if (flip) flip.checked = this.view.flip;
    if (this.view.map === null) {
      const { attributes } = this.base;
      Object.assign(this.view, palette(attributes) ? { map: "palette" } : categories(attributes) ? { map: "categories" } : defaultMap(this.base, slice.sorted[0]));
      const maps = this.host.querySelector("[name=map]");
      if (maps) maps.value = this.view.map;
    }
    this.draw();
    fill(this.status, this.told());
    drawSummary(this);
    if (document.activeElement === this.canvas || !this.base.shape.length) this.cursor.say();
    if (this.view.profile !== null) this.profile.follow();
  }

  /** Shows an error, unless a read was aborted. */
  fail = (error) => { if (error.name !== "AbortError") fill(this.status, failure(error)); };

  /** Reads the coordinates of all axes, to label sliders and to summarize the array. */
  async labels() {
    await Promise.all(this.base.shape.map(async (length, axis) => {
      if (axis === this.view.bands?.axis || !(await this.full(axis))) return;
      this.host.querySelector(`[data-label="${axis}"]`)?.dispatchEvent(new Event("label"));
    })).catch(() => null);
    drawSummary(this);
    if (this.slice && this.view.mode === "picture") this.draw();
  }

  /** Reads all coordinates of an axis; null if there are none, or too many. */
  full(axis) {
    this.reads ??= {};
    return (this.reads[axis] ??= (async () => {
      const [length, coordinates] = [this.base.shape[axis], coordinatesOf(this.base, axis)];
      const found = coordinates && length <= LABELS ? await readAxis(this.base, { axis, start: 0, step: 1, count: length }, this.signal) : null;
      if (found?.values) this.others[axis] = found;
      return this.others[axis] ?? null;
    })());
  }

  /** Reads where an element is along an axis; null without coordinates. */
  async coordinate(axis, at, signal) {
    const coordinates = coordinatesOf(this.base, axis);
    const whole = coordinates && await this.full(axis);
    if (whole || !coordinates) return whole?.coordinate(at) ?? null;
    // The distance to the next coordinate determines how many digits are shown.
    const start = Math.max(0, Math.min(at, this.base.shape[axis] - 2));
    return (await readAxis(this.base, { axis, start, step: 1, count: 2 }, signal)).coordinate(at - start);
  }

  /** Returns where an element is along an axis, if its coordinates were read. */
  coordinateNow(axis, at) {
    const shown = this.view.axes.indexOf(axis);
    const [span, found] = [this.slice.plan.spans[shown], this.slice.axes[shown]];
    return this.others[axis]?.coordinate(at) ?? (found && this.array === this.base && !span.indices ? found.coordinate(Math.floor((at - span.start) / span.step)) : null);
  }

  /** Returns whether the first row is drawn at the bottom: increasing latitudes and northings are drawn upwards. */
  async wantsFlip(signal) {
    const [rows] = this.slice.axes;
    if (rows?.isUp && rows.values) return rows.values.at(-1) > rows.values[0];
    const { cells, y, x } = georeference(this.node) ?? {};
    const found = cells && y === this.view.axes[0] && x === this.view.axes[1] ? rootOf(this.node).byPath.get(cells.y) : null;
    if (!found) return false;
    const latitudes = new DataArray(this.source, found);
    const middle = latitudes.shape[1] >> 1;
    const column = await latitudes.read([[0, latitudes.shape[0], Math.max(1, latitudes.shape[0] >> 6)], middle], signal);
    const known = column.physical(latitudes.means).filter((value) => Math.abs(value) <= 90);
    return known.at(-1) > known[0];
  }

  /** Describes what was read, and what was not. */
  told() {
    if (!this.slice || this.view.mode !== "picture") return "";
    const { plan, elements, stats, group } = this.slice;
    const { array } = this;
    const said = [];
    if (array !== this.base) said.push(`Overview ${this.levels.indexOf(array)} of ${this.levels.length - 1}: ${array.shape.map(count).join(" × ")}.`);
    const steps = plan.spans.filter(({ axis, step }) => axis !== null && step > 1).map(({ axis, step }) => `one in ${count(step)} along ${array.name(axis)}`);
    if (group) said.push(`The smallest and the largest of each ${count(group)} values are drawn.`);
    if (steps.length) said.push(`Elements shown: ${steps.join(", ")}.${this.isLine() ? " Zoom in to see all of them: spikes between them are not drawn." : ""}`);
    if (plan.isCut) said.push(`The whole slice takes more than ${size(this.view.budget)}: ${plan.spans.filter(({ axis }) => axis !== null).map(({ axis, start, step, count: number }) => `${array.name(axis)} ${count(start)} to ${count(start + (number - 1) * step)}`).join(", ")} is shown.`);
    said.push(`${size(elements.length * array.width)} read from ${plural(plan.chunks, "chunk")}.`);
    if (stats?.missing && !group) said.push(`${plural(stats.missing, "value")} without data.`);
    return said.join(" ");
  }

  /** Returns the colours of the values, as `paintPlanes` and `MapView` take them. */
  shade() {
    const { attributes, type } = this.base;
    const { map, reverse, scale, bands } = this.view;
    const part = this.view.range ? 0 : this.view.part;
    if (bands) {
      const ranged = bands.numbers.map((index, n) => {
        const [low, high] = type === "uint8" ? [0, 255] : rangeOf(this.slice.sorted[n], part, {});
        return { index, low, high };
      });
      const [red, green, blue, alpha] = ranged;
      return { axis: bands.axis, bands: [red, green, blue], alpha: alpha ? { ...alpha, low: 0, high: type === "uint16" ? 65535 : 255 } : null };
    }
    const classes = map === "categories" ? categories(attributes) : null;
    const colours = classes ? new Map(classes.map(({ value, pixel }) => [value, pixel])) : map === "palette" ? palette(attributes) : null;
    const [low, high] = this.view.range ?? rangeOf(this.slice.sorted[0], part, this.view);
    return { map, reverse, scale, low, high, palette: colours, classes };
  }

  heading() {
    const axes = this.array.shape.map((_, axis) => axis).filter((axis) => !this.view.axes.includes(axis) && this.array.shape[axis] > 1 && axis !== this.view.bands?.axis);
    const fixed = axes.map((axis) => this.others[axis]?.position(this.view.at[axis]) ?? `${this.array.name(axis)} ${count(this.view.at[axis])}`);

    return [title(this.base.attributes, this.node.name), ...fixed].join(" · ");
  }

  /** Draws what was read; `isSame`: only the visible part has changed. `ratio`: pixels per CSS pixel, if not those of the screen. */
  draw({ isSame = false, ratio } = {}) {
    if (!this.slice || this.signal.aborted || this.view.mode === "table") return;
    if (!this.base.shape.length) { this.figure.hidden = true; return; }
    // A finger scrolls the page while everything is visible, and moves a part.
    this.plate.style.touchAction = Object.keys(this.view.windows).length ? "none" : "pan-x pan-y";
    if (this.isLine()) {
      const { units } = this.base.attributes;
      const [values, axis] = [this.slice.planes[0], this.slice.axes[1]];
      // Exported figures have no cursor.
      const cursor = ratio ? null : this.cursor.sample()?.x ?? null;
      this.canvas.classList.add("line");
      this.drawn = drawLine(this.canvas, { values, axis, window: this.frameOf().window[1], range: this.view.range, heading: this.heading(), title: typeof units === "string" ? units : "", cursor, height: 320, scale: this.view.scale, ratio });
      return;
    }
    const shade = isSame && this.shaded ? this.shaded : (this.shaded = this.shade());
    if (!isSame) this.drawShades(shade, ratio);
    if (this.isMap()) this.drawMap(shade).catch((error) => this.fail(error));
    else {
      if (!isSame) {
        Object.assign(this.canvas, { width: this.slice.width, height: this.slice.height });
        this.canvas.getContext("2d", { willReadFrequently: true }).putImageData(paintPlanes(this.slice.planes, this.slice, shade, this.view.flip), 0, 0);
        this.canvas.dataset.drawn = String(Number(this.canvas.dataset.drawn ?? 0) + 1);
      }
      this.planned = drawFrame(this, this.slice, { flip: this.view.flip, heading: this.heading(), ...this.frameOf(), ratio });
      this.cursor.mark();
    }
    if (!isSame) this.profile.draw();
  }

  /** Shows the slice and the colours on a map, which is opened at first. */
  async drawMap(shade) {
    if (this.map) { this.map.show({ at: this.view.at, colours: shade }); return; }
    const host = this.mapHost;
    const { MapView } = await import("./map.js");
    if (host !== this.mapHost || this.map || this.signal.aborted) return;
    const onpick = (row, column) => {
      this.cursor.at = this.view.axes[0] === placeOf(this).y ? [row, column] : [column, row];
      this.showProfile();
    };
    const { node, source, view, signal } = this;
    this.map = new MapView(host, { node, source, at: view.at, colours: this.shade(), signal, onstate: () => this.changed(), onpick });
    this.map.restore(this.view.place);
  }

  drawShades(shade, ratio) {
    for (const element of this.host.querySelectorAll(".of-range")) element.hidden = Boolean(shade.bands || shade.palette);
    if (shade.bands || shade.palette) {
      this.histogram = null;
      fill(this.legend, shade.classes ? h("ul", { class: "categories" }, shade.classes.map(({ label, pixel, value }) => {
        const swatch = h("span", { class: "swatch" });
        swatch.style.background = css(pixel);
        return h("li", {}, swatch, `${label} `, h("span", { class: "mute" }, String(value)));
      })) : null);
      return;
    }
    if (!this.histogram) {
      fill(this.legend);
      this.histogram = new Histogram(this.legend, (range) => this.set({ range }, { reload: false }));
    }
    const units = typeof this.base.attributes.units === "string" && this.base.attributes.units !== "1" ? this.base.attributes.units : "";
    this.histogram.show(this.slice.sorted[0], { ...shade, range: [shade.low, shade.high], units, ratio });
    for (const name of ["low", "high"]) {
      const input = this.host.querySelector(`[name=${name}]`);
      if (input && input !== document.activeElement) input.value = spell(shade[name], "float32");
    }
  }

  showProfile() {
    if (this.isLine() || !this.slice) return;
    this.view.profile ??= this.profile.first();
    this.changed();
    this.profile.load(this.signal);
  }
}
