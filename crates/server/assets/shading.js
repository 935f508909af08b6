// How the values of an array become colours: palettes, categories, bands, and the default colour map.
import { schemeTableau10 } from "./vendor.js";
import { DIVERGING, pack } from "./colour.js";

/** Maximum number of categories that are drawn as such. */
const CATEGORIES = 64;

/** Returns the palette of a TIFF image (ColorMap) as a `Map` from value to pixel; null if there is none. */
export function palette({ color_map: map }) {
  const { red, green, blue } = map ?? {};
  if (![red, green, blue].every((channel) => Array.isArray(channel) && channel.length === red.length)) return null;
  // Some writers store 8 bits per channel, some multiply them by 256, and most by 257, as TIFF asks.
  const all = [...red, ...green, ...blue];
  const unit = all.every((value) => value <= 255) ? 1 : all.every((value) => value % 256 === 0) ? 256 : 257;
  const byte = (value) => Math.floor(value / unit);
  return new Map(red.map((value, n) => [n, pack(byte(value), byte(green[n]), byte(blue[n]))]));
}

/** Returns the categories of CF's `flag_values` and `flag_meanings`: `[{value, label, pixel}]`; null if there are none. */
export function categories({ flag_values: values, flag_meanings: meanings, flag_colors: colours }) {
  if (typeof meanings !== "string") return null;
  const list = (Array.isArray(values) ? values : [values]).map(Number);
  const labels = meanings.trim().split(/\s+/);
  if (list.length !== labels.length || list.length > CATEGORIES || !list.every(Number.isFinite)) return null;
  const given = typeof colours === "string" ? colours.trim().split(/\s+/) : [];
  const colour = (n) => (given.length === list.length && /^#[0-9a-f]{6}$/i.test(given[n]) ? given[n] : schemeTableau10[n % 10]);
  return list.map((value, n) => ({ value, label: labels[n].replaceAll("_", " "), pixel: pack(...[1, 3, 5].map((at) => Number.parseInt(colour(n).slice(at, at + 2), 16))) }));
}

/** Finds the axis of the bands of an image, given the axes of rows and columns; null if there is none. */
export function bandAxis(array, axes) {
  const others = array.shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis) && array.shape[axis] >= 3);
  return others.find((axis) => /^(band|bands|sample|samples|channel|channels|rgb|c|s)$/i.test(array.names[axis] ?? "")) ?? null;
}

/** Returns the bands to show at first as red, green and blue, and that of the opacity: `{bands, alpha}`; null for others. */
export function composite(array, axis) {
  if (axis === null || array.attributes.photometric_interpretation !== "RGB") return null;
  const extra = [array.attributes.extra_samples].flat().findIndex((name) => /alpha/.test(String(name)));
  return { bands: [0, 1, 2], alpha: extra >= 0 && array.shape[axis] > 3 + extra ? 3 + extra : null };
}

/** Returns the colour map to start with: `{map, reverse}`. */
export function defaultMap({ attributes, type }, sorted) {
  const photometric = String(attributes.photometric_interpretation ?? "");
  if (/^u?int8$/.test(type) && /^(BlackIsZero|WhiteIsZero)$/i.test(photometric)) return { map: "grey", reverse: /^White/i.test(photometric) };
  const [low, high] = [sorted[Math.floor(0.02 * (sorted.length - 1))], sorted[Math.ceil(0.98 * (sorted.length - 1))]];
  const isBalanced = low < 0 && high > 0 && Math.min(-low, high) > 0.5 * Math.max(-low, high);
  return { map: isBalanced ? DIVERGING : "viridis", reverse: false };
}

/**
 * Returns the range of the colours: the smallest and largest value without a fraction at either end. That of the
 * diverging map is centred at 0.
 */
export function rangeOf(sorted, part, { map, scale }) {
  const list = scale === "log" ? sorted.subarray(Math.max(0, firstPositive(sorted))) : sorted;
  if (!list.length) return scale === "log" ? [1, 10] : [0, 1];
  const last = list.length - 1;
  const [low, high] = [list[Math.floor(part * last)], list[Math.ceil((1 - part) * last)]];
  if (map !== DIVERGING || scale === "log") return [low, high];
  const most = Math.max(Math.abs(low), Math.abs(high));
  return most ? [-most, most] : [low, high];
}

function firstPositive(sorted) {
  const at = sorted.findIndex((value) => value > 0);
  return at < 0 ? sorted.length : at;
}
