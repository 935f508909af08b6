// Arrays of a file: their elements, which the service decodes (`/v1/values`), and the slices that figures show.
import { address, json, request } from "./api.js";
import { Axis } from "./axes.js";
import { Elements, isNumeric, meaning } from "./values.js";

/** Choices for the maximum size of the decoded chunks that one picture reads, in MiB. */
export const BUDGETS = [64, 256, 1024];
/** Maximum number of chunks that one picture reads. */
const CHUNKS = 16384;
/** Minimum number of elements per axis that a thinned picture shows. */
const FEWEST = 100;
/** Maximum size of a response in bytes. */
const ANSWER = 48 << 20;
/** Bytes counted for an element of variable size. */
const VARIABLE = 16;

/** Maximum size in bytes of the selections that are kept. */
const KEPT = 128 << 20;

const WIDTHS = { bool: 1, complex64: 8, complex128: 16 };

/** Keeps the entries that were used last, up to a total size in bytes. */
export class Recent extends Map {
  constructor(most) {
    super();
    Object.assign(this, { most, bytes: 0 });
  }

  /** Returns an entry, and marks it as used; undefined if it is not kept. */
  get(key) {
    const entry = super.get(key);
    if (entry && super.delete(key)) super.set(key, entry);
    return entry?.value;
  }

  keep(key, value, bytes) {
    this.bytes += bytes - (super.get(key)?.bytes ?? 0);
    super.delete(key);
    super.set(key, { value, bytes });
    for (const [old, entry] of this) {
      if (this.bytes <= this.most || old === key) break;
      super.delete(old);
      this.bytes -= entry.bytes;
    }
  }
}

/** The selections that were read last, by address. */
const kept = new Recent(KEPT);

/** An array of a source. `node` is its node in the tree. */
export class DataArray {
  constructor(source, node) {
    const { shape, data_type: type, dimensions, attributes, chunks, codecs } = node.description;
    Object.assign(this, { source, node, path: node.path, shape, type, attributes: attributes ?? {}, names: dimensions ?? [] });
    this.chunk = shape.map((length, axis) => Math.max(1, [chunks.shape[axis] ?? length].flat().reduce((most, edge) => Math.max(most, edge), 1)));
    this.isPlain = isNumeric(type) && codecs.every((codec) => ["bytes", "transpose"].includes(codec.name));
    this.width = WIDTHS[type] ?? (Number(/\d+$/.exec(type)?.[0] ?? 0) / 8 || VARIABLE);
    this.means = meaning(this.attributes, type);
    this.isNumeric = isNumeric(type);
  }

  /** Returns the name of an axis. */
  name = (axis) => this.names[axis] ?? `axis ${axis}`;

  /** Reads a selection: an index or `[start, stop, step]` for each axis. The last ones are kept. */
  async read(selection, signal) {
    if (this.type === "struct" && !this.fields) {
      const metadata = await json(address(`zarr/${this.source}${this.path.split("/").map(encodeURIComponent).join("/")}/zarr.json`), { signal });
      this.fields = metadata.data_type.configuration.fields;
    }
    const select = selection.map((part) => (Array.isArray(part) ? part.join(":") : part)).join(",");
    const url = address(`values/${this.source}`, { array: this.path, select }).href;
    // A read that failed, or that its reader aborted, is repeated.
    const known = kept.has(url) ? await kept.get(url).catch(() => null) : null;
    signal?.throwIfAborted();
    const reading = known ? Promise.resolve(known) : this.fetch(url, selection, signal);
    kept.keep(url, reading, lengths(selection).reduce((all, length) => all * length, this.width));
    return reading;
  }

  async fetch(url, selection, signal) {
    const { scale_factor_variable: scale, add_offset_variable: offset } = this.attributes;
    const [response, ...factors] = await Promise.all([request(url, { signal }), ...[scale, offset].map((name) => (name ? this.factor(name, selection, signal) : null))]);
    const elements = new Elements(this.type, await response.arrayBuffer(), this.fields);
    if (scale || offset) elements.unpack = (value, n) => value * (factors[0]?.(n) ?? 1) + (factors[1]?.(n) ?? 0);
    return elements;
  }

  /** Reads a variable of one dimension with factors of packing; returns a function of the elements of a selection. */
  async factor(name, selection, signal) {
    const node = this.node.parent?.children.find((child) => child.name === name && child.kind === "array");
    const axis = this.names.indexOf(node?.description.dimensions?.[0]);
    if (!node || axis < 0) throw new Error(`The factors of packing, ${name}, are missing.`);
    const { list } = await new DataArray(this.source, node).read([selection[axis]], signal);
    const stride = strides(selection)[axis];
    return (n) => list[Math.floor(n / stride) % list.length];
  }

