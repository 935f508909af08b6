// The tree of groups and arrays: ARIA tree pattern, one tab stop, children created when first shown.
import { fill, h, plural } from "./dom.js";

/** Maximum number of nodes for a tree to start unfolded. */
const UNFOLDED = 120;

export class Tree {
  /** @param {HTMLElement} host @param {(node) => void} chosen */
  constructor(host, chosen) {
    this.host = host;
    this.chosen = chosen;
    this.items = new Map();
    this.typed = "";
    host.addEventListener("keydown", (event) => this.key(event));
    host.addEventListener("click", (event) => this.click(event));
  }

  /** Shows a description, as returned by `/v1/inspect`. */
  show(description) {
    this.items.clear();
    this.root = nodes(description);
    const unfold = countNodes(this.root) <= UNFOLDED;
    fill(this.host, this.item(this.root, 1, 1, 1));
    if (unfold) this.unfoldAll(this.root);
    else this.toggle(this.root, true);
    this.focusable(this.root);
  }

  item(node, level, position, siblings) {
    const isGroup = node.children !== null;
    const element = h("li", {
      role: "treeitem", tabindex: "-1", "data-path": node.path, "aria-level": level, "aria-posinset": position, "aria-setsize": siblings,
      "aria-selected": "false", "aria-expanded": isGroup && node.children.length ? "false" : null,
    }, h("div", { class: `row ${node.kind}` },
      h("span", { class: "twist", "aria-hidden": "true" }),
      h("span", { class: "name" }, node.name), h("span", { class: "away" }, spoken(node)),
      h("span", { class: "shape" }, node.summary)));
    element.style.setProperty("--level", level);
    this.items.set(node.path, { node, element, level });
    return element;
  }

  unfoldAll(node) {
    this.toggle(node, true);
    for (const child of node.children ?? []) this.unfoldAll(child);
  }

  toggle(node, open) {
    const { element, level } = this.items.get(node.path);
    if (!node.children?.length) return;
    let list = element.querySelector(":scope > ul");
    if (open && !list) {
      list = h("ul", { role: "group" }, node.children.map((child, n) => this.item(child, level + 1, n + 1, node.children.length)));
      element.append(list);
    }
    if (list) list.hidden = !open;
    element.setAttribute("aria-expanded", String(open));
  }

  isOpen = (node) => this.items.get(node.path).element.getAttribute("aria-expanded") === "true";

  /** Selects the node at a path, and unfolds its ancestors; returns false if there is no such node. */
  choose(path, { focus = false } = {}) {
    let node = this.root;
    while (node && node.path !== path) {
      this.toggle(node, true);
      node = node.children?.find((child) => path === child.path || path.startsWith(`${child.path}/`));
    }
    if (!node) return false;
    for (const { element } of this.items.values()) element.setAttribute("aria-selected", "false");
    const { element } = this.items.get(node.path);
    element.setAttribute("aria-selected", "true");
    this.focusable(node);
    if (focus) element.focus();
    element.querySelector(".row").scrollIntoView({ block: "nearest" });
    this.chosen(node);
    return true;
  }

  focusable(node) {
    for (const { element } of this.items.values()) element.tabIndex = -1;
    this.items.get(node.path).element.tabIndex = 0;
  }

  focus(node) {
    this.focusable(node);
    const { element } = this.items.get(node.path);
    element.focus({ preventScroll: true });
    element.querySelector(".row").scrollIntoView({ block: "nearest" });
  }

  /** Returns the visible nodes in display order. */
  seen(node = this.root, found = []) {
    found.push(node);
    if (node.children?.length && this.isOpen(node)) for (const child of node.children) this.seen(child, found);
    return found;
  }

  click(event) {
    const element = event.target.closest("[role=treeitem]");
    if (!element) return;
    const { node } = this.items.get(element.dataset.path);
    if (event.target.closest(".twist") && node.children?.length) this.toggle(node, !this.isOpen(node));
    this.choose(node.path, { focus: true });
  }

  key(event) {
    const element = event.target.closest("[role=treeitem]");
    if (!element || event.ctrlKey || event.metaKey || event.altKey) return;
    const { node } = this.items.get(element.dataset.path);
    if (this.act(event.key, node)) event.preventDefault();
  }

  /** Handles a key; returns whether the key has a meaning here. */
  act(key, node) {
    const seen = this.seen();
    const at = seen.indexOf(node);
    const go = (to) => { if (to) this.focus(to); return true; };
    switch (key) {
      case "ArrowDown": return go(seen[at + 1]);
      case "ArrowUp": return go(seen[at - 1]);
      case "Home": return go(seen[0]);
      case "End": return go(seen.at(-1));
      case "ArrowRight":
        if (!node.children?.length) return true;
        if (this.isOpen(node)) return go(node.children[0]);
        this.toggle(node, true);
        return true;
      case "ArrowLeft":
        if (node.children?.length && this.isOpen(node)) { this.toggle(node, false); return true; }
        return go(node.parent);
      case "*":
        for (const sibling of node.parent?.children ?? [node]) this.toggle(sibling, true);
        return true;
      case "Enter":
      case " ":
        this.choose(node.path, { focus: true });
        return true;
      default:
        return key.length === 1 && go(this.typeahead(key, seen, at));
    }
  }

  /** Finds the next node whose name starts with the typed text. */
  typeahead(key, seen, at) {
    clearTimeout(this.forget);
    this.forget = setTimeout(() => { this.typed = ""; }, 600);
    this.typed += key.toLowerCase();
    const from = this.typed.length === 1 ? at + 1 : at;
    const order = [...seen.slice(from), ...seen.slice(0, from)];
    return order.find((node) => node.name.toLowerCase().startsWith(this.typed));
  }
}

/** Builds nodes `{path, name, kind, summary, description, children, parent}`, including those for omitted objects. */
function nodes(description) {
  const root = made("/", description.file?.url?.split("/").at(-1) || "/", description.root, null);
  for (const [path, why] of Object.entries(description.left_out ?? {})) {
    const parts = path.split("/").filter(Boolean);
    const name = parts.pop();
    let parent = root;
    for (const part of parts) parent = parent.children?.find((child) => child.name === part) ?? parent;
    if (!parent.children) parent = root;
    parent.children.push({ path, name, kind: "left-out", summary: "left out", description: { node: "left-out", because: why }, children: null, parent });
  }
  return root;
}

function made(path, name, description, parent) {
  const isGroup = description.node === "group";
  const node = { path, name, kind: description.node, summary: summary(description), description, children: isGroup ? [] : null, parent };
  for (const [child, described] of Object.entries(description.children ?? {})) {
    node.children.push(made(path === "/" ? `/${child}` : `${path}/${child}`, child, described, node));
  }
  return node;
}

function summary(description) {
  if (description.node === "group") return "";
  return description.shape.length ? description.shape.join(" × ") : "scalar";
}

/** Returns the text for screen readers between name and shape, for what is otherwise shown by colour and marks. */
function spoken(node) {
  if (node.kind === "group") return ` group, ${plural(node.children.length, "node")} `;
  return node.kind === "left-out" ? " " : ` array, ${node.description.data_type}, `;
}

const countNodes = (node) => 1 + (node.children ?? []).reduce((sum, child) => sum + countNodes(child), 0);
