// Colour maps, interpolated in OKLab. Lightness increases evenly, so that equal steps of the data look equal.

/** Control points as lightness, chroma, hue (degrees), evenly spaced; diverging maps are lightest in the middle. */
const MAPS = {
  Lagoon: [[0.22, 0.07, 300], [0.36, 0.11, 278], [0.50, 0.10, 235], [0.64, 0.11, 190], [0.78, 0.15, 150], [0.92, 0.17, 108]],
  Ember: [[0.14, 0.03, 290], [0.31, 0.14, 300], [0.47, 0.18, 350], [0.63, 0.19, 28], [0.79, 0.15, 65], [0.95, 0.09, 100]],
  Ice: [[0.20, 0.05, 265], [0.38, 0.10, 262], [0.56, 0.11, 248], [0.75, 0.08, 225], [0.95, 0.03, 200]],
  Grey: [[0.12, 0, 0], [0.98, 0, 0]],
  Balance: [[0.35, 0.13, 258], [0.66, 0.10, 245], [0.96, 0.005, 200], [0.66, 0.13, 40], [0.37, 0.14, 25]],
};

export const MAP_NAMES = Object.keys(MAPS);

const tables = new Map();

/** Returns 256 colours, three bytes each. */
export function table(name) {
  if (!tables.has(name)) tables.set(name, build(MAPS[name] ?? MAPS.Lagoon));
  return tables.get(name);
}

/** Returns the colour at a position from 0 to 1, for style properties. */
export function css(name, place) {
  const colours = table(name);
  const at = 3 * Math.round(255 * Math.min(1, Math.max(0, place)));
  return `rgb(${colours[at]} ${colours[at + 1]} ${colours[at + 2]})`;
}

function build(points) {
  const labs = points.map(([l, c, hue]) => [l, c * Math.cos(hue * Math.PI / 180), c * Math.sin(hue * Math.PI / 180)]);
  const colours = new Uint8ClampedArray(256 * 3);
  for (let n = 0; n < 256; n += 1) {
    const place = (n / 255) * (labs.length - 1);
    const low = Math.min(Math.floor(place), labs.length - 2);
    const lab = labs[low].map((from, axis) => from + (labs[low + 1][axis] - from) * (place - low));
    colours.set(toBytes(lab), 3 * n);
  }
  return colours;
}

/** Converts a colour to sRGB; reduces the chroma of a colour outside the gamut until it fits. */
function toBytes([l, a, b]) {
  for (let part = 1; part > 0; part -= 0.04) {
    const linear = toLinear(l, a * part, b * part);
    if (linear.every((value) => value >= -0.001 && value <= 1.001)) return linear.map(encode);
  }
  return toLinear(l, 0, 0).map(encode);
}

/** Converts OKLab to linear sRGB. */
function toLinear(l, a, b) {
  const long = (l + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const middle = (l - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const short = (l - 0.0894841775 * a - 1.2914855480 * b) ** 3;
  return [
    4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
    -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
    -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
  ];
}

function encode(linear) {
  const value = Math.min(1, Math.max(0, linear));
  return 255 * (value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055);
}
