// Reads arrays of a source's plain store (`/v1/plain/`): Zarr v3 whose chunks are bare elements.
import { Problem, address, bytes, json, request } from "./api.js";
import { decode, fillValue, room, width } from "./values.js";

/** Maximum size of the cached decoded chunks, in bytes. */
const KEPT = 64 << 20;
/** Size in bytes above which a chunk is read in parts, if it is stored as bare elements. */
const PART = 4 << 20;
/** Maximum number of concurrent requests. */
const AT_ONCE = 6;

/** An array of the plain store. */
export class PlainArray {
  /** `source` is the path segment that names the source, as returned by `/v1/inspect`. */
  static async open(source, path, signal) {
    const base = `plain/${source}${path.split("/").map(encodeURIComponent).join("/")}`;
    return new PlainArray(base, await json(address(`${base}/zarr.json`), { signal }));
  }

  constructor(base, metadata) {
    this.base = base;
    this.shape = metadata.shape;
    this.type = metadata.data_type;
    this.attributes = metadata.attributes ?? {};
    this.names = metadata.dimension_names ?? [];
    this.chunk = metadata.chunk_grid.configuration.chunk_shape;
    const [codec, ...others] = metadata.codecs;
    if (metadata.chunk_grid.name !== "regular") throw new Problem(`Chunks of the grid "${metadata.chunk_grid.name}" are not drawn here.`);
    if (codec.name !== "bytes" || others.length) throw new Problem(`The codec ${others[0]?.name ?? codec.name} is not decoded here.`);
    if (typeof this.type !== "string" || !width(this.type)) throw new Problem(`Values of the type ${typeof this.type === "string" ? this.type : this.type.name} are not drawn.`);
    this.endian = codec.configuration?.endian ?? "little";
    this.fill = fillValue(metadata.fill_value, this.type);
    this.elements = this.chunk.reduce((all, edge) => all * edge, 1);
    this.chunkBytes = this.elements * width(this.type);
    this.kept = new Map();
  }

  /** Reads the elements of a chunk in row-major order; null if the chunk is missing. */
  async read(index, signal) {
    const key = index.length ? `c/${index.join("/")}` : "c";
    if (this.kept.has(key)) return this.kept.get(key);
    const buffer = await bytes(address(`${this.base}/${key}`), { signal, allow: [404] });
    const chunk = buffer === null ? null : decode(buffer, this.type, this.endian, this.elements);
    this.kept.set(key, chunk);
    if (this.kept.size * this.chunkBytes > KEPT && this.kept.size > 1) this.kept.delete(this.kept.keys().next().value);
    return chunk;
  }

  /** Reads elements `from` to `past` of a chunk in row-major order; a server without range support sends all. */
  async part(index, from, past, signal) {
    const each = width(this.type);
    const key = index.length ? `c/${index.join("/")}` : "c";
    const headers = { Range: `bytes=${from * each}-${past * each - 1}` };
    const response = await request(address(`${this.base}/${key}`), { signal, allow: [404], headers });
    if (response.status === 404) return null;
    const buffer = await response.arrayBuffer();
    if (response.status === 206) return decode(buffer, this.type, this.endian, past - from);
    return decode(buffer, this.type, this.endian, this.elements).subarray(from, past);
  }

  /** Reads all elements of an array with one axis, if they are few. */
  async line(signal, most = 65536) {
    if (this.shape.length !== 1 || this.shape[0] > most) return null;
    const values = room(this.type, this.shape[0]).fill(this.fill);
    const [length] = this.chunk;
    const starts = Array.from({ length: Math.ceil(this.shape[0] / length) }, (_, n) => n);
    await inTurn(starts, async (n) => {
      const chunk = await this.read([n], signal);
      if (chunk) values.set(chunk.subarray(0, Math.min(length, this.shape[0] - n * length)), n * length);
    });
    return values;
  }
}

/** Runs `work` on all items, a few concurrently. */
export async function inTurn(items, work) {
  let next = 0;
  const run = async () => {
    while (next < items.length) await work(items[next++]);
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, run));
}

/**
 * Plans which elements a picture needs, and the pieces to read. The elements are every `step`-th along each axis, at
 * most `most` per axis. The pieces are chunks, or parts of large chunks that are stored as bare elements
 * (`array.plain`). If they exceed the budget, only every n-th piece along both axes is read.
 * `axes` are the axes of rows and columns (row axis null for one row), `at` the index along each other axis.
 */
