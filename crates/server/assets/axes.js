// Axes of a figure: coordinates along a dimension, ticks and labels; times of the CF conventions.
import { degrees, measured, meaning, spell } from "./values.js";
import { format, ticks } from "./vendor.js";

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
    this.isNorth = /^degrees?_?n(orth)?$/i.test(units) || attributes.standard_name === "latitude";
    this.isEast = /^degrees?_?e(ast)?$/i.test(units) || attributes.standard_name === "longitude";
    this.isUp = this.isNorth || attributes.standard_name === "grid_latitude" || attributes.axis === "Y" || /projection_y/.test(attributes.standard_name ?? "");
    this.isMonotonic = values !== null && monotonic(values);
  }

  /** Returns the index in the array of a sample. */
  index(sample) {
    const { start, step, indices } = this.span;
    if (!indices) return start + sample * step;
    const n = Math.min(indices.length - 1, Math.max(0, Math.floor(sample)));
    return indices[n] + (n + 1 < indices.length ? (sample - n) * (indices[n + 1] - indices[n]) : 0);
  }

  /** Returns the coordinate at a place between or beyond the samples. */
  valueAt(place) {
    const { values } = this;
    if (values.length < 2) return values[0];
    const n = Math.min(values.length - 2, Math.max(0, Math.floor(place)));
    return values[n] + (values[n + 1] - values[n]) * (place - n);
  }

  get title() {
    if (!this.values) return `${this.name} (index)`;
    return title(this.attributes, this.name, { withUnits: !this.time && !this.isNorth && !this.isEast });
  }

  /** Formats the coordinate of a sample with its unit; null if there is none. */
  coordinate(sample) {
    if (!this.values) return null;
    const value = this.values[sample];
    if (this.time) return formatTime(this.time, value);
    return measured(value, this.attributes, this.type);
  }

  /** Formats where a sample is: its coordinate, after the name of the axis unless that is obvious; null without coordinates. */
  position(sample) {
    const text = this.coordinate(sample);
    return text === null || this.time || this.isNorth || this.isEast ? text : `${this.name} ${text}`;
  }

  /** Returns the coordinate of a sample for a file: times as dates. */
  plain(sample) {
    if (!this.values) return String(this.index(sample));
    return this.time ? formatTime(this.time, this.values[sample]).replace(" ", "T") : spell(this.values[sample], this.type);
  }

  /** Returns about `most` ticks between two places as `{place, label}`; a place is that of a sample: 0 for the centre of the first. */
  ticks(most, [from, to] = [0, this.span.count - 1]) {
    if (!this.isMonotonic) return this.indexTicks(most, [from, to]);
    const [first, last] = [this.valueAt(from), this.valueAt(to)];
    const [low, high] = first < last ? [first, last] : [last, first];
    const found = this.time ? timeTicks(this.time, low, high, most) ?? this.sampleTicks(most, [from, to]) : this.isNorth || this.isEast ? degreeTicks(low, high, most, this.isNorth ? "NS" : "EW") : numberTicks(low, high, most);
    return found.map(({ value, label, place }) => ({ place: place ?? this.place(value), label }));
  }

  sampleTicks(most, range) {
    return this.indexTicks(most, range).map(({ place }) => ({ place, label: this.coordinate(Math.min(this.values.length - 1, Math.max(0, Math.round(place)))) }));
  }

  indexTicks(most, [from, to] = [0, this.span.count - 1]) {
    const { start, step } = this.span;
    const found = ticks(start + step * Math.max(0, from), start + step * Math.max(0, to), Math.max(1, most)).filter(Number.isInteger);
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
function numberFormat(found) {
  const largest = Math.max(...found.map(Math.abs), 0);
  const step = found.length > 1 ? Math.abs(found[1] - found[0]) : largest || 1;
  if (largest >= 1e10 || (largest > 0 && largest < 1e-4)) {
    const digits = Math.max(0, Math.min(12, Math.floor(Math.log10(largest)) - Math.floor(Math.log10(step) + 1e-9)));
    return (value) => (value === 0 ? "0" : value.toExponential(digits).replace("e+", "e").replace("-", "−"));
  }
  const digits = Math.max(0, Math.min(12, -Math.floor(Math.log10(step) + 1e-9)));
  return format(`,.${digits}f`);
}

function degreeTicks(low, high, most, letters) {
  const step = DEGREES.find((each) => (high - low) / each <= most) ?? 90;
  if ((high - low) / step < 1) return numberTicks(low, high, most).map(({ value }) => ({ value, label: degrees(Number(value.toPrecision(8)), letters) }));
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9; n += 1) found.push(Number((n * step).toPrecision(12)));
  return found.map((value) => ({ value, label: degrees(Number(value.toPrecision(8)), letters) }));
}

