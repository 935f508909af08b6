// The table of a slice's values, read page by page.
import { readAxis } from "./axes.js";
import { count, fill, h } from "./dom.js";
import { coordinatesOf } from "./slice.js";
import { spell, spellStored } from "./values.js";

const ROWS = 50;
const COLUMNS = 20;

/** The table; its first row and column are those of the page. */
export class Table {
  constructor(host, look) {
    Object.assign(this, { host, look, first: [0, 0] });
  }

  /** Returns the axes of rows and columns: a line is shown as a column. */
  axes() {
    const { axes } = this.look.view;
    return axes[0] === null ? [axes[1], null] : axes;
  }

  async load(signal) {
    const { base, view } = this.look;
    const axes = this.axes();
    const spans = axes.map((axis, which) => {
      if (axis === null) return { axis, start: 0, step: 1, count: 1 };
      const start = Math.min(this.first[which], base.shape[axis] - 1);
      return { axis, start, step: 1, count: Math.min(which ? COLUMNS : ROWS, base.shape[axis] - start) };
    });
    const selection = view.at.map((index, axis) => {
      const which = axes.indexOf(axis);
      return which < 0 ? index : [spans[which].start, spans[which].start + spans[which].count, 1];
    });
    const [elements, ...found] = await Promise.all([base.read(selection, signal), ...spans.map((span) => (span.axis === null ? null : readAxis(base, span.axis, span, coordinatesOf(base, span.axis), signal)))]);
    this.show(elements, spans, found);
  }

  show(elements, [rows, columns], [down, across]) {
    const { base } = this.look;
    const isTurned = columns.axis !== null && rows.axis !== null && rows.axis > columns.axis;
    const at = (y, x) => (isTurned ? x * rows.count + y : y * columns.count + x);
    const values = base.isNumeric ? elements.physical(base.means) : null;
    const cell = (n) => {
      const stored = elements.at(n);
      if (!values || Array.isArray(stored)) return h("td", {}, spellStored(stored, base.type));
      if (values[n] !== values[n]) return h("td", { class: "mute" }, "no data");
      return h("td", { class: "number" }, base.means.packed ? spell(values[n]) : spellStored(stored, base.type));
    };
    const label = (axis, n) => (axis ? axis.plain(n).replace("T", " ") : "value");
    const numbers = (length, each) => Array.from({ length }, (_, n) => each(n));
    const head = h("tr", {}, h("th", { scope: "col" }, [down?.name, across?.name].filter(Boolean).join(" \\ ") || "value"), numbers(columns.count, (x) => h("th", { scope: "col" }, label(across, x))));
    const body = numbers(rows.count, (y) => h("tr", {}, h("th", { scope: "row" }, label(down, y)), numbers(columns.count, (x) => cell(at(y, x)))));
    fill(this.host, h("div", { class: "controls" }, this.pager(0, rows), this.pager(1, columns)),
      h("div", { class: "scroll grid", tabindex: "0", role: "region", "aria-label": `Values of ${base.path}`, onkeydown: (event) => this.key(event, [rows, columns]) }, h("table", {}, h("thead", {}, head), h("tbody", {}, body))));
    this.host.dataset.drawn = String(Number(this.host.dataset.drawn ?? 0) + 1);
  }

  pager(which, { axis, start, count: shown }) {
    const { base } = this.look;
    if (axis === null || base.shape[axis] <= (which ? COLUMNS : ROWS)) return null;
    const name = base.name(axis);
    const go = (text, label, to) => h("button", { type: "button", class: "quiet", name: `page-${which}-${text}`, "aria-label": label, disabled: to === null, onclick: () => this.turn(which, to) }, text);
    const page = which ? COLUMNS : ROWS;
    const past = start + shown;
    return h("div", { class: "buttons pager" }, go("‹", `${name}: previous`, start > 0 ? Math.max(0, start - page) : null),
      h("span", {}, `${name} ${count(start)} to ${count(past - 1)} of ${count(base.shape[axis])}`), go("›", `${name}: next`, past < base.shape[axis] ? past : null));
  }

  async turn(which, to) {
    this.first[which] = to;
    await this.look.load();
    this.host.querySelector(".grid").focus();
  }

  /** Page up and down turn the page of rows, with Shift that of columns; Home and End show the first and last rows. */
  key(event, spans) {
    const which = event.shiftKey ? 1 : 0;
    const { axis, start, count: shown } = spans[which];
    if (axis === null) return;
    const { shape } = this.look.base;
    const page = which ? COLUMNS : ROWS;
    const to = { PageDown: start + page, PageUp: Math.max(0, start - page), Home: 0, End: Math.max(0, shape[axis] - page) }[event.key];
    if (to === undefined || to === start || to >= shape[axis] || (event.key === "PageDown" && start + shown >= shape[axis])) return;
    event.preventDefault();
    this.turn(which, to);
  }
}
