// The line below a map: the position and the value at a point.
import { count, fill, h } from "./dom.js";
import { spellLatitude, spellLongitude } from "./map-graticule.js";
import { pixelAt, wrapped } from "./map-grid.js";
import { meaning, physical, spell, spellStored } from "./values.js";

/** The readout of a `MapView`. */
export class Readout {
  constructor(map) {
    this.map = map;
    this.element = h("output", { class: "readout", "aria-live": "polite" }, "Point at the map, or move it with the arrow keys, to read values.");
  }

  point(event) {
    const box = this.map.data.getBoundingClientRect();
    const view = this.map.view(1);
    this.say({ x: view.left + (event.clientX - box.left) * view.per, y: view.top - (event.clientY - box.top) * view.per });
  }

  /** Shows the position and the value at a point. */
  say({ x, y }) {
    const [column, row] = this.index(x, y) ?? [];
    const shown = this.sample(x, y);
    const position = this.map.positions?.inverse([x, y]) ?? [NaN, NaN];
    const digits = Math.max(0, Math.min(9, 1 - Math.floor(Math.log10(Math.min(...this.map.grid.levels[0].size)))));
    const at = wrapped(x, this.map.grid.bounds[0], this.map.grid.period);
    const parts = [
      position[0] === position[0] ? `${spellLatitude(position[1], 1e-5)}, ${spellLongitude(position[0], 1e-5)}` : null,
      this.map.isPlain ? null : `x ${at.toFixed(digits)}, y ${y.toFixed(digits)}${this.map.unit ? ` ${this.map.unit}` : ""}`,
      column === undefined ? null : `row ${count(row)}, column ${count(column)}`,
      shown ? shown.text : column === undefined ? "outside of the data" : "not read",
    ];
    fill(this.element, parts.filter(Boolean).join(" · "));
    Object.assign(this.element.dataset, { x: at, y, longitude: position[0], latitude: position[1], index: column === undefined ? "" : JSON.stringify([row, column]), value: shown ? String(shown.value) : "" });
  }

  /** Returns the pixel of a level at a point: `[column, row]`; null if there is none. */
  find(n, x, y) {
    const level = this.map.grid.levels[n];
    if (!this.map.grid.load) return pixelAt(this.map.grid, level, x, y);
    if (!level.located) return null;
    const { left, top, per, width, height } = level.located.view;
    const [i, j] = [Math.floor((x - left) / per), Math.floor((top - y) / per)];
    return i >= 0 && j >= 0 && i < width && j < height ? level.located.at(i, j) : null;
  }

  /** Returns the column and row in the array at a point; null outside of the data. Those of cells are as precise as the level shown. */
  index(x, y) {
    if (!this.map.grid.load) return this.find(0, x, y);
    const { step, offset } = this.map.grid.levels[this.map.shownLevel];
    return this.find(this.map.shownLevel, x, y)?.map((each) => offset + each * step) ?? null;
  }

  /** Returns the value at a point: that of the finest level drawn there; null if none was read. */
  sample(x, y) {
    for (let n = this.map.shownLevel; n < this.map.grid.levels.length; n += 1) {
      const pixel = this.find(n, x, y);
      const form = this.map.tiles.forms[n];
      const [down, across] = pixel ? [Math.floor(pixel[1] / form.rows), Math.floor(pixel[0] / form.columns)] : [];
      const tile = pixel && this.map.tiles.get(n, down, across);
      if (!tile) continue;
      const said = this.described(tile, pixel[1] - down * form.rows, pixel[0] - across * form.columns);
      const origin = this.map.grid.levels[n].step > 1 ? " (of the nearest pixel that was read)" : n > 0 ? " (of the overview)" : "";
      return { ...said, text: said.text + origin };
    }
    return null;
  }

  described(tile, row, column) {
    const { attributes } = this.map.node;
    const units = typeof attributes.units === "string" && attributes.units !== "1" ? ` ${attributes.units}` : "";
    const one = (band) => {
      const stored = tile.elements.at(tile.place(row, column, band));
      const value = Array.isArray(stored) ? Math.hypot(...stored) : physical(stored, meaning(attributes, tile.type), tile.type);
      return { value, text: value === value ? `${tile.means.packed ? spell(value) : spellStored(stored, tile.type)}${units}` : "no data" };
    };
    if (!this.map.colours.bands) return one();
    const all = this.map.colours.bands.map(({ index }) => one(index));
    return { value: all.map(({ value }) => value), text: all.map(({ text }) => text).join(", ") };
  }
}
