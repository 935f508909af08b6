// Where the pixels of an array are on a map: regular grids, and cells with two-dimensional longitudes and latitudes.
import { monotonic } from "./axes.js";
import { arcOf } from "./map-lines.js";
import { bisector, extent } from "./vendor.js";

/** Maximum number of coordinates of an axis. */
const MOST = 1 << 20;
/** Length in pixels of the longer side of the coarsest level, beyond which a level of every other pixel is added. */
const COARSE = 640;
const LENGTHS = { m: 1, metre: 1, meter: 1, metres: 1, meters: 1, km: 1000, kilometre: 1000, kilometer: 1000, kilometres: 1000, kilometers: 1000, ft: 0.3048, "us_survey_foot": 1200 / 3937 };
const ANGLES = { rad: 1, radian: 1, radians: 1, urad: 1e-6, "µrad": 1e-6, microradian: 1e-6, microradians: 1e-6, mrad: 1e-3 };

/** Returns the number of units of the system in a unit of the file's coordinates. Throws if that is unknown. */
export function unitFactor({ units, isImage, mapping }, crs) {
  const name = String(units ?? "").toLowerCase().replaceAll(" ", "_");
  if (isImage || !name || name === "1") return 1;
  if (crs.metres === null) return name in ANGLES ? (ANGLES[name] * 180) / Math.PI : 1;
  if (name in LENGTHS) return LENGTHS[name] / crs.metres;
  const height = Number([mapping?.perspective_point_height].flat()[0]);
  if (name in ANGLES && height > 0) return (ANGLES[name] * height) / crs.metres;
  throw new Error(`coordinates in ${units} do not belong to a system in metres`);
}

/**
 * Returns where the pixels are: `levels`, from fine to coarse, each with `path`, `width`, `height`, the size of a pixel
 * along x and y, and `column` and `row`, which find the pixel at a coordinate, or `inverse` if rows are not parallel to
 * an axis. Levels of every `step`-th pixel, from `offset` on, follow the overviews if these are large. `bounds`: west,
 * south, east, north. `period`: after how many units x repeats; null if it does not. `array(path)`
 * returns the `DataArray` of a path.
 */
export async function loadGrid(reference, array, isPeriodic, signal) {
  const lines = reference.lines && await Promise.all(["x", "y"].map((axis) => readLine(array(reference.lines[axis]), signal)));
  // Longitudes that jump by a turn at the date line are made continuous.
  if (lines && isPeriodic) lines[0].forEach((value, n, all) => { if (n) all[n] -= 360 * Math.round((value - all[n - 1]) / 360); });
  const levels = reference.levels.map((level) => {
    const [width, height] = [level.shape[level.x], level.shape[level.y]];
    return { ...level, width, height, step: 1, offset: 0, ...(lines ? axisLevel(spacing(lines[0]), spacing(lines[1])) : fromTransform(level.transform, width, height)) };
  });
  const { bounds } = levels[0];
  const period = isPeriodic && bounds[2] - bounds[0] <= 360 * 1.001 ? 360 : null;
  const coarsest = levels.at(-1);
  for (let step = 2; Math.max(coarsest.width, coarsest.height) * 2 > COARSE * step; step *= 2) levels.push(every(coarsest, step));
  return { levels, bounds, period };
}

/** Returns a level of every `step`-th pixel: each stands for the pixels around it. */
function every(level, step) {
  const offset = step >> 1;
  const [width, height] = [level.width, level.height].map((length) => Math.floor((length - 1 - offset) / step) + 1);
  const size = level.size.map((each) => each * step);
  const within = (index, length) => (index >= 0 && index < length * step ? Math.floor(index / step) : -1);
  if (level.inverse) return { ...level, step, offset, width, height, size, inverse: (x, y) => level.inverse(x, y).map((each) => each / step) };
  return { ...level, step, offset, width, height, size, column: (x) => within(level.column(x), width), row: (y) => within(level.row(y), height) };
}

async function readLine(array, signal) {
  const { path, shape, type, means } = array;
  if (shape[0] > MOST) throw new Error(`the coordinates ${path} have too many values`);
  const values = (await array.read([[0, shape[0], 1]], signal)).physical(means);
  if (!values.every(Number.isFinite)) throw new Error(`the coordinates ${path} have missing values`);
  return Object.assign(values, { isSingle: /32|16/.test(type) && !means.packed });
}

