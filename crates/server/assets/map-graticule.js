// Meridians and parallels on a map.
import { projectLine, tracePath } from "./map-coast.js";

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
  const latitudes = found.map(([, latitude]) => latitude);
  const longitudes = found.map(([longitude]) => ((longitude % 360) + 360) % 360).sort((one, other) => one - other);
  // The view lacks the widest gap between longitudes.
  let [gap, after] = [longitudes[0] + 360 - longitudes.at(-1), 0];
  longitudes.forEach((longitude, n) => {
    if (n && longitude - longitudes[n - 1] > gap) [gap, after] = [longitude - longitudes[n - 1], n];
  });
  const isAll = gap < 60 && gap < (360 / Math.sqrt(found.length)) * 3;
  const west = isAll ? -180 : longitudes[after];
  const east = isAll ? 180 : longitudes.at(after - 1) + (after ? 360 : 0);
  return { west: west > 180 ? west - 360 : west, east: west > 180 ? east - 360 : east, south: Math.min(...latitudes), north: Math.max(...latitudes) };
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
export function drawGraticule(context, view, lines, repeat, { ink, halo }) {
  const bounded = lines.flatMap(({ pieces }) => pieces.map((line) => ({ line, bounds: [-Infinity, -Infinity, Infinity, Infinity] })));
  context.beginPath();
  if (repeat) {
    const known = bounded.map(({ line }) => ({ line, bounds: [0, 1].map((axis) => extreme(line, axis, Math.min)).concat([0, 1].map((axis) => extreme(line, axis, Math.max))) }));
    tracePath(context, known, view, repeat);
  } else {
    for (const { line } of bounded) tracePath(context, [{ line, bounds: [view.left, view.top - view.height * view.per, view.left + view.width * view.per, view.top] }], view, null);
  }
  context.lineWidth = 1;
  context.strokeStyle = ink.faint;
  context.stroke();
  // The scale bar is in the lower right corner.
  const taken = [[view.width - 150, view.height - 36, 150, 36]];
  for (const { label, side, pieces } of lines) {
    for (const at of crossings(pieces, view, side, repeat)) place(context, view, label, side, at, taken, { ink: ink.text, halo });
  }
}

const extreme = (line, axis, choose) => line.reduce((best, value, n) => (n % 2 === axis ? choose(best, value) : best), choose === Math.min ? Infinity : -Infinity);

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

function place(context, view, label, side, at, taken, { ink, halo }) {
  const width = context.measureText(label).width;
  const box = side === "left" ? [4, at - 7, width, 14] : [at - width / 2, view.height - 18, width, 14];
  const [x, y, w, h] = box;
  const isInside = x >= 2 && x + w <= view.width - 2 && y >= 2 && y + h <= view.height - 2;
  if (!isInside || (side === "left" && y > view.height - 36) || taken.some(([tx, ty, tw, th]) => x < tx + tw + 6 && tx < x + w + 6 && y < ty + th + 2 && ty < y + h + 2)) return;
  taken.push(box);
  context.lineWidth = 3;
  context.strokeStyle = halo;
  context.strokeText(label, x, y + 11);
  context.fillStyle = ink;
  context.fillText(label, x, y + 11);
}

/** Returns the distance of two points on a sphere, in kilometres. */
export function distance([lon1, lat1], [lon2, lat2]) {
  const radians = Math.PI / 180;
  const part = Math.sin(((lat2 - lat1) * radians) / 2) ** 2 + Math.cos(lat1 * radians) * Math.cos(lat2 * radians) * Math.sin(((lon2 - lon1) * radians) / 2) ** 2;
  return (2 * KM_PER_DEGREE * Math.asin(Math.min(1, Math.sqrt(part)))) / radians;
}
