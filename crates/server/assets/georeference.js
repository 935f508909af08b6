// Where an array is on Earth: which axes are horizontal, and the coordinate reference system that the file declares.
import { levels, nearest } from "./data.js";

const LONGITUDE = /^degrees?_?e(ast)?$/i;
const LATITUDE = /^degrees?_?n(orth)?$/i;

/**
 * Returns where an array is on Earth; null if the file does not say. `node` is its node in the tree.
 *
 * `y`, `x`: the horizontal axes of the array. `levels`: the array and its overviews, from fine to coarse, each
 * `{path, shape, transform}`. `transform` leads from columns and rows, counted from the outer corner of the first pixel,
 * to x and y: x = a · column + b · row + c, y = d · column + e · row + f. It is null if `lines` names the coordinate
 * variables instead. `cells` names two-dimensional longitudes and latitudes. `code`, `mapping`, `degrees`: see `loadCrs`.
 */
export function georeference(node) {
  const { dimensions, shape } = node.description;
  if (node.kind !== "array" || !dimensions || shape.includes(0)) return null;
  return image(node) ?? grid(node) ?? cells(node);
}

/** Georeferences an image by the conventions `spatial`, `proj` and `multiscales`. */
function image(node) {
  const [first, ...overviews] = levels(node).map(({ path, parent, description: { shape, dimensions } }) => {
    const { "spatial:transform": transform, "spatial:dimensions": names } = parent.description.attributes ?? {};
    if (!Array.isArray(transform) || !Array.isArray(names)) return null;
    const [a, b, , d, e] = transform;
    const [y, x] = names.map((name) => dimensions?.indexOf(name) ?? -1);
    return y < 0 || x < 0 || !Number.isFinite(a * e - b * d) || a * e === b * d ? null : { path, shape, transform, y, x };
  });
  if (!first) return null;
  const { description: { attributes }, children } = node.parent;
  const named = (name) => children.find((child) => child.name === name)?.description.attributes;
  const units = named(node.description.dimensions[first.x])?.units ?? null;
  return { ...PLAIN, ...first, levels: [first, ...overviews.filter(Boolean)], code: attributes["proj:code"] ?? null, mapping: named("spatial_ref") ?? null, units, isImage: true };
}

/** What the kinds of georeferences have in common. */
const PLAIN = { lines: null, cells: null, code: null, mapping: null, degrees: false, isImage: false };

/** Returns the only level of an array that has no overviews. */
const single = ({ path, description: { shape } }, y, x) => [{ path, shape, transform: null, y, x }];

/** Returns the role of a coordinate variable: "x" or "y"; null if it is not horizontal. */
function role(name, attributes) {
  const { units = "", standard_name: standard = "", axis = "" } = attributes;
  if (LONGITUDE.test(units) || /^(longitude|grid_longitude|projection_x_(angular_)?coordinate)$/.test(standard)) return "x";
  if (LATITUDE.test(units) || /^(latitude|grid_latitude|projection_y_(angular_)?coordinate)$/.test(standard)) return "y";
  if (axis === "X" || (!units && !standard && /^(lon|longitude)$/i.test(name))) return "x";
  if (axis === "Y" || (!units && !standard && /^(lat|latitude)$/i.test(name))) return "y";
  return null;
}

/** Returns whether coordinates are longitudes or latitudes, not those of a rotated grid. */
function isDegrees(name, { units = "", standard_name: standard = "" }) {
  if (/^grid_|projection_/.test(standard)) return false;
  return LONGITUDE.test(units) || LATITUDE.test(units) || /^(longitude|latitude)$/.test(standard) || /^(lat|lon|latitude|longitude)$/i.test(name);
}

/** Georeferences an array by one-dimensional coordinate variables (CF). */
function grid(node) {
  const { dimensions, shape, attributes: own } = node.description;
  const axes = {};
  dimensions.forEach((name, axis) => {
    const found = name && nearest(node, name);
    if (!found || found === node || found.description.shape.length !== 1 || found.description.shape[0] !== shape[axis] || shape[axis] < 2) return;
    const attributes = found.description.attributes ?? {};
    const which = role(name, attributes) ?? (own?.grid_mapping ? { x: "x", y: "y" }[name.toLowerCase()] : null);
    if (which && !axes[which]) axes[which] = { axis, name, path: found.path, attributes };
  });
  const { x, y } = axes;
  if (!x || !y) return null;
  // "name", or "name: coordinates …".
  const [, mappingName] = /^\s*([^\s:]+)/.exec(own?.grid_mapping ?? "") ?? [];
  const mapping = (mappingName && nearest(node, mappingName)?.description.attributes) || null;
  const degrees = isDegrees(x.name, x.attributes) && isDegrees(y.name, y.attributes);
  const curved = !degrees && !mapping && cells(node);
  if (curved) return curved;
  if (!degrees && !mapping && !x.attributes.standard_name) return null;
  const code = node.parent.description.attributes?.["proj:code"] ?? null;
  return { ...PLAIN, y: y.axis, x: x.axis, levels: single(node, y.axis, x.axis), lines: { x: x.path, y: y.path }, code, mapping, degrees, units: x.attributes.units ?? null };
}

/** Georeferences an array by two-dimensional longitudes and latitudes. */
function cells(node) {
  const { dimensions, shape, attributes } = node.description;
  const names = [attributes?.coordinates ?? ""].flat().join(" ").split(/\s+/).filter(Boolean);
  const found = {};
  for (const name of [...names, ...node.parent.children.map((child) => child.name)]) {
    const each = nearest(node, name);
    if (!each || each === node || each.description.shape.length !== 2 || !isDegrees(name, each.description.attributes ?? {})) continue;
    const which = role(name, each.description.attributes ?? {});
    if (which) found[which] ??= each;
  }
  const [x, y] = [found.x?.description, found.y?.description];
  if (!x || !y || String(x.dimensions) !== String(y.dimensions) || String(x.shape) !== String(y.shape)) return null;
  const [row, column] = x.dimensions.map((name) => dimensions.indexOf(name));
  if (row < 0 || column < 0 || shape[row] !== x.shape[0] || shape[column] !== x.shape[1]) return null;
  return { ...PLAIN, y: row, x: column, levels: single(node, row, column), cells: { x: found.x.path, y: found.y.path }, degrees: true, units: "degrees" };
}

/** Returns where the viewer's array is on Earth (see `georeference`); null if its rows and columns are not horizontal axes. */
export function placeOf({ node, view }) {
  const found = georeference(node);
  const [rows, columns] = view.axes;
  const isShown = found && [found.y, found.x].every((axis) => axis === rows || axis === columns);
  return isShown ? found : null;
}
