// Figures on a canvas: a frame with ticks, labels and titles around a picture or a line plot; the picture of a slice.
import { paint, paintBands } from "./colour.js";
import { visible } from "./dom.js";

export const FONT = 12;

/** Resolves colours that depend on the theme, such as `light-dark(…)`, for a canvas. */
export function resolved(host) {
  const probe = host.ownerDocument.createElement("span");
  host.append(probe);
  const colour = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const style = getComputedStyle(host);
  const found = { ink: style.color, mute: colour("--mute"), line: colour("--line"), strong: colour("--strong-line"), ground: colour("--panel"), accent: colour("--accent"), family: style.fontFamily };
  probe.remove();
  return found;
}

/** Sizes a canvas in CSS pixels, and returns a context that draws in them. */
export function sized(canvas, width, height, ratio = window.devicePixelRatio || 1) {
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(canvas.width / Math.max(1, width), canvas.height / Math.max(1, height));
  return context;
}

/** Returns the width of the longest text. */
export function widest(context, texts, family, size = FONT) {
  context.font = `${size}px ${family}`;
  return texts.reduce((most, text) => Math.max(most, context.measureText(text).width), 0);
}

/** Shortens a text to a width, and escapes invisible characters. */
export function shortened(context, name, width) {
  const text = visible(name);
  if (context.measureText(text).width <= width) return text;
  let letters = [...text].slice(0, 400);
  while (letters.length && context.measureText(`${letters.join("")}…`).width > width) letters = letters.slice(0, Math.floor(letters.length * 0.95));
  return `${letters.join("")}…`;
}

/**
 * Draws the axes around a box `{left, top, width, height}`. `x` and `y` are `{title, ticks}`; ticks are `{at, label}`
 * with `at` from 0 (left, bottom) to 1. Labels that would overlap are omitted.
 */
export function drawAxes(context, box, { x, y, grid = false }, colours) {
  const { left, top, width, height } = box;
  const bottom = top + height;
  context.lineWidth = 1;
  context.strokeStyle = colours.line;
  if (grid) drawGrid(context, box, x, y);
  context.strokeStyle = colours.strong;
  context.strokeRect(left - 0.5, top - 0.5, width + 1, height + 1);
  context.font = `${FONT}px ${colours.family}`;
  if (x) drawBottom(context, { left, bottom, width }, x, colours);
  if (y) drawLeft(context, { left, top, height }, y, colours);
}

/** Draws the title of a figure of a width. */
export function drawHeading(context, heading, width, colours) {
  context.fillStyle = colours.ink;
  context.font = `600 ${FONT + 1}px ${colours.family}`;
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  context.fillText(shortened(context, heading, width - 4), 2, ABOVE - 10);
}

function drawGrid(context, { left, top, width, height }, x, y) {
  context.beginPath();
  for (const { at } of x?.ticks ?? []) { context.moveTo(Math.round(left + at * width) + 0.5, top); context.lineTo(Math.round(left + at * width) + 0.5, top + height); }
  for (const { at } of y?.ticks ?? []) { context.moveTo(left, Math.round(top + (1 - at) * height) + 0.5); context.lineTo(left + width, Math.round(top + (1 - at) * height) + 0.5); }
  context.stroke();
}

function drawBottom(context, { left, bottom, width }, { title, ticks }, colours) {
  context.textAlign = "center";
  context.textBaseline = "top";
  let past = -Infinity;
  for (const { at, label } of [...ticks].sort((one, other) => one.at - other.at)) {
    const place = left + at * width;
    context.fillStyle = colours.strong;
    context.fillRect(Math.round(place) - 0.5, bottom, 1, 5);
    const half = context.measureText(label).width / 2;
    const centre = Math.min(Math.max(place, half), left + width + 14 - half);
    if (centre - half < past + 10) continue;
    past = centre + half;
    context.fillStyle = colours.ink;
    context.fillText(label, centre, bottom + 8);
  }
  context.fillStyle = colours.mute;
  if (title) context.fillText(shortened(context, title, width), left + width / 2, bottom + 8 + FONT + 7);
}

function drawLeft(context, { left, top, height }, { title, ticks }, colours) {
  context.textAlign = "right";
  context.textBaseline = "middle";
  let past = Infinity;
  for (const { at, label } of [...ticks].sort((one, other) => one.at - other.at)) {
    const place = top + (1 - at) * height;
    context.fillStyle = colours.strong;
    context.fillRect(left - 5, Math.round(place) - 0.5, 5, 1);
    if (place > past - FONT - 3) continue;
    past = place;
    context.fillStyle = colours.ink;
    context.fillText(label, left - 8, place);
  }
  if (!title) return;
  context.save();
  context.translate(FONT - 2, top + height / 2);
  context.rotate(-Math.PI / 2);
  context.textAlign = "center";
  context.fillStyle = colours.mute;
  context.fillText(shortened(context, title, height), 0, 0);
  context.restore();
}

