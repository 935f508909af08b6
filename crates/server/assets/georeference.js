// Where an array is on Earth: which axes are horizontal, and the coordinate reference system that the file declares.
import { rootOf } from "./data.js";

const LONGITUDE = /^degrees?_?e(ast)?$/i;
const LATITUDE = /^degrees?_?n(orth)?$/i;

/** Finds the node of a path below a root of `/v1/inspect`, and its ancestors, root first: `[root, …, node]`; null if it is missing. */
function lineage(root, path) {
  const line = [root];
  for (const name of path.split("/").filter(Boolean)) {
    const next = line.at(-1).children?.[name];
    if (!next) return null;
    line.push(next);
  }
  return line;
}

/** Finds an array by name in the innermost group that has it: `{path, node}`. */
function nearest(groups, path, name) {
  const names = path.split("/").filter(Boolean).slice(0, -1);
  for (let depth = groups.length - 1; depth >= 0; depth -= 1) {
    const node = groups[depth].children?.[name];
    if (node?.node === "array") return { path: `/${[...names.slice(0, depth), name].join("/")}`, node };
  }
  return null;
}

/**
 * Returns where an array is on Earth, from the description that `/v1/inspect` returned; null if the file does not say.
 *
 * `y`, `x`: the horizontal axes of the array. `levels`: the array and its overviews, from fine to coarse, each
 * `{path, shape, transform}`. `transform` leads from columns and rows, counted from the outer corner of the first pixel,
 * to x and y: x = a · column + b · row + c, y = d · column + e · row + f. It is null if `lines` names the coordinate
 * variables instead. `cells` names two-dimensional longitudes and latitudes. `code`, `mapping`, `degrees`: see `loadCrs`.
 */
export function georeference(description, path) {
  const line = lineage(description.root, path);
  const node = line?.at(-1);
  if (node?.node !== "array" || !node.dimensions || node.shape.includes(0)) return null;
  const groups = line.slice(0, -1);
  return image(description.root, groups, node, path) ?? grid(groups, node, path) ?? cells(groups, node, path);
}

/** Georeferences an image by the conventions `spatial`, `proj` and `multiscales`. */
function image(root, groups, node, path) {
  const own = groups.at(-1).attributes ?? {};
  const { "spatial:transform": transform, "spatial:dimensions": names } = own;
  if (!Array.isArray(transform) || !Array.isArray(names)) return null;
  const [y, x] = names.map((name) => node.dimensions.indexOf(name));
  if (y < 0 || x < 0 || !isInvertible(transform)) return null;
  const mapping = groups.at(-1).children.spatial_ref?.attributes ?? null;
  const levels = [{ path, shape: node.shape, transform, y, x }, ...(groups.length === 1 ? overviews(root, node, path) : [])];
  const unit = groups.at(-1).children[names[1]]?.attributes?.units ?? null;
  return { y, x, levels, lines: null, cells: null, code: own["proj:code"] ?? null, mapping, degrees: false, units: unit, isImage: true };
}

const isInvertible = ([a, b, , d, e]) => Number.isFinite(a * e - b * d) && a * e - b * d !== 0;

