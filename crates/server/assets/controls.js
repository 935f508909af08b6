// Controls of the viewer.
import { MAP_NAMES } from "./colour.js";
import { BUDGETS } from "./data.js";
import { count, fill, h } from "./dom.js";
import { placeOf } from "./map-mode.js";
import { bandAxis, categories, palette } from "./shading.js";

const field = (label, control, more = {}) => h("label", { class: "field", ...more }, h("span", {}, label), control);

const select = (name, entries, value, onchange) => h("select", { name, onchange: (event) => onchange(event.target.value) },
  entries.map(([key, text]) => h("option", { value: key, selected: String(key) === String(value) }, text)));

/** Returns the buttons between picture and table. */
export function viewButtons(look) {
  if (!look.base.isNumeric) return null;
  const button = (mode, text) => h("button", { type: "button", name: `view-${mode}`, "aria-pressed": String(look.view.mode === mode), onclick: () => look.set({ mode }, { rebuild: true }) }, text);
  return h("div", { class: "modes", role: "group", "aria-label": "Show values as" }, button("picture", look.isLine() ? "Plot" : "Picture"), placeOf(look) ? button("map", "Map") : null, button("table", "Table"));
}

export function zoomButtons(look) {
  if (look.isLine()) return null;
  const button = (name, text, label, by) => h("button", { type: "button", class: "quiet", name, "aria-label": label, title: label, onclick: () => look.cursor.zoom(by) }, text);
  return h("div", { class: "buttons" }, button("zoom-in", "+", "Zoom in", 0.5), button("zoom-out", "−", "Zoom out", 2), button("zoom-all", "All", "All of the slice", Infinity));
}

export function axisFields(look) {
  const { base } = look;
  const choice = (which) => select(which ? "columns" : "rows", base.shape.map((length, axis) => [axis, `${base.name(axis)} (${count(length)})`]), look.view.axes[which], (value) => look.setAxis(which, Number(value)));
  return [field("Down", choice(0)), field("Across", choice(1))];
}

/** Returns a slider and a number for each axis that is not shown. */
export function indexFields(look) {
  return look.base.shape.map((length, axis) => {
    if (look.view.axes.includes(axis) || length < 2 || axis === look.view.bands?.axis) return null;
    const label = `${look.base.name(axis)}, 0 to ${count(length - 1)}`;
    const place = h("span", { class: "mute at", "data-label": String(axis) });
    const name = (value) => { fill(place, look.others?.[axis]?.coordinate(value) ?? null); };
    const set = (value) => {
      const index = Math.min(length - 1, Math.max(0, Math.round(Number(value) || 0)));
      slider.value = index;
      number.value = index;
      name(index);
      if (index !== look.view.at[axis]) look.set({ at: look.view.at.with(axis, index) });
    };
    const value = look.view.at[axis];
    const slider = h("input", { type: "range", min: 0, max: length - 1, value, "aria-label": `${label}, slider`, onchange: (event) => set(event.target.value), oninput: (event) => { number.value = event.target.value; name(Number(event.target.value)); } });
    const number = h("input", { type: "number", min: 0, max: length - 1, value, name: `at-${axis}`, onchange: (event) => set(event.target.value) });
    place.addEventListener("label", () => name(look.view.at[axis]));
    name(value);
    return h("div", { class: "index" }, field(label, number), slider, place);
  });
}

/** Returns the fields of resolution and bands. */
export function bandFields(look) {
  if (look.isLine()) return null;
  const axis = bandAxis(look.base, look.view.axes);
  return [look.levels.length > 1 && !look.isMap() ? levelField(look) : null, axis === null ? null : compositeFields(look, axis)];
}

/** Returns the fields of colours and range. */
export function colourFields(look) {
  const { view, base } = look;
  const isPicture = !look.isLine();
  return [view.bands || !isPicture ? null : mapFields(look), view.bands || !base.shape.length ? null : scaleFields(look, isPicture),
    base.shape.length ? field("Read at most", select("budget", BUDGETS.map((most) => [most, `${most} MiB`]), view.budget >> 20, (most) => look.set({ budget: Number(most) << 20 }))) : null,
    isPicture && !look.isMap() ? check("flip", "First row at the bottom", view.flip, (flip) => look.set({ flip }, { reload: false })) : null];
}

const check = (name, text, checked, onchange, kind = "check") => h("label", { class: kind }, h("input", { type: "checkbox", name, checked: Boolean(checked), onchange: (event) => onchange(event.target.checked) }), text);

function levelField(look) {
  const entries = look.levels.map((level, n) => [n, `${n ? `Overview ${n}` : "Full size"}: ${level.shape.slice(-2).map(count).join(" × ")}`]);
  return field("Resolution", select("level", [["", "For the screen"], ...entries], look.view.level ?? "", (value) => look.set({ level: value === "" ? null : Number(value) })));
}

/** Returns the choice between one band and a composite, and the bands of the composite. */
function compositeFields(look, axis) {
  const { view, base } = look;
  const choose = (value) => look.set({ bands: value ? { axis, numbers: [0, 1, 2] } : null }, { rebuild: true });
  const kind = field("Bands", select("bands", [["", "One"], ["rgb", "Red, green, blue"]], view.bands ? "rgb" : "", choose));
  if (!view.bands) return kind;
  const numbers = Array.from({ length: base.shape[axis] }, (_, n) => [n, String(n + 1)]);
  return [kind, ["Red", "Green", "Blue"].map((name, n) => field(name, select(`band-${n}`, numbers, view.bands.numbers[n], (value) => look.set({ bands: { axis, numbers: view.bands.numbers.with(n, Number(value)) } }))))];
}

function mapFields(look) {
  const { attributes } = look.base;
  const entries = [palette(attributes) ? [["palette", "palette of the image"]] : [], categories(attributes) ? [["categories", "categories"]] : [], MAP_NAMES.map((name) => [name, name])].flat();
  return [field("Colors", select("map", entries, look.view.map ?? entries[0][0], (map) => look.set({ map, range: null, userMap: true }, { reload: false }))),
    check("reverse", "Reversed", look.view.reverse, (reverse) => look.set({ reverse, userMap: true }, { reload: false }), "check of-range")];
}

function scaleFields(look, isPicture) {
  const input = (name) => h("input", { type: "text", inputMode: "decimal", size: 9, name, onchange: () => setRange(look) });
  const quick = (name, text, part) => h("button", { type: "button", class: "quiet", name, onclick: () => look.set({ range: null, part }, { reload: false }) }, text);
  return [field("Scale", select("scale", [["linear", "linear"], ["log", "logarithmic"]], look.view.scale, (scale) => look.set({ scale, range: null }, { reload: false })), { class: "field of-range" }),
    isPicture ? h("div", { class: "range of-range" }, field("From", input("low")), field("To", input("high")), quick("range-all", "Min to max", 0), quick("range-most", "2 to 98 %", 0.02)) : null];
}

function setRange(look) {
  const inputs = ["low", "high"].map((name) => look.host.querySelector(`[name=${name}]`));
  const range = inputs.map((input) => Number(input.value));
  const wrong = inputs.map((input, n) => input.value.trim() === "" || !Number.isFinite(range[n]) || (look.view.scale === "log" && range[n] <= 0));
  inputs.forEach((input, n) => input.setAttribute("aria-invalid", String(wrong[n])));
  if (!wrong.includes(true)) look.set({ range }, { reload: false });
}
