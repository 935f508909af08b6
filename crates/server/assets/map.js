// Map: an array on Earth, in the coordinates of its file, with coastlines.
import { loadCrs } from "./crs.js";
import { DataArray, readElement, rootOf } from "./data.js";
import { count, failure, fill, h, onTheme, visible } from "./dom.js";
import { georeference } from "./georeference.js";
import { loadCells, loadGrid, locateCells, pixelAt, unitFactor, wrapped } from "./map-grid.js";
import { Coast, distance, drawGraticule, graticule, spellLatitude, spellLongitude, stroke, tracePath, write } from "./map-lines.js";
import { Tiles, bandsOf, drawLevel, keyOf, locate, visibleTiles } from "./map-tiles.js";
import { View } from "./map-view.js";
import { Readout, describe } from "./readout.js";
import { spell } from "./values.js";

/** Maximum size of the decoded chunks of one view, in bytes, and number of its requests. */
const BUDGET = 256 << 20;
const REQUESTS = 64;
/** Kilometres per CSS pixel above which the coarser coastlines are drawn. */
const COARSE = 12;
const HINT = "Drag to move, scroll or pinch to zoom, double-click to show everything, click for a profile. With the keyboard: arrow keys move, Shift and an arrow key move by one pixel, plus and minus zoom, 0 shows everything, Enter shows the profile at the centre.";

/**
 * A map. `source`: the path segment that names the source. `node`: that of the array in the tree. `at`: the index along
 * each axis. `colours`: see `paintPlanes`, with the `axis` of bands and the `index` of each. `onstate` is called with the state when it changes, `onpick` with the row and column of a click.
 */
export class MapView {
  constructor(element, { source, node, at, colours, signal, onstate = () => {}, onpick = () => {} }) {
    this.closing = new AbortController();
    Object.assign(this, { element, source, path: node.path, onstate, onpick, signal: signal ? AbortSignal.any([signal, this.closing.signal]) : this.closing.signal });
    this.reference = georeference(node);
    this.array = (path) => new DataArray(source, rootOf(node).byPath.get(path));
    this.node = node.description;
    this.at = at ?? this.node.shape.map(() => 0);
    this.colours = colours;
    this.build();
    this.ready = this.open();
  }

  build() {
    const id = `map-hint-${Math.random().toString(36).slice(2)}`;
    this.data = h("canvas", { class: "map-data", tabindex: "0", role: "application", "aria-roledescription": "map", "aria-label": `Map of ${this.path}`, "aria-describedby": id });
    this.overlay = h("canvas", { class: "map-lines", "aria-hidden": "true" });
    const button = (label, name, work) => h("button", { type: "button", class: "quiet", "aria-label": name, title: name, onclick: work }, label);
    this.frame = h("div", { class: "map-frame" }, this.data, this.overlay, h("span", { class: "map-cross", "aria-hidden": "true" }),
      h("div", { class: "map-buttons", role: "group", "aria-label": "Zoom" },
        button("+", "Zoom in", () => this.gestures?.scale(2)), button("−", "Zoom out", () => this.gestures?.scale(0.5)), button("⤢", "Show everything", () => this.gestures?.fit())));
    this.element.setAttribute("aria-busy", "true");
    this.readout = new Position(this);
    this.status = h("p", { class: "mute status", role: "status" });
    this.system = h("p", { class: "mute status map-system" });
    fill(this.element, h("div", { class: "map" }, this.frame, this.readout.element, this.status, this.system, h("p", { class: "away", id }, HINT)));
  }

