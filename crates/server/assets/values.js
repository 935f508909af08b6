// Elements of an array: data types, missing data and packing, as xarray decodes them.

const TYPES = {
  bool: Uint8Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array,
  int64: BigInt64Array, uint64: BigUint64Array, float16: Float16Array, float32: Float32Array, float64: Float64Array,
  complex64: Float32Array, complex128: Float64Array,
};
const COMPLEX = /^complex/;
const TIME = /(datetime|timedelta)64/;

const kindOf = (type) => TYPES[type] ?? (TIME.test(type) ? BigInt64Array : undefined);

/** Returns the size of a number in bytes; 0 for types that are not numbers. */
export const width = (type) => (kindOf(type)?.BYTES_PER_ELEMENT ?? 0) * (COMPLEX.test(type) ? 2 : 1);

/** Returns whether elements of a type can be drawn. */
export const isNumeric = (type) => type in TYPES;

/** Elements in row-major order, decoded from little-endian bytes as `/v1/values` sends them. */
export class Elements {
  constructor(type, buffer, fields) {
    this.type = type;
    const Kind = kindOf(type);
    if (Kind) {
      if (buffer.byteLength % width(type)) throw new Error(`The service sent ${buffer.byteLength} bytes of ${type}.`);
      this.list = new Kind(buffer);
      this.length = buffer.byteLength / width(type);
    } else {
      this.list = type === "string" || type === "bytes" ? variable(buffer, type) : fixed(buffer, fields ? { name: type, configuration: { fields } } : type);
      this.length = this.list.length;
    }
  }

  /** Returns an element as stored: a number, `BigInt`, boolean, text, bytes, structure, or `[real, imaginary]`. */
  at(n) {
    if (COMPLEX.test(this.type)) return [this.list[2 * n], this.list[2 * n + 1]];
    return this.type === "bool" ? Boolean(this.list[n]) : this.list[n];
  }

  /** Returns all physical values as `Float64Array`: NaN for missing data, the absolute value of complex numbers. */
  physical(means) {
    if (COMPLEX.test(this.type)) return Float64Array.from({ length: this.length }, (_, n) => Math.hypot(this.list[2 * n], this.list[2 * n + 1]));
    const values = new Float64Array(this.length);
    const { list } = this;
    const { missing: [one, other], packed, scale, offset, unsigned } = means;
    if (means.missing.length > 2 || /int64$/.test(this.type) || unsigned) for (let n = 0; n < values.length; n += 1) values[n] = physical(list[n], means, this.type);
    else for (let n = 0; n < values.length; n += 1) values[n] = list[n] === one || list[n] === other ? NaN : packed ? list[n] * scale + offset : list[n];
    if (this.unpack) for (let n = 0; n < values.length; n += 1) values[n] = this.unpack(values[n], n);
    return values;
  }

  /** Returns the physical value of an element, as `physical` does. */
  value(n, means) {
    const stored = this.at(n);
    const value = Array.isArray(stored) ? Math.hypot(...stored) : physical(stored, means, this.type);
    return this.unpack ? this.unpack(value, n) : value;
  }
}

/** Decodes elements of variable size, each preceded by its length. */
function variable(buffer, type) {
  const view = new DataView(buffer);
  const list = [];
  for (let at = 0; at < buffer.byteLength;) {
    const length = view.getUint32(at, true);
    const bytes = new Uint8Array(buffer, at + 4, length);
    list.push(type === "string" ? new TextDecoder().decode(bytes) : bytes);
    at += 4 + length;
  }
  return list;
}

/** Decodes byte strings, text, raw bytes and structures. */
function fixed(buffer, type) {
  const { size, decode } = decoder(type);
  return Array.from({ length: size ? buffer.byteLength / size : 0 }, (_, n) => decode(buffer.slice(n * size, (n + 1) * size)));
}

/** Returns the size of an element in bytes, and how it is decoded. A structure becomes an object with a member for each field. */
function decoder(type) {
  const { name, configuration = {} } = typeof type === "string" ? { name: type } : type;
  if (configuration.fields) {
    const fields = configuration.fields.map((field) => ({ ...decoder(typeOf(field)), name: nameOf(field) }));
    const decode = (buffer) => {
      let at = 0;
      return Object.fromEntries(fields.map((field) => [field.name, field.decode(buffer.slice(at, at += field.size))]));
    };
    return { size: fields.reduce((all, { size }) => all + size, 0), decode };
  }
  const size = configuration.length_bytes ?? (width(name) || sizeOf(name));
  return { size, decode: (buffer) => (width(name) ? new Elements(name, buffer).at(0) : one(new Uint8Array(buffer), name)) };
}

export const nameOf = (field) => field.name ?? field[0];
export const typeOf = (field) => field.data_type ?? field[1];

/** Decodes bytes or text of fixed size. */
function one(bytes, type) {
  if (/^r\d+$|^raw_bytes$/.test(type)) return bytes;
  if (!/^text of|utf32$/.test(type)) return new TextDecoder().decode(bytes.subarray(0, bytes.findLastIndex((byte) => byte !== 0) + 1));
  // UTF-32 without the NULs at its end. What is not a code point becomes U+FFFD.
  const points = Array.from(new Uint32Array(bytes.buffer), (point) => String.fromCodePoint(point > 0x10ffff ? 0xfffd : point));
  return points.join("").replace(/\0+$/, "");
}

function sizeOf(type) {
  const number = Number(/(\d+)$/.exec(type)?.[1] ?? 0);
  return /^r\d+$/.test(type) ? number / 8 : Math.max(1, number) * (type.startsWith("text") ? 4 : 1);
}