  /** Returns the bytes that reading a selection decodes, and the number of chunks. */
  cost(selection) {
    let chunks = 1;
    let bytes = this.width;
    selection.forEach((part, axis) => {
      const [start, stop, step] = Array.isArray(part) ? part : [part, part + 1, 1];
      const edge = this.chunk[axis];
      const touched = step >= edge ? Math.ceil((stop - start) / step) : Math.floor((stop - 1) / edge) - Math.floor(start / edge) + 1;
      chunks *= touched;
      const isLast = axis === this.shape.length - 1;
      bytes *= this.isPlain ? (isLast ? stop - start : Math.ceil((stop - start) / step)) : touched * edge;
    });
    return { bytes, chunks };
  }
}

/**
 * Plans which elements a picture shows: `{axes, spans, selection, bytes, chunks, isCut}`. `axes` are the axes of rows
 * and columns (rows null for one row), `at` the index along each axis, `windows` the range along each axis. Of long
 * ranges, every n-th element is shown, so that at most `most` remain. A picture that would decode more than `budget`
 * bytes shows fewer elements if that helps; otherwise it shows the middle of the range only.
 */
function plan(array, { axes, at, windows, budget, bands = null, most = 1024, isLong = false }) {
  const along = bands && bandRange(bands);
  const range = (axis) => windows?.[axis] ?? [0, array.shape[axis]];
  const build = (zoom, coarser) => {
    const selection = at.map((index, axis) => {
      if (axis === bands?.axis) return along;
      if (!axes.includes(axis)) return index;
      // Of a smaller part, the middle.
      const [from, past] = range(axis);
      const part = Math.max(1, Math.floor((past - from) * zoom));
      const start = from + Math.floor((past - from - part) / 2);
      return [start, start + part, Math.max(1, Math.ceil(part / most)) * coarser];
    });
    const spans = axes.map((axis) => (axis === null ? { axis, start: 0, step: 1, count: 1 } : span(axis, selection[axis])));
    return { axes, spans, selection, ...array.cost(selection), size: spans.reduce((all, each) => all * each.count, array.width * (along ? along[1] - along[0] : 1)) };
  };
  const fits = ({ bytes, chunks, size }) => bytes <= budget && chunks <= CHUNKS && (isLong || size <= ANSWER);
  const first = build(1, 1);
  if (fits(first)) return { ...first, isCut: false };
  if (isLong) return { ...first, isCut: true };
  for (let coarser = 2; ; coarser *= 2) {
    const thinned = build(1, coarser);
    if (thinned.spans.some(({ axis, count }) => axis !== null && count < Math.min(FEWEST, range(axis)[1] - range(axis)[0]))) break;
    if (fits(thinned)) return { ...thinned, isCut: false };
  }
  for (let zoom = 0.8; zoom > 1e-9; zoom *= 0.8) {
    const cut = build(zoom, 1);
    if (fits(cut)) return { ...cut, isCut: true };
    if (cut.spans.every(({ count }) => count === 1)) break;
  }
  return { ...build(1e-9, 1), isCut: true, isTooLarge: true };
}

const span = (axis, [start, stop, step]) => ({ axis, start, step, count: Math.ceil((stop - start) / step) });

/** Returns the arrays of a name in the groups around a node, the innermost first. */
function* around(node, name) {
  for (let group = node.parent; group; group = group.parent) {
    const found = group.children.find((child) => child.name === name && child.kind === "array");
    if (found) yield found;
  }
}

/** Finds an array by name in the innermost group around a node that has it; null if there is none. */
export const nearest = (node, name) => around(node, name).next().value ?? null;

/**
 * Returns the levels of the image pyramid that a node belongs to, finest first, starting with the node itself; only the
 * node if there is none (attribute `multiscales` of a group, Zarr convention "multiscales").
 */
export function levels(node) {
  for (let group = node.parent; group; group = group.parent) {
    const layout = group.description.attributes?.multiscales?.layout;
    if (!Array.isArray(layout)) continue;
    const prefix = group.path === "/" ? "" : group.path;
    const nodes = layout.map(({ asset }) => rootOf(node).byPath.get(`${prefix}/${asset}`) ?? null);
    const at = nodes.indexOf(node);
    if (at >= 0) return nodes.slice(at).filter((each) => each?.kind === "array" && each.description.shape.length === node.description.shape.length);
  }
  return [node];
}

/** Returns the root of the tree of a node. */
export function rootOf(node) {
  let root = node;
  while (root.parent) root = root.parent;
  return root;
}

/** Returns the array of the mask of an image (attribute `mask`, the path of an array that is 0 where there is no data); null if there is none. */
function maskOf({ source, node, attributes, shape }) {
  const found = typeof attributes.mask === "string" ? rootOf(node).byPath?.get(`/${attributes.mask}`) : null;
  const isSame = found?.kind === "array" && String(found.description.shape.slice(-2)) === String(shape.slice(-2));
  return isSame ? new DataArray(source, found) : null;
}

