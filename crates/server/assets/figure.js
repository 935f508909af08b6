// Figures on a canvas: a frame with ticks, labels and titles around a picture or a line plot; the picture of a slice.
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
export function widest(context, texts, family) {
  context.font = `${FONT}px ${family}`;
  return texts.reduce((most, text) => Math.max(most, context.measureText(text).width), 0);
}

/** Shortens a text to a width, and escapes invisible characters. */
function shortened(context, name, width) {
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
  if (grid) {
    context.strokeStyle = colours.line;
    context.beginPath();
    for (const at of x.ticks.map((tick) => Math.round(left + tick.at * width) + 0.5)) { context.moveTo(at, top); context.lineTo(at, bottom); }
    for (const at of y.ticks.map((tick) => Math.round(bottom - tick.at * height) + 0.5)) { context.moveTo(left, at); context.lineTo(left + width, at); }
    context.stroke();
  }
  context.strokeStyle = colours.strong;
  context.strokeRect(left - 0.5, top - 0.5, width + 1, height + 1);
  drawBottom(context, { left, bottom, width }, x, colours);
  context.textAlign = "right";
  context.textBaseline = "middle";
  let past = Infinity;
  for (const { at, label } of [...y.ticks].sort((one, other) => one.at - other.at)) {
    const place = bottom - at * height;
    context.fillStyle = colours.strong;
    context.fillRect(left - 5, Math.round(place) - 0.5, 5, 1);
    if (place > past - FONT - 3) continue;
    past = place;
    context.fillStyle = colours.ink;
    context.fillText(label, left - 8, place);
  }
  if (!y.title) return;
  context.save();
  context.translate(FONT - 2, top + height / 2);
  context.rotate(-Math.PI / 2);
  context.textAlign = "center";
  context.fillStyle = colours.mute;
  context.fillText(shortened(context, y.title, height), 0, 0);
  context.restore();
}

/** Draws the title of a figure of a width. */
export function drawHeading(context, heading, width, colours) {
  context.fillStyle = colours.ink;
  context.font = `600 ${FONT + 1}px ${colours.family}`;
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  context.fillText(shortened(context, heading, width - 4), 2, ABOVE - 10);
}

/** Draws ticks and labels below a line, with units at its right end, and a title below. */
export function drawBottom(context, { left, bottom, width }, { title, units, ticks }, colours) {
  context.font = `${FONT}px ${colours.family}`;
  context.textBaseline = "top";
  const unit = units ? shortened(context, units, width / 2) : "";
  const end = unit ? left + width - context.measureText(unit).width - 14 : Infinity;
  context.fillStyle = colours.mute;
  context.textAlign = "right";
  context.fillText(unit, left + width + 8, bottom + 8);
  context.textAlign = "center";
  if (title) context.fillText(shortened(context, title, width), left + width / 2, bottom + 8 + FONT + 7);
  let past = -Infinity;
  for (const { at, label } of [...ticks].sort((one, other) => one.at - other.at)) {
    const place = left + at * width;
    context.fillStyle = colours.strong;
    context.fillRect(Math.round(place) - 0.5, bottom, 1, 5);
    const half = context.measureText(label).width / 2;
    const centre = Math.min(Math.max(place, half), left + width + 8 - half);
    if (centre - half < past + 9 || centre + half > end) continue;
    past = centre + half;
    context.fillStyle = colours.ink;
    context.fillText(label, centre, bottom + 8);
  }
}

/** Margins below and above the box. */
export const BELOW = 8 + FONT + 7 + FONT + 4;
export const ABOVE = 26;
/** Margin on the left for labels of a width. */
export const leftOf = (labels) => Math.ceil(labels + FONT + 6 + 12);

/** Largest enlargement of an element, and largest height, in CSS pixels. */
const LARGEST = 24;
const RIGHT = 16;

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

/**
 * Draws the axes of the part of a slice in `window`, and places the canvas of the pixels within `plate`. `whole`: rows
 * and columns of the array. Returns `{width, box, at}`: where the picture is, and where the slice is in it.
 */
export function drawFrame({ figure, frame, plate, canvas }, slice, { flip, heading, window, whole, ratio }) {
  const colours = resolved(figure);
  const room = Math.max(240, figure.parentElement.clientWidth);
  const most = Math.max(240, Math.min(640, innerHeight * 0.68));
  const [rows, columns] = slice.axes;
  const guess = scaled(window, whole, room - 60, most);
  const y = { title: rows?.title, ticks: ticksOf(rows, window[0], guess.height / 40, !flip) };
  const left = leftOf(widest(frame.getContext("2d"), y.ticks.map(({ label }) => label), colours.family));
  const box = { left, top: ABOVE, ...scaled(window, whole, room - left - RIGHT, most) };
  const x = { title: columns?.title, ticks: ticksOf(columns, window[1], box.width / 84, false) };
  const [down, across] = slice.plan.spans.map(({ start, step, count }, which) => {
    const [from, past] = window[which];
    const ends = [start, start + count * step].map((index) => (index - from) / (past - from));
    return flip && which === 0 ? ends.map((end) => 1 - end).reverse() : ends;
  });
  const at = { left: across[0] * box.width, top: down[0] * box.height, width: (across[1] - across[0]) * box.width, height: (down[1] - down[0]) * box.height };
  const height = ABOVE + box.height + BELOW;
  const context = sized(frame, room, height, ratio);
  drawAxes(context, box, { x, y }, colours);
  drawHeading(context, heading, room, colours);
  place(plate, box);
  place(canvas, at);
  figure.style.height = `${height}px`;
  return { width: left + box.width + RIGHT, box, at };
}

/** Places an element, in CSS pixels. */
export function place(element, box) {
  for (const name of ["left", "top", "width", "height"]) element.style[name] = `${box[name]}px`;
}