const DAY = 86400;
const UNITS = [
  [/^(d|days?)$/i, DAY], [/^(h|hrs?|hours?)$/i, 3600], [/^(min|mins?|minutes?)$/i, 60], [/^(s|secs?|seconds?)$/i, 1],
  [/^(ms|msecs?|milliseconds?)$/i, 1e-3], [/^(us|microsecs?|microseconds?)$/i, 1e-6], [/^(ns|nanosecs?|nanoseconds?)$/i, 1e-9],
];
const LENGTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const LEAP = LENGTHS.with(1, 29);

const floor = Math.floor;

/** Returns the number of a day of the Gregorian (`isGregorian`) or Julian calendar. */
function dayNumber(year, month, day, isGregorian) {
  const a = floor((14 - month) / 12);
  const y = year + 4800 - a;
  const plain = day + floor((153 * (month + 12 * a - 3) + 2) / 5) + 365 * y + floor(y / 4);
  return isGregorian ? plain - floor(y / 100) + floor(y / 400) - 32045 : plain - 32083;
}

/** Returns the date of a day number: E. G. Richards, "Mapping Time". */
function dateOf(number, isGregorian) {
  const f = number + 1401 + (isGregorian ? floor((floor((4 * number + 274277) / 146097) * 3) / 4) - 38 : 0);
  const e = 4 * f + 3;
  const h = 5 * floor((((e % 1461) + 1461) % 1461) / 4) + 2;
  const month = ((floor(h / 153) + 2) % 12) + 1;
  return [floor(e / 1461) - 4716 + floor((14 - month) / 12), month, floor((h % 153) / 5) + 1];
}

/** A calendar whose years all have months of the same lengths. */
function uniform(lengths) {
  const starts = lengths.reduce((all, length) => [...all, all.at(-1) + length], [0]);
  const year = starts.at(-1);
  return {
    number: (y, m, d) => y * year + starts[m - 1] + d - 1,
    date: (number) => {
      const y = floor(number / year);
      const rest = number - y * year;
      const m = starts.findLastIndex((start) => start <= rest);
      return [y, m + 1, rest - starts[m] + 1];
    },
  };
}

const era = (isGregorian) => ({ number: (y, m, d) => dayNumber(y, m, d, isGregorian), date: (number) => dateOf(number, isGregorian) });

/** The Gregorian calendar since 1582-10-15, the Julian calendar before. */
const MIXED = {
  number: (y, m, d) => dayNumber(y, m, d, y * 10000 + m * 100 + d >= 15821015),
  date: (number) => dateOf(number, number >= 2299161),
};

const CALENDARS = {
  standard: MIXED, gregorian: MIXED, proleptic_gregorian: era(true), julian: era(false),
  noleap: uniform(LENGTHS), "365_day": uniform(LENGTHS), all_leap: uniform(LEAP), "366_day": uniform(LEAP), "360_day": uniform(Array(12).fill(30)),
};

/** Returns the time axis that attributes declare: `{seconds(value), value(seconds), …}`; null for other units. */
export function timeAxis({ units, calendar = "standard" }) {
  if (typeof units !== "string" || typeof calendar !== "string") return null;
  const [, unit, origin] = /^\s*(\S+)\s+since\s+(.+?)\s*$/i.exec(units) ?? [];
  const scale = UNITS.find(([pattern]) => pattern.test(unit ?? ""))?.[1];
  const days = CALENDARS[calendar.toLowerCase()];
  const start = scale && days ? reference(origin, days) : null;
  if (start === null) return null;
  return { days, seconds: (value) => start + value * scale, value: (seconds) => (seconds - start) / scale };
}

