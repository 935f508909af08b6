// Arrays of a file: their elements, which the service decodes (`/v1/values`), and the slices that figures show.
import { address, json, request } from "./api.js";
import { Axis, readAxis } from "./axes.js";
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

/** The selections that were read last, by address: `{reading, size}`. */
const kept = new Map();

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
    if (this.type === "struct") this.fields ??= await this.readFields(signal);
    const select = selection.map((part) => (Array.isArray(part) ? part.join(":") : part)).join(",");
    const url = address(`values/${this.source}`, { array: this.path, select }).href;
    // A read that failed, or that its reader aborted, is repeated.
    const known = kept.has(url) ? await kept.get(url).reading.catch(() => null) : null;
    signal?.throwIfAborted();
    const reading = known ? Promise.resolve(known) : this.fetch(url, selection, signal);
    keep(url, { reading, size: lengths(selection).reduce((all, length) => all * length, this.width) });
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

  /** Reads the fields of a structure. */
  async readFields(signal) {
    const metadata = await json(address(`zarr/${this.source}${this.path.split("/").map(encodeURIComponent).join("/")}/zarr.json`), { signal });
    return metadata.data_type.configuration.fields;
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
export function plan(array, { axes, at, windows, budget, most = 1024, along = null, isLong = false }) {
  const range = (axis) => windows?.[axis] ?? [0, array.shape[axis]];
  const build = (zoom, coarser) => {
    const selection = at.map((index, axis) => {
      if (along && axis === along.axis) return along.range;
      if (!axes.includes(axis)) return index;
      const [from, past] = shrunk(range(axis), zoom);
      return [from, past, Math.max(1, Math.ceil((past - from) / most)) * coarser];
    });
    const spans = axes.map((axis) => (axis === null ? { axis, start: 0, step: 1, count: 1 } : span(axis, selection[axis])));
    return { axes, spans, selection, ...array.cost(selection), size: spans.reduce((all, each) => all * each.count, array.width * (along?.count ?? 1)) };
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

/** Keeps a selection, and forgets those used first beyond the maximum size. */
function keep(url, selection) {
  kept.delete(url);
  kept.set(url, selection);
  let all = 0;
  for (const [each, { size }] of [...kept].reverse()) {
    all += size;
    if (all > KEPT && each !== url) kept.delete(each);
  }
}

const span = (axis, [start, stop, step]) => ({ axis, start, step, count: Math.ceil((stop - start) / step) });

/** Returns the middle of a range. */
function shrunk([from, past], zoom) {
  const count = Math.max(1, Math.floor((past - from) * zoom));
  const start = from + Math.floor((past - from - count) / 2);
  return [start, start + count];
}

/** Returns the arrays of a name in the groups around a node, the innermost first. */
function* around(node, name) {
  for (let group = node.parent; group; group = group.parent) {
    const found = group.children.find((child) => child.name === name && child.kind === "array");
    if (found) yield found;
  }
}

/** Finds an array by name in the innermost group around a node that has it; null if there is none. */
export const nearest = (node, name) => around(node, name).next().value ?? null;

/** Finds the array of a dimension's coordinates: one of the same name with one axis, in the group or an ancestor. */
function coordinateNode(node, name, length) {
  for (const found of around(node, name)) {
    const { shape, dimensions } = found.description;
    if (found !== node && shape.length === 1 && shape[0] === length && dimensions?.[0] === name) return found;
  }
  return null;
}

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
export function maskOf({ source, node, attributes, shape }) {
  const found = typeof attributes.mask === "string" ? rootOf(node).byPath?.get(`/${attributes.mask}`) : null;
  const isSame = found?.kind === "array" && String(found.description.shape.slice(-2)) === String(shape.slice(-2));
  return isSame ? new DataArray(source, found) : null;
}

/** Returns the finest level with at most `most` elements along each of the last two axes; otherwise the coarsest. */
export function fitting(nodes, most) {
  return nodes.find(({ description: { shape } }) => shape.slice(-2).every((length) => length <= most)) ?? nodes.at(-1);
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
  const first = bands ? Math.min(...bands.numbers) : 0;
  const past = bands ? Math.max(...bands.numbers) + 1 : 1;
  const along = bands ? { axis: bands.axis, range: [first, past, 1], count: past - first } : null;
  const planned = plan(array, { ...view, along, most: isLine ? LINE : MOST });
  if (planned.isTooLarge) return { plan: planned };
  const mask = maskOf(array);
  const [elements, masked, ...axes] = await Promise.all([
    array.read(planned.selection, signal),
    mask?.read(maskSelection(mask, planned.selection), signal),
    ...planned.spans.map((span) => (span.axis === null ? null : readAxis(array, span.axis, span, coordinatesOf(array, span.axis), signal))),
  ]);
  return arranged(array, planned, { elements, masked, axes }, bands ? bands.numbers.map((number) => number - first) : [0], bands?.axis ?? null);
}

/** Returns the selection of a mask: that of the rows and columns of its image. */
const maskSelection = ({ shape }, selection) => [...shape.slice(2).map(() => 0), ...selection.slice(-2)];

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
  const coarse = await readAxis(array, axis, { axis, start, step: group, count: Math.ceil(count / group) }, coordinatesOf(array, axis), signal);
  const line = new Axis({ ...coarse, span, values: coarse.values && Float64Array.from(indices, (index) => coarse.valueAt((index - start) / group)) });
  const planes = [Float64Array.from(values)];
  return { plan: { ...planned, spans: [planned.spans[0], span] }, elements: { length: count }, axes: [null, line], planes, width: values.length, height: 1, stored: (_, x) => stored[x], ...statistics(planes), numbers: [0], group };
}

export function coordinatesOf(array, axis) {
  const name = array.names[axis];
  const node = name ? coordinateNode(array.node, name, array.shape[axis]) : null;
  return node ? new DataArray(array.source, node) : null;
}

function arranged(array, planned, { elements, masked, axes }, numbers, bandAxis) {
  const [rows, columns] = planned.spans;
  const steps = (stride) => [rows, columns].map(({ axis }) => (axis === null ? 0 : stride[axis]));
  const stride = strides(planned.selection);
  const [down, across] = steps(stride);
  const offset = (number) => (bandAxis === null ? 0 : number * stride[bandAxis]);
  const hidden = steps(strides(planned.selection.map((part, axis, all) => (axis < all.length - 2 ? 0 : part))));
  const isMasked = masked && ((y, x) => !masked.list[y * hidden[0] + x * hidden[1]]);
  const values = array.isNumeric ? elements.physical(array.means) : null;
  const [width, height] = [columns.count, rows.count];
  const planes = values ? numbers.map((number) => plane(values, { width, height, down, across, offset: offset(number), isMasked })) : [];
  return {
    plan: planned, elements, axes, planes, width, height, isMasked,
    stored: (y, x, number = numbers[0]) => elements.at(y * down + x * across + offset(number)),
    ...statistics(planes), numbers,
  };
}

/**
 * Arranges elements in rows and columns. `down`, `across`: the distances of rows and of columns among the elements,
 * from `offset` on. Elements for which `isMasked(row, column)` is true become NaN.
 */
export function plane(values, { width, height, down, across, offset = 0, isMasked = null }) {
  if (!isMasked && !offset && values.length === width * height && (width === 1 || across === 1)) return values;
  const found = new Float64Array(width * height);
  for (let y = 0, n = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1, n += 1) found[n] = isMasked?.(y, x) ? NaN : values[offset + y * down + x * across];
  }
  return found;
}

/** Returns the number of selected elements along each axis. */
const lengths = (selection) => selection.map((part) => (Array.isArray(part) ? Math.ceil((part[1] - part[0]) / part[2]) : 1));

/** Returns the distance in the answer between neighbours along each axis. */
export function strides(selection) {
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

/**
 * Reads an element of an array at its own resolution, with the block around it along `axes`: `[{stored, isMasked, value}]`,
 * one for each number of `bands`. The value is NaN where the mask hides it.
 */
export async function readElement(array, axes, index, bands, signal) {
  const side = axes[0] === null ? BLOCK.line : BLOCK.picture;
  const [low, past] = bands ? [Math.min(...bands.numbers), Math.max(...bands.numbers) + 1] : [0, 1];
  const selection = index.map((at, axis) => {
    if (axis === bands?.axis) return [low, past, 1];
    if (!axes.includes(axis)) return at;
    const start = at - (at % side);
    return [start, Math.min(array.shape[axis], start + side), 1];
  });
  const mask = maskOf(array);
  const [elements, masked] = await Promise.all([array.read(selection, signal), mask?.read(maskSelection(mask, selection), signal)]);
  const offset = (parts) => strides(parts).reduce((all, stride, axis) => all + (Array.isArray(parts[axis]) && axis !== bands?.axis ? (index[axis] - parts[axis][0]) * stride : 0), 0);
  const isMasked = Boolean(masked) && !masked.list[offset(selection.map((part, axis, all) => (axis < all.length - 2 ? 0 : part)))];
  return (bands?.numbers ?? [low]).map((number) => {
    const n = offset(selection) + (bands ? (number - low) * strides(selection)[bands.axis] : 0);
    return { stored: elements.at(n), isMasked, value: isMasked ? NaN : elements.value(n, array.means) };
  });
}
