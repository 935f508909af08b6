// References to download, and code that opens them.
import { address, request, token } from "./api.js";
import { announce, copyButton, fill, h } from "./dom.js";

/** Formats that the service offers, with their purpose and file extension. */
const FORMATS = [
  ["kerchunk-json", "kerchunk JSON", "Zarr v2 keys: fsspec, xarray, GDAL", "json"],
  ["zarr3-json", "Zarr v3 references", "the same JSON with Zarr v3 keys", "json"],
  ["kerchunk-parquet", "kerchunk Parquet", "a zip archive; unpacked: fsspec, xarray, read piece by piece", "parquet.zip"],
];

/** Draws the buttons and the code for a source; `failed` shows an error. */
export function drawUse(host, description, url, group, failed) {
  const name = fileName(url);
  const store = new URL(description.zarr.store.replace(/^\/|\/$/g, ""), document.baseURI).href;
  fill(host,
    h("h3", {}, "References"),
    h("div", { class: "buttons" }, FORMATS.map(([format, label, title, end]) => download(url, format, `${name}.${end}`, label, title, failed))),
    lines("Open the references (Python)", openReferences(description, url, name, group)),
    h("h3", {}, "No reference file: the Zarr endpoint"),
    lines("Address", store),
    lines("Open it (Python)", openZarr(description, store, group)),
    lines("Open it (JavaScript, zarrita.js)", openZarrita(store)));
}

const fileName = (url) => url.split(/[/?#]/).filter(Boolean).at(-1)?.replace(/\.[^.]*$/, "") || "references";

function download(url, format, name, label, title, failed) {
  const from = address("references", { url, format }).href;
  if (!token.get()) return h("a", { class: "button", href: from, download: name, title, "data-format": format }, `Download ${label}`);
  // A link cannot send the token.
  const button = h("button", { type: "button", title, "data-format": format }, `Download ${label}`);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const blob = await (await request(from)).blob();
      const link = h("a", { href: URL.createObjectURL(blob), download: name });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
      announce(`${name} downloaded`);
    } catch (error) {
      failed(error);
    } finally {
      button.disabled = false;
    }
  });
  return button;
}

function lines(label, text) {
  return h("div", { class: "lines" }, h("div", { class: "bar" }, h("span", {}, label), copyButton("Copy", () => text)),
    h("pre", { tabindex: "0", "aria-label": label, "data-lines": label }, text));
}

const needs = (description, wanted) => arrays(description.root).some((array) => array.readers?.["zarr-python"]?.needs?.includes(wanted));

function* walk(group) {
  for (const child of Object.values(group.children ?? {})) {
    if (child.node === "array") yield child;
    else yield* walk(child);
  }
}
const arrays = (group) => [...walk(group)];

/** Returns the lines that register the codecs of TIFF files, if the file needs them. Other packages register the same names. */
function codecs(description) {
  if (!needs(description, "imagecodecs")) return [];
  const named = arrays(description.root).flatMap((array) => array.codecs).map((codec) => codec.name ?? codec.id ?? "");
  const own = [...new Set(named.filter((name) => name.startsWith("imagecodecs_")))].sort();
  const pins = own.map((name) => {
    const bare = name.slice("imagecodecs_".length);
    return `"codecs.${name}": "imagecodecs.zarr.${bare[0].toUpperCase()}${bare.slice(1)}"`;
  });
  return ["import imagecodecs.zarr, zarr", "imagecodecs.zarr.register_codecs()", `zarr.config.set({${pins.join(", ")}})`];
}
const inGroup = (group) => (group ? `, group=${JSON.stringify(group)}` : "");

function openReferences(description, url, name, group) {
  const options = storage(url);
  return ["import xarray as xr", ...codecs(description),
    `ds = xr.open_dataset("reference::${name}.json", engine="zarr", consolidated=False${inGroup(group)}${options})`].join("\n");
}

/** Returns how fsspec opens the source file; the reader supplies credentials. */
function storage(url) {
  const scheme = /^([a-z0-9+.-]+):/i.exec(url)?.[1].toLowerCase() ?? "file";
  if (scheme === "file") return "";
  return `, storage_options={"remote_protocol": ${JSON.stringify(scheme === "https" ? "http" : scheme)}}`;
}

function openZarr(description, store, group) {
  const headers = token.get() ? ', storage_options={"client_kwargs": {"headers": {"Authorization": "Bearer …"}}}' : "";
  return ["import xarray as xr", ...codecs(description),
    `ds = xr.open_dataset(${JSON.stringify(store)}, engine="zarr"${inGroup(group)}${headers})`].join("\n");
}

const openZarrita = (store) => ['import * as zarr from "zarrita";',
  `const group = await zarr.open(new zarr.FetchStore(${JSON.stringify(store)}), { kind: "group" });`].join("\n");
