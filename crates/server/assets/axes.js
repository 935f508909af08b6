// Axes of a figure: coordinates along a dimension, ticks and labels; times of the CF conventions.
import { degrees, measured, spell, written } from "./values.js";
import { bisectRight, bisector, format, ticks } from "./vendor.js";

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
    // Coordinates that are computed, such as those of a GeoTransform, have digits that mean nothing: 12.300000000000001.
    this.decimals ??= this.type === "float64" ? decimalsOf(this.values) : null;
    return measured(this.decimals === null ? value : Number(value.toFixed(this.decimals)), this.attributes, this.type);
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
  place = (value) => placeIn(this.values, value);
}

/** Returns the place of a value in an ordered list, with a fraction: 0 for the first element. */
export function placeIn(values, value) {
  const upward = values[0] <= values.at(-1);
  const past = bisector((each, at) => (upward ? each - at : at - each)).right(values, value);
  const low = Math.min(values.length - 2, Math.max(0, past - 1));
  return low + (value - values[low]) / (values[low + 1] - values[low]);
}

/** Returns whether values are in order, and all different. */
export function monotonic(values) {
  const sign = Math.sign(values[1] - values[0]);
  return Boolean(sign) && values.every((value, n) => Number.isFinite(value) && (n === 0 || Math.sign(value - values[n - 1]) === sign));
}

/** Returns the number of decimals that tell samples apart, if their coordinates are evenly spaced; null for others. */
function decimalsOf(values) {
  const step = Math.abs(values.at(-1) - values[0]) / (values.length - 1);
  const isEven = step > 0 && values.every((value, n) => Math.abs(Math.abs(value - values[0]) - n * step) <= 1e-6 * step);
  return isEven ? Math.min(20, Math.max(0, 3 - floor(Math.log10(step)))) : null;
}

/** Returns round numbers between two values. */
export function numberTicks(low, high, most) {
  const found = ticks(low, high, Math.max(1, most));
  const labels = found.map(numberFormat(found));
  return found.map((value, n) => ({ value, label: labels[n] }));
}

/** Returns the powers of ten between two values; round numbers if there are fewer than two. */
export function powerTicks(low, high, most) {
  const [from, to] = [Math.ceil(Math.log10(low)), floor(Math.log10(high))];
  if (to - from < 1) return numberTicks(low, high, most);
  return Array.from({ length: to - from + 1 }, (_, n) => from + n).map((power) => ({ value: 10 ** power, label: power >= -4 && power < 10 ? written(10 ** power) : `1e${power}` }));
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
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  const found = last - first < 1 ? ticks(low, high, Math.max(1, most)) : Array.from({ length: last - first + 1 }, (_, n) => Number(((first + n) * step).toPrecision(12)));
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

/** A calendar that repeats. `lengths` are those of the months of a cycle from year 0 on, `first` is the number of its first day. */
function repeating(lengths, first = 0) {
  const starts = [0];
  for (const length of lengths) starts.push(starts.at(-1) + length);
  const [days, years] = [starts.pop(), lengths.length / 12];
  return {
    number(year, month, day) {
      const cycle = floor(year / years);
      return first + cycle * days + starts[(year - cycle * years) * 12 + month - 1] + day - 1;
    },
    date(number) {
      const cycle = floor((number - first) / days);
      const rest = number - first - cycle * days;
      const month = bisectRight(starts, rest) - 1;
      return [cycle * years + floor(month / 12), (month % 12) + 1, rest - starts[month] + 1];
    },
  };
}

const months = (years, isLeap) => Array.from({ length: years }, (_, year) => (isLeap(year) ? LEAP : LENGTHS)).flat();
const GREGORIAN = repeating(months(400, (year) => year % 4 === 0 && (year % 100 !== 0 || year === 0)));
const JULIAN = repeating(months(4, (year) => year === 0), -2);
/** The Gregorian calendar since 1582-10-15, the Julian calendar before. */
const MIXED = {
  number: (year, month, day) => (year * 10000 + month * 100 + day >= 15821015 ? GREGORIAN : JULIAN).number(year, month, day),
  date: (number) => (number >= GREGORIAN.number(1582, 10, 15) ? GREGORIAN : JULIAN).date(number),
};
const [NOLEAP, ALL_LEAP] = [repeating(LENGTHS), repeating(LEAP)];

const CALENDARS = {
  standard: MIXED, gregorian: MIXED, proleptic_gregorian: GREGORIAN, julian: JULIAN,
  noleap: NOLEAP, "365_day": NOLEAP, all_leap: ALL_LEAP, "366_day": ALL_LEAP, "360_day": repeating(Array(12).fill(30)),
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

/** Distances of ticks: in seconds, up to ten days, and in months. */
const SECONDS = [1, 2, 5, 10, 15, 30, ...[1, 2, 5, 10, 15, 30].map((n) => 60 * n), ...[1, 2, 3, 6, 12].map((n) => 3600 * n), ...[1, 2, 5, 10].map((n) => DAY * n)];
const MONTHS = [1, 2, 3, 6, ...[12, 120, 1200, 12000].flatMap((years) => [1, 2, 5].map((n) => n * years))];

/** Returns about `count` evenly placed times between two values, as `{value, label}`. */
export function timeTicks(time, low, high, count) {
  const [from, past] = [time.seconds(low), time.seconds(high)];
  const wanted = (past - from) / Math.max(1, count);
  if (!(wanted > 0) || wanted < 0.5) return null;
  const step = SECONDS.find((size) => size >= wanted) ?? null;
  const found = [];
  if (step && step < DAY) {
    for (let at = Math.ceil(from / step) * step; at <= past; at += step) found.push(at);
  } else if (step) {
    // Days are counted from the first of each month.
    const days = step / DAY;
    for (let number = Math.ceil(from / DAY); number * DAY <= past; number += 1) {
      const [, , day] = time.days.date(number);
      if ((day - 1) % days === 0 && (days === 1 || day < 31 - days / 2)) found.push(number * DAY);
    }
  } else {
    const apart = MONTHS.find((number) => number * 30.44 * DAY >= wanted) ?? MONTHS.at(-1);
    const [year, month] = time.days.date(floor(from / DAY));
    for (let at = Math.ceil((year * 12 + month - 1) / apart) * apart, seconds = from; seconds <= past; at += apart) {
      seconds = time.days.number(floor(at / 12), (((at % 12) + 12) % 12) + 1, 1) * DAY;
      if (seconds >= from && seconds <= past) found.push(seconds);
    }
  }
  return found.map((seconds) => ({ value: time.value(seconds), label: label(time, seconds, step) }));
}

/** Labels a tick with what changes between ticks. */
function label(time, seconds, step) {
  const text = formatTime(time, time.value(seconds));
  if (step && step < DAY) return seconds % DAY === 0 ? text : text.slice(text.indexOf(" ") + 1);
  return step ? text : text.endsWith("-01-01") ? text.slice(0, -6) : text.slice(0, -3);
}
