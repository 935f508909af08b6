// Colours of values: colour maps, and pictures that are painted with them.
import { interpolateCividis, interpolateGreys, interpolateInferno, interpolateMagma, interpolateRdBu, interpolateTurbo, interpolateViridis } from "./vendor.js";

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
export const DIVERGING = "blue–red";

/** Pixels that were not read are hatched with these colours. */
const HATCH = [pack(128, 128, 128, 40), pack(128, 128, 128, 160)];

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
export function pack(red, green, blue, alpha = 255) {
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

/**
 * Paints values in row-major order as a picture. Pixels of NaN, and of values that a logarithmic scale cannot place,
 * are transparent. Values outside the range get the colour of its nearer end.
 *
 * `values`: `Float64Array` of `width` × `height` values. `read`: 1 for each value that is known, 0 for those to hatch;
 * null if all are. `low`, `high`: the range of the colours. `scale`: "linear" or "log". `map`: one of `MAP_NAMES`.
 * `reverse`: swaps the ends of the map. `palette`: a `Map` from value to pixel (see `pack`), used instead of the
 * colour map; other values are transparent. `flip`: the first row is drawn at the bottom.
 */
export function paint(values, read, { width, height, low = 0, high = 1, scale = "linear", map = "viridis", reverse = false, palette = null, flip = false }) {
  const colours = table(map, reverse);
  const place = placer({ low, high, scale });
  const coloured = (value) => {
    const at = place(value);
    return at === at ? colours[Math.round(255 * Math.min(1, Math.max(0, at)))] : 0;
  };
  return pixels(read, { width, height, flip }, palette ? (n) => palette.get(values[n]) ?? 0 : (n) => coloured(values[n]));
}

/**
 * Paints three bands as red, green and blue. Each band is `{values, low, high}`; `alpha`, if given, is such a band too.
 * Pixels with NaN in a band are transparent. The other options are those of `paint`.
 */
export function paintBands(bands, read, { width, height, alpha = null, flip = false }) {
  const channel = ({ values, low, high }) => (n) => 255 * (high === low ? 0.5 : (values[n] - low) / (high - low));
  const of = bands.map(channel);
  const opacity = alpha ? channel(alpha) : () => 255;
  const clamp = (value) => Math.round(Math.min(255, Math.max(0, value)));
  return pixels(read, { width, height, flip }, (n) => {
    const [red, green, blue] = [of[0](n), of[1](n), of[2](n)];
    const sum = red + green + blue;
    return sum === sum ? pack(clamp(red), clamp(green), clamp(blue), clamp(opacity(n) || 0)) : 0;
  });
}

/** Returns a picture of the pixels that `colour` returns for each known value. */
function pixels(read, { width, height, flip }, colour) {
  const image = new ImageData(width, height);
  const words = new Uint32Array(image.data.buffer);
  for (let y = 0; y < height; y += 1) {
    const line = (flip ? height - 1 - y : y) * width;
    for (let x = 0; x < width; x += 1) {
      words[y * width + x] = read && !read[line + x] ? HATCH[Number((x + y) % 6 === 0)] : colour(line + x);
    }
  }
  return image;
}
