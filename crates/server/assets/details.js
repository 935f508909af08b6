// Details of a node: a summary of the data, attributes, diagnostics, and how an array is stored.
import { address, json, show } from "./api.js";
import { copyButton, count, fill, h, label, plural, size } from "./dom.js";
import { georeference } from "./georeference.js";
import { rootOf } from "./data.js";
import { measured, sentinel } from "./values.js";

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

function spellCodec(codec) {
  if (typeof codec === "string") return codec;
  const { name = codec.id, configuration, id: _, ...rest } = codec;
  const options = Object.entries(configuration ?? (codec.name ? {} : rest)).map(([key, value]) => `${key}=${show(value)}`);
  return options.length ? `${name}(${options.join(", ")})` : name;
}

/** Draws type, shape, chunks, codecs and fill value of an array. */
export function drawFacts(host, array) {
  const { chunks, source, shape } = array;
  const axes = shape.map((length, axis) => (array.dimensions?.[axis] ? `${label(array.dimensions[axis])} ${count(length)}` : count(length)));
  const entries = [
    ["Type", mono(array.data_type), "data-type"],
    ["Shape", mono(shape.length ? `(${shape.join(", ")})` : "()"), "shape"],
    ["Dimensions", axes.length ? axes.join(" × ") : "none: a scalar", "dimensions"],
    ["Chunk shape", mono(show(chunks.shape)), "chunk-shape"],
    chunks.segments ? ["Segments", count(chunks.segments), "chunks"] : ["Chunks", `${count(chunks.count)} in the grid ${show(chunks.grid)}, ${count(chunks.stored)} stored${chunks.inline ? `, ${count(chunks.inline)} carried inline` : ""}`, "chunks"],
    ["Codecs", array.codecs.map((codec) => h("div", {}, mono(spellCodec(codec)))), "codecs"],
    ["Fill value", mono(show(array.fill_value)), "fill-value"],
    source && ["In the file", [source.type, source.layout, ...source.filters].filter(Boolean).join("; "), "source"],
  ];
  fill(host, entries.filter(Boolean).map(([name, value, field]) => [h("dt", {}, name), h("dd", { "data-field": field }, value)]));
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

/** Draws the positions of the chunks of an array in the order of the files. */
export async function drawChunks(host, source, path, signal) {
  fill(host, h("p", { class: "mute" }, "Reading the chunk table …"));
  const { chunks, grid, sources, step, stored, inline, count: all } = await json(address("chunks", { url: source, array: path, format: "zarr3-json" }), { signal });
  const { length, offset, position } = chunks;
  const order = length.map((_, n) => n).sort((one, other) => chunks.source[one] - chunks.source[other] || offset[one] - offset[other]);
  const sorted = Float64Array.from(length).sort();
  const said = [
    length.length ? `${plural(stored, "chunk")} in ${plural(new Set(chunks.source).size, "file")}, ${sorted[0] === sorted.at(-1) ? `${size(sorted[0])} each` : `${size(sorted[0])} to ${size(sorted.at(-1))}, median ${size(sorted[sorted.length >> 1])}`}.` : inline ? "All chunks are inlined." : "No chunk is stored: the array reads as its fill value.",
    length.length > 1 ? order.every((n, at) => at === 0 || position[n] > position[order[at - 1]]) ? "They are in the order of the grid." : "They are not in the order of the grid." : null,
    step > 1 ? `One in ${count(step)} is listed.` : null,
    inline && length.length ? `${plural(inline, "chunk")} inlined.` : null,
    all > stored ? `${plural(all - stored, "chunk")} missing: the fill value.` : null,
  ];
  const index = (at) => grid.map((_, axis) => Math.floor(at / grid.slice(axis + 1).reduce((product, edge) => product * edge, 1)) % grid[axis]);
  const row = (n) => h("tr", {}, h("td", {}, mono(`(${index(position[n]).join(", ")})`)), h("td", { class: "number" }, count(offset[n])), h("td", { class: "number" }, count(length[n])), sources.length > 1 ? h("td", {}, sources[chunks.source[n]].url) : null);
  fill(host, h("p", {}, said.filter(Boolean).join(" ")), order.length ? longTable("Chunks in the files", ["Index", "Offset", "Length", ...(sources.length > 1 ? ["File"] : [])], order, row) : null);
}

/** Names of codecs that compress, for people. */
const COMPRESSIONS = [[/zlib|deflate/, "Deflate"], [/gzip/, "gzip"], [/zstd/, "Zstandard"], [/blosc/, "Blosc"], [/jpe?g2k|jpeg2000/, "JPEG 2000"], [/jpegxl/, "JPEG XL"], [/jpegls/, "JPEG-LS"], [/jpe?g/, "JPEG"], [/webp/, "WebP"], [/lerc/, "LERC"], [/lzw/, "LZW"], [/packbits/, "PackBits"], [/lzma|xz/, "LZMA"], [/lz4/, "LZ4"], [/szip|aec/, "SZIP"], [/zfp/, "ZFP"], [/bz2/, "bzip2"]];
const PREPARATIONS = [[/shuffle/, "shuffle"], [/delta|predictor|floatpred/, "predictor"]];

function compression({ codecs }) {
  const names = codecs.map((codec) => String(codec.name ?? codec.id ?? codec).toLowerCase());
  const main = names.map((name) => COMPRESSIONS.find(([pattern]) => pattern.test(name))?.[1]).find(Boolean);
  const before = PREPARATIONS.filter(([pattern]) => names.some((name) => pattern.test(name))).map(([, name]) => name);
  const unknown = before.length ? null : names.findLast((name) => !/^(bytes|transpose|vlen|string)/.test(name));
  return [main ?? unknown, ...before].filter(Boolean).join(", ") || "none";
}

/** Returns the name of a coordinate reference system, as the file has it. */
function systemOf({ code, mapping, degrees }) {
  const wkt = [mapping?.crs_wkt, mapping?.spatial_ref].find((text) => typeof text === "string" && text.includes("["));
  const name = /\["([^"]*)"/.exec(wkt ?? "")?.[1] ?? mapping?.geo_keys?.GTCitationGeoKey ?? mapping?.geo_keys?.GeodeticCitationGeoKey;
  const own = code ?? (/^EPSG:/.test(mapping?.spatial_ref ?? "") ? mapping.spatial_ref : null);
  return [own, typeof name === "string" ? name : mapping?.grid_mapping_name?.replaceAll("_", " ")].filter(Boolean).join(" ") || (degrees ? "longitude and latitude" : null);
}