  /** Reads the coordinates and the coordinate reference system, and draws. */
  async open() {
    try {
      if (!this.reference) throw new Error("The file does not say where this array is on Earth.");
      const crs = await loadCrs(this.reference).catch((error) => ({ problem: error }));
      this.signal.throwIfAborted();
      const isPeriodic = !crs.problem && crs.metres === null;
      this.grid = this.reference.cells
        ? await loadCells(this.reference, this.array, this.signal)
        : await loadGrid(this.reference, this.array, isPeriodic, this.signal);
      this.signal.throwIfAborted();
      this.place(crs);
      const [west, south, east, north] = this.grid.bounds;
      this.frame.style.aspectRatio = String(Math.min(3, Math.max(0.75, (east - west) / (north - south) || 1)));
      this.tiles = new Tiles({ levels: this.grid.levels, array: this.array, signal: this.signal, changed: () => this.draw(false) });
      if (this.colours) this.tiles.select(this.at, this.colours);
      this.gestures = new View(this.data, this.grid, {
        changed: () => this.moved(), click: (x, y) => this.pick(this.gestures.at(x, y)), point: (x, y) => this.readout.say(this.gestures.at(x, y)),
      });
      if (this.wanted) this.gestures.restore(this.wanted);
      new ResizeObserver(() => { if (!this.signal.aborted && !this.gestures.resize()) this.draw(); }).observe(this.frame);
      onTheme(() => this.draw(), this.signal);
      this.data.addEventListener("keyup", () => this.readout.say(this.gestures));
      this.data.addEventListener("keydown", (event) => { if (event.key === "Enter") this.pick(this.gestures); });
      this.draw();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.element.removeAttribute("aria-busy");
      this.frame.hidden = true;
      this.readout.element.hidden = true;
      fill(this.status, failure(error));
    }
  }

  /** Sets how positions are computed; describes why they are not. */
  place(crs) {
    try {
      if (crs.problem) throw crs.problem;
      const factor = unitFactor(this.reference, crs);
      const forward = (point) => crs.forward(point).map((each) => each / factor);
      const inverse = (point) => crs.inverse([point[0] * factor, point[1] * factor]);
      const near = crs.isLocal && crs.area ? [crs.area[0] - 15, crs.area[1] - 15, crs.area[2] + 15, crs.area[3] + 15] : null;
      this.positions = { forward, inverse, near };
      this.coast = new Coast(this.positions);
      this.isPlain = crs.isGeographic;
      const turn = crs.isCylindrical ? 360e3 * (forward([1e-3, 0])[0] - forward([0, 0])[0]) : null;
      this.repeat = this.grid.period ?? (crs.metres === null ? 360 : turn);
      this.unit = this.reference.units && !this.reference.isImage ? this.reference.units : crs.unit;
      fill(this.system, `${crs.name}. Coastlines: Natural Earth.`);
    } catch (problem) {
      this.positions = null;
      this.unit = this.reference.units ?? "";
      fill(this.system, `Without coastlines, longitude and latitude: ${problem.message}.`);
    }
  }

  /** Marks a point of the array, and reports its row and column. */
  pick({ x, y }) {
    const found = this.readout.index(x, y);
    this.readout.say({ x, y });
    if (!found) return;
    this.picked = { x, y };
    this.draw();
    this.onpick(found[1], found[0]);
  }

  /** Shows another index, or other colours. */
  show({ at = this.at, colours = this.colours }) {
    Object.assign(this, { at, colours });
    this.tiles?.select(at, colours);
    this.draw(false);
  }

  state = () => this.gestures?.state() ?? this.wanted ?? {};

  restore(state) {
    this.wanted = state;
    this.gestures?.restore(state);
  }

  close() {
    this.closing.abort();
    this.tiles?.want([]);
    fill(this.element);
  }

  moved() {
    this.draw();
    this.onstate(this.state());
  }

  /** Draws before the next frame; `withLines`: the view has changed, not only the data. */
  draw(withLines = true) {
    this.linesAreDue ||= withLines;
    if (this.drawing || !this.gestures) return;
    this.drawing = requestAnimationFrame(() => {
      this.drawing = null;
      if (this.signal.aborted || !this.colours || !this.data.clientWidth) return;
      this.drawData();
      if (this.linesAreDue) this.drawLines();
      this.linesAreDue = false;
      this.tell();
      this.data.dataset.drawn = String(Number(this.data.dataset.drawn ?? 0) + 1);
    });
  }

  /** Returns the view in canvas pixels of a size, relative to CSS pixels. */
  view(ratio) {
    const { x, y, per, width, height } = this.gestures;
    const size = [Math.round(width * ratio), Math.round(height * ratio)];
    return { left: x - (width * per) / 2, top: y + (height * per) / 2, per: per / ratio, width: size[0], height: size[1] };
  }

  /** Returns the coarsest level whose pixels are at most as large as those of the canvas; the finest if there is none. */
  level(per) {
    const { levels } = this.grid;
    for (let n = levels.length - 1; n > 0; n -= 1) if (Math.max(...levels[n].size) <= per * 1.01) return n;
    return 0;
  }

