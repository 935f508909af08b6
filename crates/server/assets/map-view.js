// Which part of the file's coordinates a map shows: moves, keys, and the state as text.
import { gestures } from "./gestures.js";

/** Maximum size of a pixel of the array, in CSS pixels. */
const CLOSEST = 48;
/** Minimum scale, relative to the view that shows everything. */
const FARTHEST = 0.25;
/** How far a key moves the map, in CSS pixels. */
const STEP = 80;

/** `x`, `y`: the centre in the file's coordinates. `per`: units per CSS pixel. */
export class View {
  /** `grid`: see `loadGrid`. `changed` is called when the view has changed; `click` and `point` with points of the canvas. */
  constructor(canvas, grid, { changed, click, point }) {
    Object.assign(this, { canvas, grid, changed, width: Math.max(1, canvas.clientWidth), height: Math.max(1, canvas.clientHeight) });
    this.base = this.fitting();
    gestures(canvas, { move: (right, down) => this.move(-right, -down), zoom: (by, x, y) => this.scale(by, x, y), reset: () => this.fit(), click, point });
    canvas.addEventListener("keydown", (event) => this.key(event));
    this.set(this.base);
  }

  /** Returns the view that shows everything. */
  fitting() {
    const [west, south, east, north] = this.grid.bounds;
    const per = Math.max((east - west) / this.width, (north - south) / this.height);
    return { x: (west + east) / 2, y: (south + north) / 2, per };
  }

  /** Shows a view, with its centre over the data; returns false if nothing changes. */
  set({ x, y, per }) {
    const [west, south, east, north] = this.grid.bounds;
    const closest = Math.min(Math.min(...this.grid.levels[0].size) / CLOSEST, this.base.per / 8);
    const next = { x: this.grid.period ? x : Math.min(east, Math.max(west, x)), y: Math.min(north, Math.max(south, y)), per: Math.min(this.base.per / FARTHEST, Math.max(closest, per)) };
    const isSame = next.x === this.x && next.y === this.y && next.per === this.per;
    Object.assign(this, next);
    if (!isSame) this.changed();
    return !isSame;
  }

  fit() {
    this.set(this.fitting());
  }

  /** Magnifies around a point of the canvas, by default its centre. */
  scale(by, x = this.width / 2, y = this.height / 2) {
    const per = Math.min(this.base.per / FARTHEST, this.per / by);
    const [right, down] = [x - this.width / 2, y - this.height / 2];
    return this.set({ x: this.x + right * (this.per - per), y: this.y - down * (this.per - per), per });
  }

  move(right, down) {
    this.set({ x: this.x + right * this.per, y: this.y - down * this.per, per: this.per });
  }

  /** Returns the position of a point of the canvas. */
  at = (x, y) => ({ x: this.x + (x - this.width / 2) * this.per, y: this.y - (y - this.height / 2) * this.per });

  /** Adapts to the size of the canvas, and keeps the centre and the scale; a view of everything remains one. */
  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height || (width === this.width && height === this.height)) return false;
    const isWhole = Math.abs(this.per / this.base.per - 1) < 1e-6;
    Object.assign(this, { width, height });
    this.base = this.fitting();
    if (!this.set(isWhole ? this.base : this)) this.changed();
    return true;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const pixel = this.grid.levels[0].size.map((size) => size / this.per);
    const [right, down] = event.shiftKey ? pixel : [STEP, STEP];
    const work = {
      ArrowLeft: () => this.move(-right, 0), ArrowRight: () => this.move(right, 0), ArrowUp: () => this.move(0, -down), ArrowDown: () => this.move(0, down),
      "+": () => this.scale(2), "=": () => this.scale(2), "-": () => this.scale(0.5), _: () => this.scale(0.5), 0: () => this.fit(), Home: () => this.fit(),
      PageUp: () => this.move(0, -this.height * 0.8), PageDown: () => this.move(0, this.height * 0.8),
    }[event.key];
    if (!work) return;
    event.preventDefault();
    work();
  }

  /** Returns the view as text. */
  state() {
    const text = (value) => String(Number(value.toPrecision(9)));
    return { centre: `${text(this.x)},${text(this.y)}`, zoom: text(this.per) };
  }

  /** Shows the view of a state; ignores a malformed one. */
  restore({ centre, zoom: per }) {
    const numbers = [...String(centre ?? "").split(","), per].map((part) => (part === "" || part === undefined ? NaN : Number(part)));
    if (numbers.length !== 3 || !numbers.every(Number.isFinite) || numbers[2] <= 0) return;
    this.set({ x: numbers[0], y: numbers[1], per: numbers[2] });
  }
}
