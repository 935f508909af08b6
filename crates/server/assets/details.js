// Details of a node: facts, fill value decision, reader compatibility, attributes, diagnostics.
import { copyButton, count, fill, h, label, plural } from "./dom.js";
import { show } from "./json.js";
import { sentinel } from "./values.js";

/** Maximum length of an attribute that is shown unfolded, and that is shown at all. */
const LONG = 160;
const LONGEST = 20_000;
/** Number of rows that a table shows at first, and more of with each click. */
const ROWS = 200;

const table = (caption, headings, rows, name = "") => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
  h("table", { class: name }, h("caption", { class: "away" }, caption),
    h("thead", {}, h("tr", {}, headings.map((heading) => h("th", { scope: "col" }, heading)))),
    h("tbody", {}, rows)));

/** Returns a table of which the first rows exist; a button adds more. `row` creates a row from an entry. */
function longTable(caption, headings, entries, row, name = "") {
  const host = table(caption, headings, entries.slice(0, ROWS).map(row), name);
  if (entries.length <= ROWS) return host;
  const body = host.querySelector("tbody");
  const left = () => `Show ${count(Math.min(5 * ROWS, entries.length - body.rows.length))} of ${count(entries.length - body.rows.length)} more`;
  const more = h("button", { type: "button", class: "quiet" }, left());
  more.addEventListener("click", () => {
    body.append(...entries.slice(body.rows.length, body.rows.length + 5 * ROWS).map(row));
    more.textContent = left();
    more.hidden = body.rows.length >= entries.length;
  });
  return [host, more];
}

const mono = (text) => h("code", {}, text);

/** Returns the facts of an array, as `[name, value]`. */
function facts(array) {
  const { chunks, source } = array;
  const axes = array.shape.map((length, axis) => (array.dimensions?.[axis] ? `${label(array.dimensions[axis])} ${count(length)}` : count(length)));
  return [
    ["Type", mono(array.data_type), "data-type"],
    ["Shape", mono(array.shape.length ? `(${array.shape.join(", ")})` : "()"), "shape"],
    ["Dimensions", axes.length ? axes.join(" × ") : "none: a scalar", "dimensions"],
    ["Chunk shape", mono(show(chunks.shape)), "chunk-shape"],
    chunks.segments ? ["Segments", count(chunks.segments), "chunks"] : ["Chunks", `${count(chunks.count)} in the grid ${show(chunks.grid)}, ${count(chunks.stored)} stored${chunks.inline ? `, ${count(chunks.inline)} carried inline` : ""}`, "chunks"],
    ["Codecs", array.codecs.map((codec) => h("div", {}, mono(spellCodec(codec)))), "codecs"],
    ["Fill value", mono(show(array.fill_value)), "fill-value"],
    source && ["In the file", [source.type, source.layout, ...source.filters].filter(Boolean).join("; "), "source"],
  ].filter(Boolean);
}

export function spellCodec(codec) {
  if (typeof codec === "string") return codec;
  const { name = codec.id, configuration, id: _, ...rest } = codec;
  const options = Object.entries(configuration ?? (codec.name ? {} : rest)).map(([key, value]) => `${key}=${show(value)}`);
  return options.length ? `${name}(${options.join(", ")})` : name;
}

export function drawFacts(host, array) {
  fill(host, facts(array).map(([name, value, field]) => [h("dt", {}, name), h("dd", { "data-field": field }, value)]));
}

const POLICIES = {
  "hdf5-header": "HDF5: the header's fill value is authoritative; attributes say what means “no data”.",
  "tiff-nodata": "TIFF: the nodata value becomes the fill value.",
};

/** Draws the fill value decision and its sources. */
export function drawFill(host, array) {
  const decision = array.fill_decision;
  if (!decision) return fill(host, h("p", { class: "mute" }, "No decision is recorded: the array was added by the mapping."));
  const rows = decision.sources.map((source) => h("tr", {},
    h("td", {}, source.origin), h("td", {}, mono(source.text)),
    h("td", {}, h("span", { class: `mark ${source.outcome}` }, source.outcome), source.reason ? ` ${source.reason}` : "")));
  return fill(host,
    h("dl", { class: "facts" },
      h("dt", {}, "Missing chunks read as"), h("dd", {}, mono(show(decision.fill_value))),
      h("dt", {}, "“No data” is"), h("dd", {}, decision.sentinel === null ? "not marked" : mono(show(decision.sentinel))),
      h("dt", {}, "Policy"), h("dd", {}, POLICIES[decision.policy] ?? decision.policy)),
    rows.length ? table("Where fill values were found", ["Found in", "Value", "Outcome"], rows) : null);
}