  drawData() {
    const view = this.view(Math.min(2, devicePixelRatio || 1));
    const wanted = this.level(view.per);
    const located = this.located(wanted, view);
    this.want(wanted, located ? visibleTiles(this.tiles.forms[wanted], located, view).map((tile) => [wanted, ...tile]) : []);
    // What was drawn stays until the first tile of another slice is read.
    const isSame = this.data.dataset.view === JSON.stringify(view);
    if (isSame && this.tiles.pending && !this.tiles.kept.size) return;
    const image = new ImageData(view.width, view.height);
    const words = new Uint32Array(image.data.buffer);
    for (let n = this.grid.levels.length - 1; n >= wanted; n -= 1) {
      const found = n === wanted ? located : this.tiles.has(n) && this.located(n, view);
      if (found) drawLevel(words, this.tiles, n, found, view);
    }
    Object.assign(this.data, { width: view.width, height: view.height });
    this.data.getContext("2d").putImageData(image, 0, 0);
    Object.assign(this.data.dataset, { level: wanted, view: JSON.stringify(view) });
  }

  /** Finds the pixels of a level below those of the canvas; null while the coordinates of its cells are read. */
  located(n, view) {
    const level = this.grid.levels[n];
    if (!this.grid.load) return locate(this.grid, level, view);
    const key = JSON.stringify(view);
    if (!level.cells) {
      this.grid.load(level).then(() => this.draw(), (error) => { level.problem = error; });
      return null;
    }
    if (level.located?.key !== key) level.located = { key, view, ...locateCells(level, view) };
    return level.located;
  }

  /** Requests the tiles of a view, as far as its budget goes. */
  want(level, tiles) {
    const affordable = Math.max(1, Math.min(REQUESTS, Math.floor(BUDGET / this.tiles.forms[level].decoded)));
    this.left = Math.max(0, tiles.length - affordable);
    this.shownLevel = level;
    this.tiles.want(tiles.slice(0, affordable));
    this.problem = this.grid.levels[level].problem ?? tiles.map((tile) => this.tiles.failed.get(keyOf(...tile))).find(Boolean);
  }

  drawLines() {
    const ratio = devicePixelRatio || 1;
    const view = this.view(1);
    Object.assign(this.overlay, { width: Math.round(view.width * ratio), height: Math.round(view.height * ratio) });
    const context = this.overlay.getContext("2d");
    context.scale(ratio, ratio);
    context.font = `11px ${getComputedStyle(this.element).fontFamily}`;
    context.lineJoin = "round";
    // The length of a CSS pixel at the centre, along x.
    const { x, y, per } = this.gestures;
    const ends = this.positions && [x - per, x + per].map((at) => this.positions.inverse([at, y]));
    const perPixel = ends && distance(...ends) / 2;
    if (this.positions) {
      drawGraticule(context, view, graticule(view, this.positions), this.repeat);
      const changed = () => this.draw();
      const coarse = this.coast.lines("110m", changed);
      const lines = perPixel > COARSE ? coarse : this.coast.lines("50m", changed) ?? coarse;
      this.overlay.dataset.coast = lines ? (lines === coarse ? "110m" : "50m") : "";
      context.beginPath();
      tracePath(context, lines ?? [], view, this.repeat);
      stroke(context, 1.2);
    }
    if (this.picked) {
      context.beginPath();
      context.arc((this.picked.x - view.left) / view.per, (view.top - this.picked.y) / view.per, 6, 0, 2 * Math.PI);
      stroke(context);
    }
    drawScale(context, view, perPixel || view.per, perPixel ? null : this.unit || "units");
  }

  /** Describes what is being read, and what is not. */
  tell() {
    const { pending, requests } = this.tiles;
    this.element.toggleAttribute("aria-busy", pending > 0);
    Object.assign(this.data.dataset, { pending, requests });
    const level = this.grid.levels[this.shownLevel];
    const zoomed = this.grid.levels[0].size[0] ? level.size[0] / this.grid.levels[0].size[0] : 1;
    const said = [];
    if (zoomed > 1.01) said.push(`${level.step > 1 ? "One pixel in" : "Overview: one pixel for"} ${spell(Number(zoomed.toPrecision(3)))} along each axis is drawn; values are those of the file.`);
    if (this.left) said.push(`${count(this.left)} parts of the view are not read: zoom in to read them.`);
    if (pending) said.push("Reading …");
    if (this.problem) fill(this.status, failure(this.problem));
    else if (this.status.textContent !== visible(said.join(" "))) this.status.textContent = visible(said.join(" "));
  }
}