/** Returns how the attributes declare that elements are decoded: `{missing, scale, offset, unsigned}`. */
export function meaning(attributes, type) {
  const list = [attributes._FillValue, attributes.missing_value].flat().filter((value) => value !== undefined && value !== null);
  const scale = number(attributes.scale_factor, 1);
  const offset = number(attributes.add_offset, 0);
  const unsigned = /^int(8|16|32)$/.test(type) && String(attributes._Unsigned).toLowerCase() === "true";
  // NaN needs no comparison.
  return { missing: list.map((value) => sentinel(value, type)).filter((value) => value !== null && value === value), scale, offset, unsigned, packed: scale !== 1 || offset !== 0 || unsigned || varies(attributes) };
}

/** Returns whether variables hold the factors of packing, which differ along a dimension. */
const varies = (attributes) => typeof (attributes.scale_factor_variable ?? attributes.add_offset_variable) === "string";

function number(value, fallback) {
  const first = Array.isArray(value) ? value[0] : value;
  return typeof first === "number" && Number.isFinite(first) ? first : fallback;
}

/** Decodes a sentinel. xarray writes those of floats as base64 of a little-endian binary64. */
export function sentinel(value, type) {
  if (type.endsWith("int64")) return typeof value === "bigint" || Number.isInteger(value) ? BigInt(value) : null;
  if (typeof value === "number") return value;
  if (typeof value !== "string" || !type.startsWith("float")) return null;
  if (value === "NaN") return NaN;
  try {
    const bytes = Uint8Array.from(atob(value), (letter) => letter.charCodeAt(0));
    return bytes.length === 8 ? new DataView(bytes.buffer).getFloat64(0, true) : null;
  } catch {
    return null;
  }
}

/** Returns the physical value of an element; NaN for missing data. */
export function physical(element, means, type) {
  for (const missing of means.missing) {
    if (element === missing) return NaN;
  }
  let value = Number(element);
  if (means.unsigned && value < 0) value += 2 ** (8 * width(type));
  return means.packed ? value * means.scale + means.offset : value;
}

/**
 * Formats a number with the fewest digits that read back as the same value of its type; without a type, such as after
 * unpacking, with 15 digits.
 */
export function spell(value, type = "") {
  if (typeof value === "bigint" || Number.isInteger(value) && Math.abs(value) < 1e15 || !Number.isFinite(value)) return String(value);
  const [first, last, rounded] = { float16: [1, 5, Math.f16round], complex64: [6, 9, Math.fround], float32: [6, 9, Math.fround], float64: [15, 17, Number], complex128: [15, 17, Number] }[type] ?? [15, 15, Number];
  let digits = first;
  while (digits < last && rounded(Number(value.toPrecision(digits))) !== rounded(value)) digits += 1;
  return String(Number(value.toPrecision(digits)));
}

/** Formats a number for people: "5,295,000" for 5.295e6. */
export function written(value, type = "") {
  const text = spell(value, type);
  const [, sign, whole, rest] = /^(-?)(\d+)(.*)$/.exec(text) ?? [];
  if (!whole) return text.replace("e+", "e");
  return `${sign}${whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, ",") : whole}${rest.replace("e+", "e")}`;
}

const UNITS = { degree: "°", degrees: "°", degc: "°C", degree_celsius: "°C", degrees_celsius: "°C", celsius: "°C", degree_c: "°C", degrees_c: "°C", "1": "", metre: "m", meter: "m", metres: "m", meters: "m" };

/** Formats a value with its unit: "20°N" for 20 degrees_north, "12 m". */
export function measured(value, { units, standard_name: standard = "" }, type = "") {
  const unit = typeof units === "string" ? units.trim() : "";
  const letters = /^degrees?_?n(orth)?$/i.test(unit) || standard === "latitude" && /^deg/i.test(unit) ? "NS" : /^degrees?_?e(ast)?$/i.test(unit) || standard === "longitude" && /^deg/i.test(unit) ? "EW" : null;
  if (letters && Number.isFinite(Number(value)) && Math.abs(value) <= 360) return degrees(Number(value), letters, type);
  const name = UNITS[unit.toLowerCase()] ?? unit;
  return `${written(value, type)}${name && !name.startsWith("°") ? " " : ""}${name}`;
}

/** Formats a latitude ("NS") or longitude ("EW"). */
export function degrees(value, letters, type = "") {
  const turned = letters === "EW" && value > 180 ? value - 360 : value;
  const number = turned === value ? spell(Math.abs(value), type) : String(Number(Math.abs(turned).toPrecision(8)));
  return `${number}°${turned === 0 || (Number(number) === 180 && letters === "EW") ? "" : letters[turned > 0 ? 0 : 1]}`;
}

/** Formats a stored element of any type; `number` formats its numbers. */
export function spellStored(element, type, number = spell) {
  if (typeof element === "string") return element;
  if (typeof element === "boolean") return String(element);
  if (element instanceof Uint8Array) return `0x${Array.from(element.subarray(0, 64), (byte) => byte.toString(16).padStart(2, "0")).join("")}${element.length > 64 ? "…" : ""}`;
  if (Array.isArray(element)) return `${number(element[0], type)} ${element[1] < 0 ? "−" : "+"} ${number(Math.abs(element[1]), type)}i`;
  if (typeof element === "object" && element !== null) return Object.entries(element).map(([name, value]) => `${name}: ${spellStored(value, "", number)}`).join(", ");
  return number(element, type);
}