/** Maximum number of elements of a line, and per axis of a picture. */
const LINE = 1 << 20;
const MOST = 1024;
/** Of longer lines, the smallest and largest element of each of this many groups are kept. */
const GROUPS = 1 << 17;
/** Number of elements that one request of a long line reads, and maximum size of the decoded chunks of a line in bytes. */
const PART = 1 << 22;
const LONG = 256 << 20;
/** Number of values by which histograms and ranges are computed. */
const SORTED = 1 << 16;

/**
 * Reads a slice: `{plan, width, height, axes, at, planes, sorted, stats}`. `view` is `{axes, at, windows, budget, bands}`;
 * `bands` is `{axis, numbers}` for composites, whose planes are those of the numbers. Masked elements are NaN.
 */
export async function readSlice(array, view, signal) {
  const { bands } = view;
  const isLine = view.axes[0] === null;
  if (isLine && array.isNumeric) {
    const whole = plan(array, { ...view, budget: Math.max(LONG, view.budget), most: Infinity, isLong: true });
    if (!whole.isCut && whole.spans[1].count > LINE) return readLong(array, view, whole, signal);
  }
  const planned = plan(array, { ...view, most: isLine ? LINE : MOST });
  if (planned.isTooLarge) return { plan: planned };
  const [block, ...axes] = await Promise.all([
    readBlock(array, planned.selection, view.axes, bands, signal),
    ...planned.spans.map((span) => readAxis(array, span, signal)),
  ]);
  const planes = array.isNumeric ? block.planes() : [];
  return Object.assign(block, { plan: planned, axes, planes, ...statistics(planes) });
}

/**
 * Elements in rows and columns: of a slice, of a tile of a map, or around a single element. `axes` are those of rows and
 * columns, or null; `bands` is `{axis, numbers}`, or null.
 */
class Block {
  constructor(array, selection, axes, bands, elements, masked) {
    const [counts, steps] = [lengths(selection), strides(selection)];
    const hidden = strides(selection.map((part, axis, all) => (axis < all.length - 2 ? 0 : part)));
    const along = (sizes, without) => axes.map((axis) => (axis === null ? without : sizes[axis]));
    const [[height, width], [down, across], [maskDown, maskAcross]] = [along(counts, 1), along(steps, 0), along(hidden, 0)];
    this.isMasked = masked ? (row, column) => !masked.list[row * maskDown + column * maskAcross] : null;
    this.offset = (number) => (bands ? (number - selection[bands.axis][0]) * steps[bands.axis] : 0);
    Object.assign(this, { elements, means: array.means, width, height, down, across, numbers: bands?.numbers ?? [0] });
  }

  /** Returns the element of each band: `{stored, isMasked, value}`. The value is NaN where the mask hides it. */
  at(row, column) {
    const isMasked = Boolean(this.isMasked?.(row, column));
    return this.numbers.map((number) => {
      const n = row * this.down + column * this.across + this.offset(number);
      return { stored: this.elements.at(n), isMasked, value: isMasked ? NaN : this.elements.value(n, this.means) };
    });
  }

  /** Returns the physical values of each band in row-major order. Masked elements are NaN. */
  planes() {
    const { width, height, down, across, isMasked } = this;
    const all = this.elements.physical(this.means);
    return this.numbers.map((number) => {
      const offset = this.offset(number);
      if (!isMasked && !offset && all.length === width * height && (width === 1 || across === 1)) return all;
      const found = new Float64Array(width * height);
      for (let y = 0, n = 0; y < height; y += 1) {
        for (let x = 0; x < width; x += 1, n += 1) found[n] = isMasked?.(y, x) ? NaN : all[offset + y * down + x * across];
      }
      return found;
    });
  }
}

/** Returns the part of the axis of bands that contains those of a composite. */
export const bandRange = ({ numbers }) => [Math.min(...numbers), Math.max(...numbers) + 1, 1];

/** Reads a selection of an array, and its mask, as a block. */
export async function readBlock(array, selection, axes, bands, signal) {
  const mask = maskOf(array);
  const ofMask = mask && [...mask.shape.slice(2).map(() => 0), ...selection.slice(-2)];
  const [elements, masked] = await Promise.all([array.read(selection, signal), mask?.read(ofMask, signal)]);
  return new Block(array, selection, axes, bands, elements, masked);
}