/** The line below a map: the position and the value at a point. */
class Position extends Readout {
  constructor(map) {
    super("Point at the map, or move it with the arrow keys, to read values.");
    this.map = map;
  }

  /** Shows the position and the value at a point: that of the file, which is read unless the map shows it. */
  say({ x, y }) {
    const { map } = this;
    const [column, row] = this.index(x, y) ?? [];
    const isExact = map.shownLevel === 0 && map.grid.levels[0].step === 1;
    const shown = isExact && column !== undefined ? map.tiles.element(0, column, row) : null;
    const position = map.positions?.inverse([x, y]) ?? [NaN, NaN];
    const digits = Math.max(0, Math.min(9, 1 - Math.floor(Math.log10(Math.min(...map.grid.levels[0].size)))));
    const at = wrapped(x, map.grid.bounds[0], map.grid.period);
    const fixed = (value) => value.toLocaleString("en-GB", { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace("-", "−");
    const parts = [
      position[0] === position[0] ? `${spellLatitude(position[1], 1e-5)}, ${spellLongitude(position[0], 1e-5)}` : null,
      map.isPlain ? null : `x ${fixed(at)}, y ${fixed(y)}${map.unit ? ` ${map.unit}` : ""}`,
      column === undefined ? null : `row ${count(row)}, column ${count(column)}`,
    ].filter(Boolean);
    const line = (text, value) => ({
      text: [...parts, text].join(" · "),
      data: { x: at, y, longitude: position[0], latitude: position[1], index: column === undefined ? "" : JSON.stringify([row, column]), value: String(value) },
    });
    const array = map.array(map.path);
    const bands = bandsOf(map.colours);
    const found = (elements) => line(describe(array, elements, bands), bands ? JSON.stringify(elements.map(({ value }) => value)) : elements[0].value);
    if (column === undefined) { this.tell(line("outside of the data", "")); return; }
    if (!shown) this.show(line("…", ""));
    const [level] = map.grid.levels;
    const index = map.at.map((each, axis) => (axis === level.y ? row : axis === level.x ? column : each));
    this.tell(shown && found(shown), () => readElement(array, [level.y, level.x], index, bands, map.signal).then(found, (error) => line(error.message, "")));
  }

  /** Returns the pixel of a level at a point: `[column, row]`; null if there is none. */
  find(n, x, y) {
    const level = this.map.grid.levels[n];
    if (!this.map.grid.load) return pixelAt(this.map.grid, level, x, y);
    if (!level.located) return null;
    const { left, top, per, width, height } = level.located.view;
    const [i, j] = [Math.floor((x - left) / per), Math.floor((top - y) / per)];
    const cell = i >= 0 && j >= 0 && i < width && j < height ? level.located.at(i, j) : -1;
    return cell < 0 ? null : [cell % level.width, Math.floor(cell / level.width)];
  }

  /** Returns the column and row in the array at a point; null outside of the data. Those of cells are as precise as the level drawn. */
  index(x, y) {
    if (!this.map.grid.load) return this.find(0, x, y);
    const { step, offset } = this.map.grid.levels[this.map.shownLevel];
    return this.find(this.map.shownLevel, x, y)?.map((each) => offset + each * step) ?? null;
  }
}

/** Draws a scale bar of a round length in the lower right corner. `perPixel`: kilometres, or units if there is a name for them. */
function drawScale(context, { width, height }, perPixel, unit) {
  const power = 10 ** Math.floor(Math.log10(perPixel * 120));
  const length = [5, 2, 1].find((each) => each * power <= perPixel * 120) * power;
  const shown = (value) => String(Number(value.toPrecision(3)));
  const [right, bottom, left] = [width - 12, height - 10, width - 12 - length / perPixel];
  context.beginPath();
  for (const [x, y] of [[left, bottom - 5], [left, bottom], [right, bottom], [right, bottom - 5]]) context.lineTo(x, y);
  stroke(context);
  context.textAlign = "right";
  write(context, unit ? `${shown(length)} ${unit}` : length >= 1 ? `${shown(length)} km` : `${shown(length * 1000)} m`, right, bottom - 9);
  context.textAlign = "left";
}
