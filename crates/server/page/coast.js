// Writes assets/coast-110m.txt and assets/coast-50m.txt: the coastlines of Natural Earth (public domain) from the package
// world-atlas, at its scales 1:110 million and 1:50 million. Run `npm ci && node coast.js`.
import { readFileSync, writeFileSync } from "node:fs";
import { deflateRawSync } from "node:zlib";

/** Steps per degree. */
const STEPS = 100;

/** Yields the lines of a topology as lists of points in steps. */
function* lines({ arcs, transform: { scale, translate } }) {
  for (const arc of arcs) {
    const at = [0, 0];
    const points = arc.map(([dx, dy]) => {
      at[0] += dx;
      at[1] += dy;
      return at.map((value, axis) => Math.round((value * scale[axis] + translate[axis]) * STEPS));
    });
    yield* coasts(points.filter((point, n) => n === 0 || String(point) !== String(points[n - 1])));
  }
}

/**
 * Cuts a ring where it is no coast, along the date line and at the south pole, where the data set cuts polygons; and where
 * it crosses the date line.
 */
function coasts(points) {
  const isEdge = ([x1, y1], [x2, y2]) => (Math.abs(x1) === 180 * STEPS && x1 === x2) || Math.max(y1, y2) < -89 * STEPS;
  const isFar = ([x1], [x2]) => Math.abs(x1 - x2) > 180 * STEPS;
  const turned = ([x, y]) => [x - Math.sign(x) * 360 * STEPS, y];
  const isDateLine = ([x]) => Math.abs(x) === 180 * STEPS;
  const pieces = [[]];
  points.forEach((point, n) => {
    const before = points[n - 1];
    if (n > 0 && isFar(before, point)) {
      // One of both is on the date line, and has a second longitude there.
      if (isDateLine(point)) pieces.at(-1).push(turned(point));
      pieces.push(isDateLine(before) && !isDateLine(point) ? [turned(before)] : []);
    } else if (n > 0 && isEdge(before, point)) pieces.push([]);
    pieces.at(-1).push(point);
  });
  return pieces.filter((piece) => piece.length > 1);
}

/** Encodes lines as variable-length integers: the number of points, then the steps from each point to the next. */
function encode(all) {
  const bytes = [];
  const unsigned = (value) => {
    for (; value > 127; value >>>= 7) bytes.push((value & 127) | 128);
    bytes.push(value);
  };
  const signed = (value) => unsigned(value < 0 ? -2 * value - 1 : 2 * value);
  for (const line of all) {
    unsigned(line.length);
    line.forEach(([x, y], n) => {
      const [px, py] = n ? line[n - 1] : [0, 0];
      signed(x - px);
      signed(y - py);
    });
  }
  return Buffer.from(bytes);
}

for (const scale of ["110m", "50m"]) {
  const topology = JSON.parse(readFileSync(new URL(`node_modules/world-atlas/land-${scale}.json`, import.meta.url), "utf8"));
  const all = [...lines(topology)];
  const packed = deflateRawSync(encode(all), { level: 9 }).toString("base64");
  console.log(scale, all.length, all.reduce((sum, line) => sum + line.length, 0), packed.length);
  writeFileSync(new URL(`../assets/coast-${scale}.txt`, import.meta.url), packed);
}
