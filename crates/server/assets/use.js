// References to download, and code for other software, which works as it is shown.
import { address, request, token } from "./api.js";
import { announce, copyButton, download, fill, h, quoted, visible } from "./dom.js";
import { fileName, firstArray, walk } from "./tree.js";

/** Formats that the service offers, with their purpose and file extension. */
const FORMATS = [
  ["kerchunk-json", "kerchunk JSON", "Zarr v2 keys: fsspec, xarray, GDAL", "json"],
  ["zarr3-json", "Zarr v3 references", "the same JSON with Zarr v3 keys", "json"],
];

/** Draws the code and the downloads for a node of a source; `failed` shows an error. */
export function drawUse(host, description, url, node, failed) {
  const group = node.kind === "group" ? node : node.parent;
  const inside = (path) => new URL(path.replace(/^\/|\/$/g, ""), document.baseURI).href;
  const store = inside(description.zarr.store);
  const context = {
    url, store, group, hasToken: token.get() !== "",
    array: node.kind === "array" ? node : firstArray(group),
    plain: store.replace("/v1/zarr/", "/v1/plain/"),
    references: address("references", { url, format: "kerchunk-json" }).href,
    arrays: [...walk(group)].filter((each) => each.kind === "array"),
  };
  const packages = `pip install xarray zarr fsspec aiohttp${needsImagecodecs(context) ? " imagecodecs" : ""}`;
  const snippets = [
    { id: "xarray", title: "xarray", needs: packages, text: xarray(context) },
    context.array && { id: "gdal", title: "GDAL", needs: "GDAL 3.8 or later", text: gdal(context) },
    { id: "kerchunk", title: "References with fsspec and xarray", needs: packages, text: kerchunk(context) },
  ];
  const name = saved(url);
  fill(host,
    snippets.filter(Boolean).map((snippet, n) => lines(snippet, n === 0)),
    h("h4", {}, "Address of the Zarr store, in the version shown"),
    h("div", { class: "bar" }, h("code", { "data-lines": "address" }, store), copyButton("Copy", () => store)),
    h("h4", {}, "References"),
    h("div", { class: "buttons" }, FORMATS.map(([format, label, title, end]) => reference(url, format, `${name}.${end}`, label, title, failed))));
}

/** Returns the name of a download, without characters that are invisible or that systems treat specially. */
const saved = (url) => visible(fileName(url)).replace(/\.[^.]*$/, "").normalize("NFC").replace(/[^\p{L}\p{N}\p{M}._-]+/gu, "_").replace(/^[._]+/, "").slice(0, 100) || "references";

/** Returns a link to references; a button if they need the token, which a link cannot send. */
function reference(url, format, name, label, title, failed) {
  const from = address("references", { url, format }).href;
  if (!token.get()) return h("a", { class: "button quiet", href: from, download: name, title, "data-format": format }, `Download ${label}`);
  const button = h("button", { type: "button", class: "quiet", title, "data-format": format }, `Download ${label}`);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      download(await (await request(from)).blob(), name);
      announce(`${name} downloaded`);
    } catch (error) {
      failed(error);
    } finally {
      button.disabled = false;
    }
  });
  return button;
}

function lines({ id, title, needs, text }, open) {
  return h("details", { class: "lines", open, name: "lines" }, h("summary", {}, title, needs ? h("span", { class: "mute" }, ` ${needs}`) : null),
    h("div", { class: "code" }, h("pre", { tabindex: "0", role: "region", "aria-label": `Code for ${title}`, "data-lines": id }, text), copyButton("Copy", () => text)));
}

/** Stands for the token, which is never shown. */
const TOKEN = "TOKEN";

const needsImagecodecs = ({ arrays }) => arrays.some(({ description }) => description.readers?.["zarr-python"]?.needs?.includes("imagecodecs"));