/** Margins below and above the box. */
export const BELOW = 8 + FONT + 7 + FONT + 4;
export const ABOVE = 26;
/** Margin on the left for labels of a width. */
export const leftOf = (labels) => Math.ceil(labels + FONT + 6 + 12);

/** Largest enlargement of an element, and largest height, in CSS pixels. */
const LARGEST = 24;
const RIGHT = 16;

/** Returns an `ImageData` of a slice. `shade` says how: `{range, scale, map, reverse, palette, bands, alpha}`. */
export function pixels(slice, shade, flip) {
  const { width, height, planes } = slice;
  if (!shade.bands) {
    const [low, high] = shade.range;
    return paint(planes[0], { ...shade, low, high, width, height, flip });
  }
  const bands = shade.bands.map(([low, high], n) => ({ values: planes[n], low, high }));
  return paintBands(bands, { width, height, flip, alpha: planes[3] ? { values: planes[3], low: 0, high: shade.opaque } : null });
}

/**
 * Returns the size of a part of an array in a figure of at most `room` × `most` CSS pixels: whole multiples of its
 * elements if they fit. A zoomed part is as large as the whole, if it has the same proportions.
 */
function scaled(window, whole, room, most) {
  const part = window.map(([from, past]) => past - from);
  const [height, width] = Math.abs(part[0] / whole[0] - part[1] / whole[1]) < 2 / Math.min(...whole) ? whole : part;
  let scale = Math.min(room / width, most / height, LARGEST);
  if (scale >= 2) scale = Math.floor(scale);
  const box = { width: width * scale, height: height * scale };
  // Long and narrow slices are stretched, so that they can be seen.
  if (box.height < 140) box.height = Math.min(140, most);
  if (box.width < 140) box.width = Math.min(140, room);
  return { width: Math.round(box.width), height: Math.round(box.height) };
}

/** Returns the ticks of a window as `{at, label}` from 0 (left, bottom) to 1. */
function ticksOf(axis, [from, past], most, isReversed) {
  if (!axis) return [];
  const { start, step } = axis.span;
  const place = (index) => (index - start) / step - 0.5;
  const at = (tick) => (start + (tick.place + 0.5) * step - from) / (past - from);
  return axis.ticks(Math.max(2, most), [place(from), place(past)]).map((tick) => ({ at: isReversed ? 1 - at(tick) : at(tick), label: tick.label })).filter((tick) => tick.at >= 0 && tick.at <= 1);
}

/** Plans a figure of the part of a slice in `window`: the box of the picture, and its axes. `whole`: rows and columns of the array. */
export function layout(context, slice, { room, most, flip, window, whole }, colours) {
  const [rows, columns] = slice.axes;
  const guess = scaled(window, whole, room - 60, most);
  const y = { title: rows?.title, ticks: ticksOf(rows, window[0], guess.height / 40, !flip) };
  const left = leftOf(widest(context, y.ticks.map(({ label }) => label), colours.family));
  const box = { left, top: ABOVE, ...scaled(window, whole, room - left - RIGHT, most) };
  const x = { title: columns?.title, ticks: ticksOf(columns, window[1], box.width / 84, false) };
  return { box, x, y, width: left + box.width + RIGHT, height: ABOVE + box.height + BELOW, at: placeIn(slice, window, box, flip) };
}

/** Returns where a slice is relative to the box that shows a window of the array. */
function placeIn({ plan: { spans } }, window, box, flip) {
  const [y, x] = spans.map(({ start, step, count }, n) => {
    const [from, past] = window[n];
    const ends = [start, start + count * step].map((index) => (index - from) / (past - from));
    return flip && n === 0 ? ends.map((end) => 1 - end).reverse() : ends;
  });
  return { left: x[0] * box.width, top: y[0] * box.height, width: (x[1] - x[0]) * box.width, height: (y[1] - y[0]) * box.height };
}

/** Draws the pixels of a slice into a canvas. */
export function drawPixels(canvas, slice, shade, flip) {
  Object.assign(canvas, { width: slice.width, height: slice.height });
  canvas.getContext("2d", { willReadFrequently: true }).putImageData(pixels(slice, shade, flip), 0, 0);
  canvas.dataset.drawn = String(Number(canvas.dataset.drawn ?? 0) + 1);
}

/** Draws the axes, and places the canvas of the pixels within `plate`. */
export function drawFrame({ figure, frame, plate, canvas }, slice, { flip, heading, window, whole }) {
  const colours = resolved(figure);
  const room = Math.max(240, figure.parentElement.clientWidth);
  const most = Math.max(240, Math.min(640, innerHeight * 0.68));
  const planned = layout(frame.getContext("2d"), slice, { room, most, flip, window, whole }, colours);
  const context = sized(frame, room, planned.height);
  drawAxes(context, planned.box, planned, colours);
  drawHeading(context, heading, room, colours);
  place(plate, planned.box);
  place(canvas, planned.at);
  figure.style.height = `${planned.height}px`;
  return planned;
}

/** Places an element, in CSS pixels. */
export function place(element, box) {
  for (const name of ["left", "top", "width", "height"]) element.style[name] = `${box[name]}px`;
}
