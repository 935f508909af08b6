// Positions of an array's chunks: a strip per file with chunks coloured by their order in the grid, and a magnified
// view.
import { address, json } from "./api.js";
import { css, table } from "./colour.js";
import { count, fill, h, onTheme, plural, size } from "./dom.js";

const HEIGHT = 34;
/** Number of chunks that the magnified view shows on either side. */
const AROUND = 12;
/** Maximum number of files to draw; the others are only counted. */
const FILES = 12;

/** Draws the picture for an array of a source. */
export async function drawLayout(host, source, path, signal) {
  fill(host, h("p", { class: "mute" }, "Reading the chunk table …"));
  const layout = await json(address("chunks", { url: source, array: path, format: "zarr3-json" }), { signal });
  fill(host, summary(layout), strips(layout, signal), notes(layout));
}

function summary(layout) {
  const { length } = layout.chunks;
  if (!length.length) return h("p", {}, layout.inline ? "All chunks are carried inline; none lies in the file." : "No chunk is stored: the array reads as its fill value.");
  const sorted = Float64Array.from(length).sort();
  const sum = sorted.reduce((all, each) => all + each, 0);
  const range = sorted[0] === sorted.at(-1) ? `${size(sorted[0])} each` : `${size(sorted[0])} to ${size(sorted.at(-1))}, median ${size(sorted[sorted.length >> 1])}`;
  return h("p", {}, `${plural(length.length, "chunk")} drawn, ${range}; ${size(sum)} in all. `,
    h("span", { class: "mute" }, length.length < 2 ? "" : inOrder(layout) ? "They lie in the order of the grid." : "They do not lie in the order of the grid."));
}

function inOrder({ chunks }) {
  return chunks.offset.every((offset, n) => n === 0 || chunks.source[n] !== chunks.source[n - 1] || offset >= chunks.offset[n - 1]);
}

function notes(layout) {
  const said = [];
  if (layout.step > 1) said.push(`${plural(layout.stored, "chunk")} are stored; one in ${count(layout.step)} is drawn.`);
  if (layout.inline) said.push(`${plural(layout.inline, "chunk")} carried inline ${layout.inline === 1 ? "lies" : "lie"} in no file.`);
  const missing = layout.count - layout.stored;
  if (missing > 0) said.push(`${plural(missing, "chunk")} of the grid ${missing === 1 ? "is" : "are"} missing and ${missing === 1 ? "reads" : "read"} as the fill value.`);
  return said.map((text) => h("p", { class: "mute" }, text));
}

function strips(layout, signal) {
  const by = new Map();
  layout.chunks.source.forEach((source, n) => {
    if (!by.has(source)) by.set(source, []);
    by.get(source).push(n);
  });
  const drawn = [...by].slice(0, FILES).map(([source, rows]) => strip(layout, layout.sources[source], rows, signal));
  if (by.size > FILES) drawn.push(h("p", { class: "mute" }, `${count(by.size - FILES)} more files are not drawn.`));
  return [drawn, by.size ? legend(layout) : null];
}

/** Omits the darkest part of the colour map, so that chunks stand out from the background of either theme. */
const shade = (place) => css(table("viridis")[Math.round(255 * (0.2 + 0.8 * place))]);

function legend(layout) {
  if (layout.count < 2) return null;
  const bar = h("span", { class: "ramp", "aria-hidden": "true" });
  bar.style.background = `linear-gradient(90deg, ${[0, 0.2, 0.4, 0.6, 0.8, 1].map(shade).join(", ")})`;
  return h("p", { class: "legend mute" }, "first chunk of the grid ", bar, ` last (${count(layout.count - 1)}); grey: other bytes of the file`);
}

/** Returns the index of a chunk in the grid. */
export function indexOf(position, grid) {
  const index = [];
  for (let axis = grid.length - 1; axis >= 0; axis -= 1) {
    index.unshift(position % grid[axis]);
    position = Math.floor(position / grid[axis]);
  }
  return index;
}

