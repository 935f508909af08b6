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
    this.input.value = "";
    fill(this.host);
    this.items.clear();
    this.search("");
  }

  /** Filters the tree: nodes that contain all words, with their ancestors. */
  search(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.words = words;
    this.kept = null;
    this.matches = [];
    if (words.length) {
      this.texts ??= this.all.map(searched);
      this.matches = this.all.filter((_, n) => words.every((word) => this.texts[n].includes(word)));
      this.kept = new Set();
      for (const match of this.matches) for (let node = match; node && !this.kept.has(node); node = node.above) this.kept.add(node);
      this.unfolded = new Set(this.kept);
    }
    fill(this.found, words.length ? `${count(this.matches.length)} of ${plural(this.all.length, "node")} match.` : "");
    fill(this.host);
    this.items.clear();
    this.arrange();
  }

  searchKey(event) {
    const first = this.kept ? this.matches[0] : this.rows[0];
    if (event.key === "ArrowDown" && this.rows.length) this.focus(first ?? this.rows[0]);
    else if (event.key === "Enter" && first && this.kept) this.choose(first.path, { focus: true });
    else if (event.key === "Escape" && this.input.value) { this.input.value = ""; this.search(""); }
    else return;
    event.preventDefault();
  }

  opened = () => (this.kept ? this.unfolded : this.open);

  childrenOf = (node) => (this.kept ? (node.listed ?? []).filter((child) => this.kept.has(child)) : node.listed ?? []);

  isOpen = (node) => this.opened().has(node);

  toggle(node, open) {
    if (open) this.opened().add(node);
    else this.opened().delete(node);
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
    const element = h("li", { role: "treeitem", "data-path": node.kind === "fold" ? null : node.path },
      h("div", { class: `row ${node.kind}`, title: node.kind === "fold" ? null : node.path },
        h("span", { class: "twist", "aria-hidden": "true" }),
        h("span", { class: "name" }, this.marked(node.name)), " ", h("span", { class: "shape" }, node.summary),
        h("span", { class: "away" }, spoken(node))));
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
    const node = find(this.root, path);
    if (!node) return false;
    if (this.kept && !this.kept.has(node)) { this.input.value = ""; this.search(""); }
    for (let above = node.above; above; above = above.above) this.opened().add(above);
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

  nodeOf(event) {
    return this.shownBy.get(event.target.closest("[role=treeitem]")) ?? null;
  }

  click(event) {
    const node = this.nodeOf(event);
    if (!node) return;
    if (node.kind === "fold" || (event.target.closest(".twist") && node.listed?.length)) { this.active = node; this.toggle(node, !this.isOpen(node)); }
    else this.choose(node.path, { focus: true });
  }

  key(event) {
    const node = this.nodeOf(event);
    if (!node || event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.act(event.key, node)) event.preventDefault();
  }

  /** Handles a key; returns whether the key has a meaning here. */
  act(key, node) {
    const at = this.places.get(node).row;
    const page = Math.max(1, Math.floor(this.box.clientHeight / (this.host.clientHeight / this.rows.length)) - 1);
    const go = (to) => { if (to) this.focus(to); return true; };
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: this.rows.length - 1, PageDown: Math.min(at + page, this.rows.length - 1), PageUp: Math.max(0, at - page) }[key];
    if (to !== undefined) return go(this.rows[to]);
    const children = this.childrenOf(node);
    switch (key) {
      case "ArrowRight":
        if (!children.length) return true;
        if (this.isOpen(node)) return go(children[0]);
        this.toggle(node, true);
        return true;
      case "ArrowLeft":
        if (children.length && this.isOpen(node)) { this.toggle(node, false); return true; }
        return go(node.above);
      case "*":
        for (const sibling of node.above ? this.childrenOf(node.above) : [node]) this.opened().add(sibling);
        this.arrange();
        return true;
      case "Enter":
      case " ":
        if (node.kind === "fold") this.toggle(node, !this.isOpen(node));
        else this.choose(node.path, { focus: true });
        return true;
      default:
        return key.length === 1 && go(this.typeahead(key, at));
    }
  }

  /** Finds the next node whose name starts with the typed text. */
  typeahead(key, at) {
    clearTimeout(this.forget);
    this.forget = setTimeout(() => { this.typed = ""; }, 600);
    this.typed += key.toLowerCase();
    const from = this.typed.length === 1 ? at + 1 : at;
    const order = [...this.rows.slice(from), ...this.rows.slice(0, from)];
    return order.find((node) => node.name.toLowerCase().startsWith(this.typed));
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
  for (const [path, why] of Object.entries(description.omitted ?? {})) leftOut(root, path, why);
  arrangeGroups(root);
  return root;
}

function made(path, name, description, parent) {
  return { path, name, kind: description.node, summary: summary(description), description, children: description.node === "group" ? [] : null, parent, listed: null, above: parent };
}

function leftOut(root, path, because) {
  const parts = path.split("/").filter(Boolean);
  const name = parts.pop();
  let parent = root;
  for (const part of parts) parent = parent.children?.find((child) => child.name === part) ?? parent;
  if (!parent.children) parent = root;
  parent.children.push({ path, name, kind: "omitted", summary: "omitted", description: { node: "omitted", because }, children: null, parent, listed: null, above: parent });
  root.byPath.set(path, parent.children.at(-1));
}

/** Lists data before groups, and folds what supports the data. */
function arrangeGroups(root) {
  const all = [...walk(root)];
  const named = helpers(all.filter((node) => node.kind === "array"));
  for (const group of all) {
    if (group.kind !== "group") continue;
    const folds = new Map();
    for (const child of group.children) {
      const fold = foldOf(child, named);
      if (fold) folds.set(fold, [...(folds.get(fold) ?? []), child]);
    }
    const data = group.children.filter((child) => !foldOf(child, named));
    const [groups, arrays] = [data.filter((child) => child.kind === "group"), data.filter((child) => child.kind !== "group")];
    group.listed = data.length ? [...arrays, ...groups] : group.children;
    for (const [name, children] of data.length ? folds : []) {
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
export const find = (root, path) => root.byPath.get(path) ?? null;

/** Returns the text for screen readers after name and shape, for what is otherwise shown by colour and marks. */
function spoken(node) {
  if (node.kind === "group") return ` group, ${plural(node.children.length, "node")}`;
  return node.kind === "omitted" || node.kind === "fold" ? "" : ` array, ${node.description.data_type}`;
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
