// Grids with two-dimensional longitudes and latitudes: their cells on a map of longitude and latitude.
import { readValues } from "./map-tiles.js";
import { meaning } from "./values.js";

/** Maximum number of cells that a level has. */
const MOST = 1 << 22;

/**
 * Returns a grid (see `loadGrid`) of cells whose centres have two-dimensional longitudes and latitudes. The corner of a
 * cell is the mean of the four centres around it. Each level reads the coordinates that it needs when it is first drawn;
 * `load(level)` does.
 */
export async function loadCells(reference, describe, source, signal) {
  const [whole] = reference.levels;
  const [width, height] = [whole.shape[whole.x], whole.shape[whole.y]];
  const first = Math.max(1, 2 ** Math.ceil(Math.log2(Math.sqrt((width * height) / MOST))));
  const levels = [];
  for (let step = first; levels.length === 0 || Math.max(width, height) * 2 > 640 * step; step *= 2) {
    const offset = step >> 1;
    const [columns, rows] = [width, height].map((length) => Math.floor((length - 1 - offset) / step) + 1);
    if (columns < 2 || rows < 2) break;
    levels.push({ ...whole, step, offset, width: columns, height: rows, cells: null });
  }
  if (!levels.length) throw new Error("The grid has fewer than two cells along an axis.");
  const read = async (level) => {
    const select = [level.y, level.x].map(() => `${level.offset}::${level.step}`);
    const [x, y] = await Promise.all(["x", "y"].map(async (axis) => {
      const path = reference.cells[axis];
      const { data_type: type, attributes } = describe(path);
      return (await readValues(source, path, type, select, signal)).physical(meaning(attributes, type));
    }));
    level.cells = corners(x, y, level.width, level.height);
  };
  const coarsest = levels.at(-1);
  await read(coarsest);
  const { bounds, size } = extent(coarsest);
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
function extent({ cells: { x, y }, width, height }) {
  const latitudes = y.filter(Number.isFinite);
  const turned = x.filter(Number.isFinite).map((each) => ((each % 360) + 360) % 360).sort();
  if (!turned.length) throw new Error("The longitudes and latitudes of the grid are missing.");
  // The grid lacks the widest gap between its longitudes.
  let [gap, west] = [turned[0] + 360 - turned.at(-1), turned[0]];
  for (let n = 1; n < turned.length; n += 1) if (turned[n] - turned[n - 1] > gap) [gap, west] = [turned[n] - turned[n - 1], turned[n]];
  if (gap < 10) [gap, west] = [0, -180];
  const start = west > 180 ? west - 360 : west;
  const [south, north] = [latitudes.reduce((a, b) => Math.min(a, b)), latitudes.reduce((a, b) => Math.max(a, b))];
  const side = Math.sqrt(((360 - gap) * (north - south)) / (width * height)) || 1;
  return { bounds: [start, south, start + 360 - gap, north], size: [side, side] };
}

/** Finds the cells below the pixels of a canvas: each pixel belongs to the last cell that contains its centre. */
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
  return {
    at(x, y) {
      const cell = below[y * view.width + x];
      return cell < 0 ? null : [cell % width, Math.floor(cell / width)];
    },
  };
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