/** Returns the overviews of an image in the root group that have the same axes, from fine to coarse. */
function overviews(root, node, path) {
  const layout = root.attributes?.multiscales?.layout ?? [];
  if (!layout.some(({ asset }) => `/${asset}` === path)) return [];
  const found = layout.filter(({ asset }) => `/${asset}` !== path).map(({ asset }) => {
    const line = lineage(root, asset);
    const { "spatial:transform": transform, "spatial:dimensions": names } = line?.at(-2)?.attributes ?? {};
    const level = line?.at(-1);
    if (level?.node !== "array" || level.shape.length !== node.shape.length || !transform || !isInvertible(transform)) return null;
    const [y, x] = names.map((name) => level.dimensions.indexOf(name));
    return y < 0 || x < 0 ? null : { path: `/${asset}`, shape: level.shape, transform, y, x };
  });
  const size = ({ shape, x, y }) => shape[x] * shape[y];
  return found.filter(Boolean).sort((one, other) => size(other) - size(one));
}

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
function grid(groups, node, path) {
  const axes = {};
  node.dimensions.forEach((name, axis) => {
    const found = name && nearest(groups, path, name);
    if (!found || found.path === path || found.node.shape.length !== 1 || found.node.shape[0] !== node.shape[axis] || found.node.shape[0] < 2) return;
    const attributes = found.node.attributes ?? {};
    const which = role(name, attributes) ?? (node.attributes?.grid_mapping ? { x: "x", y: "y" }[name.toLowerCase()] : null);
    if (which && !axes[which]) axes[which] = { axis, name, path: found.path, attributes };
  });
  const { x, y } = axes;
  if (!x || !y) return null;
  const mapping = gridMapping(groups, node, path);
  const degrees = isDegrees(x.name, x.attributes) && isDegrees(y.name, y.attributes);
  const curved = !degrees && !mapping && cells(groups, node, path);
  if (curved) return curved;
  if (!degrees && !mapping && !x.attributes.standard_name) return null;
  return {
    y: y.axis, x: x.axis, levels: [{ path, shape: node.shape, transform: null, y: y.axis, x: x.axis }], lines: { x: x.path, y: y.path }, cells: null,
    code: groups.at(-1).attributes?.["proj:code"] ?? null, mapping, degrees, units: x.attributes.units ?? null, isImage: false,
  };
}

/** Returns the attributes of the array's grid mapping variable: "name", or "name: coordinates …". */
function gridMapping(groups, node, path) {
  const [, name] = /^\s*([^\s:]+)/.exec(node.attributes?.grid_mapping ?? "") ?? [];
  return (name && nearest(groups, path, name)?.node.attributes) || null;
}

/** Georeferences an array by two-dimensional longitudes and latitudes. */
function cells(groups, node, path) {
  const names = [node.attributes?.coordinates ?? ""].flat().join(" ").split(/\s+/).filter(Boolean);
  const all = [...names, ...Object.keys(groups.at(-1).children ?? {})];
  const found = {};
  for (const name of all) {
    const each = nearest(groups, path, name);
    const attributes = each?.node.attributes ?? {};
    if (!each || each.path === path || each.node.shape.length !== 2 || !isDegrees(name, attributes)) continue;
    const which = role(name, attributes);
    if (which) found[which] ??= each;
  }
  const { x, y } = found;
  if (!x || !y || String(x.node.dimensions) !== String(y.node.dimensions) || String(x.node.shape) !== String(y.node.shape)) return null;
  const [row, column] = x.node.dimensions.map((name) => node.dimensions.indexOf(name));
  if (row < 0 || column < 0 || node.shape[row] !== x.node.shape[0] || node.shape[column] !== x.node.shape[1]) return null;
  return {
    y: row, x: column, levels: [{ path, shape: node.shape, transform: null, y: row, x: column }], lines: null, cells: { x: x.path, y: y.path },
    code: null, mapping: null, degrees: true, units: "degrees", isImage: false,
  };
}

/** Returns where the viewer's array is on Earth (see `georeference`); null if its rows and columns are not horizontal axes. */
export function placeOf({ node, view }) {
  const found = georeference({ root: rootOf(node).description }, node.path);
  const [rows, columns] = view.axes;
  const isShown = found && [found.y, found.x].every((axis) => axis === rows || axis === columns);
  return isShown ? found : null;
}

/** Returns the options of `MapView` for the viewer's array, slice and colours. */
export function mapOptions({ node, source, view, signal }, shade) {
  return { source, description: { root: rootOf(node).description }, path: node.path, at: view.at, colours: coloursOf(view, shade), signal };
}

/** Returns colours as `MapView` takes them. `shade`: what the viewer's `shade()` returned. */
export function coloursOf({ bands }, shade) {
  if (!bands) {
    const [low, high] = shade.range;
    return { low, high, map: shade.map, reverse: shade.reverse, scale: shade.scale, palette: shade.palette };
  }
  const { axis, numbers } = bands;
  const ranged = numbers.slice(0, 3).map((index, n) => ({ index, low: shade.bands[n][0], high: shade.bands[n][1] }));
  return { axis, bands: ranged, alpha: numbers.length > 3 ? { index: numbers[3], low: 0, high: shade.opaque } : null };
}