/** Parses a reference time, such as `2000-1-1 12:00:00 +01:00`; null if it is malformed. */
function reference(text, days) {
  const match = /^([+-]?\d{1,6})-(\d{1,2})(?:-(\d{1,2}))?(?:[T\s]+(\d{1,2})(?::(\d{1,2})(?::(\d{1,2}(?:\.\d*)?))?)?)?\s*(?:Z|UTC|GMT|([+-])(\d{1,2}):?(\d{2})?)?$/i.exec(text);
  if (!match) return null;
  const [year, month, day = 1, hour = 0, minute = 0, second = 0] = match.slice(1, 7).map((part) => (part === undefined ? undefined : Number(part)));
  if (month < 1 || month > 12 || day < 1 || day > 31) return null;
  const shift = match[7] ? (match[7] === "-" ? -1 : 1) * (Number(match[8]) * 3600 + Number(match[9] ?? 0) * 60) : 0;
  return days.number(year, month, day) * DAY + hour * 3600 + minute * 60 + second - shift;
}

const pad = (value, digits = 2) => String(value).padStart(digits, "0");

/** Formats a time: `2000-01-16`, with hours, minutes and seconds unless it is midnight. */
export function formatTime(time, value) {
  if (!Number.isFinite(value)) return "no time";
  // Floating-point values of whole milliseconds are not exact.
  const seconds = Math.round(time.seconds(value) * 1000) / 1000;
  const number = floor(seconds / DAY);
  const rest = seconds - number * DAY;
  const [year, month, day] = time.days.date(number);
  const date = `${year < 0 ? "-" : ""}${pad(Math.abs(year), 4)}-${pad(month)}-${pad(day)}`;
  if (rest < 0.0005) return date;
  const clock = `${date} ${pad(floor(rest / 3600))}:${pad(floor(rest / 60) % 60)}`;
  const second = rest % 60;
  return second < 0.0005 ? clock : `${clock}:${second % 1 < 0.0005 ? pad(Math.round(second)) : second.toFixed(3).padStart(6, "0")}`;
}

const STEPS = [1, 2, 5, 10, 15, 30].map((n) => [n, "second"])
  .concat([1, 2, 5, 10, 15, 30].map((n) => [60 * n, "second"]), [1, 2, 3, 6, 12].map((n) => [3600 * n, "second"]), [1, 2, 5, 10].map((n) => [DAY * n, "day"]));

/** Returns about `count` evenly placed times between two values, as `{value, label}`. */
export function timeTicks(time, low, high, count) {
  const [from, past] = [time.seconds(low), time.seconds(high)];
  const wanted = (past - from) / Math.max(1, count);
  if (!(wanted > 0) || wanted < 0.5) return null;
  const [step] = STEPS.find(([size]) => size >= wanted) ?? [null];
  const found = step ? evenly(time, from, past, step) : byMonth(time, from, past, wanted / (DAY * 30.44));
  return found.map((seconds) => ({ value: time.value(seconds), label: label(time, seconds, step) }));
}

/** Returns times a fixed distance apart; days start anew with each month. */
function evenly(time, from, past, step) {
  const found = [];
  if (step < DAY) {
    for (let at = Math.ceil(from / step) * step; at <= past && found.length < 100; at += step) found.push(at);
    return found;
  }
  const days = step / DAY;
  for (let number = Math.ceil(from / DAY); number * DAY <= past && found.length < 100; number += 1) {
    const day = time.days.date(number)[2];
    if (days === 1 || (day - 1) % days === 0 && day < 31 - days / 2) found.push(number * DAY);
  }
  return found;
}

/** Returns first days of months, some months or years apart. */
function byMonth(time, from, past, wanted) {
  const years = [1, 2, 5].flatMap((n) => [12, 120, 1200, 12000].map((month) => n * month)).sort((a, b) => a - b);
  const step = [1, 2, 3, 6, ...years].find((months) => months >= wanted) ?? 60000;
  const [year, month] = time.days.date(floor(from / DAY));
  const found = [];
  for (let at = Math.ceil((year * 12 + month - 1) / step) * step; found.length < 100; at += step) {
    const seconds = time.days.number(floor(at / 12), (((at % 12) + 12) % 12) + 1, 1) * DAY;
    if (seconds > past) break;
    if (seconds >= from) found.push(seconds);
  }
  return found;
}

/** Labels a tick with what changes between ticks. */
function label(time, seconds, step) {
  const text = formatTime(time, time.value(seconds));
  if (step && step < DAY) return seconds % DAY === 0 ? text : text.slice(text.indexOf(" ") + 1);
  return step ? text : text.endsWith("-01-01") ? text.slice(0, -6) : text.slice(0, -3);
}