/** Draws one file: a strip of all its bytes, a magnified view, and a description of the selected chunk. */
function strip(layout, file, rows, signal) {
  const { chunks } = layout;
  rows.sort((left, right) => chunks.offset[left] - chunks.offset[right]);
  const past = rows.reduce((most, n) => Math.max(most, chunks.offset[n] + chunks.length[n]), 1);
  const whole = Math.max(file.size ?? 0, past);
  const canvas = h("canvas", { class: "strip", height: HEIGHT, "aria-hidden": "true" });
  const close = h("canvas", { class: "strip close", height: HEIGHT, "aria-hidden": "true" });
  const words = h("output", { class: "readout", "aria-live": "off" });
  const box = h("div", {
    class: "strips", role: "slider", tabindex: "0", "aria-label": `Chunks of ${file.url.split("/").at(-1)} in the order of the file`,
    "aria-valuemin": 1, "aria-valuemax": rows.length,
  }, canvas, h("div", { class: "scale mute", "aria-hidden": "true" }, h("span", {}, "0"), h("span", {}, size(whole))), close);
  const state = { chosen: 0 };
  const colour = (n) => shade(layout.count > 1 ? chunks.position[n] / (layout.count - 1) : 0.5);

  function choose(at) {
    state.chosen = Math.min(rows.length - 1, Math.max(0, at));
    const n = rows[state.chosen];
    const text = `chunk (${indexOf(chunks.position[n], layout.grid).join(", ")}) · offset ${count(chunks.offset[n])} · ${plural(chunks.length[n], "byte")} · ${count(state.chosen + 1)} of ${count(rows.length)} in the file`;
    words.textContent = text;
    box.setAttribute("aria-valuenow", state.chosen + 1);
    box.setAttribute("aria-valuetext", text);
    paint();
  }

  function paint() {
    paintWhole(canvas, rows, chunks, whole, colour, rows[state.chosen]);
    paintClose(close, rows, chunks, colour, state.chosen);
  }

  const at = (event) => {
    const place = (event.clientX - canvas.getBoundingClientRect().left) / canvas.clientWidth;
    return nearest(rows, chunks, place * whole);
  };
  canvas.addEventListener("pointermove", (event) => choose(at(event)));
  canvas.addEventListener("pointerdown", (event) => choose(at(event)));
  close.addEventListener("pointerdown", (event) => choose(state.chosen + closeStep(close, rows, chunks, state.chosen, event)));
  box.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.round(rows.length / 50));
    const to = { ArrowRight: state.chosen + 1, ArrowUp: state.chosen + 1, ArrowLeft: state.chosen - 1, ArrowDown: state.chosen - 1, PageUp: state.chosen + page, PageDown: state.chosen - page, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(to);
  });
  new ResizeObserver(paint).observe(canvas);
  onTheme(paint, signal);
  choose(0);
  return h("figure", { class: "file" }, h("figcaption", {}, h("code", {}, file.url), file.size ? h("span", { class: "mute" }, ` ${size(file.size)}`) : null), box, words);
}

/** Returns the chunk that contains a byte, otherwise the nearest one. */
function nearest(rows, chunks, byte) {
  let low = 0;
  let high = rows.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (chunks.offset[rows[middle]] <= byte) low = middle;
    else high = middle - 1;
  }
  const gap = (n) => (n < rows.length ? Math.max(chunks.offset[rows[n]] - byte, byte - chunks.offset[rows[n]] - chunks.length[rows[n]], 0) : Infinity);
  return gap(low + 1) < gap(low) ? low + 1 : low;
}

function surface(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.max(1, Math.round(canvas.clientWidth * ratio));
  const height = Math.round(HEIGHT * ratio);
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, width, height);
  const style = getComputedStyle(canvas);
  return { context, width, height, ratio, ink: style.color, ground: style.caretColor };
}

/** Draws all bytes of a file. A chunk is at least one pixel wide; of several in one pixel, the first is visible. */
function paintWhole(canvas, rows, chunks, whole, colour, chosen) {
  const { context, width, height, ratio, ink } = surface(canvas);
  let painted = 0;
  for (const n of rows) {
    const from = Math.max(painted, Math.floor((chunks.offset[n] / whole) * width));
    const to = Math.max(Math.floor((chunks.offset[n] / whole) * width) + 1, Math.round(((chunks.offset[n] + chunks.length[n]) / whole) * width));
    if (to <= from) continue;
    context.fillStyle = colour(n);
    context.fillRect(from, 0, to - from, height);
    painted = to;
  }
  const left = (chunks.offset[chosen] / whole) * width;
  const wide = Math.max(2 * ratio, (chunks.length[chosen] / whole) * width);
  context.strokeStyle = ink;
  context.lineWidth = 2 * ratio;
  context.strokeRect(Math.min(left, width - wide), ratio, wide, height - 2 * ratio);
}

function around(rows, chunks, chosen) {
  const near = rows.slice(Math.max(0, chosen - AROUND), chosen + AROUND + 1);
  const from = chunks.offset[near[0]];
  const to = near.reduce((most, n) => Math.max(most, chunks.offset[n] + chunks.length[n]), from + 1);
  return { near, from, to, first: Math.max(0, chosen - AROUND) };
}

/** Draws the neighbouring chunks, with gaps to scale. */
function paintClose(canvas, rows, chunks, colour, chosen) {
  const { context, width, height, ratio, ink, ground } = surface(canvas);
  const { near, from, to } = around(rows, chunks, chosen);
  for (const n of near) {
    const left = ((chunks.offset[n] - from) / (to - from)) * width;
    const wide = Math.max(ratio, (chunks.length[n] / (to - from)) * width);
    context.fillStyle = colour(n);
    context.fillRect(left, 0, wide, height);
    context.fillStyle = ground;
    context.fillRect(left, 0, Math.min(ratio, wide / 4), height);
    if (n !== rows[chosen]) continue;
    context.strokeStyle = ink;
    context.lineWidth = 3 * ratio;
    context.strokeRect(left + 1.5 * ratio, 1.5 * ratio, Math.max(1, wide - 3 * ratio), height - 3 * ratio);
  }
}

function closeStep(canvas, rows, chunks, chosen, event) {
  const { from, to } = around(rows, chunks, chosen);
  const place = (event.clientX - canvas.getBoundingClientRect().left) / canvas.clientWidth;
  return nearest(rows, chunks, from + place * (to - from)) - chosen;
}
