// A slice of an array: the elements that a picture or a line shows, with their coordinates.
import { readAxis } from "./axes.js";
import { coordinateNode, DataArray, plan } from "./data.js";

/** Maximum number of elements of a line, and per axis of a picture. */
const LINE = 1 << 20;
const MOST = 1024;

/**
 * Reads a slice: `{plan, width, height, axes, at, planes, sorted}`. `view` is `{axes, at, windows, budget, bands}`;
 * `bands` is `{axis, numbers}` for composites, whose planes are those of the numbers.
 */
export async function readSlice(array, view, signal) {
  const { bands } = view;
  const first = bands ? Math.min(...bands.numbers) : 0;
  const past = bands ? Math.max(...bands.numbers) + 1 : 1;
  const along = bands ? { axis: bands.axis, range: [first, past, 1], count: past - first } : null;
  const planned = plan(array, { ...view, along, most: view.axes[0] === null ? LINE : MOST });
  if (planned.isTooLarge) return { plan: planned };
  const [elements, ...axes] = await Promise.all([
    array.read(planned.selection, signal),
    ...planned.spans.map((span) => (span.axis === null ? null : readAxis(array, span.axis, span, coordinatesOf(array, span.axis), signal))),
  ]);
  return arranged(array, planned, elements, axes, bands ? bands.numbers.map((number) => number - first) : [0], bands?.axis ?? null);
}

export function coordinatesOf(array, axis) {
  const name = array.names[axis];
  const node = name ? coordinateNode(array.node, name, array.shape[axis]) : null;
  return node ? new DataArray(array.source, node) : null;
}

function arranged(array, planned, elements, axes, numbers, bandAxis) {
  const [rows, columns] = planned.spans;
  const stride = strides(planned.selection);
  const place = (y, x) => (rows.axis === null ? 0 : y * stride[rows.axis]) + (columns.axis === null ? 0 : x * stride[columns.axis]);
  const values = array.isNumeric ? elements.physical(array.means) : null;
  const plane = (number) => {
    const offset = bandAxis === null ? 0 : number * stride[bandAxis];
    if (offset === 0 && values.length === rows.count * columns.count && (rows.axis === null || rows.axis < columns.axis)) return values;
    const found = new Float64Array(rows.count * columns.count);
    for (let y = 0, n = 0; y < rows.count; y += 1) for (let x = 0; x < columns.count; x += 1, n += 1) found[n] = values[offset + place(y, x)];
    return found;
  };
  const planes = values ? numbers.map(plane) : [];
  return {
    plan: planned, elements, axes, planes, width: columns.count, height: rows.count,
    stored: (y, x, number = numbers[0]) => elements.at(place(y, x) + (bandAxis === null ? 0 : number * stride[bandAxis])),
    sorted: planes.map((each) => each.filter(Number.isFinite).sort()), numbers,
  };
}

/** Returns the distance in the answer between neighbours along each axis. */
function strides(selection) {
  const counts = selection.map((part) => (Array.isArray(part) ? Math.ceil((part[1] - part[0]) / part[2]) : 1));
  return counts.map((_, axis) => counts.slice(axis + 1).reduce((all, count) => all * count, 1));
}
