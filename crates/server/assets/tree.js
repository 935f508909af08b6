// The tree of groups and arrays: ARIA tree pattern with one tab stop, and a search. All rows have the same height, and
// only those near the visible part exist, so that a tree may have any number of nodes.
import { fill, h, label, plural, count } from "./dom.js";
import { find, nodes, searched, spoken, walk } from "./nodes.js";

/** Maximum number of nodes for a tree to start unfolded. */
const UNFOLDED = 120;
/** Number of rows above and below the visible part that exist. Trees of fewer rows exist as a whole. */
const AROUND = 150;

export class Tree {
  /** @param {{host, box, input, found}} parts the tree, its scrolling box, the search field, and its status */
  constructor({ host, box, input, found }, chosen) {
    Object.assign(this, { host, box, input, found, chosen });
    this.items = new Map();
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
      for (const match of this.matches) for (let node = match; node && !this.kept.has(node); node = node.parent) this.kept.add(node);
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

  childrenOf = (node) => (this.kept ? (node.children ?? []).filter((child) => this.kept.has(child)) : node.children ?? []);

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
    const element = h("li", { role: "treeitem", "data-path": node.path },
      h("div", { class: `row ${node.kind}`, title: node.path },
        h("span", { class: "twist", "aria-hidden": "true" }),
        h("span", { class: "name" }, this.marked(node.name)), " ", h("span", { class: "shape" }, node.summary),
        h("span", { class: "away" }, spoken(node))));
    this.items.set(node, element);
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
    for (let above = node.parent; above; above = above.parent) this.opened().add(above);
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
    const element = event.target.closest("[role=treeitem]");
    return element && find(this.root, element.dataset.path);
  }

  click(event) {
    const node = this.nodeOf(event);
    if (!node) return;
    if (event.target.closest(".twist") && node.children?.length) { this.active = node; this.toggle(node, !this.isOpen(node)); }
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
        return go(node.parent);
      case "*":
        for (const sibling of node.parent ? this.childrenOf(node.parent) : [node]) this.opened().add(sibling);
        this.arrange();
        return true;
      case "Enter":
      case " ":
        this.choose(node.path, { focus: true });
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
