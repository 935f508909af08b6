// The picture of a slice: its pixels, with axes and titles around them.
import { paint, paintBands } from "./colour.js";
import { ABOVE, BELOW, drawAxes, drawHeading, leftOf, resolved, sized, widest } from "./figure.js";

/** Largest enlargement of an element, and largest height, in CSS pixels. */
const LARGEST = 24;
const RIGHT = 16;

/** Returns an `ImageData` of a slice. `shade` says how: `{range, scale, map, reverse, palette, bands, alpha}`. */
export function pixels(slice, shade, flip) {
  const { width, height, planes } = slice;
  if (!shade.bands) {
    const [low, high] = shade.range;
    return paint(planes[0], null, { ...shade, low, high, width, height, flip });
  }
  const bands = shade.bands.map(([low, high], n) => ({ values: planes[n], low, high }));
  return paintBands(bands, null, { width, height, flip, alpha: planes[3] ? { values: planes[3], low: 0, high: shade.opaque } : null });
}

/**
 * Returns the size of a slice in a figure of at most `room` × `most` CSS pixels: whole multiples of its elements if
 * they fit. Elements between those that are shown count too, so that the proportions are those of the array.
 */
function scaled(slice, room, most) {
  const [height, width] = slice.axes.map((axis, n) => [slice.height, slice.width][n] * (axis?.span.step ?? 1));
  let scale = Math.min(room / width, most / height, LARGEST);
  if (scale >= 2) scale = Math.floor(scale);
  const box = { width: width * scale, height: height * scale };
  // Long and narrow slices are stretched, so that they can be seen.
  if (box.height < 140) box.height = Math.min(140, most);
  if (box.width < 140) box.width = Math.min(140, room);
  return { width: Math.round(box.width), height: Math.round(box.height) };
}

/** Returns ticks as `{at, label}` from 0 (left, bottom) to 1. */
function ticksOf(axis, most, isReversed) {
  if (!axis) return [];
  const { count } = axis.span;
  const at = ({ place, label }) => ({ at: isReversed ? 1 - (place + 0.5) / count : (place + 0.5) / count, label });
  return axis.ticks(Math.max(2, most)).map(at).filter((tick) => tick.at >= 0 && tick.at <= 1);
}

/** Plans a figure: the box of the picture, and its axes. */
export function layout(context, slice, { room, most, flip }, colours) {
  const [rows, columns] = slice.axes;
  const guess = scaled(slice, room - 60, most);
  const y = { title: rows?.title, ticks: ticksOf(rows, guess.height / 40, !flip) };
  const left = leftOf(widest(context, y.ticks.map(({ label }) => label), colours.family));
  const box = { left, top: ABOVE, ...scaled(slice, room - left - RIGHT, most) };
  const x = { title: columns?.title, ticks: ticksOf(columns, box.width / 84, false) };
  return { box, x, y, width: left + box.width + RIGHT, height: ABOVE + box.height + BELOW };
}

/** Draws the figure into its canvases. */
export function drawPicture({ figure, frame, canvas }, slice, shade, { flip, heading }) {
  canvas.width = slice.width;
  canvas.height = slice.height;
  canvas.getContext("2d", { willReadFrequently: true }).putImageData(pixels(slice, shade, flip), 0, 0);
  const colours = resolved(figure);
  const room = Math.max(240, figure.parentElement.clientWidth);
  const most = Math.max(240, Math.min(640, window.innerHeight * 0.68));
  const planned = layout(frame.getContext("2d"), slice, { room, most, flip }, colours);
  const context = sized(frame, room, planned.height);
  drawAxes(context, planned.box, planned, colours);
  drawHeading(context, heading, room, colours);
  const { left, top, width, height } = planned.box;
  Object.assign(canvas.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
  figure.style.height = `${planned.height}px`;
  canvas.dataset.drawn = String(Number(canvas.dataset.drawn ?? 0) + 1);
  return planned;
}