/** Returns the pixels of an axis whose coordinates are those of pixel centres: `{first, step}`, or `{edges}` if they are unevenly spaced. */
function spacing(values) {
  const last = values.length - 1;
  const step = (values[last] - values[0]) / last;
  const rounding = values.isSingle ? 2 ** -22 * Math.max(Math.abs(values[0]), Math.abs(values[last])) : 0;
  const isEven = step !== 0 && values.every((value, n) => Math.abs(value - values[0] - n * step) <= 1e-3 * Math.abs(step) + rounding);
  if (isEven) return { first: values[0] - step / 2, step, length: values.length };
  const edges = new Float64Array(values.length + 1);
  for (let n = 1; n <= last; n += 1) edges[n] = (values[n - 1] + values[n]) / 2;
  edges[0] = values[0] - (edges[1] - values[0]);
  edges[last + 1] = values[last] + (values[last] - edges[last]);
  if (!monotonic(edges)) throw new Error("the coordinates are not in order");
  return { edges, step: (edges[last + 1] - edges[0]) / values.length, length: values.length };
}

/** Returns the index of the pixel that contains a coordinate; -1 if there is none. */
function find({ edges, first, step, length }, at) {
  if (!edges) {
    const index = Math.floor((at - first) / step);
    return index >= 0 && index < length ? index : -1;
  }
  const isUp = edges[length] > edges[0];
  const index = bisector((edge, value) => (isUp ? edge - value : value - edge)).right(edges, at) - 1;
  return index >= 0 && index < length ? index : -1;
}

function fromTransform([a, b, c, d, e, f], width, height) {
  if (b === 0 && d === 0) return axisLevel({ first: c, step: a, length: width }, { first: f, step: e, length: height });
  const determinant = a * e - b * d;
  const inverse = (x, y) => [(e * (x - c) - b * (y - f)) / determinant, (a * (y - f) - d * (x - c)) / determinant];
  const corners = [[0, 0], [width, 0], [0, height], [width, height]].map(([column, row]) => [a * column + b * row + c, d * column + e * row + f]);
  const [xs, ys] = [0, 1].map((axis) => extent(corners, (corner) => corner[axis]));
  return { bounds: [xs[0], ys[0], xs[1], ys[1]], size: [Math.hypot(a, d), Math.hypot(b, e)], inverse };
}

function axisLevel(x, y) {
  const [xs, ys] = [x, y].map(({ edges, first, step, length }) => extent(edges ?? [first, first + step * length]));
  return { bounds: [xs[0], ys[0], xs[1], ys[1]], size: [Math.abs(x.step), Math.abs(y.step)], column: (at) => find(x, at), row: (at) => find(y, at) };
}

/** Returns x between west and west + period, if x repeats. */
export const wrapped = (x, west, period) => (period ? west + ((((x - west) % period) + period) % period) : x);

/** Returns the pixel of a level at a position: `[column, row]`; null if there is none. */
export function pixelAt(grid, level, x, y) {
  const at = wrapped(x, grid.bounds[0], grid.period);
  const [column, row] = level.inverse ? level.inverse(at, y).map(Math.floor) : [level.column(at), level.row(y)];
  return column >= 0 && row >= 0 && column < level.width && row < level.height ? [column, row] : null;
}

/** Maximum number of cells that a level has. */
const CELLS = 1 << 22;

/**
 * Returns a grid (see `loadGrid`) of cells whose centres have two-dimensional longitudes and latitudes. The corner of a
 * cell is the mean of the four centres around it. Each level reads the coordinates that it needs when it is first drawn;
 * `load(level)` does.
 */
export async function loadCells(reference, array, signal) {
  const [whole] = reference.levels;
  const [width, height] = [whole.shape[whole.x], whole.shape[whole.y]];
  const first = Math.max(1, 2 ** Math.ceil(Math.log2(Math.sqrt((width * height) / CELLS))));
  const levels = [];
  for (let step = first; levels.length === 0 || Math.max(width, height) * 2 > 640 * step; step *= 2) {
    const offset = step >> 1;
    const [columns, rows] = [width, height].map((length) => Math.floor((length - 1 - offset) / step) + 1);
    if (columns < 2 || rows < 2) break;
    levels.push({ ...whole, step, offset, width: columns, height: rows, cells: null });
  }
  if (!levels.length) throw new Error("The grid has fewer than two cells along an axis.");
  const read = async (level) => {
    const select = [height, width].map((length) => [level.offset, length, level.step]);
    const [x, y] = await Promise.all(["x", "y"].map(async (axis) => {
      const coordinates = array(reference.cells[axis]);
      return (await coordinates.read(select, signal)).physical(coordinates.means);
    }));
    level.cells = corners(x, y, level.width, level.height);
  };
  const coarsest = levels.at(-1);
  await read(coarsest);
  const { bounds, size } = extentOf(coarsest);
  for (const level of levels) level.size = size.map((each) => (each * level.step) / coarsest.step);
  return { levels, bounds, period: 360, load: (level) => (level.reading ??= level.cells ? Promise.resolve() : read(level)) };
}

