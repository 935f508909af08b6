// Elements of an array: data types, byte order, missing data and packing, as xarray decodes them.

const TYPES = {
  bool: Uint8Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array,
  int64: BigInt64Array, uint64: BigUint64Array, float16: Uint16Array, float32: Float32Array, float64: Float64Array,
};

/** Returns the size of an element in bytes; 0 for types that are not drawn. */
export const width = (type) => TYPES[type]?.BYTES_PER_ELEMENT ?? 0;

/** Decodes a chunk whose only codec is `bytes`. Throws if the buffer is too short or too long. */
export function decode(buffer, type, endian, elements) {
  const Kind = TYPES[type];
  if (buffer.byteLength !== elements * Kind.BYTES_PER_ELEMENT) {
    throw new Error(`the chunk has ${buffer.byteLength} bytes, expected ${elements * Kind.BYTES_PER_ELEMENT}`);
  }
  if (endian === "big" && Kind.BYTES_PER_ELEMENT > 1) swap(new Uint8Array(buffer), Kind.BYTES_PER_ELEMENT);
  const raw = new Kind(buffer);
  return type === "float16" ? Float32Array.from(raw, half) : raw;
}

function swap(bytes, each) {
  for (let at = 0; at < bytes.length; at += each) bytes.subarray(at, at + each).reverse();
}

/** Returns a typed array for elements of a type. */
export function room(type, elements) {
  const Kind = type === "float16" ? Float32Array : TYPES[type];
  return new Kind(elements);
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

/** Decodes a fill value of Zarr v3 metadata. */
export function fillValue(json, type) {
  if (type === "bool") return json ? 1 : 0;
  if (type.endsWith("int64")) return BigInt(json);
  if (typeof json !== "string") return Number(json);
  if (json === "Infinity") return Infinity;
  if (json === "-Infinity") return -Infinity;
  if (json === "NaN") return NaN;
  if (json.startsWith("0x")) return fromBits(json, type);
  throw new Error(`the fill value ${JSON.stringify(json)} is no ${type}`);
}

function fromBits(text, type) {
  const bits = BigInt(text);
  const view = new DataView(new ArrayBuffer(8));
  if (type === "float16") return half(Number(bits));
  if (type === "float32") { view.setUint32(0, Number(bits)); return view.getFloat32(0); }
  view.setBigUint64(0, bits);
  return view.getFloat64(0);
}

/** Returns how the attributes declare that elements are decoded: `{missing, scale, offset, unsigned}`. */
export function meaning(attributes, type) {
  const list = [attributes._FillValue, attributes.missing_value].flat().filter((value) => value !== undefined && value !== null);
  const scale = one(attributes.scale_factor, 1);
  const offset = one(attributes.add_offset, 0);
  const unsigned = /^int(8|16|32)$/.test(type) && String(attributes._Unsigned).toLowerCase() === "true";
  return { missing: list.map((value) => sentinel(value, type)).filter((value) => value !== null), scale, offset, unsigned, packed: scale !== 1 || offset !== 0 || unsigned };
}

function one(value, fallback) {
  const number = Array.isArray(value) ? value[0] : value;
  return typeof number === "number" && Number.isFinite(number) ? number : fallback;
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
  let number = Number(element);
  if (means.unsigned && number < 0) number += 2 ** (8 * width(type));
  return means.packed ? number * means.scale + means.offset : number;
}

/** Formats a number, with as many digits as its type is precise to. */
export function spell(number, type = "float64") {
  if (typeof number === "bigint" || Number.isInteger(number)) return String(number);
  if (!Number.isFinite(number)) return String(number);
  return String(Number(number.toPrecision(type === "float32" ? 7 : type === "float16" ? 4 : 15)));
}
