// Draws arrays with one axis as a line, and scalars as their value.

const HEIGHT = 180;

/** Draws samples as a line, broken where there is no data, with a mark at the cursor. */
export function drawLine(canvas, { values, read, width }, [low, high], cursor) {
  const ratio = window.devicePixelRatio || 1;
  canvas.style.width = "100%";
  canvas.style.height = `${HEIGHT}px`;
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
  canvas.height = Math.round(HEIGHT * ratio);
  const context = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  const edge = 8 * ratio;
  const x = (n) => (n + 0.5) / width * canvas.width;
  const y = (value) => edge + (1 - (high === low ? 0.5 : (value - low) / (high - low))) * (canvas.height - 2 * edge);
  context.strokeStyle = style.color;
  context.fillStyle = style.color;
  context.lineWidth = 1.5 * ratio;
  context.beginPath();
  let drawing = false;
  for (let n = 0; n < width; n += 1) {
    const known = read[n] && values[n] === values[n];
    if (known && drawing) context.lineTo(x(n), y(values[n]));
    else if (known) context.moveTo(x(n), y(values[n]));
    drawing = known;
    if (known && width <= 200) context.fillRect(x(n) - 1.5 * ratio, y(values[n]) - 1.5 * ratio, 3 * ratio, 3 * ratio);
  }
  context.stroke();
  context.strokeStyle = style.caretColor;
  context.lineWidth = ratio;
  context.beginPath();
  context.moveTo(x(cursor), 0);
  context.lineTo(x(cursor), canvas.height);
  context.stroke();
  canvas.dataset.drawn = String(Number(canvas.dataset.drawn ?? 0) + 1);
}
