// Figures on a canvas: a frame with ticks, labels and titles around a picture or a line plot.
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
 * with `at` from 0 (left, bottom) to 1. Labels that would overlap are left out.
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
