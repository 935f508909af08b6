// Axes of a figure: coordinates along a dimension, ticks, and labels.
import { format, ticks } from "./vendor.js";
import { formatTime, timeAxis, timeTicks } from "./time.js";
import { meaning, spell } from "./values.js";

/** Steps of degrees between ticks. */
const DEGREES = [0.1, 0.2, 0.25, 0.5, 1, 2, 5, 10, 15, 30, 45, 60, 90];

const text = (value) => (typeof value === "string" && value.trim() ? value.trim() : null);

/** Returns the title of an array: its description, otherwise its name; with the units. */
export function title(attributes, name, { withUnits = true } = {}) {
  const long = text(attributes?.long_name) ?? text(attributes?.standard_name)?.replaceAll("_", " ") ?? name;
  const units = withUnits ? text(attributes?.units) : null;
  return units && units !== "1" ? `${long} [${units}]` : long;
}

/** The samples of one axis: `count` elements from index `start`, every `step`-th; `values` are their coordinates. */
export class Axis {
  constructor({ name, span, values = null, attributes = {}, type = "float64" }) {
    Object.assign(this, { name, span, values, attributes, type });
    const units = String(attributes.units ?? "");
    this.time = values ? timeAxis(attributes) : null;
    this.isNorth = /^degrees?_?n(orth)?$/i.test(units) || /latitude$/.test(attributes.standard_name ?? "");
    this.isEast = /^degrees?_?e(ast)?$/i.test(units) || /longitude$/.test(attributes.standard_name ?? "");
    this.isUp = this.isNorth || attributes.axis === "Y" || /projection_y/.test(attributes.standard_name ?? "");
    this.isMonotonic = values !== null && monotonic(values);
  }

  /** Returns the index in the array of a sample. */
  index = (sample) => this.span.start + sample * this.span.step;

  get title() {
    if (!this.values) return `${this.name} (index)`;
    return title(this.attributes, this.name, { withUnits: !this.time && !this.isNorth && !this.isEast });
  }

  /** Formats the coordinate of a sample with its unit; null if there is none. */
  coordinate(sample) {
    if (!this.values) return null;
    const value = this.values[sample];
    if (this.time) return formatTime(this.time, value);
    const units = text(this.attributes.units);
    return `${spell(value, this.type)}${units && units !== "1" ? ` ${units}` : ""}`;
  }

  /** Returns the coordinate of a sample for a file: times as dates. */
  plain(sample) {
    if (!this.values) return String(this.index(sample));
    return this.time ? formatTime(this.time, this.values[sample]).replace(" ", "T") : spell(this.values[sample], this.type);
  }

  /** Returns about `most` ticks as `{place, label}`; the place is that of a sample: 0 for the centre of the first. */
  ticks(most) {
    if (!this.isMonotonic) return this.indexTicks(most);
    const [first, last] = [this.values[0], this.values.at(-1)];
    const [low, high] = first < last ? [first, last] : [last, first];
    const found = this.time ? timeTicks(this.time, low, high, most) ?? this.sampleTicks(most) : this.isNorth || this.isEast ? degreeTicks(low, high, most, this.isNorth ? "NS" : "EW") : numberTicks(low, high, most);
    return found.map(({ value, label, place }) => ({ place: place ?? this.place(value), label }));
  }

  sampleTicks(most) {
    return this.indexTicks(most).map(({ place }) => ({ place, label: this.coordinate(Math.min(this.values.length - 1, Math.max(0, Math.round(place)))) }));
  }

  indexTicks(most) {
    const { start, step, count } = this.span;
    const found = ticks(start, start + step * Math.max(0, count - 1), Math.max(1, most)).filter(Number.isInteger);
    return found.map((index) => ({ place: (index - start) / step, label: format(",")(index) }));
  }

  /** Returns the place of a value between the samples. */
  place(value) {
    const { values } = this;
    const upward = values[0] <= values.at(-1);
    let [low, high] = [0, values.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if ((values[middle] <= value) === upward) low = middle;
      else high = middle;
    }
    const [from, to] = [values[low], values[high]];
    return to === from ? low : low + (value - from) / (to - from) * (high - low);
  }
}

/** Reads the coordinates of the samples of an axis; an axis of indices if there are none. */
export async function readAxis(array, axis, span, coordinates, signal) {
  const plain = { name: array.name(axis), span };
  if (!coordinates?.isNumeric) return new Axis(plain);
  try {
    const { start, step, count } = span;
    const elements = await coordinates.read([[start, start + (count - 1) * step + 1, step]], signal);
    return new Axis({ ...plain, values: elements.physical(meaning(coordinates.attributes, coordinates.type)), attributes: coordinates.attributes, type: coordinates.type });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return new Axis(plain); // The figure is shown without coordinates.
  }
}

function monotonic(values) {
  if (values.length < 2 || !values.every(Number.isFinite)) return false;
  const sign = Math.sign(values[1] - values[0]);
  for (let n = 1; n < values.length; n += 1) if (Math.sign(values[n] - values[n - 1]) !== sign) return false;
  return sign !== 0;
}

/** Returns round numbers between two values. */
export function numberTicks(low, high, most) {
  const found = ticks(low, high, Math.max(1, most));
  const labels = found.map(numberFormat(found));
  return found.map((value, n) => ({ value, label: labels[n] }));
}

/** Returns a format that shows the difference between ticks. */
export function numberFormat(found) {
  const largest = Math.max(...found.map(Math.abs), 0);
  const step = found.length > 1 ? Math.abs(found[1] - found[0]) : largest || 1;
  if (largest >= 1e6 || (largest > 0 && largest < 1e-3)) {
    const digits = Math.max(0, Math.min(12, Math.floor(Math.log10(largest)) - Math.floor(Math.log10(step) + 1e-9)));
    return (value) => (value === 0 ? "0" : value.toExponential(digits).replace("e+", "e").replace("-", "−"));
  }
  const digits = Math.max(0, Math.min(12, -Math.floor(Math.log10(step) + 1e-9)));
  return format(`,.${digits}f`);
}

function degreeTicks(low, high, most, letters) {
  const step = DEGREES.find((each) => (high - low) / each <= most) ?? 90;
  if ((high - low) / step < 1) return numberTicks(low, high, most).map(({ value }) => ({ value, label: degrees(value, letters) }));
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9; n += 1) found.push(Number((n * step).toPrecision(12)));
  return found.map((value) => ({ value, label: degrees(value, letters) }));
}

function degrees(value, letters) {
  const turned = letters === "EW" && value > 180 ? value - 360 : value;
  const number = Number(Math.abs(turned).toPrecision(8));
  return `${number}°${turned === 0 || number === 180 && letters === "EW" ? "" : letters[turned > 0 ? 0 : 1]}`;
}
