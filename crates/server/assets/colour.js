// Colours of values: colour maps, palettes, categories, bands, and pictures that are painted with them.
import { bisectRight, interpolateCividis, interpolateGreys, interpolateInferno, interpolateMagma, interpolateRdBu, interpolateTurbo, interpolateViridis, schemeTableau10 } from "./vendor.js";

/** Colour maps by name. Lightness increases evenly; that of the diverging map is highest in the middle. */
const MAPS = {
  viridis: interpolateViridis,
  cividis: interpolateCividis,
  magma: interpolateMagma,
  inferno: interpolateInferno,
  grey: (place) => interpolateGreys(1 - place),
  "blue–red": (place) => interpolateRdBu(1 - place),
  turbo: interpolateTurbo,
};

export const MAP_NAMES = Object.keys(MAPS);
/** The map for values on both sides of 0. */
const DIVERGING = "blue–red";

const tables = new Map();

/** Returns the 256 colours of a map as pixels: 32-bit words of the bytes R, G, B, A. */
export function table(name, reverse = false) {
  const key = `${name} ${reverse}`;
  if (!tables.has(key)) {
    const map = Object.hasOwn(MAPS, name) ? MAPS[name] : MAPS.viridis;
    tables.set(key, Uint32Array.from({ length: 256 }, (_, n) => pack(...channels(map((reverse ? 255 - n : n) / 255)))));
  }
  return tables.get(key);
}

/** Returns the channels of a CSS colour: `#rrggbb` or `rgb(r, g, b)`. */
function channels(text) {
  if (text.startsWith("#")) return [1, 3, 5].map((at) => Number.parseInt(text.slice(at, at + 2), 16));
  return text.match(/\d+/g).map(Number);
}

/** Returns the pixel of a colour, as typed arrays over image data hold it on little-endian machines. */
function pack(red, green, blue, alpha = 255) {
  return ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Returns a pixel as a CSS colour. */
export const css = (pixel) => `rgb(${pixel & 255} ${(pixel >> 8) & 255} ${(pixel >> 16) & 255})`;

/**
 * Returns where a value lies between `low` (0) and `high` (1), as a function. Results are not clamped; NaN for values
 * that have no place on the scale.
 */
export function placer({ low, high, scale = "linear" }) {
  if (scale === "log") {
    const [from, to] = [Math.log(low), Math.log(high)];
    return (value) => (value > 0 ? (to === from ? 0.5 : (Math.log(value) - from) / (to - from)) : NaN);
  }
  return (value) => (high === low ? 0.5 : (value - low) / (high - low));
}

/** Returns the value at a place of a scale, as `placer` returns it. */
export const valueAt = ({ low, high, scale }, place) => (scale === "log" ? low * (high / low) ** place : low + place * (high - low));

/**
 * Paints planes of `width` × `height` values, in row-major order, as an image. `colours` is one of
 *
 * - `{low, high, scale, map, reverse}`: a range, "linear" or "log", one of `MAP_NAMES`, and whether its ends are swapped.
 *   Values outside the range get the colour of its nearer end.
 * - `{palette}`: a `Map` from value to pixel (see `pack`). Other values are transparent.
 * - `{bands, alpha}`: the range `{low, high}` of red, green and blue, and that of the opacity, which may be null.
 *
 * NaN, and values that a logarithmic scale cannot place, are transparent. `flip`: the first row is drawn at the bottom.
 */
export function paintPlanes(planes, { width, height }, colours, flip = false) {
  const colour = colours.bands ? composer(planes, colours) : painter(planes[0], colours);
  const image = new ImageData(width, height);
  const words = new Uint32Array(image.data.buffer);
  for (let y = 0; y < height; y += 1) {
    const line = (flip ? height - 1 - y : y) * width;
    for (let x = 0; x < width; x += 1) words[y * width + x] = colour(line + x);
  }
  return image;
}

/** Returns a function that returns the pixel of the n-th value. */
function painter(values, { low, high, scale = "linear", map = "viridis", reverse = false, palette = null }) {
  if (palette) return (n) => palette.get(values[n]) ?? 0;
  const colours = table(map, reverse);
  const place = placer({ low, high, scale });
  const isLinear = scale !== "log" && high !== low;
  return (n) => {
    const at = isLinear ? (values[n] - low) / (high - low) : place(values[n]);
    return at === at ? colours[(255 * (at < 0 ? 0 : at > 1 ? 1 : at) + 0.5) | 0] : 0;
  };
}

function composer(planes, { bands, alpha }) {
  const channel = (range, values) => (n) => 255 * (range.high === range.low ? 0.5 : (values[n] - range.low) / (range.high - range.low));
  const [red, green, blue] = bands.map((range, n) => channel(range, planes[n]));
  const opacity = alpha ? channel(alpha, planes[3]) : () => 255;
  const clamp = (value) => Math.round(Math.min(255, Math.max(0, value)));
  return (n) => {
    const [r, g, b] = [red(n), green(n), blue(n)];
    const sum = r + g + b;
    return sum === sum ? pack(clamp(r), clamp(g), clamp(b), clamp(opacity(n) || 0)) : 0;
  };
}

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
  return list.map((value, n) => ({ value, label: labels[n].replaceAll("_", " "), pixel: pack(...channels(colour(n))) }));
}

