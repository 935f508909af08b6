// The nodes of a file, and the tree of them: ARIA tree pattern with one tab stop, and a search. All rows have the same
// height, and only those near the visible part exist, so that a tree may have any number of nodes.
import { count, fill, h, label, plural } from "./dom.js";
import { isNumeric } from "./values.js";

/** Maximum number of nodes for a tree to start unfolded. */
const UNFOLDED = 120;
/** Number of rows above and below the visible part that exist. Trees of fewer rows exist as a whole. */
const AROUND = 150;

export class Tree {
  /** @param {{host, box, input, found}} parts the tree, its scrolling box, the search field, and its status */
  constructor({ host, box, input, found }, chosen) {
    Object.assign(this, { host, box, input, found, chosen });
    this.items = new Map();
    this.shownBy = new WeakMap();
    this.typed = "";
    host.addEventListener("keydown", (event) => this.key(event));
    host.addEventListener("click", (event) => this.click(event));
    box.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(box);
    input.addEventListener("input", () => this.search(input.value));
    input.addEventListener("keydown", (event) => this.searchKey(event));
  }

  /** Shows a description, as returned by `/v1/inspect`. */
  show(description) {
    this.root = nodes(description);
    this.all = [...walk(this.root)];
    this.texts = null;
    this.open = new Set(this.all.length <= UNFOLDED ? this.all : [this.root]);
    this.selected = null;
    this.active = this.root;
    this.search("");
  }

  /** Filters the tree: nodes that contain all words, with their ancestors. */
  search(text) {
    if (this.input.value !== text) this.input.value = text;
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.words = words;
    this.kept = null;
    this.matches = [];
    if (words.length) {
      this.texts ??= this.all.map(searched);
      this.matches = this.all.filter((_, n) => words.every((word) => this.texts[n].includes(word)));
      this.kept = new Set();
      for (const match of this.matches) for (let node = match; node && !this.kept.has(node); node = node.above) this.kept.add(node);
    }
    this.opened = this.kept ? new Set(this.kept) : this.open;
    fill(this.found, words.length ? `${count(this.matches.length)} of ${plural(this.all.length, "node")} match.` : "");
    fill(this.host);
    this.items.clear();
    this.arrange();
  }

  searchKey(event) {
    const first = this.kept ? this.matches[0] : this.rows[0];
    if (event.key === "ArrowDown" && this.rows.length) this.focus(first ?? this.rows[0]);
    else if (event.key === "Enter" && first && this.kept) this.choose(first.path, { focus: true });
    else if (event.key === "Escape" && this.input.value) this.search("");
    else return;
    event.preventDefault();
  }

  childrenOf = (node) => (node.listed ?? []).filter((child) => !this.kept || this.kept.has(child));

  isOpen = (node) => this.opened.has(node);

  toggle(node, open) {
    this.opened[open ? "add" : "delete"](node);
    this.arrange();
  }

  /** Computes the rows: the nodes that are not folded away, in display order. */
  arrange() {
    this.rows = [];
    const pending = !this.kept || this.kept.has(this.root) ? [{ node: this.root, level: 1, position: 1, siblings: 1 }] : [];
    this.places = new Map();
    while (pending.length) {
      const place = pending.pop();
      this.places.set(place.node, { ...place, row: this.rows.length });
      this.rows.push(place.node);
      if (!this.isOpen(place.node)) continue;
      const children = this.childrenOf(place.node);
      for (let n = children.length - 1; n >= 0; n -= 1) pending.push({ node: children[n], level: place.level + 1, position: n + 1, siblings: children.length });
    }
    if (!this.places.has(this.active)) this.active = this.rows[0] ?? this.root;
    this.host.style.setProperty("--rows", this.rows.length);
    this.draw();
  }

