// The viewer of an array: a picture or a line of a slice, its colours, profiles, a table, and exports.
import { MAP_NAMES } from "./colour.js";
import { axisFields, bandFields, colourFields, indexFields, viewButtons, zoomButtons } from "./controls.js";
import { Cursor } from "./cursor.js";
import { BUDGETS, DataArray, fitting, levels } from "./data.js";
import { count, fill, h, onTheme, plural, size } from "./dom.js";
import { Histogram } from "./histogram.js";
import { drawLine, rangeOf as lineRange } from "./lines.js";
import { coloursOf, mapOptions, placeOf } from "./map-mode.js";
import { drawPicture } from "./picture.js";
import { Profile } from "./profile.js";
import { exportCsv, exportPng } from "./save.js";
import { bandAxis, categories, composite, defaultMap, palette, rangeOf } from "./shading.js";
import { coordinatesOf, readSlice } from "./slice.js";
import { readAxis, title } from "./axes.js";
import { read as readState, write as writeState } from "./viewstate.js";
import { Table } from "./table.js";
import { spell } from "./values.js";

/** Largest number of elements along an axis of the level of a pyramid that is chosen for the screen. */
const SCREEN = 1024;
/** Longest axis whose coordinates are read to label a slider. */
const LABELS = 65536;

/** The viewer. `node` is the array's node in the tree, `source` names the file in URLs of the service. */
export class QuickLook {
  constructor(host, node, source) {
    Object.assign(this, { host, node, source, onchange: null, slice: null });
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
    const bands = composite(this.base, bandAxis(this.base, axes));
    return {
      axes, at: shape.map(() => 0), windows: {}, budget: BUDGETS[0] << 20, level: null, mode: isNumeric ? "picture" : "table",
      map: null, reverse: false, scale: "linear", range: null, part: 0.02, flip: null,
      place: {}, bands: bands ? { axis: bandAxis(this.base, axes), numbers: [...bands.bands, ...(bands.alpha === null ? [] : [bands.alpha])] } : null, profile: null,
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

  /** Returns the array or overview that is read: the chosen one, or the finest whose window fits the screen. */
  get array() {
    if (this.view.level !== null) return this.levels[this.view.level];
    const zoom = this.view.axes.reduce((most, axis) => Math.min(most, axis === null ? 1 : this.part(axis)[1] - this.part(axis)[0]), 1);
    return this.levels.find((level) => level.node === fitting(this.levels.map(({ node }) => node), SCREEN / zoom));
  }

  /** Returns the visible part of an axis: two numbers from 0 to 1. */
  part = (axis) => this.view.windows[axis] ?? [0, 1];

  /** Returns the visible range of each axis in elements of the array that is read. */
  windows() {
    return this.array.shape.map((length, axis) => {
      const [from, past] = this.part(axis);
      const start = Math.min(length - 1, Math.max(0, Math.floor(from * length + 1e-6)));
      return [start, Math.max(start + 1, Math.min(length, Math.ceil(past * length - 1e-6)))];
    });
  }

  isLine = () => this.base.shape.length < 2;
  isMap = () => this.view.mode === "map";

  build() {
    const tall = `Values of ${this.base.path}. Arrow keys move the cursor, Shift by ten, Home and End to the ends of a row, plus and minus zoom, Enter shows the profile.`;
    this.canvas = h("canvas", { class: "picture", tabindex: "0", role: "application", "aria-roledescription": "picture of values", "aria-label": tall });
    this.frame = h("canvas", { class: "axes", "aria-hidden": "true" });
    this.ring = h("span", { class: "ring", hidden: true, "aria-hidden": "true" });
    this.figure = h("div", { class: "figure" }, this.isLine() ? null : this.frame, this.canvas, this.isLine() ? null : this.ring);
    this.readout = h("output", { class: "readout", "aria-live": "polite" }, "Point at the picture, or move with the arrow keys, to read values.");
    this.status = h("p", { class: "mute status", role: "status" });
    this.legend = h("div", { class: "shades" });
    this.below = h("div", { class: "profile" });
    this.map?.close();
    this.map = null;
    this.mapHost = h("div");
    this.table = null;
    this.histogram = null;
    this.canvas.addEventListener("pointermove", (event) => this.cursor.point(event));
    this.canvas.addEventListener("click", (event) => { this.cursor.point(event); this.showProfile(); });
    this.canvas.addEventListener("keydown", (event) => this.cursor.key(event));
    this.canvas.addEventListener("dblclick", () => this.cursor.zoom(0.5));
    const isTable = this.view.mode === "table";
    fill(this.host, h("div", { class: "toolbar" }, viewButtons(this), isTable || this.isMap() ? null : zoomButtons(this), this.saveButtons()),
      h("div", { class: "controls" }, this.isLine() || this.isMap() ? null : axisFields(this), indexFields(this), isTable ? null : bandFields(this)),
      isTable ? (this.grid = h("div", { class: "values" })) : [this.isMap() ? this.mapHost : [this.figure, this.readout], this.legend, h("div", { class: "controls colours" }, colourFields(this))], this.status, this.below);
    this.profile = new Profile(this.below, this);
  }

  saveButtons() {
    const guarded = (work) => async () => {
      try { fill(this.status, await work(this) ?? this.told()); } catch (error) { if (error.name !== "AbortError") this.fail(error); }
    };
    return h("div", { class: "buttons save" }, h("button", { type: "button", class: "quiet", name: "csv", onclick: guarded(exportCsv) }, "CSV"),
      this.view.mode !== "picture" ? null : h("button", { type: "button", class: "quiet", name: "png", onclick: guarded(exportPng) }, "PNG"));
  }

  /** Changes the view, and reads again. `rebuild`: the controls change too. */
  set(change, { rebuild = false, reload = true } = {}) {
    const focused = document.activeElement?.name;
    Object.assign(this.view, change);
    if (rebuild) { this.build(); if (focused) this.host.querySelector(`[name="${CSS.escape(focused)}"]`)?.focus(); }
    this.changed();
    return reload ? this.load() : this.draw();
  }

  setAxis(which, axis) {
    const axes = [...this.view.axes];
    if (axes[1 - which] === axis) axes[1 - which] = axes[which];
    axes[which] = axis;
    this.cursor.at = { x: 0, y: 0 };
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
      if (error.name === "AbortError") return;
      this.fail(error);
    } finally {
      if (this.reading === reading) this.host.removeAttribute("aria-busy");
    }
  }

  async loadSlice(signal) {
    const slice = await readSlice(this.array, { ...this.view, windows: this.windows() }, signal);
    if (slice.plan.isTooLarge) {
      this.status.textContent = `One chunk takes ${size(slice.plan.bytes)}, more than may be read. Choose a larger limit.`;
      return;
    }
    this.slice = slice;
    this.cursor.clamp(slice);
    if (this.view.flip === null) this.view.flip = this.wantsFlip();
    const flip = this.host.querySelector("[name=flip]");
    if (flip) flip.checked = this.view.flip;
    if (this.view.map === null) {
      const { attributes } = this.base;
      Object.assign(this.view, palette(attributes) ? { map: "palette" } : categories(attributes) ? { map: "categories" } : defaultMap(this.base, slice.sorted[0]));
      const maps = this.host.querySelector("[name=map]");
      if (maps) maps.value = this.view.map;
    }
    fill(this.status, this.told());
    this.draw();
    if (document.activeElement === this.canvas || !this.base.shape.length) this.cursor.say();
    if (this.view.profile !== null) this.profile.load(signal);
  }

  fail(error) {
    this.status.replaceChildren(h("span", { class: "error" }, error.message), error.hint ? ` ${error.hint}` : "");
  }

  /** Reads the coordinates of the axes that have sliders, to label them. */
  async labels() {
    this.others ??= {};
    await Promise.all(this.base.shape.map(async (length, axis) => {
      if (this.others[axis] || this.view.axes.includes(axis) || axis === this.view.bands?.axis || length < 2 || length > LABELS) return;
      const coordinates = coordinatesOf(this.base, axis);
      if (!coordinates) return;
      this.others[axis] = await readAxis(this.base, axis, { axis, start: 0, step: 1, count: length }, coordinates, this.signal).catch(() => null);
      this.host.querySelector(`[data-label="${axis}"]`)?.dispatchEvent(new Event("label"));
    }));
    if (this.slice && this.view.mode === "picture") this.draw();
  }

  /** Returns whether the first row is drawn at the bottom: increasing latitudes and northings are drawn upwards. */
  wantsFlip() {
    const [rows] = this.slice.axes;
    return Boolean(rows?.isUp && rows.values && rows.values.at(-1) > rows.values[0]);
  }

  /** Describes what was read, and what was not. */
  told() {
    if (!this.slice || this.view.mode !== "picture") return "";
    const { plan, planes, elements } = this.slice;
    const { array } = this;
    const said = [];
    if (array !== this.base) said.push(`Overview ${this.levels.indexOf(array)} of ${this.levels.length - 1}: ${array.shape.map(count).join(" × ")}.`);
    const steps = plan.spans.filter(({ axis, step }) => axis !== null && step > 1).map(({ axis, step }) => `one in ${count(step)} along ${array.name(axis)}`);
    if (steps.length) said.push(`Elements shown: ${steps.join(", ")}.`);
    if (plan.isCut) said.push(`The whole slice takes more than ${size(this.view.budget)}: ${plan.spans.filter(({ axis }) => axis !== null).map(({ axis, start, step, count: number }) => `${array.name(axis)} ${count(start)} to ${count(start + (number - 1) * step)}`).join(", ")} is shown.`);
    said.push(`${size(elements.length * array.width)} read from ${plural(plan.chunks, "chunk")}.`);
    const missing = planes[0]?.reduce((sum, value) => sum + (value !== value ? 1 : 0), 0);
    if (missing) said.push(`${plural(missing, "value")} without data.`);
    return said.join(" ");
  }

  /** Returns how values become colours. */
  shade() {
    const { attributes, type } = this.base;
    const { map, reverse, scale, bands } = this.view;
    const part = this.view.range ? 0 : this.view.part;
    if (bands) {
      const whole = type === "uint8" ? [0, 255] : null;
      return { bands: [0, 1, 2].map((n) => whole ?? rangeOf(this.slice.sorted[n], part, {})), opaque: type === "uint16" ? 65535 : 255 };
    }
    const classes = map === "categories" ? categories(attributes) : null;
    const colours = classes ? new Map(classes.map(({ value, pixel }) => [value, pixel])) : map === "palette" ? palette(attributes) : null;
    return { map, reverse, scale, range: this.view.range ?? rangeOf(this.slice.sorted[0], part, this.view), palette: colours, classes };
  }

  heading() {
    const axes = this.array.shape.map((_, axis) => axis).filter((axis) => !this.view.axes.includes(axis) && this.array.shape[axis] > 1 && axis !== this.view.bands?.axis);
    const fixed = axes.map((axis) => `${this.array.name(axis)} ${this.others?.[axis]?.coordinate(this.view.at[axis]) ?? count(this.view.at[axis])}`);
    return [title(this.base.attributes, this.node.name), ...fixed].join(" · ");
  }

  draw() {
    if (!this.slice || this.view.mode === "table") return;
    if (!this.base.shape.length) { this.figure.hidden = true; return; }
    const shade = this.shade();
    if (this.isMap()) this.drawMap(shade).catch((error) => this.fail(error));
    else if (this.isLine()) this.drawSeries();
    else {
      this.planned = drawPicture(this, this.slice, shade, { flip: this.view.flip, heading: this.heading() });
      this.drawShades(shade);
      this.cursor.mark();
    }
    this.profile.draw();
  }

  /** Shows the slice and the colours on a map, which is opened at first. */
  async drawMap(shade) {
    this.drawShades(shade);
    if (this.map) { this.map.show({ at: this.view.at, colours: coloursOf(this.view, shade) }); return; }
    const host = this.mapHost;
    const { MapView } = await import("./map.js");
    if (host !== this.mapHost || this.map || this.signal.aborted) return;
    this.map = new MapView(host, { ...mapOptions(this, this.shade()), onstate: () => this.changed() });
    this.map.restore(this.view.place);
  }

  drawSeries() {
    this.canvas.classList.add("line");
    const values = this.slice.planes[0];
    const range = this.view.range ?? lineRange(values);
    this.nearest = drawLine(this.canvas, { values, axis: this.slice.axes[1], range, heading: this.heading(), title: this.base.attributes.units ? String(this.base.attributes.units) : "", cursor: this.cursor.at.x, height: 320, scale: this.view.scale });
  }

  drawShades(shade) {
    for (const element of this.host.querySelectorAll(".of-range")) element.hidden = Boolean(shade.bands || shade.palette);
    if (shade.bands || shade.palette) {
      this.histogram = null;
      fill(this.legend, shade.classes ? h("ul", { class: "categories" }, shade.classes.map(({ label, pixel, value }) => {
        const swatch = h("span", { class: "swatch" });
        swatch.style.background = `rgb(${pixel & 255} ${(pixel >> 8) & 255} ${(pixel >> 16) & 255})`;
        return h("li", {}, swatch, `${label} `, h("span", { class: "mute" }, String(value)));
      })) : null);
      return;
    }
    if (!this.histogram) {
      fill(this.legend);
      this.histogram = new Histogram(this.legend, (range) => this.set({ range }, { reload: false }));
    }
    const units = typeof this.base.attributes.units === "string" && this.base.attributes.units !== "1" ? this.base.attributes.units : "";
    this.histogram.show(this.slice.sorted[0], { ...shade, units });
    for (const [name, value] of [["low", shade.range[0]], ["high", shade.range[1]]]) {
      const input = this.host.querySelector(`[name=${name}]`);
      if (input && input !== document.activeElement) input.value = spell(value, "float32");
    }
  }

  showProfile() {
    if (this.isLine() || !this.slice) return;
    this.view.profile ??= this.profile.first();
    this.changed();
    this.profile.load(this.signal);
  }
}

/** Returns the axes of rows and columns of an array with two or more axes: those of `y` and `x`, otherwise the last two. */
function imageAxes(array) {
  const last = array.shape.length - 1;
  // Interleaved images have their bands last.
  const isInterleaved = last > 1 && array.shape[last] <= 4 && /^(band|bands|sample|samples|channel|channels|rgb|c|s)$/i.test(array.names[last] ?? "");
  return isInterleaved ? [last - 2, last - 1] : [last - 1, last];
}