export function plan(array, axes, at, budget, most = 1024) {
  const rows = side(array, axes[0], most);
  const columns = side(array, axes[1], most);
  const planned = { rows, columns, at, strides: strides(array.chunk), ranged: array.plain && array.chunkBytes > PART };
  const across = spans(columns);
  const down = planned.ranged ? spans(rows).flatMap((span) => cut(array, planned, span, across)) : spans(rows);
  const cost = Math.max(0, ...down.map((row) => bytesOf(array, planned, row, across[0])));
  const all = down.length * across.length;
  const affordable = Math.floor(budget / cost);
  if (affordable < 1) return { ...planned, wanted: [], all, bytes: 0, tooLarge: cost };
  let every = 1;
  const left = (list) => Math.ceil(list.length / every);
  while (left(down) * left(across) > affordable) every += 1;
  const thin = (list) => list.filter((_, n) => n % every === 0);
  const wanted = thin(down).flatMap((row) => thin(across).map((column) => [row, column]));
  const bytes = wanted.reduce((sum, [row, column]) => sum + bytesOf(array, planned, row, column), 0);
  return { ...planned, wanted, all, bytes, tooLarge: 0 };
}

/** Returns the sampling of an axis. */
function side(array, axis, most) {
  if (axis === null) return { axis, length: 1, step: 1, samples: 1, chunk: 1 };
  const length = array.shape[axis];
  const step = Math.max(1, Math.ceil(length / most));
  return { axis, length, step, samples: Math.ceil(length / step), chunk: array.chunk[axis] };
}

/** Groups samples by chunk: `{chunk, first, past}`. */
function spans({ samples, step, chunk }) {
  const found = [];
  for (let n = 0; n < samples; n += 1) {
    const held = Math.floor((n * step) / chunk);
    if (found.at(-1)?.chunk === held) found.at(-1).past = n + 1;
    else found.push({ chunk: held, first: n, past: n + 1 });
  }
  return found;
}

/** Splits the rows of a large chunk into pieces of bounded size, of at least one row each. */
function cut(array, planned, span, across) {
  const pieces = [];
  for (let first = span.first; first < span.past;) {
    let past = first + 1;
    while (past < span.past && bytesOf(array, planned, { ...span, first, past: past + 1 }, across[0]) <= PART) past += 1;
    pieces.push({ chunk: span.chunk, first, past });
    first = past;
  }
  return pieces;
}

const strides = (chunk) => chunk.map((_, axis) => chunk.slice(axis + 1).reduce((all, edge) => all * edge, 1));

/** Returns the row-major position of a sample in its chunk. */
function inChunk(array, { rows, columns, at, strides: each }, row, column, y, x) {
  return array.shape.reduce((sum, _, axis) => {
    if (axis === rows.axis) return sum + (y * rows.step - row.chunk * rows.chunk) * each[axis];
    if (axis === columns.axis) return sum + (x * columns.step - column.chunk * columns.chunk) * each[axis];
    return sum + (at[axis] % array.chunk[axis]) * each[axis];
  }, 0);
}

/** Returns the first element of a piece in its chunk, and the one past its last. */
function cover(array, planned, row, column) {
  const corner = (y, x) => inChunk(array, planned, row, column, y, x);
  return [corner(row.first, column.first), corner(row.past - 1, column.past - 1) + 1];
}

function bytesOf(array, planned, row, column) {
  if (!planned.ranged) return array.chunkBytes;
  const [from, past] = cover(array, planned, row, column);
  return (past - from) * width(array.type);
}

/** Reads the planned pieces: `{elements, read, width, height}`; `read` is 1 for elements that were read. */
export async function picture(array, planned, signal, progress) {
  const { rows, columns } = planned;
  const elements = room(array.type, rows.samples * columns.samples).fill(array.fill);
  const read = new Uint8Array(elements.length);
  let done = 0;
  await inTurn(planned.wanted, async ([row, column]) => {
    const index = array.shape.map((_, axis) => {
      if (axis === rows.axis) return row.chunk;
      return axis === columns.axis ? column.chunk : Math.floor(planned.at[axis] / array.chunk[axis]);
    });
    const [from, past] = planned.ranged ? cover(array, planned, row, column) : [0, 0];
    const chunk = planned.ranged ? await array.part(index, from, past, signal) : await array.read(index, signal);
    place(chunk, row, column, from);
    done += 1;
    progress?.(done, planned.wanted.length);
  });
  return { elements, read, width: columns.samples, height: rows.samples };

  function place(chunk, row, column, from) {
    const across = columns.axis === null ? 0 : planned.strides[columns.axis] * columns.step;
    for (let y = row.first; y < row.past; y += 1) {
      let at = inChunk(array, planned, row, column, y, column.first) - from;
      for (let x = column.first; x < column.past; x += 1, at += across) {
        const to = y * columns.samples + x;
        if (chunk) elements[to] = chunk[at];
        read[to] = 1;
      }
    }
  }
}