  /** Creates the rows near the visible part, and removes the others. */
  draw() {
    if (!this.rows) return;
    const each = this.host.clientHeight / Math.max(1, this.rows.length) || 24;
    const from = Math.floor(this.box.scrollTop / each) - AROUND;
    const to = Math.ceil((this.box.scrollTop + this.box.clientHeight) / each) + AROUND;
    const wanted = this.rows.slice(Math.max(0, from), to);
    const kept = new Set(wanted);
    const active = this.places.get(this.active);
    if (active && !kept.has(this.active)) wanted[active.row < from ? "unshift" : "push"](this.active);
    kept.add(this.active);
    for (const [node, element] of this.items) if (!kept.has(node)) { element.remove(); this.items.delete(node); }
    let before = this.host.firstChild;
    for (const node of wanted) {
      const element = this.items.get(node) ?? this.item(node);
      this.update(node, element);
      if (element === before) before = before.nextSibling;
      else this.host.insertBefore(element, before);
    }
  }

  item(node) {
    // Shown by colour and marks otherwise.
    const spoken = node.kind === "group" ? ` group, ${plural(node.children.length, "node")}` : node.kind === "array" ? ` array, ${node.description.data_type}` : "";
    const element = h("li", { role: "treeitem", "data-path": node.kind === "fold" ? null : node.path },
      h("div", { class: `row ${node.kind}`, title: node.kind === "fold" ? null : node.path },
        h("span", { class: "twist", "aria-hidden": "true" }),
        h("span", { class: "name" }, this.marked(node.name)), " ", h("span", { class: "shape" }, node.summary),
        h("span", { class: "away" }, spoken)));
    this.items.set(node, element);
    this.shownBy.set(element, node);
    return element;
  }

  /** Marks the first word of the search in a name. */
  marked(name) {
    const at = this.words.map((word) => [name.toLowerCase().indexOf(word), word.length]).find(([start]) => start >= 0);
    if (!at || name.toLowerCase().length !== name.length) return label(name);
    const [start, length] = at;
    return [label(name.slice(0, start)), h("mark", {}, label(name.slice(start, start + length))), label(name.slice(start + length))];
  }

  update(node, element) {
    const { level, position, siblings, row } = this.places.get(node);
    const set = (name, value) => (value === null ? element.removeAttribute(name) : element.setAttribute(name, value));
    set("aria-level", level);
    set("aria-posinset", position);
    set("aria-setsize", siblings);
    set("aria-selected", String(node === this.selected));
    set("aria-expanded", this.childrenOf(node).length ? String(this.isOpen(node)) : null);
    element.tabIndex = node === this.active ? 0 : -1;
    element.style.setProperty("--level", level);
    element.style.setProperty("--row", row);
  }

  /** Selects the node at a path, and unfolds its ancestors; returns false if there is no such node. */
  choose(path, { focus = false } = {}) {
    const node = this.root.byPath.get(path);
    if (!node) return false;
    if (this.kept && !this.kept.has(node)) this.search("");
    for (let above = node.above; above; above = above.above) this.opened.add(above);
    this.selected = node;
    this.active = node;
    this.arrange();
    this.reveal(node);
    if (focus) this.items.get(node).focus({ preventScroll: true });
    this.chosen(node);
    return true;
  }

  focus(node) {
    this.active = node;
    this.reveal(node);
    this.draw();
    this.items.get(node).focus({ preventScroll: true });
  }

  /** Scrolls the box, not the page, to a node. */
  reveal(node) {
    const each = this.host.clientHeight / Math.max(1, this.rows.length);
    const top = this.places.get(node).row * each;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + each > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + each - this.box.clientHeight;
    this.draw();
  }

  nodeOf = (event) => this.shownBy.get(event.target.closest("[role=treeitem]")) ?? null;

  click(event) {
    const node = this.nodeOf(event);
    if (!node) return;
    this.active = node;
    this.act(node, event.target.closest(".twist") && node.listed?.length);
  }

  /** Folds or unfolds a node that has no content of its own, or shows it. */
  act(node, isTwist = false) {
    if (node.kind === "fold" || isTwist) this.toggle(node, !this.isOpen(node));
    else this.choose(node.path, { focus: true });
  }

