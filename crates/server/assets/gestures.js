// Gestures of figures and maps: dragging moves, wheel and pinch zoom at the pointer, a double click resets.

/** Maximum distance in CSS pixels that the pointer moves during a click. */
const CLICK = 4;

/**
 * Connects the gestures of an element. `move(right, down)` moves by CSS pixels; `zoom(by, x, y)` magnifies around a point
 * of the element and returns false at a limit; `click(x, y)`; `point(x, y)`: the pointer moved without a button.
 */
export function gestures(element, { move, zoom, reset, click, point }) {
  const pointers = new Map();
  let travelled = 0;
  const at = (event) => {
    const box = element.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  element.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    element.setPointerCapture(event.pointerId);
    if (!pointers.size) travelled = 0;
    pointers.set(event.pointerId, at(event));
  });
  element.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    const now = at(event);
    if (!before) { point(...now); return; }
    travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (travelled <= CLICK) return;
    pointers.set(event.pointerId, now);
    const [, other] = [...pointers].find(([id]) => id !== event.pointerId) ?? [];
    const [right, down] = [now[0] - before[0], now[1] - before[1]];
    if (!other) { move(right, down); return; }
    const far = (point) => Math.max(1, Math.hypot(point[0] - other[0], point[1] - other[1]));
    zoom(far(now) / far(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    move(right / 2, down / 2);
  });
  const end = (event) => {
    if (pointers.delete(event.pointerId) && event.type === "pointerup" && travelled <= CLICK && !pointers.size) click(...at(event));
  };
  for (const name of ["pointerup", "pointercancel"]) element.addEventListener(name, end);
  element.addEventListener("wheel", (event) => {
    // The pinch of a trackpad arrives as a wheel with Ctrl.
    const steps = event.deltaY * (event.deltaMode ? 0.05 : 0.002) * (event.ctrlKey ? 5 : 1);
    // At a limit, the wheel scrolls the page.
    if (zoom(2 ** -steps, ...at(event)) !== false) event.preventDefault();
  }, { passive: false });
  element.addEventListener("dblclick", reset);
}

/** Returns a part of an axis, two numbers from 0 to 1, magnified around a place in it; `least` is the minimum width. */
export function magnified([from, past], by, place, least) {
  const wide = Math.min(1, Math.max(least, (past - from) / by));
  const low = from + place * (past - from - wide);
  return moved([low, low + wide], 0);
}

/** Returns a part of an axis, moved within the axis. */
export function moved([from, past], by) {
  const shift = Math.min(1 - past, Math.max(-from, by));
  return [Math.max(0, from + shift), Math.min(1, past + shift)];
}
