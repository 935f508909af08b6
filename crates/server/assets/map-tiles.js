// Tiles of a map: rectangles of the array and its overviews, read for the current view only, and drawn.
import { paintPlanes } from "./colour.js";
import { Recent, bandRange, readBlock } from "./data.js";
import { wrapped } from "./map-grid.js";

/** Maximum number of requests at once. */
const AT_ONCE = 4;
/** Maximum size of the cached tiles, in bytes. */
const KEPT = 128 << 20;
/** Minimum length of the sides of a tile, in its pixels. */
const SIDE = 256;
/** Maximum size of the decoded chunks that a tile needs, in bytes, unless one chunk is larger. */
const DECODED = 32 << 20;

/** Reads tiles, and keeps the most recent ones. */
export class Tiles {
  /**
   * `levels`: those of a grid (see `loadGrid`). `array(path)` returns the `DataArray` of a path. `changed` is
   * called when a tile has arrived.
   */
  constructor({ levels, array, signal, changed }) {
    Object.assign(this, { signal, changed });
    this.forms = levels.map((level) => form(level, array(level.path)));
    this.kept = new Recent(KEPT);
    this.running = new Map();
    this.queue = [];
    this.shown = [];
    this.failed = new Map();
    this.requests = 0;
  }

  /** Selects what is shown: the index along each axis, and the colours (see `MapView`). */
  select(at, colours) {
    const bands = bandsOf(colours);
    const selection = JSON.stringify([at, bands]);
    if (selection !== this.selection) {
      this.want([]);
      this.kept = new Recent(KEPT);
      this.failed.clear();
    }
    Object.assign(this, { at, colours, bands, selection, painting: {} });
  }

  /** Returns a tile that was read; undefined if it was not. */
  get = (level, down, across) => this.kept.get(keyOf(level, down, across));

  /** Returns the element of a pixel of a level, as `Block.at` does; null if it was not read. */
  element(level, column, row) {
    const { rows, columns } = this.forms[level];
    return this.get(level, Math.floor(row / rows), Math.floor(column / columns))?.at(row % rows, column % columns) ?? null;
  }

  /** Returns whether tiles of a level are kept. */
  has(level) {
    return [...this.kept.keys()].some((key) => key.startsWith(`${level}/`));
  }

  /** Requests tiles, the first ones first. Requests for other tiles are aborted. */
  want(wanted) {
    if (wanted.length) this.shown = wanted;
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
      if (this.running.get(key) === stop) this.kept.keep(key, tile, tile.bytes);
    } catch (error) {
      if (error.name !== "AbortError" && this.running.get(key) === stop) this.failed.set(key, error);
    }
    if (this.running.get(key) !== stop) return;
    this.running.delete(key);
    this.next();
    this.changed();
  }

  /** Reads the tiles that are shown at other indices, which the service then need not decode again. */
  readAhead(at, signal) {
    for (const [level, down, across] of this.shown.slice(0, AT_ONCE)) this.load(this.forms[level], down, across, signal, at).catch(() => null);
  }

  /** Reads a tile, a block of the array. */
  async load({ level, array, rows, columns }, down, across, signal, indices = this.at) {
    const [first, start] = [down * rows, across * columns];
    const [height, width] = [Math.min(rows, level.height - first), Math.min(columns, level.width - start)];
    const range = (from, count) => [level.offset + from * level.step, level.offset + (from + count - 1) * level.step + 1, level.step];
    const { bands } = this;
    const selection = indices.map((at, n) => (n === level.y ? range(first, height) : n === level.x ? range(start, width) : n === bands?.axis ? bandRange(bands) : at));
    this.requests += 1;
    const block = await readBlock(array, selection, [level.y, level.x], bands, signal);
    const { length } = block.elements;
    if (length % (width * height)) throw new Error(`The service sent ${length} elements.`);
    return Object.assign(block, { bytes: length * array.width + 4 * width * height, painting: null });
  }

  /** Returns the pixels of a tile in the current colours, as 32-bit words. */
  pixels(tile) {
    if (tile.painting !== this.painting) {
      tile.words = new Uint32Array(paintPlanes(tile.planes(), tile, this.colours).data.buffer);
      tile.painting = this.painting;
    }
    return tile.words;
  }
}

/** Returns the bands of a composite as `{axis, numbers}`; null for other colours. */
export const bandsOf = ({ axis, bands, alpha }) => (bands ? { axis, numbers: [...bands, alpha].filter(Boolean).map(({ index }) => index) } : null);