  key(event) {
    const node = this.nodeOf(event);
    if (!node || event.ctrlKey || event.metaKey || event.altKey) return;
    const { key } = event;
    const { rows } = this;
    const { row } = this.places.get(node);
    const page = Math.max(1, Math.floor(this.box.clientHeight / (this.host.clientHeight / rows.length)) - 1);
    const children = this.childrenOf(node);
    const isOpen = children.length > 0 && this.isOpen(node);
    const to = {
      ArrowDown: rows[row + 1], ArrowUp: rows[row - 1], Home: rows[0], End: rows.at(-1), PageDown: rows[row + page] ?? rows.at(-1), PageUp: rows[row - page] ?? rows[0],
      ArrowRight: isOpen ? children[0] : null, ArrowLeft: node.above,
    };
    if (key === "ArrowRight" && children.length && !isOpen) this.toggle(node, true);
    else if (key === "ArrowLeft" && isOpen) this.toggle(node, false);
    else if (key === "Enter" || key === " ") this.act(node);
    else if (key === "*") {
      for (const sibling of node.above ? this.childrenOf(node.above) : [node]) this.opened.add(sibling);
      this.arrange();
    } else if (key in to || key.length === 1) {
      const found = key in to ? to[key] : this.typeahead(key, row);
      if (found) this.focus(found);
    } else return;
    event.preventDefault();
  }

  /** Finds the next node whose name starts with the typed text. */
  typeahead(key, at) {
    clearTimeout(this.forget);
    this.forget = setTimeout(() => { this.typed = ""; }, 600);
    this.typed += key.toLowerCase();
    const from = this.typed.length === 1 ? at + 1 : at;
    return [...this.rows.slice(from), ...this.rows.slice(0, from)].find((node) => node.name.toLowerCase().startsWith(this.typed));
  }
}

/**
 * Builds the nodes of a description, as returned by `/v1/inspect`: `{path, name, kind, summary, description, children,
 * parent}`, including those for omitted objects. `listed` are the children in the order of the tree, where nodes that
 * support the data are in folds; `above` is the parent there. The root has `byPath`, which finds a node.
 */
export function nodes(description) {
  const root = made("/", fileName(description.file?.url) || "/", description.root, null);
  root.byPath = new Map([["/", root]]);
  const pending = [root];
  while (pending.length) {
    const node = pending.pop();
    for (const [name, described] of Object.entries(node.description.children ?? {})) {
      const child = made(node.path === "/" ? `/${name}` : `${node.path}/${name}`, name, described, node);
      node.children.push(child);
      root.byPath.set(child.path, child);
      if (child.children) pending.push(child);
    }
  }
  for (const [path, because] of Object.entries(description.omitted ?? {})) {
    const parent = nearest(root, path);
    const node = made(path, path.split("/").at(-1), { node: "omitted", because }, parent);
    parent.children.push(node);
    root.byPath.set(path, node);
  }
  arrangeGroups(root);
  return root;
}

function made(path, name, description, parent) {
  const { node: kind, shape } = description;
  const summary = kind === "array" ? shape.join(" × ") || "scalar" : kind === "omitted" ? kind : "";
  return { path, name, kind, summary, description, children: kind === "group" ? [] : null, parent, listed: null, above: parent };
}

/** Lists data before groups, and folds what supports the data. */
function arrangeGroups(root) {
  const all = [...walk(root)];
  const named = helpers(all.filter((node) => node.kind === "array"));
  for (const group of all) {
    if (group.kind !== "group") continue;
    const folds = Map.groupBy(group.children, (child) => foldOf(child, named));
    const data = Map.groupBy(folds.get(null) ?? [], (child) => child.kind === "group");
    group.listed = data.size ? [...(data.get(false) ?? []), ...(data.get(true) ?? [])] : group.children;
    if (!data.size) continue;
    folds.delete(null);
    for (const [name, children] of folds) {
      const fold = { path: `${group.path}\n${name}`, name, kind: "fold", summary: String(children.length), description: {}, children: null, parent: group, above: group, listed: children };
      for (const child of children) child.above = fold;
      group.listed.push(fold);
    }
  }
}

