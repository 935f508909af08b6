// Elements of an array: data types, missing data and packing, as xarray decodes them.

const TYPES = {
  bool: Uint8Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array,
  int64: BigInt64Array, uint64: BigUint64Array, float16: Uint16Array, float32: Float32Array, float64: Float64Array,
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
      const raw = new Kind(buffer);
      this.list = type === "float16" ? Float32Array.from(raw, half) : raw;
      this.length = buffer.byteLength / width(type);
    } else {
      this.list = type === "struct" ? structures(buffer, fields) : type === "string" || type === "bytes" ? variable(buffer, type) : fixed(buffer, type);
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
    if (!means.missing.length && !means.packed) return Float64Array.from(this.list, Number);
    return Float64Array.from(this.list, (element) => physical(element, means, this.type));
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

/** Decodes byte strings, text and raw bytes of fixed size. */
function fixed(buffer, type) {
  const size = sizeOf(type);
  return Array.from({ length: buffer.byteLength / size }, (_, n) => one(new Uint8Array(buffer, n * size, size), type));
}

function one(bytes, type) {
  if (/^r\d+$/.test(type)) return bytes;
  if (/^text of|utf32$/.test(type)) return utf32(bytes);
  const past = bytes.findLastIndex((byte) => byte !== 0) + 1;
  return new TextDecoder().decode(bytes.subarray(0, past));
}

/** Decodes UTF-32 without the NULs at its end. What is not a code point becomes U+FFFD. */
function utf32(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const points = Array.from({ length: bytes.byteLength / 4 }, (_, n) => view.getUint32(4 * n, true));
  return points.map((point) => String.fromCodePoint(point > 0x10ffff ? 0xfffd : point)).join("").replace(/\0+$/, "");
}

function sizeOf(type) {
  const number = Number(/(\d+)$/.exec(type)?.[1] ?? 0);
  return /^r\d+$/.test(type) ? number / 8 : Math.max(1, number) * (type.startsWith("text") ? 4 : 1);
}

/** Decodes structures: objects with a member for each field. */
function structures(buffer, fields) {
  const sizes = fields.map(fieldSize);
  const size = sizes.reduce((all, each) => all + each, 0);
  return Array.from({ length: size ? buffer.byteLength / size : 0 }, (_, n) => {
    let at = n * size;
    return Object.fromEntries(fields.map((field, m) => {
      const value = fieldValue(buffer.slice(at, at + sizes[m]), field);
      at += sizes[m];
      return [nameOf(field), value];
    }));
  });
}

const nameOf = (field) => field.name ?? field[0];
const typeOf = (field) => field.data_type ?? field[1];

function fieldSize(field) {
  const type = typeOf(field);
  if (typeof type === "string") return width(type) || sizeOf(type);
  const { name, configuration = {} } = type;
  if (configuration.fields) return configuration.fields.reduce((all, each) => all + fieldSize(each), 0);
  return configuration.length_bytes ?? width(name);
}

function fieldValue(buffer, field) {
  const type = typeOf(field);
  if (typeof type !== "string") {
    const { name, configuration = {} } = type;
    if (configuration.fields) return structures(buffer, configuration.fields)[0];
    if (TIME.test(name)) return new Elements(name, buffer).at(0);
    return name === "raw_bytes" ? new Uint8Array(buffer) : one(new Uint8Array(buffer), name);
  }
  return width(type) ? new Elements(type, buffer).at(0) : one(new Uint8Array(buffer), type);
}

/** Decodes IEEE 754 binary16. */
export function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** Returns how the attributes declare that elements are decoded: `{missing, scale, offset, unsigned}`. */
export function meaning(attributes, type) {
  const list = [attributes._FillValue, attributes.missing_value].flat().filter((value) => value !== undefined && value !== null);
  const scale = number(attributes.scale_factor, 1);
  const offset = number(attributes.add_offset, 0);
  const unsigned = /^int(8|16|32)$/.test(type) && String(attributes._Unsigned).toLowerCase() === "true";
  return { missing: list.map((value) => sentinel(value, type)).filter((value) => value !== null), scale, offset, unsigned, packed: scale !== 1 || offset !== 0 || unsigned };
}

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
    if (element === missing || (missing !== missing && element !== element)) return NaN;
  }
  let value = Number(element);
  if (means.unsigned && value < 0) value += 2 ** (8 * width(type));
  return means.packed ? value * means.scale + means.offset : value;
}

/** Formats a number, with as many digits as its type is precise to. */
export function spell(value, type = "float64") {
  if (typeof value === "bigint" || Number.isInteger(value)) return String(value);
  if (!Number.isFinite(value)) return String(value);
  return String(Number(value.toPrecision(type === "float32" || type === "complex64" ? 7 : type === "float16" ? 4 : 15)));
}

/** Formats a stored element of any type. */
export function spellStored(element, type) {
  if (typeof element === "string") return element;
  if (typeof element === "boolean") return String(element);
  if (element instanceof Uint8Array) return `0x${Array.from(element.subarray(0, 64), (byte) => byte.toString(16).padStart(2, "0")).join("")}${element.length > 64 ? "…" : ""}`;
  if (Array.isArray(element)) return `${spell(element[0], type)} ${element[1] < 0 ? "−" : "+"} ${spell(Math.abs(element[1]), type)}i`;
  if (typeof element === "object" && element !== null) return Object.entries(element).map(([name, value]) => `${name}: ${spellStored(value)}`).join(", ");
  return spell(element, type);
}
