// Line plots: the values along one axis.
import { numberTicks } from "./axes.js";
import { ABOVE, BELOW, drawAxes, drawHeading, leftOf, resolved, sized, widest } from "./figure.js";

/** Returns the range of finite values, widened by a twentieth. */
export function rangeOf(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return [0, 1];
  if (low === high) return [low - Math.abs(low || 1) * 0.05, high + Math.abs(high || 1) * 0.05];
  return [low - (high - low) * 0.04, high + (high - low) * 0.04];
}

/** Returns the places of samples from 0 to 1: by coordinate if coordinates are in order, otherwise by number. */
function places(axis) {
  const { count } = axis.span;
  if (!axis.isMonotonic) return { of: (n) => (count < 2 ? 0.5 : n / (count - 1)), ticks: (most) => axis.indexTicks(most).map(({ place, label }) => ({ at: count < 2 ? 0.5 : place / (count - 1), label })) };
  const [first, last] = [axis.values[0], axis.values.at(-1)];
  const [low, high] = first < last ? [first, last] : [last, first];
  const at = (value) => (value - low) / (high - low);
  const value = (place) => {
    const n = Math.min(count - 2, Math.max(0, Math.floor(place)));
    return axis.values[n] + (axis.values[n + 1] - axis.values[n]) * (place - n);
  };
  return { of: (n) => at(axis.values[n]), ticks: (most) => axis.ticks(most).map(({ place, label }) => ({ at: at(value(place)), label })) };
}

/**
 * Draws values along an axis, broken where there is no data, with a mark at the sample `cursor`. Returns a function
 * from a horizontal position in CSS pixels to the nearest sample.
 */
export function drawLine(canvas, { values, axis, range, heading, title, cursor = null, height = 260, scale = "linear", ratio = undefined, size = null }) {
  const width = size ?? Math.max(200, canvas.parentElement.clientWidth);
  const colours = resolved(canvas);
  const context = sized(canvas, width, height, ratio);
  if (ratio) { context.fillStyle = colours.ground; context.fillRect(0, 0, width, height); }
  const isLog = scale === "log" && range[1] > 0;
  const [low, high] = isLog ? [Math.log10(Math.max(range[0], range[1] / 1e12, Number.MIN_VALUE)), Math.log10(range[1])] : range;
  const up = (value) => ((isLog ? (value > 0 ? Math.log10(value) : NaN) : value) - low) / (high - low || 1);
  const yTicks = (isLog ? decades(low, high) : numberTicks(low, high, height / 45)).map(({ value, label }) => ({ at: up(value), label }));
  const left = leftOf(widest(context, yTicks.map(({ label }) => label), colours.family));
  const box = { left, top: heading ? ABOVE : 10, width: width - left - 14, height: height - (heading ? ABOVE : 10) - BELOW };
  const along = places(axis);
  const edge = 6;
  const x = (n) => box.left + edge + along.of(n) * (box.width - 2 * edge);
  const y = (value) => box.top + (1 - up(value)) * box.height;
  const inner = along.ticks(box.width / 90).map(({ at, label }) => ({ at: (edge + at * (box.width - 2 * edge)) / box.width, label }));
  drawAxes(context, box, { x: { title: axis.title, ticks: inner }, y: { title, ticks: yTicks }, grid: true }, colours);
  if (heading) drawHeading(context, heading, width, colours);
  context.save();
  context.beginPath();
  context.rect(box.left, box.top, box.width, box.height);
  context.clip();
  stroke(context, values, x, y, colours);
  if (cursor !== null && cursor < values.length) mark(context, box, x(cursor), y(values[cursor]), colours);
  context.restore();
  canvas.dataset.drawn = String(Number(canvas.dataset.drawn ?? 0) + 1);
  return (place) => nearest((n) => x(n), values.length, place);
}

function decades(low, high) {
  const found = [];
  for (let n = Math.ceil(low); n <= high; n += 1) found.push({ value: 10 ** n, label: n >= -3 && n <= 5 ? String(Number((10 ** n).toPrecision(3))) : `1e${n}` });
  return found.length > 1 ? found : numberTicks(10 ** low, 10 ** high, 4);
}

/** Strokes the line. Of many samples in one column of pixels, the extremes are drawn. */
function stroke(context, values, x, y, colours) {
  context.strokeStyle = colours.accent;
  context.fillStyle = colours.accent;
  context.lineWidth = 1.5;
  context.lineJoin = "round";
  context.beginPath();
  let drawing = false;
  let column = null;
  const flush = () => {
    if (!column) return;
    if (drawing) context.lineTo(column.x, column.first);
    else context.moveTo(column.x, column.first);
    if (column.low !== column.high) { context.lineTo(column.x, column.low); context.lineTo(column.x, column.high); context.lineTo(column.x, column.last); }
    drawing = true;
    column = null;
  };
  const isDense = values.length > 4000;
  for (let n = 0; n < values.length; n += 1) {
    const value = y(values[n]);
    if (!Number.isFinite(value)) { flush(); drawing = false; continue; }
    const at = isDense ? Math.round(x(n) * 2) / 2 : x(n);
    if (column && column.x === at) Object.assign(column, { low: Math.min(column.low, value), high: Math.max(column.high, value), last: value });
    else { flush(); column = { x: at, first: value, low: value, high: value, last: value }; }
  }
  flush();
  context.stroke();
  if (values.length <= 200) for (let n = 0; n < values.length; n += 1) if (Number.isFinite(y(values[n]))) dot(context, x(n), y(values[n]), 2);
}

function dot(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}

function mark(context, { top, height }, x, y, colours) {
  context.fillStyle = colours.ink;
  context.fillRect(Math.round(x) - 0.5, top, 1, height);
  if (Number.isFinite(y)) dot(context, x, y, 4);
}

/** Finds the sample whose position is nearest; positions are in order, up or down. */
function nearest(x, count, place) {
  let [low, high] = [0, count - 1];
  const upward = x(0) <= x(high);
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((x(middle) <= place) === upward) low = middle;
    else high = middle;
  }
  return Math.abs(x(low) - place) <= Math.abs(x(high) - place) ? low : Math.max(0, high);
}
