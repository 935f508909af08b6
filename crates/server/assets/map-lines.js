// Coastlines, meridians and parallels on a map, in the coordinates of its file.
import { readPacked } from "./api.js";
import { extent as bounds } from "./vendor.js";

/** Steps per degree in the data files. */
const PER_DEGREE = 100;
/** Maximum distance in degrees between points of a projected line. */
const APART = 0.5;
/** Milliseconds of work after which the page handles input. */
const SLICE = 12;

/** Decodes coastlines of Natural Earth, lists of longitudes and latitudes in turn, from variable-length integers: the number of points, then the steps from each point to the next. */
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
    for (let n = 0; n < line.length; n += 1) line[n] = (point[n % 2] += signed()) / PER_DEGREE;
    lines.push(line);
  }
  return lines;
}

/**
 * Projects a line of longitudes and latitudes: lists of x and y in turn, cut where the projection is. A segment is
 * divided until it is as long as its halves; where it never is, the projection is cut, and so is the line.
 */
function projectLine(line, forward) {
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

/** Projects coastlines for one system: `positions` has `forward`, and as `near` an area of use: west, south, east, north. It may cross the date line, or be null. */
export class Coast {
  constructor(positions) {
    this.positions = positions;
    this.projected = new Map();
  }

  /** Returns the projected coastlines of a scale; null while they are prepared, after which `changed` is called. */
  lines(scale, changed) {
    if (!this.projected.has(scale)) {
      this.projected.set(scale, null);
      readPacked(`coast-${scale}.txt`, decode).then((lines) => this.project(lines)).then((lines) => {
        this.projected.set(scale, lines);
        changed();
      }, () => this.projected.delete(scale));
    }
    return this.projected.get(scale);
  }

  /** Projects in slices, so that the page stays responsive. */
  async project(lines) {
    const { forward, near } = this.positions;
    const [west, south, east, north] = near ?? [-180, -90, 180, 90];
    const isNear = ([longitude, latitude]) => latitude >= south && latitude <= north && (((longitude - west) % 360) + 360) % 360 <= east - west;
    const limited = (point) => (isNear(point) ? forward(point) : [NaN, NaN]);
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

function boundsOf(line) {
  const [[west, east], [south, north]] = [0, 1].map((axis) => bounds(line, (value, n) => (n % 2 === axis ? value : NaN)));
  return [west, south, east, north];
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

const STEPS = [90, 45, 30, 20, 15, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001];
/** Distance of samples of the view, in CSS pixels. */
const SAMPLE = 40;
const KM_PER_DEGREE = 111.195;

/** Returns the longitudes and latitudes that a view shows: `{west, south, east, north}`; null if none. Longitudes may exceed 180. */
function extent(view, inverse) {
  const found = [];
  for (let y = 0; y <= view.height + SAMPLE; y += SAMPLE) {
    for (let x = 0; x <= view.width + SAMPLE; x += SAMPLE) {
      const point = inverse([view.left + Math.min(x, view.width) * view.per, view.top - Math.min(y, view.height) * view.per]);
      if (point[0] === point[0]) found.push(point);
    }
  }
  if (found.length < 4) return null;
  const { gap, west } = arcOf(found.map(([longitude]) => longitude));
  const isAll = gap < 60 && gap < (360 / Math.sqrt(found.length)) * 3;
  const [south, north] = bounds(found.map(([, latitude]) => latitude));
  return { west: isAll ? -180 : west, east: isAll ? 180 : west + 360 - gap, south, north };
}

/** Returns where longitudes start that leave out the widest gap between them: `{gap, west}`, in degrees. */
export function arcOf(longitudes) {
  const turned = Float64Array.from(longitudes, (each) => ((each % 360) + 360) % 360).sort();
  let [gap, west] = [turned[0] + 360 - turned.at(-1), turned[0]];
  for (let n = 1; n < turned.length; n += 1) if (turned[n] - turned[n - 1] > gap) [gap, west] = [turned[n] - turned[n - 1], turned[n]];
  return { gap, west: west > 180 ? west - 360 : west };
}

const multiples = (from, to, step) => Array.from({ length: Math.max(0, Math.floor(to / step + 1e-9) - Math.ceil(from / step - 1e-9) + 1) }, (_, n) => (Math.ceil(from / step - 1e-9) + n) * step);

const spell = (degrees, step) => `${Math.abs(degrees).toFixed(Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)))}°`;
export const spellLongitude = (degrees, step) => {
  const turned = ((degrees + 540) % 360) - 180;
  return spell(turned, step) + (turned === 0 || turned === -180 ? "" : turned > 0 ? "E" : "W");
};
export const spellLatitude = (degrees, step) => spell(degrees, step) + (degrees > 0 ? "N" : degrees < 0 ? "S" : "");

/** Returns the projected meridians and parallels of a view: `{label, side, pieces}` each. */
export function graticule(view, positions) {
  const seen = extent(view, positions.inverse);
  if (!seen) return [];
  const wide = Math.max(seen.north - seen.south, Math.min(360, seen.east - seen.west) / 2);
  const step = STEPS.find((each) => wide / each >= 3) ?? STEPS.at(-1);
  const [south, north] = [Math.max(-90, seen.south - step), Math.min(90, seen.north + step)];
  const [west, east] = [seen.west - step, Math.min(seen.east + step, seen.west - step + 360)];
  const most = Math.min(90, Math.floor(90 / step) * step);
  const line = (from, to) => {
    const parts = Math.max(2, Math.ceil(Math.hypot(to[0] - from[0], to[1] - from[1]) / Math.max(step / 4, 0.0005)));
    const points = Array.from({ length: parts + 1 }, (_, n) => [0, 1].map((axis) => from[axis] + ((to[axis] - from[axis]) * n) / parts));
    return projectLine(points.flat(), ([longitude, latitude]) => positions.forward([((longitude + 540) % 360) - 180, latitude]));
  };
  const meridians = multiples(west, east, step).filter((at, n, all) => n === 0 || at < all[0] + 360 - step / 2);
  return [
    ...meridians.map((at) => ({ label: spellLongitude(at, step), side: "bottom", pieces: line([at, south], [at, north]) })),
    ...multiples(Math.max(south, -most), Math.min(north, most), step).map((at) => ({ label: spellLatitude(at, step), side: "left", pieces: line([west, at], [east, at]) })),
  ];
}

/** Strokes a graticule, and labels it where it meets the left and the lower edge. */
export function drawGraticule(context, view, lines, repeat) {
  context.beginPath();
  tracePath(context, lines.flatMap(({ pieces }) => pieces.map((line) => ({ line, bounds: boundsOf(line) }))), view, repeat);
  Object.assign(context, { lineWidth: 1, strokeStyle: "rgb(255 255 255 / .35)" });
  context.stroke();
  // The scale bar is in the lower right corner.
  const taken = [[view.width - 150, view.height - 36, 150, 36]];
  for (const { label, side, pieces } of lines) {
    for (const at of crossings(pieces, view, side, repeat)) place(context, view, label, side, at, taken);
  }
}

/** Strokes a path in white with a dark edge, which is visible on every picture. */
export function stroke(context, width = 2) {
  for (const [lineWidth, strokeStyle] of [[width + 2, "rgb(0 0 0 / .6)"], [width, "#fff"]]) {
    Object.assign(context, { lineWidth, strokeStyle });
    context.stroke();
  }
}

/** Writes a text in white with a dark edge. */
export function write(context, text, x, y) {
  Object.assign(context, { lineWidth: 3, strokeStyle: "rgb(0 0 0 / .65)", fillStyle: "#fff" });
  context.strokeText(text, x, y);
  context.fillText(text, x, y);
}

/** Returns where projected lines meet an edge of the view, in CSS pixels along it. */
function crossings(pieces, view, side, repeat) {
  const found = [];
  const edge = side === "left" ? 4 : view.height - 4;
  const copies = repeat ? [-1, 0, 1].map((n) => n * repeat + Math.floor((view.left + 180) / repeat) * repeat) : [0];
  for (const line of pieces) {
    for (const shift of copies) {
      for (let n = 2; n < line.length; n += 2) {
        const [x1, y1, x2, y2] = [(line[n - 2] + shift - view.left) / view.per, (view.top - line[n - 1]) / view.per, (line[n] + shift - view.left) / view.per, (view.top - line[n + 1]) / view.per];
        const [a, b, along1, along2] = side === "left" ? [x1, x2, y1, y2] : [y1, y2, x1, x2];
        if ((a <= edge) !== (b <= edge)) found.push(along1 + ((along2 - along1) * (edge - a)) / (b - a));
      }
    }
  }
  return found;
}

function place(context, view, label, side, at, taken) {
  const width = context.measureText(label).width;
  const box = side === "left" ? [4, at - 7, width, 14] : [at - width / 2, view.height - 18, width, 14];
  const [x, y, w, h] = box;
  const isInside = x >= 2 && x + w <= view.width - 2 && y >= 2 && y + h <= view.height - 2;
  if (!isInside || (side === "left" && y > view.height - 36) || taken.some(([tx, ty, tw, th]) => x < tx + tw + 6 && tx < x + w + 6 && y < ty + th + 2 && ty < y + h + 2)) return;
  taken.push(box);
  write(context, label, x, y + 11);
}

/** Returns the distance of two points on a sphere, in kilometres. */
export function distance([lon1, lat1], [lon2, lat2]) {
  const radians = Math.PI / 180;
  const part = Math.sin(((lat2 - lat1) * radians) / 2) ** 2 + Math.cos(lat1 * radians) * Math.cos(lat2 * radians) * Math.sin(((lon2 - lon1) * radians) / 2) ** 2;
  return (2 * KM_PER_DEGREE * Math.asin(Math.min(1, Math.sqrt(part)))) / radians;
}
