// Arrays of a file: their elements, which the service decodes (`/v1/values`), and the parts that a picture needs.
import { address, json, request } from "./api.js";
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

const WIDTHS = { bool: 1, complex64: 8, complex128: 16 };

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

  /** Reads a selection: an index or `[start, stop, step]` for each axis. */
  async read(selection, signal) {
    if (this.type === "struct") this.fields ??= await this.readFields(signal);
    const select = selection.map((part) => (Array.isArray(part) ? part.join(":") : part)).join(",");
    const url = address(`values/${this.source}`, { array: this.path, select });
    const response = await request(url, { signal });
    return new Elements(this.type, await response.arrayBuffer(), this.fields);
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
export function plan(array, { axes, at, windows, budget, most = 1024, along = null }) {
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
  const fits = ({ bytes, chunks, size }) => bytes <= budget && chunks <= CHUNKS && size <= ANSWER;
  const first = build(1, 1);
  if (fits(first)) return { ...first, isCut: false };
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

/** Returns the middle of a range. */
function shrunk([from, past], zoom) {
  const count = Math.max(1, Math.floor((past - from) * zoom));
  const start = from + Math.floor((past - from - count) / 2);
  return [start, start + count];
}

/** Finds the array of a dimension's coordinates: one of the same name with one axis, in the group or an ancestor. */
export function coordinateNode(node, name, length) {
  for (let group = node.parent; group; group = group.parent) {
    const found = group.children.find((child) => child.name === name && child.kind === "array");
    const { shape, dimensions } = found?.description ?? {};
    if (found && found !== node && shape.length === 1 && shape[0] === length && dimensions?.[0] === name) return found;
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
    const nodes = layout.map(({ asset }) => find(group, `${prefix}/${asset}`));
    const at = nodes.indexOf(node);
    if (at >= 0) return nodes.slice(at).filter((each) => each?.kind === "array" && each.description.shape.length === node.description.shape.length);
  }
  return [node];
}

function find(root, path) {
  let node = root;
  while (node && node.path !== path) node = node.children?.find((child) => path === child.path || path.startsWith(`${child.path}/`));
  return node ?? null;
}

/** Returns the finest level with at most `most` elements along each of the last two axes; otherwise the coarsest. */
export function fitting(nodes, most) {
  return nodes.find(({ description: { shape } }) => shape.slice(-2).every((length) => length <= most)) ?? nodes.at(-1);
}
