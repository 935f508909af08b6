// The table of a slice's values, and exports: values as CSV, figures as PNG.
import { readAxis } from "./axes.js";
import { coordinatesOf } from "./data.js";
import { count, fill, h } from "./dom.js";
import { ABOVE, drawAxes, drawHeading, layout, pixels, resolved, sized } from "./figure.js";
import { BAR, drawBar } from "./histogram.js";
import { drawLine } from "./plot.js";
import { nameOf, spell, spellStored, typeOf } from "./values.js";

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
    const { fields } = base;
    const cell = (n, each) => {
      const stored = each ? elements.at(n)[nameOf(each)] : elements.at(n);
      if (each || !values || Array.isArray(stored)) return h("td", { class: typeof stored === "number" || typeof stored === "bigint" ? "number" : "" }, spellStored(stored, each ? typeOf(each) : base.type));
      if (values[n] !== values[n]) return h("td", { class: "mute" }, "no data");
      return h("td", { class: "number" }, base.means.packed ? spell(values[n]) : spellStored(stored, base.type));
    };
    const label = (axis, n) => (axis ? axis.plain(n).replace("T", " ") : "value");
    const numbers = (length, each) => Array.from({ length }, (_, n) => each(n));
    // Of structures, each member has a column.
    const heading = (x) => (fields ? fields.map((each) => (columns.axis === null ? nameOf(each) : `${label(across, x)} ${nameOf(each)}`)) : [label(across, x)]);
    const head = h("tr", {}, h("th", { scope: "col" }, [down?.name, across?.name].filter(Boolean).join(" \\ ") || "value"), numbers(columns.count, (x) => heading(x).map((text) => h("th", { scope: "col" }, text))));
    const body = numbers(rows.count, (y) => h("tr", {}, h("th", { scope: "row" }, label(down, y)), numbers(columns.count, (x) => (fields ?? [null]).map((each) => cell(at(y, x), each)))));
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
/** Size of an exported figure in pixels, at two pixels per CSS pixel. */
const WIDE = 900;
const RATIO = 2;

function download(blob, look, extension) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${look.base.path.split("/").filter(Boolean).join("_") || "values"}.${extension}`.replace(/[^\p{L}\p{N}._-]+/gu, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A number as CSV has it, which spreadsheets do not take for a formula. */
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$|^-?Infinity$/i;

/** Quotes a field (RFC 4180). A leading character that spreadsheets take for a formula is preceded by an apostrophe, except in numbers. */
export function field(text) {
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
  const names = spans.slice().sort((one, other) => one.axis - other.axis).map(({ axis }) => base.name(axis));
  const header = [...(bands[0] === null ? [] : [base.name(view.bands.axis)]), ...names, ...(base.fields?.map(nameOf) ?? [look.node.name])].map(field).join(",");
  download(new Blob([`${header}\r\n`, ...parts], { type: "text/csv;charset=utf-8" }), look, "csv");
  return step > 1 ? `Saved one in ${step} elements along each axis: the slice has more than a million.` : "Saved all elements.";
}

async function rows(look, spans, band) {
  const { base, view, signal } = look;
  const selection = view.at.map((index, axis) => {
    const span = spans.find((each) => each.axis === axis);
    if (span) return [span.start, span.start + (span.count - 1) * span.step + 1, span.step];
    return axis === view.bands?.axis && band !== null ? band : index;
  });
  const inOrder = spans.slice().sort((one, other) => one.axis - other.axis);
  const [elements, ...axes] = await Promise.all([base.read(selection, signal), ...inOrder.map((span) => readAxis(base, span.axis, span, coordinatesOf(base, span.axis), signal))]);
  const labels = axes.map((axis) => Array.from({ length: axis.span.count }, (_, n) => field(axis.plain(n))));
  const values = base.isNumeric ? elements.physical(base.means) : null;
  const text = (n) => {
    const stored = elements.at(n);
    if (base.fields) return base.fields.map((each) => field(spellStored(stored[nameOf(each)], typeOf(each)))).join(",");
    if (!values || Array.isArray(stored)) return field(spellStored(stored, base.type));
    if (values[n] !== values[n]) return "";
    return base.means.packed ? spell(values[n]) : spellStored(stored, base.type);
  };
  const lines = [];
  const inner = labels.at(-1)?.length ?? 1;
  for (let n = 0; n < elements.length; n += 1) {
    const place = labels.length > 1 ? `${labels[0][Math.floor(n / inner)]},${labels[1][n % inner]},` : labels.length ? `${labels[0][n]},` : "";
    lines.push(`${band === null ? "" : `${band},`}${place}${text(n)}\r\n`);
  }
  return lines.join("");
}

/** Saves the figure as PNG: title, axes, picture or map, and colour bar with units. */
export async function exportPng(look) {
  const canvas = document.createElement("canvas");
  look.host.append(canvas);
  try {
    if (look.isLine()) drawLine(canvas, { ...look.series(), cursor: null, ratio: RATIO, height: 420, size: WIDE });
    else await compose(canvas, look);
  } finally {
    canvas.remove();
  }
  const blob = await new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });
  download(blob, look, "png");
  return "Saved the figure.";
}

async function compose(canvas, look) {
  const shade = look.shade();
  const colours = resolved(look.host);
  const { map } = look;
  const planned = map
    ? { box: { left: 8, top: ABOVE, width: map.data.clientWidth, height: map.data.clientHeight }, width: map.data.clientWidth + 16, height: map.data.clientHeight + ABOVE + 8 }
    : layout(canvas.getContext("2d"), look.slice, { room: WIDE, most: 700, flip: look.view.flip, ...look.frameOf() }, colours);
  const bar = shade.bands || shade.palette ? 0 : BAR + 14;
  const context = sized(canvas, planned.width, planned.height + bar, RATIO);
  context.fillStyle = colours.ground;
  context.fillRect(0, 0, planned.width, planned.height + bar);
  drawHeading(context, look.heading(), planned.width, colours);
  context.imageSmoothingEnabled = false;
  const { left, top, width, height } = planned.box;
  if (map) for (const layer of [map.data, map.overlay]) context.drawImage(layer, left, top, width, height);
  else {
    drawAxes(context, planned.box, planned, colours);
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    context.drawImage(await createImageBitmap(pixels(look.slice, shade, look.view.flip)), left + planned.at.left, top + planned.at.top, planned.at.width, planned.at.height);
    context.restore();
  }
  if (bar) drawBar(context, { left, top: planned.height + 6, width }, { ...look.histogram, ...shade, extent: look.histogram.extent() }, colours);
}
