// The table of a slice's values, and exports: values as CSV, figures as PNG.
import { readAxis, readBlock } from "./data.js";
import { count, download, fill, h } from "./dom.js";
import { ABOVE, drawHeading, resolved, sized } from "./figure.js";
import { nameOf, spell, spellStored, typeOf } from "./values.js";

const ROWS = 50;
const COLUMNS = 20;

/** The table; its first row and column are those of the page. */
export class Table {
  constructor(host, look) {
    Object.assign(this, { host, look, first: [0, 0] });
  }

  async load(signal) {
    const { base, view } = this.look;
    // A line is shown as a column.
    const axes = view.axes[0] === null ? [view.axes[1], null] : view.axes;
    const spans = axes.map((axis, which) => {
      if (axis === null) return { axis, start: 0, step: 1, count: 1 };
      const start = Math.min(this.first[which], base.shape[axis] - 1);
      return { axis, start, step: 1, count: Math.min(which ? COLUMNS : ROWS, base.shape[axis] - start) };
    });
    const selection = view.at.map((index, axis) => {
      const span = spans.find((each) => each.axis === axis);
      return span ? [span.start, span.start + span.count, 1] : index;
    });
    const [block, ...found] = await Promise.all([readBlock(base, selection, axes, null, signal), ...spans.map((span) => readAxis(base, span, signal))]);
    this.show(block, spans, found);
  }