export function drawReaders(host, array) {
  const rows = Object.entries(array.readers ?? {}).map(([name, verdict]) => h("tr", {},
    h("th", { scope: "row" }, name),
    h("td", {}, h("span", { class: `mark ${verdict.reads === "yes" ? "used" : "dropped"}` }, verdict.reads)),
    h("td", {}, verdict.because ? ["lacks ", mono(verdict.because)] : verdict.needs?.length ? ["needs ", mono(verdict.needs.join(", "))] : "")));
  fill(host, rows.length ? table("Readers of this array", ["Reader", "Reads", "Note"], rows) : h("p", { class: "mute" }, "Nothing is known of readers."));
}

export function drawAttributes(host, attributes, type = "") {
  const entries = Object.entries(attributes ?? {});
  if (!entries.length) return fill(host, h("p", { class: "mute" }, "None."));
  const row = ([name, value]) => h("tr", {}, h("th", { scope: "row" }, label(name)), h("td", {}, spellAttribute(value), number(name, value, type)));
  return fill(host, longTable("Attributes", ["Name", "Value"], entries, row, "attributes"));
}

/** Shows the number that a base64 sentinel encodes. JSON cannot represent all of them. */
function number(name, value, type) {
  const decoded = name === "_FillValue" && typeof value === "string" ? sentinel(value, type) : null;
  if (decoded === null) return null;
  return h("span", { class: "mute" }, ` the number ${Number.isFinite(decoded) ? show(decoded) : String(decoded)}`);
}

function spellAttribute(value) {
  const text = show(value);
  if (text.length <= LONG) return mono(text);
  const box = h("details", {}, h("summary", {}, mono(`${text.slice(0, 90)}…`)));
  box.addEventListener("toggle", () => {
    const whole = show(value, 2);
    const cut = whole.length > LONGEST;
    box.append(h("pre", { class: "wrapped", tabindex: "0" }, cut ? `${whole.slice(0, LONGEST)}…` : whole),
      cut ? h("p", { class: "mute" }, `The first ${count(LONGEST)} of ${count(whole.length)} characters. `, copyButton("Copy all", () => whole)) : "");
  }, { once: true });
  return box;
}

/** Draws the diagnostics: all, or those of `path` if it is not null. */
export function drawDiagnostics(host, description, path, go) {
  const all = description.diagnostics;
  const own = path === null ? all : all.filter((each) => each.path === path);
  if (!own.length) return fill(host, h("p", { class: "mute" }, path === null ? "None: nothing was changed or left out." : "None for this node."));
  const items = own.slice(0, 5 * ROWS).map((each) => h("li", { class: `diagnostic ${each.severity}` },
    h("span", { class: `mark ${each.severity}` }, each.severity), " ",
    path === null && each.path !== "/" ? [h("button", { type: "button", class: "link", onclick: () => go(each.path) }, label(each.path)), " "] : null,
    each.message, " ", mono(each.code), each.hint ? h("div", { class: "hint" }, each.hint) : null));
  return fill(host, h("ul", { class: "plain" }, items), own.length > items.length ? h("p", { class: "mute" }, `${count(own.length - items.length)} more are not shown.`) : null);
}

/** Draws the children of a group. */
export function drawChildren(host, node, go) {
  if (!node.children.length) return fill(host, h("p", { class: "mute" }, "The group is empty."));
  const row = (child) => h("tr", {},
    h("td", {}, h("button", { type: "button", class: "link", onclick: () => go(child.path) }, label(child.name))),
    h("td", {}, child.kind === "left-out" ? "left out" : child.kind),
    h("td", {}, child.kind === "array" ? mono(child.description.data_type) : ""),
    h("td", {}, child.kind === "array" ? child.description.shape.map((length, axis) => label(`${child.description.dimensions?.[axis] ?? ""} ${length}`.trim())).join(" × ") || "scalar" : ""),
    h("td", { class: "number" }, child.kind === "array" ? count(child.description.chunks.stored ?? child.description.chunks.count) : child.kind === "group" ? plural(child.children.length, "node") : ""));
  return fill(host, longTable("Contents of the group", ["Name", "Kind", "Type", "Dimensions", "Chunks"], node.children, row));
}
