// The scale bar of a map.

/** Returns a round length that takes at most `most` pixels: `{pixels, label}`. `perPixel`: kilometres, or units if there is a name for them. */
export function scaleBar(perPixel, most, unit = null) {
  const all = perPixel * most;
  const power = 10 ** Math.floor(Math.log10(all));
  const length = [5, 2, 1].find((each) => each * power <= all) * power;
  const shown = (value) => String(Number(value.toPrecision(3)));
  const label = unit ? `${shown(length)} ${unit}` : length >= 1 ? `${shown(length)} km` : `${shown(length * 1000)} m`;
  return { pixels: length / perPixel, label };
}

/** Draws a scale bar in the lower right corner. */
export function drawBar(context, { width, height }, { pixels, label }) {
  const [right, bottom] = [width - 12, height - 10];
  context.textAlign = "right";
  for (const [line, colour] of [[4, "rgb(0 0 0 / .65)"], [2, "#fff"]]) {
    context.lineWidth = line;
    context.strokeStyle = colour;
    context.beginPath();
    context.moveTo(right - pixels, bottom - 5);
    context.lineTo(right - pixels, bottom);
    context.lineTo(right, bottom);
    context.lineTo(right, bottom - 5);
    context.stroke();
  }
  context.lineWidth = 3;
  context.strokeStyle = "rgb(0 0 0 / .65)";
  context.strokeText(label, right, bottom - 9);
  context.fillStyle = "#fff";
  context.fillText(label, right, bottom - 9);
  context.textAlign = "left";
}