/** Returns the name of the fold of a node; null for data. */
function foldOf(node, named) {
  const { parent, name, kind, description: { attributes = {}, children } } = node;
  const above = parent.description.attributes ?? {};
  if (kind === "array") return attributes.mask_of ? "Masks" : named.has(name) || isCoordinate(node) ? "Coordinates" : null;
  if (kind !== "group") return null;
  if (above["virtualize:segments"]?.segments?.some(({ group }) => group === name)) return "Segments";
  if (above.multiscales?.layout?.some?.(({ asset, derived_from: from }) => from && String(asset).split("/")[0] === name)) return "Overviews";
  return Object.values(children ?? {}).some((child) => child.attributes?.mask_of) ? "Masks" : null;
}

/** Returns the last segment of a URL, decoded: `a b.nc` for `file:///data/a%20b.nc`. */
export function fileName(url) {
  return decoded(String(url ?? "").split(/[?#]/)[0].split("/").filter(Boolean).at(-1) ?? "");
}

/** Decodes percent-encoded text; returns malformed text as it is. */
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
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

/** Returns the closest existing group above a path. */
export function nearest(root, path) {
  const parts = path.split("/");
  while (parts.pop() !== undefined) {
    const node = root.byPath.get(parts.join("/"));
    if (node?.children) return node;
  }
  return root;
}

/** Returns what a search looks through: name, description, units. */
function searched(node) {
  const { long_name: long, standard_name: standard, units, title } = node.description.attributes ?? {};
  return [node.name, long, standard, units, title].filter((text) => typeof text === "string").join("\n").toLowerCase();
}

/** Returns one line about an array: its description and units. */
export function about({ description: { attributes = {} } }) {
  const text = (value) => (typeof value === "string" && value.trim() ? label(value.slice(0, 300)) : null);
  return [text(attributes.long_name) ?? text(attributes.standard_name) ?? text(attributes.title), text(attributes.units)].filter(Boolean).join(" · ");
}

/**
 * Finds the array to show first: the largest that has two axes and does not describe another one, otherwise the largest
 * of the rest; the first of several. Null if nothing can be drawn.
 */
export function firstArray(root) {
  const arrays = [...walk(root)].filter((node) => node.kind === "array" && isNumeric(node.description.data_type) && !node.description.shape.includes(0));
  const named = helpers(arrays);
  const axes = (node) => Math.min(2, node.description.shape.filter((length) => length > 1).length);
  const isFolded = (node) => Boolean(node.above) && (node.above.kind === "fold" || isFolded(node.above));
  const rank = (node) => [named.has(node.name) || isCoordinate(node) || isFolded(node) ? 0 : 1, axes(node), node.description.shape.reduce((all, length) => all * length, 1)];
  const before = (left, right) => left.map((value, n) => value - right[n]).find((difference) => difference !== 0) > 0;
  return arrays.reduce((best, node) => (best === null || before(rank(node), rank(best)) ? node : best), null);
}

const isCoordinate = ({ name, description: { shape, dimensions, attributes = {} } }) => (shape.length === 1 && dimensions?.[0] === name) || (!shape.length && Boolean(attributes.grid_mapping_name ?? attributes.crs_wkt));

/** Returns the names of arrays that describe others: coordinates, bounds, grid mappings, areas. */
function helpers(arrays) {
  const found = new Set();
  for (const { description: { attributes = {} } } of arrays) {
    for (const key of ["coordinates", "bounds", "climatology", "grid_mapping", "cell_measures", "formula_terms", "ancillary_variables", "scale_factor_variable", "add_offset_variable"]) {
      if (typeof attributes[key] !== "string") continue;
      for (const word of attributes[key].split(/\s+/)) if (!word.endsWith(":")) found.add(word);
    }
  }
  return found;
}