const BANDS = /^(band|bands|sample|samples|channel|channels|rgb|rgba|c|s)$/i;
const INTERLACE = { INTERLACE_PIXEL: 2, INTERLACE_LINE: 1, INTERLACE_PLANE: 0 };
/** Minimum length of the sides of an image whose axes have no names. */
const SMALLEST = 16;
/** Names of the bands of red, green and blue: those of colours, of Sentinel-2, and of Landsat 8. */
const COLOURS = [["red", "b04", "b4", "sr_b4"], ["green", "b03", "b3", "sr_b3"], ["blue", "b02", "b2", "sr_b2"]];

/**
 * Finds the axis of the bands of an image; null if there is none: one with such a name, that of an HDF5 image, or the last
 * one of rows × columns × 3 or 4 bytes.
 */
function bandsOf({ shape, names, attributes, type }) {
  const named = shape.findIndex((_, axis) => BANDS.test(names[axis] ?? ""));
  if (named >= 0 || shape.length !== 3) return named >= 0 ? named : null;
  const declared = INTERLACE[attributes.INTERLACE_MODE];
  if (declared !== undefined) return shape[declared] === 3 || shape[declared] === 4 ? declared : null;
  const isUnnamed = names.every((name) => !name || name.startsWith("phony_dim_"));
  return type === "uint8" && isUnnamed && (shape[2] === 3 || shape[2] === 4) && Math.min(shape[0], shape[1]) >= SMALLEST ? 2 : null;
}

/** Returns the axes of rows and columns: the last two that are not that of the bands. */
export function imageAxes(array) {
  const bands = bandsOf(array);
  return array.shape.map((_, axis) => axis).filter((axis) => axis !== bands || array.shape.length < 3).slice(-2);
}

/** Finds the axis of the bands of an image, given the axes of rows and columns; null if there are fewer than three. */
export function bandAxis(array, axes) {
  const found = bandsOf(array);
  return found !== null && array.shape[found] >= 3 && !axes.includes(found) ? found : null;
}

/** Returns the name of each band; null if they have none. */
export function bandNames({ attributes: { long_name: names }, shape }, axis) {
  return Array.isArray(names) && names.length === shape[axis] ? names.map(String) : null;
}

/** Returns the bands to show at first as red, green, blue and, if there is one, opacity: `{axis, numbers}`; null for others. */
export function composite(array, axis) {
  if (axis === null) return null;
  const { attributes, shape, node, type } = array;
  const names = bandNames(array, axis)?.map((name) => name.trim().toLowerCase());
  const named = COLOURS.map((each) => names?.findIndex((name) => each.includes(name)) ?? -1);
  if (named.every((band) => band >= 0)) return { axis, numbers: named };
  const photometric = attributes.photometric_interpretation;
  // Decoders of JPEG convert to red, green and blue.
  const isRgb = photometric === "RGB" || (photometric === "YCbCr" && node.description.codecs.some(({ name }) => /jpe?g/.test(name)));
  const isImage = !photometric && type === "uint8" && !BANDS.test(array.names[axis] ?? "") && shape[axis] <= 4;
  if (!isRgb && !isImage) return null;
  const extra = [attributes.extra_samples].flat().findIndex((name) => /alpha/.test(String(name)));
  const alpha = isImage ? 3 : extra >= 0 ? 3 + extra : Infinity;
  return { axis, numbers: shape[axis] > alpha ? [0, 1, 2, alpha] : [0, 1, 2] };
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
  const list = scale === "log" ? positive(sorted) : sorted;
  if (!list.length) return scale === "log" ? [1, 10] : [0, 1];
  const last = list.length - 1;
  const [low, high] = [list[Math.floor(part * last)], list[Math.ceil((1 - part) * last)]];
  if (map !== DIVERGING || scale === "log") return [low, high];
  const most = Math.max(Math.abs(low), Math.abs(high));
  return most ? [-most, most] : [low, high];
}

/** Returns the positive ones of sorted values. */
export const positive = (sorted) => sorted.subarray(bisectRight(sorted, 0));
