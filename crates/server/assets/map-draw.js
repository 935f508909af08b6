// Draws the tiles of a level: the colour of a canvas pixel is that of the array's pixel below its centre.
import { wrapped } from "./map-grid.js";

/**
 * Finds the pixels of a level below the pixels of a canvas. `view`: `{left, top, per, width, height}`, in the file's
 * coordinates, units per canvas pixel, and canvas pixels. Returns `{columns, rows}` with -1 for none, or `{at}` for
 * levels whose rows are not parallel to an axis.
 */
export function locate(grid, level, { left, top, per, width, height }) {
  const x = (n) => wrapped(left + (n + 0.5) * per, grid.bounds[0], grid.period);
  const y = (n) => top - (n + 0.5) * per;
  if (!level.inverse) {
    return { columns: Int32Array.from({ length: width }, (_, n) => level.column(x(n))), rows: Int32Array.from({ length: height }, (_, n) => level.row(y(n))) };
  }
  // Columns and rows are linear in x and y.
  const [start, across, down] = [level.inverse(x(0), y(0)), level.inverse(x(1), y(0)), level.inverse(x(0), y(1))];
  const [dx, dy] = [across, down].map((to) => [to[0] - start[0], to[1] - start[1]]);
  return {
    at(i, j) {
      const column = Math.floor(start[0] + i * dx[0] + j * dy[0]);
      const row = Math.floor(start[1] + i * dx[1] + j * dy[1]);
      return column >= 0 && row >= 0 && column < level.width && row < level.height ? [column, row] : null;
    },
  };
}

/** Returns the tiles of a level that the canvas shows, those nearest to its centre first: `[down, across]`. */
export function visibleTiles(form, located, { width, height }) {
  const found = new Map();
  const add = (column, row, distance) => {
    const down = Math.floor(row / form.rows);
    const across = Math.floor(column / form.columns);
    const key = `${down}/${across}`;
    const known = found.get(key);
    if (!known || known.distance > distance) found.set(key, { down, across, distance });
  };
  const far = (i, j) => (i - width / 2) ** 2 + (j - height / 2) ** 2;
  if (located.at) {
    for (let j = 0; j < height + 3; j += 4) {
      for (let i = 0; i < width + 3; i += 4) {
        const pixel = located.at(Math.min(i, width - 1), Math.min(j, height - 1));
        if (pixel) add(...pixel, far(i, j));
      }
    }
  } else {
    const [across, down] = [firsts(located.columns, (column) => Math.floor(column / form.columns)), firsts(located.rows, (row) => Math.floor(row / form.rows))];
    for (const { n: j, pixel: row } of down) for (const { n: i, pixel: column } of across) add(column, row, far(i, j));
  }
  return [...found.values()].sort((one, other) => one.distance - other.distance).map((tile) => [tile.down, tile.across]);
}

/** Returns the canvas pixel of each tile that is nearest to the centre of an axis, and the array's pixel there. */
function firsts(pixels, tileOf) {
  const found = new Map();
  pixels.forEach((pixel, n) => {
    if (pixel < 0) return;
    const tile = tileOf(pixel);
    const known = found.get(tile);
    if (!known || Math.abs(n - pixels.length / 2) < Math.abs(known.n - pixels.length / 2)) found.set(tile, { n, pixel });
  });
  return [...found.values()];
}

/** Draws the tiles of a level that were read over `words`, the pixels of the canvas. */
export function drawLevel(words, tiles, index, located, view) {
  const form = tiles.forms[index];
  let [down, across, tile, pixels] = [-1, -1, null, null];
  const put = (to, column, row) => {
    const [nextDown, nextAcross] = [Math.floor(row / form.rows), Math.floor(column / form.columns)];
    if (nextDown !== down || nextAcross !== across) {
      [down, across] = [nextDown, nextAcross];
      tile = tiles.get(index, down, across);
      pixels = tile && tiles.pixels(tile);
    }
    if (tile) words[to] = pixels[(row - down * form.rows) * tile.width + column - across * form.columns];
  };
  if (located.at) {
    for (let n = 0; n < words.length; n += 1) {
      const pixel = located.at(n % view.width, Math.floor(n / view.width));
      if (pixel) put(n, pixel[0], pixel[1]);
    }
    return;
  }
  // Neighbouring columns are mostly in the same tile.
  const runs = columnRuns(located.columns, form.columns);
  for (let j = 0; j < view.height; j += 1) {
    const row = located.rows[j];
    if (row < 0) continue;
    const nextDown = Math.floor(row / form.rows);
    for (const { across: run, from, past } of runs) {
      const one = tiles.get(index, nextDown, run);
      if (!one) continue;
      const source = tiles.pixels(one);
      const start = (row - nextDown * form.rows) * one.width - run * form.columns;
      const line = j * view.width;
      for (let i = from; i < past; i += 1) words[line + i] = source[start + located.columns[i]];
    }
  }
}

/** Splits the pixels of a canvas row into runs over the same column of tiles. */
function columnRuns(columns, width) {
  const runs = [];
  columns.forEach((column, i) => {
    if (column < 0) return;
    const across = Math.floor(column / width);
    const last = runs.at(-1);
    if (last?.across === across && last.past === i) last.past = i + 1;
    else runs.push({ across, from: i, past: i + 1 });
  });
  return runs;
}
