// Which part of the file's coordinates a map shows: gestures, keys, and the state as text.
import { select, zoom, zoomIdentity } from "./vendor-map.js";

/** Maximum size of a pixel of the array, in CSS pixels. */
const CLOSEST = 48;
/** Minimum scale, relative to the view that shows everything. */
const FARTHEST = 0.25;
/** How far a key moves the map, in CSS pixels. */
const STEP = 80;

/** Moves the map by gestures and keys. `x`, `y`: the centre in the file's coordinates. `per`: units per CSS pixel. */
export class Gestures {
  /** `grid`: see `loadGrid`. `changed` is called when the view has changed. */
  constructor(canvas, grid, changed) {
    Object.assign(this, { canvas, grid, changed });
    this.width = Math.max(1, canvas.clientWidth);
    this.height = Math.max(1, canvas.clientHeight);
    this.base = this.fitting();
    this.zoom = zoom().constrain((transform, extent) => this.constrained(transform, extent)).on("zoom", ({ transform }) => this.follow(transform)).duration(0);
    // The pinch of a trackpad arrives as a wheel with Ctrl.
    this.zoom.filter((event) => !event.button && (event.type !== "wheel" || !event.altKey));
    this.limit();
    select(canvas).call(this.zoom);
    canvas.addEventListener("keydown", (event) => this.key(event));
    this.set(this.base);
  }

  /** Returns the view that shows everything. */
  fitting() {
    const [west, south, east, north] = this.grid.bounds;
    const per = Math.max((east - west) / this.width, (north - south) / this.height);
    return { x: (west + east) / 2, y: (south + north) / 2, per };
  }

  limit() {
    const closest = Math.min(...this.grid.levels[0].size) / CLOSEST;
    this.zoom.scaleExtent([FARTHEST, Math.max(8, this.base.per / closest)]);
  }

  /** Returns the transform of d3-zoom for a view: its units are CSS pixels of the view that shows everything, from the centre of the data on. */
  transform({ x, y, per }) {
    const k = this.base.per / per;
    return zoomIdentity.translate(this.width / 2 - ((x - this.base.x) / this.base.per) * k, this.height / 2 + ((y - this.base.y) / this.base.per) * k).scale(k);
  }

  view({ x, y, k }) {
    return { x: this.base.x + ((this.width / 2 - x) / k) * this.base.per, y: this.base.y - ((this.height / 2 - y) / k) * this.base.per, per: this.base.per / k };
  }

  /** Keeps the centre of the view over the data. */
  constrained(transform) {
    const [west, south, east, north] = this.grid.bounds;
    const view = this.view(transform);
    const x = this.grid.period ? view.x : Math.min(east, Math.max(west, view.x));
    const y = Math.min(north, Math.max(south, view.y));
    return x === view.x && y === view.y ? transform : this.transform({ ...view, x, y });
  }

  follow(transform) {
    Object.assign(this, this.view(transform));
    this.changed();
  }

  set(view) {
    select(this.canvas).call(this.zoom.transform, this.constrained(this.transform(view)));
  }

  fit() {
    this.set(this.fitting());
  }

  scale(by) {
    select(this.canvas).call(this.zoom.scaleBy, by);
  }

  move(right, down) {
    this.set({ x: this.x + right * this.per, y: this.y - down * this.per, per: this.per });
  }

  /** Adapts to the size of the canvas, and keeps the centre and the scale; a view of everything remains one. */
  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height || (width === this.width && height === this.height)) return false;
    const { x, y, per } = this;
    const isWhole = Math.abs(per / this.base.per - 1) < 1e-6;
    Object.assign(this, { width, height });
    this.base = this.fitting();
    this.limit();
    this.set(isWhole ? this.base : { x, y, per });
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
    const [closest, widest] = this.zoom.scaleExtent().map((k) => this.base.per / k).reverse();
    this.set({ x: numbers[0], y: numbers[1], per: Math.min(widest, Math.max(closest, numbers[2])) });
  }
}
