// The nodes of a file: groups, arrays, and what the mapping omitted.
import { label, plural } from "./dom.js";
import { isNumeric } from "./values.js";

/**
 * Builds the nodes of a description, as returned by `/v1/inspect`: `{path, name, kind, summary, description, children,
 * parent}`, including those for omitted objects.
 */
export function nodes(description) {
  const root = made("/", fileName(description.file?.url) || "/", description.root, null);
  const pending = [root];
  while (pending.length) {
    const node = pending.pop();
    for (const [name, described] of Object.entries(node.description.children ?? {})) {
      const child = made(node.path === "/" ? `/${name}` : `${node.path}/${name}`, name, described, node);
      node.children.push(child);
      if (child.children) pending.push(child);
    }
  }
  for (const [path, why] of Object.entries(description.left_out ?? {})) leftOut(root, path, why);
  return root;
}

function made(path, name, description, parent) {
  return { path, name, kind: description.node, summary: summary(description), description, children: description.node === "group" ? [] : null, parent };
}

function leftOut(root, path, because) {
  const parts = path.split("/").filter(Boolean);
  const name = parts.pop();
  let parent = root;
  for (const part of parts) parent = parent.children?.find((child) => child.name === part) ?? parent;
  if (!parent.children) parent = root;
  parent.children.push({ path, name, kind: "left-out", summary: "left out", description: { node: "left-out", because }, children: null, parent });
}

function summary(description) {
  if (description.node === "group") return "";
  return description.shape.length ? description.shape.join(" × ") : "scalar";
}

/** Returns the last segment of a URL, decoded: `a b.nc` for `file:///data/a%20b.nc`. */
export function fileName(url) {
  const name = String(url ?? "").split(/[?#]/)[0].split("/").filter(Boolean).at(-1) ?? "";
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** Yields a node and its descendants in display order. */
export function* walk(node) {
  const pending = [node];
  while (pending.length) {
    const next = pending.pop();
    yield next;
    for (let n = (next.children?.length ?? 0) - 1; n >= 0; n -= 1) pending.push(next.children[n]);
  }
}

/** Finds the node at a path; null if there is none. */
export function find(root, path) {
  let node = root;
  while (node && node.path !== path) node = node.children?.find((child) => path === child.path || path.startsWith(`${child.path}/`));
  return node ?? null;
}

/** Returns the text for screen readers after name and shape, for what is otherwise shown by colour and marks. */
export function spoken(node) {
  if (node.kind === "group") return ` group, ${plural(node.children.length, "node")}`;
  return node.kind === "left-out" ? "" : ` array, ${node.description.data_type}`;
}

/** Returns what a search looks through: name, description, units. */
export function searched(node) {
  const { long_name: long, standard_name: standard, units, title } = node.description.attributes ?? {};
  return [node.name, long, standard, units, title].filter((text) => typeof text === "string").join("\n").toLowerCase();
}

/** Returns one line about an array: its description, units, type and shape. */
export function about(node) {
  const { attributes = {}, data_type: type, shape, dimensions } = node.description;
  const text = (value) => (typeof value === "string" && value.trim() ? label(value.slice(0, 300)) : null);
  const axes = (shape ?? []).map((length, axis) => (dimensions?.[axis] ? `${label(dimensions[axis])} ${length}` : String(length))).join(" × ");
  return [text(attributes.long_name) ?? text(attributes.standard_name) ?? text(attributes.title), text(attributes.units), type, axes].filter(Boolean).join(" · ");
}

/**
 * Finds the array to show first: the largest that has two axes and does not describe another one, otherwise the largest
 * of the rest; the first of several. Null if nothing can be drawn.
 */
export function firstArray(root) {
  const arrays = [...walk(root)].filter((node) => node.kind === "array" && isNumeric(node.description.data_type) && !node.description.shape.includes(0));
  const named = helpers(arrays);
  const axes = (node) => Math.min(2, node.description.shape.filter((length) => length > 1).length);
  const rank = (node) => [named.has(node.name) || isCoordinate(node) ? 0 : 1, axes(node), node.description.shape.reduce((all, length) => all * length, 1)];
  const before = (left, right) => left.map((value, n) => value - right[n]).find((difference) => difference !== 0) > 0;
  return arrays.reduce((best, node) => (best === null || before(rank(node), rank(best)) ? node : best), null);
}

const isCoordinate = ({ name, description: { shape, dimensions } }) => shape.length === 1 && dimensions?.[0] === name;

/** Returns the names of arrays that describe others: coordinates, bounds, grid mappings, areas. */
function helpers(arrays) {
  const found = new Set();
  for (const { description: { attributes = {} } } of arrays) {
    for (const key of ["coordinates", "bounds", "climatology", "grid_mapping", "cell_measures", "formula_terms"]) {
      if (typeof attributes[key] !== "string") continue;
      for (const word of attributes[key].split(/\s+/)) if (!word.endsWith(":")) found.add(word);
    }
  }
  return found;
}
