// Tiles of a map: rectangles of the array and its overviews, read for the current view only.
import { address, request } from "./api.js";
import { paint, paintBands } from "./colour.js";
import { Elements, meaning, width as bytesPerElement } from "./values.js";

/** Maximum number of requests at once. */
const AT_ONCE = 4;
/** Maximum size of the cached tiles, in bytes. */
const KEPT = 128 << 20;
/** Minimum length of the sides of a tile, in its pixels. */
const SIDE = 256;
/** Maximum size of the decoded chunks that a tile needs, in bytes, unless one chunk is larger. */
const DECODED = 32 << 20;

/** Reads elements of a selection of an array, given as an index or `start:stop:step` for each axis. */
export async function readValues(source, path, type, select, signal) {
  const response = await request(address(`values/${source}`, { array: path, select: select.join(",") }), { signal });
  return new Elements(type, await response.arrayBuffer());
}

/** Reads tiles, and keeps the most recent ones. */
export class Tiles {
  /**
   * `levels`: those of a grid (see `loadGrid`). `describe(path)` returns what `/v1/inspect` says of an array. `changed` is
   * called when a tile has arrived.
   */
  constructor({ source, levels, describe, signal, changed }) {
    Object.assign(this, { source, signal, changed });
    this.forms = levels.map((level) => form(level, describe(level.path)));
    this.kept = new Map();
    this.keptBytes = 0;
    this.running = new Map();
    this.queue = [];
    this.failed = new Map();
    this.requests = 0;
  }

  /** Selects what is shown: the index along each axis, and the colours (see `MapView`). */
  select(at, colours) {
    const bands = colours.bands ? [...colours.bands, ...(colours.alpha ? [colours.alpha] : [])].map(({ index }) => index) : null;
    const selection = JSON.stringify([at, bands, colours.axis]);
    if (selection !== this.selection) {
      this.want([]);
      this.kept.clear();
      this.keptBytes = 0;
      this.failed.clear();
    }
    Object.assign(this, { at, colours, bands, selection, painting: {} });
  }

  /** Returns a tile that was read, and marks it as used; undefined if it was not read. */
  get(level, down, across) {
    const key = keyOf(level, down, across);
    const tile = this.kept.get(key);
    if (tile) {
      this.kept.delete(key);
      this.kept.set(key, tile);
    }
    return tile;
  }

  /** Returns whether tiles of a level are kept. */
  has(level) {
    return [...this.kept.keys()].some((key) => key.startsWith(`${level}/`));
  }

  /** Requests tiles, the first ones first. Requests for other tiles are aborted. */
  want(wanted) {
    const keys = new Set(wanted.map((tile) => keyOf(...tile)));
    for (const [key, stop] of this.running) {
      if (keys.has(key)) continue;
      this.running.delete(key);
      stop.abort();
    }
    this.queue = wanted.filter((tile) => {
      const key = keyOf(...tile);
      return !this.kept.has(key) && !this.running.has(key) && !this.failed.has(key);
    });
    this.next();
  }

  /** Returns the number of tiles that were requested, or will be. */
  get pending() { return this.running.size + this.queue.length; }

  next() {
    while (this.running.size < AT_ONCE && this.queue.length && !this.signal.aborted) this.read(...this.queue.shift());
  }

  async read(level, down, across) {
    const key = keyOf(level, down, across);
    const stop = new AbortController();
    this.running.set(key, stop);
    try {
      const tile = await this.load(this.forms[level], down, across, AbortSignal.any([stop.signal, this.signal]));
      if (this.running.get(key) === stop) this.keep(key, tile);
    } catch (error) {
      if (error.name !== "AbortError" && this.running.get(key) === stop) this.failed.set(key, error);
    }
    if (this.running.get(key) !== stop) return;
    this.running.delete(key);
    this.next();
    this.changed();
  }

  keep(key, tile) {
    this.kept.set(key, tile);
    this.keptBytes += tile.bytes;
    for (const [old, { bytes: size }] of this.kept) {
      if (this.keptBytes <= KEPT || old === key) break;
      this.kept.delete(old);
      this.keptBytes -= size;
    }
  }

