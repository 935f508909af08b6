// Exports: the values of a slice as CSV, and its figure as PNG.
import { readAxis } from "./axes.js";
import { drawAxes, drawHeading, resolved, sized } from "./figure.js";
import { BAR, drawBar } from "./histogram.js";
import { drawLine, rangeOf } from "./lines.js";
import { layout, pixels } from "./picture.js";
import { coordinatesOf } from "./slice.js";
import { spell, spellStored } from "./values.js";

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

/** Quotes a field (RFC 4180). A leading character that spreadsheets take for a formula is preceded by an apostrophe. */
function field(text) {
  const safe = /^[=+@\t\r]/.test(text) || /^-(?![\d.]|Infinity)/.test(text) ? `'${text}` : text;
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
  const header = [...(bands[0] === null ? [] : [base.name(view.bands.axis)]), ...names, look.node.name].map(field).join(",");
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

/** Saves the figure as PNG: title, axes, picture, and colour bar with units. */
export async function exportPng(look) {
  const canvas = document.createElement("canvas");
  look.figure.append(canvas);
  try {
    if (look.isLine()) {
      const values = look.slice.planes[0];
      drawLine(canvas, { values, axis: look.slice.axes[1], range: look.view.range ?? rangeOf(values), heading: look.heading(), title: String(look.base.attributes.units ?? ""), scale: look.view.scale, ratio: RATIO, height: 420, size: WIDE });
    } else {
      await compose(canvas, look);
    }
  } finally {
    canvas.remove();
  }
  const blob = await new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });
  download(blob, look, "png");
  return "Saved the figure.";
}

async function compose(canvas, look) {
  const shade = look.shade();
  const colours = resolved(look.figure);
  const planned = layout(canvas.getContext("2d"), look.slice, { room: WIDE, most: 700, flip: look.view.flip }, colours);
  const bar = shade.bands || shade.palette ? 0 : BAR + 14;
  const context = sized(canvas, planned.width, planned.height + bar, RATIO);
  context.fillStyle = colours.ground;
  context.fillRect(0, 0, planned.width, planned.height + bar);
  drawAxes(context, planned.box, planned, colours);
  drawHeading(context, look.heading(), planned.width, colours);
  context.imageSmoothingEnabled = false;
  const { left, top, width, height } = planned.box;
  const bitmap = await createImageBitmap(pixels(look.slice, shade, look.view.flip));
  context.drawImage(bitmap, left, top, width, height);
  if (bar) drawBar(context, { left, top: planned.height + 6, width }, { ...look.histogram, ...shade, extent: look.histogram.extent() }, colours);
}
