// Coastlines and meridians on a map, in the coordinates of its file.
import { readPacked } from "./packed.js";

/** Steps per degree in the data files. */
const STEPS = 100;
/** Maximum distance in degrees between points of a projected line. */
const APART = 0.5;
/** Milliseconds of work after which the page handles input. */
const SLICE = 12;

const files = new Map();

/** Returns the coastlines of Natural Earth at a scale, "110m" or "50m": lists of longitudes and latitudes in turn. */
async function coastlines(scale) {
  if (!files.has(scale)) files.set(scale, readPacked(`coast-${scale}.txt`).then(decode));
  try {
    return await files.get(scale);
  } catch (error) {
    files.delete(scale);
    throw error;
  }
}

/** Decodes lines of variable-length integers: the number of points, then the steps from each point to the next. */
function decode(bytes) {
  let at = 0;
  const unsigned = () => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++];
      value |= (byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  const signed = () => {
    const value = unsigned();
    return value & 1 ? -(value + 1) / 2 : value / 2;
  };
  const lines = [];
  while (at < bytes.length) {
    const line = new Float64Array(2 * unsigned());
    const point = [0, 0];
    for (let n = 0; n < line.length; n += 1) line[n] = (point[n % 2] += signed()) / STEPS;
    lines.push(line);
  }
  return lines;
}

/**
 * Projects a line of longitudes and latitudes: lists of x and y in turn, cut where the projection is. A segment is
 * divided until it is as long as its halves; where it never is, the projection is cut, and so is the line.
 */
export function projectLine(line, forward) {
  const pieces = [];
  let piece = [];
  const end = () => {
    if (piece.length > 2) pieces.push(Float64Array.from(piece));
    piece = [];
  };
  const isKnown = ([x]) => x === x;
  const half = (one, other) => [(one[0] + other[0]) / 2, (one[1] + other[1]) / 2];
  const segment = (from, to, start, past, depth) => {
    const middle = half(from, to);
    const at = forward(middle);
    const whole = Math.hypot(past[0] - start[0], past[1] - start[1]);
    const straight = half(start, past);
    const isSmooth = isKnown(start) && isKnown(past) && isKnown(at) && Math.hypot(at[0] - straight[0], at[1] - straight[1]) <= 0.05 * whole;
    if (isSmooth && Math.hypot(to[0] - from[0], to[1] - from[1]) <= APART) {
      piece.push(...past);
    } else if (depth > 0) {
      segment(from, middle, start, at, depth - 1);
      segment(middle, to, at, past, depth - 1);
    } else {
      end();
      if (isKnown(past)) piece.push(...past);
    }
  };
  let from = [line[0], line[1]];
  let start = forward(from);
  if (isKnown(start)) piece.push(...start);
  for (let n = 2; n < line.length; n += 2) {
    const to = [line[n], line[n + 1]];
    const past = forward(to);
    if (isKnown(start) || isKnown(past)) segment(from, to, start, past, 12);
    [from, start] = [to, past];
  }
  end();
  return pieces;
}

/** Projects coastlines for one system: `positions` has `forward`, and an area of use as `near`, which may be null. */
export class Coast {
  constructor(positions) {
    this.positions = positions;
    this.projected = new Map();
  }

  /** Returns the projected coastlines of a scale; null while they are prepared, after which `changed` is called. */
  lines(scale, changed) {
    if (!this.projected.has(scale)) {
      this.projected.set(scale, null);
      coastlines(scale).then((lines) => this.project(lines)).then((lines) => {
        this.projected.set(scale, lines);
        changed();
      }, () => this.projected.delete(scale));
    }
    return this.projected.get(scale);
  }

  /** Projects in slices, so that the page stays responsive. */
  async project(lines) {
    const { forward, near } = this.positions;
    const limited = near ? (point) => (isNear(point, near) ? forward(point) : [NaN, NaN]) : forward;
    const found = [];
    let began = performance.now();
    for (const line of lines) {
      for (const piece of projectLine(line, limited)) found.push({ line: piece, bounds: boundsOf(piece) });
      if (performance.now() - began < SLICE) continue;
      await new Promise((done) => { setTimeout(done); });
      began = performance.now();
    }
    return found;
  }
}

/** Returns whether a point is in an area: west, south, east, north; the area may cross the date line. */
function isNear([longitude, latitude], [west, south, east, north]) {
  return latitude >= south && latitude <= north && (((longitude - west) % 360) + 360) % 360 <= east - west;
}

function boundsOf(line) {
  const bounds = [Infinity, Infinity, -Infinity, -Infinity];
  for (let n = 0; n < line.length; n += 2) {
    bounds[0] = Math.min(bounds[0], line[n]);
    bounds[1] = Math.min(bounds[1], line[n + 1]);
    bounds[2] = Math.max(bounds[2], line[n]);
    bounds[3] = Math.max(bounds[3], line[n + 1]);
  }
  return bounds;
}

/** Adds projected lines to the path of a context whose units are CSS pixels. `repeat`: after how many units x repeats; null if never. */
export function tracePath(context, lines, { left, top, per, width, height }, repeat) {
  const [right, bottom] = [left + width * per, top - height * per];
  for (const { line, bounds: [west, south, east, north] } of lines) {
    if (north < bottom || south > top) continue;
    const first = repeat ? Math.ceil((left - east) / repeat) : 0;
    const last = repeat ? Math.floor((right - west) / repeat) : 0;
    for (let copy = first; copy <= last; copy += 1) {
      const shift = copy * (repeat ?? 0);
      if (east + shift >= left && west + shift <= right) traceLine(context, line, left - shift, top, per);
    }
  }
}

function traceLine(context, line, left, top, per) {
  let [x, y] = [(line[0] - left) / per, (top - line[1]) / per];
  context.moveTo(x, y);
  for (let n = 2; n < line.length; n += 2) {
    const [nextX, nextY] = [(line[n] - left) / per, (top - line[n + 1]) / per];
    // Points that are less than half a pixel apart make no visible difference.
    if (Math.abs(nextX - x) + Math.abs(nextY - y) < 0.5 && n + 2 < line.length) continue;
    [x, y] = [nextX, nextY];
    context.lineTo(x, y);
  }
}