  /** Reads a tile: one plane, or those of the bands of a composite. */
  async load(form, down, across, signal) {
    const { level, type } = form;
    const [first, start] = [down * form.rows, across * form.columns];
    const [height, width] = [Math.min(form.rows, level.height - first), Math.min(form.columns, level.width - start)];
    const range = (from, count) => `${level.offset + from * level.step}:${level.offset + (from + count - 1) * level.step + 1}:${level.step}`;
    const { axis } = this.colours;
    const [low, past] = this.bands ? [Math.min(...this.bands), Math.max(...this.bands) + 1] : [0, 1];
    const select = this.at.map((at, n) => (n === level.y ? range(first, height) : n === level.x ? range(start, width) : this.bands && n === axis ? `${low}:${past}` : String(at)));
    const lengths = this.at.map((_, n) => (n === level.y ? height : n === level.x ? width : this.bands && n === axis ? past - low : 1));
    this.requests += 1;
    const elements = await readValues(this.source, level.path, type, select, signal);
    if (elements.length !== width * height * (past - low)) throw new Error(`The service sent ${elements.length} elements.`);
    const strides = lengths.map((_, n) => lengths.slice(n + 1).reduce((all, length) => all * length, 1));
    const place = (row, column, band = low) => row * strides[level.y] + column * strides[level.x] + (this.bands ? (band - low) * strides[axis] : 0);
    return { width, height, elements, place, means: form.means, type, bytes: elements.length * bytesPerElement(type) + 4 * width * height, painting: null };
  }

  /** Returns the pixels of a tile in the current colours, as 32-bit words. */
  pixels(tile) {
    if (tile.painting !== this.painting) {
      tile.words = new Uint32Array(this.paint(tile).data.buffer);
      tile.painting = this.painting;
    }
    return tile.words;
  }

  paint({ width, height, elements, place, means }) {
    const all = elements.physical(means);
    const plane = (band) => {
      if (elements.length === width * height && place(0, 1) === 1) return all;
      const values = new Float64Array(width * height);
      for (let n = 0; n < values.length; n += 1) values[n] = all[place(Math.floor(n / width), n % width, band)];
      return values;
    };
    const { bands, alpha } = this.colours;
    if (!bands) return paint(plane(), null, { ...this.colours, width, height, flip: false });
    const ranged = ({ index, low, high }) => ({ values: plane(index), low, high });
    return paintBands(bands.map(ranged), null, { width, height, alpha: alpha ? ranged(alpha) : null });
  }
}

export const keyOf = (level, down, across) => `${level}/${down}/${across}`;

/**
 * Returns the form of the tiles of a level: `rows` and `columns` in its pixels. Where chunks are read as a whole, no two
 * tiles need the same chunk, if that is possible. `decoded`: bytes that are decoded for a tile.
 */
function form(level, { shape, chunks, codecs, data_type: type, attributes }) {
  const { step, x, y } = level;
  const isPlain = codecs.length === 1 && codecs[0].name === "bytes";
  // A variable chunk grid has several lengths along an axis.
  const chunk = shape.map((length, axis) => (isPlain ? 1 : Math.max(1, ...[chunks.shape?.[axis] ?? length].flat().slice(0, 1000))));
  const each = chunk.reduce((all, edge, axis) => (axis === x || axis === y ? all : all * edge), bytesPerElement(type));
  const side = (edge, least) => Math.max(1, Math.ceil((Math.ceil((least * step) / edge) * edge) / step));
  let least = SIDE;
  let [rows, columns] = [side(chunk[y], least), side(chunk[x], least)];
  const decoded = () => rows * columns * step * step * each;
  while (decoded() > DECODED && least > 1) {
    least >>= 1;
    [rows, columns] = [side(chunk[y], least), side(chunk[x], least)];
  }
  return { level, type, means: meaning(attributes, type), rows: Math.min(rows, level.height), columns: Math.min(columns, level.width), decoded: decoded() };
}