/** Returns bounds and pixel size of a georeferenced array, as far as its coordinates were read. */
function extentOf({ y, x, levels: [{ transform, shape }], units }, look) {
  if (transform) {
    const [a, b, c, d, e, f] = transform;
    const corners = [[0, 0], [shape[x], 0], [0, shape[y]], [shape[x], shape[y]]].map(([column, row]) => [a * column + b * row + c, d * column + e * row + f]);
    const range = (axis) => [Math.min(...corners.map((corner) => corner[axis])), Math.max(...corners.map((corner) => corner[axis]))];
    const isDegrees = /^deg/.test(units ?? "");
    const spell = (value, name) => measured(Number(value.toPrecision(10)), { units: isDegrees ? `degrees_${name}` : "" });
    return [`x ${range(0).map((value) => spell(value, "east")).join(" to ")}, y ${range(1).map((value) => spell(value, "north")).join(" to ")}`, `${[Math.hypot(a, d), Math.hypot(b, e)].map((value) => measured(Number(value.toPrecision(6)), {})).join(" × ")} ${isDegrees ? "degrees" : measured("", { units }).trim()}`];
  }
  const axes = [look.others[x], look.others[y]];
  if (!axes.every((axis) => axis?.isMonotonic)) return [null, null];
  // Longitudes beyond 180° are counted eastward, so that the range is in order.
  const spell = (axis, value) => (axis.isEast && value > 180 ? `${measured(value, {})}°E` : measured(value, axis.attributes));
  const ends = axes.map((axis) => `${axis.isEast || axis.isNorth ? "" : `${axis.name} `}${[axis.values[0], axis.values.at(-1)].map((value) => spell(axis, Number(value.toPrecision(7)))).join(" to ")}`);
  const steps = axes.map(({ values }) => Math.abs((values.at(-1) - values[0]) / (values.length - 1)));
  return [ends.join(", "), `${steps.map((step) => measured(Number(step.toPrecision(5)), {})).join(" × ")} ${axes[0].isEast ? "degrees" : measured("", axes[0].attributes).trim()}`];
}