export const keyOf = (level, down, across) => `${level}/${down}/${across}`;

/**
 * Returns the form of the tiles of a level: `rows` and `columns` in its pixels. Where chunks are read as a whole, no two
 * tiles need the same chunk, if that is possible. `decoded`: bytes that are decoded for a tile.
 */
function form(level, array) {
  const { step, x, y } = level;
  const chunk = array.chunk.map((edge) => (array.isPlain ? 1 : edge));
  const each = chunk.reduce((all, edge, axis) => (axis === x || axis === y ? all : all * edge), array.width);
  const side = (edge, least) => Math.max(1, Math.ceil((Math.ceil((least * step) / edge) * edge) / step));
  let least = SIDE;
  let [rows, columns] = [side(chunk[y], least), side(chunk[x], least)];
  const decoded = () => rows * columns * step * step * each;
  while (decoded() > DECODED && least > 1) {
    least >>= 1;
    [rows, columns] = [side(chunk[y], least), side(chunk[x], least)];
  }
  return { level, array, rows: Math.min(rows, level.height), columns: Math.min(columns, level.width), decoded: decoded() };
}

/**
 * Finds the pixels of a level below the pixels of a canvas: `at(i, j)` returns row × width + column, or -1. `view`:
 * `{left, top, per, width, height}`, in the file's coordinates, units per canvas pixel, and canvas pixels.
 */
export function locate(grid, level, { left, top, per, width, height }) {
  const x = (n) => wrapped(left + (n + 0.5) * per, grid.bounds[0], grid.period);
  const y = (n) => top - (n + 0.5) * per;
  const place = (column, row) => (column >= 0 && row >= 0 && column < level.width && row < level.height ? row * level.width + column : -1);
  if (!level.inverse) {
    const columns = Int32Array.from({ length: width }, (_, n) => level.column(x(n)));
    const rows = Int32Array.from({ length: height }, (_, n) => level.row(y(n)));
    return { at: (i, j) => place(columns[i], rows[j]) };
  }
  // Columns and rows are linear in x and y.
  const [start, across, down] = [level.inverse(x(0), y(0)), level.inverse(x(1), y(0)), level.inverse(x(0), y(1))];
  const [dx, dy] = [0, 1].map((axis) => [across[axis] - start[axis], down[axis] - start[axis]]);
  return { at: (i, j) => place(Math.floor(start[0] + i * dx[0] + j * dx[1]), Math.floor(start[1] + i * dy[0] + j * dy[1])) };
}

/** Returns the tiles of a level that the canvas shows, those nearest to its centre first: `[down, across]`. */
export function visibleTiles({ level, rows, columns }, located, { width, height }) {
  const found = new Map();
  for (let j = 0; j < height + 3; j += 4) {
    for (let i = 0; i < width + 3; i += 4) {
      const pixel = located.at(Math.min(i, width - 1), Math.min(j, height - 1));
      if (pixel < 0) continue;
      const [down, across] = [Math.floor(Math.floor(pixel / level.width) / rows), Math.floor((pixel % level.width) / columns)];
      const key = `${down}/${across}`;
      const distance = (i - width / 2) ** 2 + (j - height / 2) ** 2;
      if (!(found.get(key)?.distance <= distance)) found.set(key, { tile: [down, across], distance });
    }
  }
  return [...found.values()].sort((one, other) => one.distance - other.distance).map(({ tile }) => tile);
}

/** Draws the tiles of a level that were read over `words`, the pixels of the canvas. */
export function drawLevel(words, tiles, index, located, view) {
  const form = tiles.forms[index];
  let [down, across, tile, pixels] = [-1, -1, null, null];
  for (let n = 0, j = 0; j < view.height; j += 1) {
    for (let i = 0; i < view.width; i += 1, n += 1) {
      const pixel = located.at(i, j);
      if (pixel < 0) continue;
      const row = Math.floor(pixel / form.level.width);
      const column = pixel - row * form.level.width;
      const nextDown = Math.floor(row / form.rows);
      const nextAcross = Math.floor(column / form.columns);
      if (nextDown !== down || nextAcross !== across) {
        [down, across] = [nextDown, nextAcross];
        tile = tiles.get(index, down, across);
        pixels = tile && tiles.pixels(tile);
      }
      if (tile) words[n] = pixels[(row - down * form.rows) * tile.width + column - across * form.columns];
    }
  }
}