/** Returns the lines that register the codecs of TIFF files, if the file needs them. Other packages register the same names. */
function codecs(context) {
  if (!needsImagecodecs(context)) return [];
  const names = context.arrays.flatMap(({ description }) => description.codecs).map((codec) => codec.name ?? codec.id ?? "");
  const own = [...new Set(names.filter((name) => /^imagecodecs_[a-z0-9_]+$/.test(name)))].sort();
  const pins = own.map((name) => {
    const bare = name.slice("imagecodecs_".length);
    return `"codecs.${name}": "imagecodecs.zarr.${bare[0].toUpperCase()}${bare.slice(1)}"`;
  });
  return ["import imagecodecs.zarr, zarr", "imagecodecs.zarr.register_codecs()", `zarr.config.set({${pins.join(", ")}})`];
}

const bearer = { headers: { Authorization: `Bearer ${TOKEN}` } };
const inGroup = ({ path }) => (path === "/" ? "" : `, group=${quoted(path.slice(1))}`);
const text = (...lines) => lines.flat().filter((line) => line !== null).join("\n");
const options = (hasToken) => (hasToken ? `, storage_options=${JSON.stringify({ client_kwargs: bearer })}` : "");

/** Returns the function of xarray that opens a group, and the name of its result. */
function opener(group) {
  if (isSegmented(group) || !group.children.some((child) => child.kind === "group")) return ["ds", "open_dataset"];
  return aligned(group, new Map()) ? ["tree", "open_datatree"] : ["groups", "open_groups"];
}

/** Returns whether the groups of a group are segments of one dataset, which other readers see with decoded chunks only. */
const isSegmented = ({ description: { attributes } }) => Boolean(attributes?.["virtualize:segments"]);

/** Returns whether subgroups share the dimensions of their ancestors, as `open_datatree` requires. */
function aligned(group, above) {
  const sizes = new Map(above);
  for (const { kind, name, description: { dimensions, shape } } of group.children) {
    if (kind !== "array") continue;
    if (dimensions?.[0] === name && shape.length === 1 && above.has(name)) return false;
    for (const [axis, dimension] of (dimensions ?? []).entries()) {
      if (dimension === null) continue;
      if (sizes.has(dimension) && sizes.get(dimension) !== shape[axis]) return false;
      sizes.set(dimension, shape[axis]);
    }
  }
  return group.children.every((child) => child.kind !== "group" || aligned(child, sizes));
}

function xarray(context) {
  const [name, open] = opener(context.group);
  return text("import xarray as xr", codecs(context), "",
    `${name} = xr.${open}(${quoted(isSegmented(context.group) ? context.plain : context.store)}, engine="zarr"${inGroup(context.group)}${options(context.hasToken)})`, `print(${name})`);
}

/** GDAL lacks many codecs, so that it reads decoded chunks. */
function gdal({ plain, array, hasToken }) {
  const header = hasToken ? `--config GDAL_HTTP_HEADERS 'Authorization: Bearer ${TOKEN}' ` : "";
  return `gdalinfo ${header}${shell(`ZARR:"/vsicurl/${plain}":${array.path}`)}`;
}

/** Quotes an argument of a POSIX shell; one with invisible characters as bash and zsh read it. */
function shell(argument) {
  const escaped = quoted(argument).slice(1, -1);
  if (escaped === JSON.stringify(argument).slice(1, -1) && !/[\u0000-\u001f]/.test(argument)) return `'${argument.replaceAll("'", "'\\''")}'`;
  return `$'${escaped.replaceAll("'", "\\'")}'`;
}

function kerchunk(context) {
  const { url, references, group, hasToken } = context;
  const [name, open] = opener(group);
  const storage = { fo: references };
  if (hasToken) storage.target_options = { client_kwargs: bearer };
  const remote = /^([a-z0-9+.-]+):/i.exec(url)?.[1].toLowerCase() ?? "file";
  if (remote !== "file") storage.remote_protocol = remote === "https" ? "http" : remote;
  const fields = Object.entries(storage).map(([key, value]) => `    ${quoted(key)}: ${typeof value === "string" ? quoted(value) : JSON.stringify(value)},`);
  return text("import xarray as xr", codecs(context), "", "storage = {", fields, "}",
    `${name} = xr.${open}("reference://", engine="zarr", consolidated=False, storage_options=storage${inGroup(group)})`, `print(${name})`);
}