/** Reads a line of more elements than can be drawn: the smallest and largest of each group of neighbours, so that no spike is lost. */
async function readLong(array, { at }, planned, signal) {
  const [, { axis, start, count }] = planned.spans;
  const group = Math.ceil(count / GROUPS);
  const [values, indices, stored] = [[], [], []];
  for (let from = start; from < start + count; from += group * Math.floor(PART / group)) {
    const past = Math.min(start + count, from + group * Math.floor(PART / group));
    const elements = await array.read(at.map((index, each) => (each === axis ? [from, past, 1] : index)), signal);
    const all = elements.physical(array.means);
    for (let n = 0; n < all.length; n += group) {
      let [low, high] = [n, n];
      for (let m = n; m < Math.min(all.length, n + group); m += 1) {
        if (!(all[m] >= all[low])) low = all[m] === all[m] ? m : low;
        if (!(all[m] <= all[high])) high = all[m] === all[m] ? m : high;
      }
      for (const m of new Set(low < high ? [low, high] : [high, low])) {
        values.push(all[m]);
        indices.push(from + m);
        stored.push(elements.at(m));
      }
    }
  }
  const span = { axis, start, step: 1, count: values.length, indices };
  const coarse = await readAxis(array, { axis, start, step: group, count: Math.ceil(count / group) }, signal);
  const line = new Axis({ ...coarse, span, values: coarse.values && Float64Array.from(indices, (index) => coarse.valueAt((index - start) / group)) });
  const planes = [Float64Array.from(values)];
  return { plan: { ...planned, spans: [planned.spans[0], span] }, elements: { length: count }, axes: [null, line], planes, width: values.length, height: 1, at: (_, x) => [{ stored: stored[x], value: values[x] }], ...statistics(planes), numbers: [0], group };
}

/** Finds the coordinates of an axis: an array of its name with one axis, in the group or an ancestor. Null if there are none. */
export function coordinatesOf({ source, node, names, shape }, axis) {
  const name = names[axis];
  for (const found of name ? around(node, name) : []) {
    const { shape: lengths, dimensions } = found.description;
    if (found !== node && lengths.length === 1 && lengths[0] === shape[axis] && dimensions?.[0] === name) return new DataArray(source, found);
  }
  return null;
}

/** Reads the coordinates of the samples of an axis; an axis of indices if there are none. A span without an axis has none. */
export async function readAxis(array, span, signal) {
  const { axis, start, step, count } = span;
  if (axis === null) return null;
  const coordinates = coordinatesOf(array, axis);
  const plain = { name: array.name(axis), span };
  if (!coordinates?.isNumeric) return new Axis(plain);
  try {
    const elements = await coordinates.read([[start, start + (count - 1) * step + 1, step]], signal);
    return new Axis({ ...plain, values: elements.physical(coordinates.means), attributes: coordinates.attributes, type: coordinates.type });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return new Axis(plain); // The figure is shown without coordinates.
  }
}

/** Returns the number of selected elements along each axis. */
const lengths = (selection) => selection.map((part) => (Array.isArray(part) ? Math.ceil((part[1] - part[0]) / part[2]) : 1));

/** Returns the distance in the answer between neighbours along each axis. */
function strides(selection) {
  const counts = lengths(selection);
  return counts.map((_, axis) => counts.slice(axis + 1).reduce((all, count) => all * count, 1));
}

/** Returns the statistics of the first plane, and the finite values of each plane in order; of many, every n-th with the smallest and the largest. */
function statistics(planes) {
  const all = planes.map(extremes);
  const sorted = planes.map((values, plane) => {
    const step = Math.max(1, Math.floor(values.length / SORTED));
    if (step === 1) return values.filter(Number.isFinite).sort();
    const some = new Float64Array(Math.ceil(values.length / step) + 2);
    some.set([all[plane].low, all[plane].high]);
    for (let n = 2, at = 0; at < values.length; n += 1, at += step) some[n] = values[at];
    return some.filter(Number.isFinite).sort();
  });
  return { stats: all[0] ?? null, sorted };
}

/** Returns the smallest, largest and mean finite value, and the number of values without data. */
function extremes(values) {
  let [low, high, sum, known, missing] = [Infinity, -Infinity, 0, 0, 0];
  for (let n = 0; n < values.length; n += 1) {
    const value = values[n];
    if (value !== value) missing += 1;
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
    sum += value;
    known += 1;
  }
  return { low, high, mean: known ? sum / known : NaN, known, missing };
}

/** Sides of the blocks in which single elements are read, for pictures and lines. */
const BLOCK = { picture: 64, line: 4096 };

/** Reads an element of an array at its own resolution, with the block around it along `axes`; returns what `Block.at` does. */
export async function readElement(array, axes, index, bands, signal) {
  const side = axes[0] === null ? BLOCK.line : BLOCK.picture;
  const selection = index.map((at, axis) => {
    if (axis === bands?.axis) return bandRange(bands);
    if (!axes.includes(axis)) return at;
    const start = at - (at % side);
    return [start, Math.min(array.shape[axis], start + side), 1];
  });
  const block = await readBlock(array, selection, axes, bands, signal);
  return block.at(...axes.map((axis) => (axis === null ? 0 : index[axis] % side)));
}