/** Draws what people look for first: title, system, bounds, pixel size, missing data, compression, and the range of the values. */
export function drawSummary(look) {
  const { base, slice, others, node } = look;
  const root = rootOf(node).description;
  const place = georeference(node);
  const [bounds, pixel] = place ? extentOf(place, look) : [];
  const times = Object.values(others).filter((axis) => axis.time && axis.span.count > 1);
  const { attributes, means, shape, type } = base;
  const sentinels = [attributes._FillValue, attributes.missing_value].flat().filter((value) => value !== undefined && value !== null).map((value) => String(sentinel(value, type) ?? value));
  const known = slice?.stats?.known && !look.view.bands && !["palette", "categories"].includes(look.view.map) ? slice.stats : null;
  const isPart = slice?.plan.spans.some(({ step, axis }) => axis !== null && step > 1) || look.array !== base;
  const value = (number) => measured(Number(number.toPrecision(7)), attributes);
  const entries = [
    ["Title", typeof root.attributes?.title === "string" ? root.attributes.title : null],
    ["Data", [base.type, shape.map((length, axis) => `${base.names[axis] ? `${label(base.names[axis])} ` : ""}${count(length)}`).join(" × ")].filter(Boolean).join(", ")],
    ...times.map((axis) => [times.length === 1 ? "Time" : label(axis.name), `${axis.coordinate(0)} to ${axis.coordinate(axis.span.count - 1)}`]),
    ["System", place && systemOf(place)], ["Bounds", bounds], ["Pixel size", pixel],
    ["No data", [...new Set(sentinels)].join(", ") || (typeof attributes.mask === "string" ? "by a mask" : base.isNumeric ? "not declared" : null)],
    ["Packed", attributes.scale_factor_variable || attributes.add_offset_variable ? "scale and offset vary" : means.packed ? `scale ${measured(means.scale, {})}, offset ${measured(means.offset, {})}` : null],
    ["Compression", node.description.chunks.segments ? null : compression(node.description)],
    [isPart ? "Values drawn" : "Values shown", known && `minimum ${value(known.low)}, mean ${value(known.mean)}, maximum ${value(known.high)}`],
  ];
  fill(document.getElementById("summary"), entries.filter(([, text]) => text).map(([name, text]) => h("div", {}, h("dt", {}, name), " ", h("dd", {}, String(text).slice(0, 200)))));
}

export function drawAttributes(host, attributes, type = "") {
  const entries = Object.entries(attributes ?? {});
  if (!entries.length) return fill(host, h("p", { class: "mute" }, "None."));
  const row = ([name, value]) => {
    // The number that a base64 sentinel encodes. JSON cannot represent all of them.
    const decoded = name === "_FillValue" && typeof value === "string" ? sentinel(value, type) : null;
    const number = decoded === null ? null : h("span", { class: "mute" }, ` the number ${Number.isFinite(decoded) ? show(decoded) : String(decoded)}`);
    return h("tr", {}, h("th", { scope: "row" }, label(name)), h("td", {}, spellAttribute(value), number));
  };
  return fill(host, longTable("Attributes", ["Name", "Value"], entries, row, "attributes"));
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
  if (!own.length) return fill(host, h("p", { class: "mute" }, path === null ? "None: nothing was changed or omitted." : "None for this node."));
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
    h("td", {}, child.kind),
    h("td", {}, child.kind === "array" ? mono(child.description.data_type) : ""),
    h("td", {}, child.kind === "array" ? child.description.shape.map((length, axis) => label(`${child.description.dimensions?.[axis] ?? ""} ${length}`.trim())).join(" × ") || "scalar" : ""),
    h("td", { class: "number" }, child.kind === "array" ? count(child.description.chunks.stored ?? child.description.chunks.count) : child.kind === "group" ? plural(child.children.length, "node") : ""));
  return fill(host, longTable("Contents of the group", ["Name", "Kind", "Type", "Dimensions", "Chunks"], node.children, row));
}