/** Returns the corners of cells: `{x, y}` of (width + 1) × (height + 1) points; NaN without data. Longitudes are continuous along rows and columns where that is possible. */
function corners(x, y, width, height) {
  const known = (n) => Math.abs(x[n]) <= 720 && Math.abs(y[n]) <= 90;
  const at = (row, column, values) => {
    // Beyond the edges, the grid continues as within.
    const [r, c] = [Math.min(height - 1, Math.max(0, row)), Math.min(width - 1, Math.max(0, column))];
    if (r === row && c === column) return known(r * width + c) ? values[r * width + c] : NaN;
    const [inRow, inColumn] = [r + (r - row), c + (c - column)].map((each, n) => Math.min((n ? width : height) - 1, Math.max(0, each)));
    const [edge, inner] = [r * width + c, inRow * width + inColumn];
    if (!known(edge) || !known(inner)) return NaN;
    return values === x ? x[edge] + turn(x[edge] - x[inner]) : 2 * y[edge] - y[inner];
  };
  const across = width + 1;
  const found = { x: new Float64Array(across * (height + 1)), y: new Float64Array(across * (height + 1)) };
  for (let row = 0; row <= height; row += 1) {
    for (let column = 0; column <= width; column += 1) {
      const [around, ys] = [x, y].map((values) => [at(row - 1, column - 1, values), at(row - 1, column, values), at(row, column - 1, values), at(row, column, values)]);
      const base = around[0];
      const n = row * across + column;
      found.x[n] = base + around.reduce((sum, each) => sum + turn(each - base), 0) / 4;
      found.y[n] = Math.min(90, Math.max(-90, ys.reduce((sum, each) => sum + each, 0) / 4));
    }
  }
  return found;
}

/** Returns a difference of longitudes between -180 and 180. */
const turn = (degrees) => ((((degrees + 180) % 360) + 360) % 360) - 180;

/** Returns the bounds of a level, and the typical size of its cells. */
function extentOf({ cells: { x, y }, width, height }) {
  const longitudes = x.filter(Number.isFinite);
  if (!longitudes.length) throw new Error("The longitudes and latitudes of the grid are missing.");
  const arc = arcOf(longitudes);
  const { gap, west } = arc.gap < 10 ? { gap: 0, west: -180 } : arc;
  const [south, north] = extent(y);
  const side = Math.sqrt(((360 - gap) * (north - south)) / (width * height)) || 1;
  return { bounds: [west, south, west + 360 - gap, north], size: [side, side] };
}

/** Finds the cells below the pixels of a canvas, as `locate` does: each pixel belongs to the last cell that contains its centre. */
export function locateCells({ cells, width, height }, view) {
  const below = new Int32Array(view.width * view.height).fill(-1);
  const across = width + 1;
  const [i, j] = [new Float64Array(4), new Float64Array(4)];
  for (let row = 0; row < height; row += 1) {
    for (let column = 0; column < width; column += 1) {
      const first = row * across + column;
      const points = [first, first + 1, first + across + 1, first + across];
      const base = cells.x[first];
      points.forEach((point, n) => {
        i[n] = base + turn(cells.x[point] - base);
        j[n] = (view.top - cells.y[point]) / view.per - 0.5;
      });
      const [north, south] = [Math.min(...j), Math.max(...j)];
      // Comparisons with NaN are false: cells without corners are not drawn.
      if (!(south >= 0 && north <= view.height - 1)) continue;
      const [west, east] = [Math.min(...i), Math.max(...i)];
      for (let shift = Math.ceil((view.left - east) / 360) * 360; west + shift <= view.left + view.width * view.per; shift += 360) {
        fillCell(below, view, i.map((each) => (each + shift - view.left) / view.per - 0.5), j, row * width + column);
      }
    }
  }
  return { at: (x, y) => below[y * view.width + x] };
}

/** Marks the canvas pixels whose centres are in a quadrilateral, given as pixel coordinates. */
function fillCell(below, { width, height }, i, j, cell) {
  const [top, bottom] = [Math.max(0, Math.ceil(Math.min(...j))), Math.min(height - 1, Math.floor(Math.max(...j)))];
  for (let y = top; y <= bottom; y += 1) {
    let [from, past] = [Infinity, -Infinity];
    for (let n = 0; n < 4; n += 1) {
      const next = (n + 1) % 4;
      if (j[n] > y === j[next] > y) continue;
      const at = i[n] + ((i[next] - i[n]) * (y - j[n])) / (j[next] - j[n]);
      from = Math.min(from, at);
      past = Math.max(past, at);
    }
    const [start, end] = [Math.max(0, Math.ceil(from)), Math.min(width, Math.ceil(past))];
    if (start < end) below.fill(cell, y * width + start, y * width + end);
  }
}
