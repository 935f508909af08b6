// The state of the viewer as short texts, for the address of the page.
import { MAP_NAMES } from "./colour.js";
import { categories, palette } from "./shading.js";

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
  put("level", view.level === null ? "auto" : String(view.level), "auto");
  if (view.mode === "map") Object.assign(state, view.place);
  put("budget", view.budget, initial.budget);
  if (state.budget) state.budget = String(state.budget >> 20);
  const windows = view.axes.filter((axis) => view.windows[axis]).map((axis) => `${axis}:${view.windows[axis].map((part) => Number(part.toFixed(6))).join(":")}`);
  if (windows.length) state.window = windows.join(",");
  return state;
}

/** Applies a state to the view; ignores what does not fit the array. */
export function read(look, state) {
  const { view, base } = look;
  readSlice(view, base, state);
  if (state.view === "table" || (["picture", "map"].includes(state.view) && base.isNumeric)) view.mode = state.view;
  if (state.centre && state.zoom) view.place = { centre: state.centre, zoom: state.zoom };
  readColours(view, base, state);
  if (state.scale === "log" || state.scale === "linear") view.scale = state.scale;
  const range = String(state.range ?? "").split(",").map(Number);
  if (state.range === "all") view.part = 0;
  else if (range.length === 2 && state.range && range.every(Number.isFinite)) view.range = range;
  readBands(view, base, state);
  if (/^\d+$/.test(state.profile ?? "") && base.shape[state.profile] > 1) view.profile = Number(state.profile);
  if (/^\d+$/.test(state.level ?? "") && Number(state.level) < look.levels.length) view.level = Number(state.level);
  if (["64", "256", "1024"].includes(state.budget)) view.budget = Number(state.budget) << 20;
  for (const part of String(state.window ?? "").split(",").filter(Boolean)) {
    const [axis, from, past] = part.split(":").map(Number);
    if (view.axes.includes(axis) && from >= 0 && past <= 1 && from < past) view.windows[axis] = [from, past];
  }
}

function readColours(view, { attributes }, { colours }) {
  const map = String(colours ?? "").replace(/-reversed$/, "");
  if (!MAP_NAMES.includes(map) && !(map === "palette" && palette(attributes)) && !(map === "categories" && categories(attributes))) return;
  Object.assign(view, { map, reverse: colours.endsWith("-reversed"), userMap: true });
}

function readSlice(view, base, { slice, turned }) {
  const parts = String(slice ?? "").split(",");
  if (!slice || parts.length !== base.shape.length) return;
  const axes = parts.flatMap((part, axis) => (part === ":" ? [axis] : []));
  const at = parts.map((part) => (part === ":" ? 0 : Number(part)));
  if (axes.length !== Math.min(2, base.shape.length) || !at.every((index, axis) => Number.isInteger(index) && index >= 0 && index < base.shape[axis])) return;
  view.at = at;
  view.axes = axes.length === 2 ? (turned ? [axes[1], axes[0]] : axes) : [null, axes[0] ?? null];
  if (view.bands && axes.includes(view.bands.axis)) view.bands = null;
}

function readBands(view, base, { bands }) {
  if (bands === "one") view.bands = null;
  const numbers = String(bands ?? "").split(",").map(Number);
  const axis = view.bands?.axis ?? base.shape.findIndex((length, each) => length >= 3 && !view.axes.includes(each));
  if (!bands || numbers.length < 3 || numbers.length > 4 || axis < 0) return;
  if (numbers.every((number) => Number.isInteger(number) && number >= 0 && number < base.shape[axis])) view.bands = { axis, numbers };
}
