// Controls of the viewer, and its state as short texts for the address of the page.
import { MAP_NAMES, bandAxis, bandNames, categories, composite, palette } from "./colour.js";
import { BUDGETS } from "./data.js";
import { count, fill, h } from "./dom.js";
import { placeOf } from "./georeference.js";

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
  const button = (name, text, label, work) => h("button", { type: "button", class: "quiet", name, "aria-label": label, title: label, onclick: work }, text);
  return look.base.shape.length ? h("div", { class: "buttons" }, button("zoom-in", "+", "Zoom in", () => look.cursor.zoom(2)), button("zoom-out", "−", "Zoom out", () => look.cursor.zoom(0.5)), button("zoom-all", "All", "All of the slice", () => look.reset())) : null;
}

export function axisFields(look) {
  const { base } = look;
  const choice = (which) => select(which ? "columns" : "rows", base.shape.map((length, axis) => [axis, `${base.name(axis)} (${count(length)})`]), look.view.axes[which], (value) => look.setAxis(which, Number(value)));
  return [field("Down", choice(0)), field("Across", choice(1))];
}

/** Returns a slider and a number for each axis that is not shown. */
export function indexFields(look) {
  const names = look.view.bands ? null : bandNames(look.base, bandAxis(look.base, look.view.axes));
  return look.base.shape.map((length, axis) => {
    if (look.view.axes.includes(axis) || length < 2 || axis === look.view.bands?.axis) return null;
    const label = `${look.base.name(axis)}, 0 to ${count(length - 1)}`;
    const place = h("span", { class: "at", "data-label": String(axis) });
    const name = (value) => fill(place, look.others[axis]?.coordinate(value) ?? (axis === bandAxis(look.base, look.view.axes) && names?.[value]) ?? "");
    const set = (value) => {
      const index = Math.min(length - 1, Math.max(0, Math.round(Number(value) || 0)));
      slider.value = index;
      number.value = index;
      name(index);
      if (index !== look.view.at[axis]) look.slide(look.view.at.with(axis, index));
    };
    const value = look.view.at[axis];
    const slider = h("input", { type: "range", min: 0, max: length - 1, value, "aria-label": `${label}, slider`, oninput: (event) => set(event.target.value) });
    const number = h("input", { type: "number", min: 0, max: length - 1, value, name: `at-${axis}`, onchange: (event) => set(event.target.value) });
    place.addEventListener("label", () => name(look.view.at[axis]));
    name(value);
    return h("div", { class: "index" }, field(label, number), slider, place);
  });
}

/** Returns the choice between one band and a composite, and the bands of the composite. */
export function bandFields(look) {
  const { view, base } = look;
  const axis = look.isLine() ? null : bandAxis(base, view.axes);
  if (axis === null) return null;
  const choose = (value) => look.set({ bands: value ? composite(base, axis) ?? { axis, numbers: [0, 1, 2] } : null }, { rebuild: true });
  const kind = field("Bands", select("bands", [["", "One"], ["rgb", "Red, green, blue"]], view.bands ? "rgb" : "", choose));
  if (!view.bands) return kind;
  const numbers = Array.from({ length: base.shape[axis] }, (_, n) => [n, bandNames(base, axis)?.[n] ?? String(n + 1)]);
  const change = (n, value) => look.set({ bands: { axis, numbers: view.bands.numbers.with(n, Number(value)) } });
  return [kind, ["Red", "Green", "Blue"].map((name, n) => field(name, select(`band-${n}`, numbers, view.bands.numbers[n], (value) => change(n, value))))];
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

/** Returns what differs from the initial view. */
export function write(look) {
  const { view, base } = look;
  const initial = look.initial();
  const state = {};
  const put = (name, value, usual) => { if (value !== usual) state[name] = value; };
  put("slice", view.at.map((at, axis) => (view.axes.includes(axis) ? ":" : at)).join(","), initial.at.map((at, axis) => (initial.axes.includes(axis) ? ":" : at)).join(","));
  if (base.shape.length > 1 && view.axes[0] > view.axes[1]) state.turned = "1";
  put("view", view.mode, initial.mode);
  if (view.userMap) state.colours = `${view.map}${view.reverse ? "-reversed" : ""}`;
  if (view.range) state.range = view.range.map((value) => Number(value.toPrecision(7))).join(",");
  else put("range", view.part ? "most" : "all", "most");
  put("scale", view.scale, initial.scale);
  put("bands", view.bands?.numbers.join(",") ?? "one", initial.bands?.numbers.join(",") ?? "one");
  put("profile", view.profile === null ? "none" : String(view.profile), "none");
  if (view.mode === "map") Object.assign(state, view.place);
  put("budget", view.budget, initial.budget);
  if (state.budget) state.budget = String(state.budget >> 20);
  const windows = view.axes.filter((axis) => view.windows[axis]).map((axis) => `${axis}:${view.windows[axis].map((part) => Number(part.toFixed(6))).join(":")}`);
  if (windows.length) state.window = windows.join(",");
  return state;
}

/** Applies a state to the view; ignores what does not fit the array. */
export function read({ view, base }, state) {
  const { shape, attributes, isNumeric } = base;
  const parts = String(state.slice ?? "").split(",");
  const axes = parts.flatMap((part, axis) => (part === ":" ? [axis] : []));
  const at = parts.map((part) => (part === ":" ? 0 : Number(part)));
  if (state.slice && at.length === shape.length && axes.length === Math.min(2, shape.length) && at.every((index, axis) => Number.isInteger(index) && index >= 0 && index < shape[axis])) {
    view.at = at;
    view.axes = axes.length === 2 ? (state.turned ? axes.toReversed() : axes) : [null, axes[0] ?? null];
    if (axes.includes(view.bands?.axis)) view.bands = null;
  }
  if (state.view === "table" || (["picture", "map"].includes(state.view) && isNumeric)) view.mode = state.view;
  if (state.centre && state.zoom) view.place = { centre: state.centre, zoom: state.zoom };
  const map = String(state.colours ?? "").replace(/-reversed$/, "");
  const maps = { ...Object.fromEntries(MAP_NAMES.map((name) => [name, true])), palette: palette(attributes), categories: categories(attributes) };
  if (Object.hasOwn(maps, map) && maps[map]) Object.assign(view, { map, reverse: state.colours.endsWith("-reversed"), userMap: true });
  if (state.scale === "log" || state.scale === "linear") view.scale = state.scale;
  const range = String(state.range ?? "").split(",").map(Number);
  if (state.range === "all") view.part = 0;
  else if (range.length === 2 && state.range && range.every(Number.isFinite)) view.range = range;
  const numbers = String(state.bands ?? "").split(",").map(Number);
  const axis = view.bands?.axis ?? shape.findIndex((length, each) => length >= 3 && !view.axes.includes(each));
  if (state.bands === "one") view.bands = null;
  else if (state.bands && [3, 4].includes(numbers.length) && numbers.every((number) => Number.isInteger(number) && number >= 0 && number < shape[axis])) view.bands = { axis, numbers };
  if (/^\d+$/.test(state.profile ?? "") && shape[state.profile] > 1) view.profile = Number(state.profile);
  if (BUDGETS.map(String).includes(state.budget)) view.budget = Number(state.budget) << 20;
  for (const part of String(state.window ?? "").split(",").filter(Boolean)) {
    const [each, from, past] = part.split(":").map(Number);
    if (view.axes.includes(each) && from >= 0 && past <= 1 && from < past) view.windows[each] = [from, past];
  }
}