  show(block, [rows, columns], [down, across]) {
    const { base } = this.look;
    const { fields } = base;
    const cell = (stored, text) => h("td", { class: /number|bigint/.test(typeof stored) ? "number" : "" }, text);
    const cells = ([element]) => {
      if (fields) return fields.map((each) => cell(element.stored[nameOf(each)], spellStored(element.stored[nameOf(each)], typeOf(each))));
      const text = exact(base, element);
      return !text && base.isNumeric ? h("td", { class: "mute" }, "no data") : cell(element.stored, text);
    };
    const label = (axis, n) => (axis ? axis.plain(n).replace("T", " ") : "value");
    const numbers = (length, each) => Array.from({ length }, (_, n) => each(n));
    // Of structures, each member has a column.
    const heading = (x) => (fields ? fields.map((each) => (columns.axis === null ? nameOf(each) : `${label(across, x)} ${nameOf(each)}`)) : [label(across, x)]);
    const head = h("tr", {}, h("th", { scope: "col" }, [down?.name, across?.name].filter(Boolean).join(" \\ ") || "value"), numbers(columns.count, (x) => heading(x).map((text) => h("th", { scope: "col" }, text))));
    const body = numbers(rows.count, (y) => h("tr", {}, h("th", { scope: "row" }, label(down, y)), numbers(columns.count, (x) => cells(block.at(y, x)))));
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

/** Maximum number of values in a CSV file. */
const VALUES = 1 << 20;
/** Pixels of an exported figure per CSS pixel. */
const RATIO = 2;

/** Returns the name of a file with an array. */
const fileOf = ({ base }, extension) => `${base.path.split("/").filter(Boolean).join("_") || "values"}.${extension}`.replace(/[^\p{L}\p{N}._-]+/gu, "_");

/** Formats an element with all of its digits; returns an empty text for missing data. */
function exact({ isNumeric, means, type }, { stored, value }) {
  if (!isNumeric || Array.isArray(stored)) return spellStored(stored, type);
  if (value !== value) return "";
  return means.packed ? spell(value) : spellStored(stored, type);
}

/** A number as CSV has it, which spreadsheets do not take for a formula. */
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$|^-?Infinity$/i;

/** Quotes a field (RFC 4180). A leading character that spreadsheets take for a formula is preceded by an apostrophe, except in numbers. */
function field(text) {
  const safe = /^[=+@\t\r-]/.test(text) && !NUMBER.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/**
 * Saves the slice as CSV: a row for each value, with its coordinates. All elements of the window are read, in an array
 * of more than a million every n-th. Values are decoded as xarray does; missing ones are empty.
 */
export async function exportCsv(look) {
  const { base, view } = look;
  const axes = view.axes.filter((axis) => axis !== null);
  const whole = axes.map((axis) => look.part(axis).map((part, end) => (end ? Math.ceil(part * base.shape[axis] - 1e-6) : Math.floor(part * base.shape[axis] + 1e-6))));
  const all = whole.reduce((product, [from, past]) => product * (past - from), 1);
  const step = Math.ceil((all / VALUES) ** (1 / Math.max(1, axes.length)));
  const spans = axes.map((axis, n) => ({ axis, start: whole[n][0], step, count: Math.ceil((whole[n][1] - whole[n][0]) / step) }));
  const bands = view.mode === "picture" && view.bands ? view.bands.numbers : [null];
  const parts = await Promise.all(bands.map((band) => rows(look, spans, band)));
  const names = spans.toSorted((one, other) => one.axis - other.axis).map(({ axis }) => base.name(axis));
  const header = [...(bands[0] === null ? [] : [base.name(view.bands.axis)]), ...names, ...(base.fields?.map(nameOf) ?? [look.node.name])].map(field).join(",");
  download(new Blob([`${header}\r\n`, ...parts], { type: "text/csv;charset=utf-8" }), fileOf(look, "csv"));
  return step > 1 ? `Saved one in ${step} elements along each axis: the slice has more than a million.` : "Saved all elements.";
}

async function rows(look, spans, band) {
  const { base, view, signal } = look;
  const selection = view.at.map((index, axis) => {
    const span = spans.find((each) => each.axis === axis);
    if (span) return [span.start, span.start + (span.count - 1) * span.step + 1, span.step];
    return axis === view.bands?.axis && band !== null ? band : index;
  });
  const inOrder = spans.toSorted((one, other) => one.axis - other.axis);
  const shown = [null, null, ...inOrder.map(({ axis }) => axis)].slice(-2);
  const [block, ...axes] = await Promise.all([readBlock(base, selection, shown, null, signal), ...inOrder.map((span) => readAxis(base, span, signal))]);
  const labels = axes.map((axis) => Array.from({ length: axis.span.count }, (_, n) => field(axis.plain(n))));
  const before = band === null ? "" : `${band},`;
  const lines = [];
  for (let y = 0; y < block.height; y += 1) {
    for (let x = 0; x < block.width; x += 1) {
      const place = labels.map((each, n) => `${each[labels.length > 1 && n === 0 ? y : x]},`).join("");
      const [element] = block.at(y, x);
      const texts = base.fields ? base.fields.map((each) => spellStored(element.stored[nameOf(each)], typeOf(each))) : [exact(base, element)];
      lines.push(`${before}${place}${texts.map(field).join(",")}\r\n`);
    }
  }
  return lines.join("");
}

/** Saves the figure as PNG: title, axes, picture or map, and colour bar with units. */
export async function exportPng(look) {
  if (!look.slice || (look.isMap() && !look.map)) throw new Error("The values are not read yet.");
  const { map, histogram } = look;
  const canvas = document.createElement("canvas");
  look.draw({ ratio: RATIO });
  const figure = look.isLine() ? look.canvas : look.frame;
  const { box, at, width } = map ? { box: { left: 8, top: ABOVE, width: map.data.clientWidth, height: map.data.clientHeight }, width: map.data.clientWidth + 16 } : look.planned ?? { width: figure.clientWidth };
  const height = map ? box.top + box.height + 8 : figure.clientHeight;
  const colours = resolved(look.host);
  const context = sized(canvas, width, height + (histogram ? histogram.canvas.clientHeight + 6 : 0), RATIO);
  context.fillStyle = colours.ground;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingEnabled = false;
  if (map) drawHeading(context, look.heading(), width, colours);
  else context.drawImage(figure, 0, 0, figure.clientWidth, height);
  if (histogram) context.drawImage(histogram.canvas, 0, height, histogram.canvas.clientWidth, histogram.canvas.clientHeight);
  if (box) {
    context.beginPath();
    context.rect(box.left, box.top, box.width, box.height);
    context.clip();
    if (map) for (const layer of [map.data, map.overlay]) context.drawImage(layer, box.left, box.top, box.width, box.height);
    else context.drawImage(look.canvas, box.left + at.left, box.top + at.top, at.width, at.height);
  }
  look.draw();
  download(await new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); }), fileOf(look, "png"));
  return "Saved the figure.";
}
