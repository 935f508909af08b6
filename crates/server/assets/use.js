// References to download, and code for other software, which works as it is shown.
import { address, request, token } from "./api.js";
import { announce, copyButton, fill, h, visible } from "./dom.js";
import { fileName, firstArray, walk } from "./nodes.js";
import { snippets } from "./snippets.js";

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
  const all = snippets({
    url, store, group, hasToken: token.get() !== "",
    array: node.kind === "array" ? node : firstArray(group),
    plain: store.replace("/v1/zarr/", "/v1/plain/"),
    references: address("references", { url, format: "kerchunk-json" }).href,
    arrays: [...walk(group)].filter((each) => each.kind === "array"),
  });
  const name = saved(url);
  fill(host,
    all.map((snippet, n) => lines(snippet, n === 0)),
    h("h4", {}, "Address of the Zarr store, in the version shown"),
    h("div", { class: "bar" }, h("code", { "data-lines": "address" }, store), copyButton("Copy", () => store)),
    h("h4", {}, "References"),
    h("div", { class: "buttons" }, FORMATS.map(([format, label, title, end]) => download(url, format, `${name}.${end}`, label, title, failed))));
}

/** Returns the name of a download, without characters that are invisible or that systems treat specially. */
const saved = (url) => visible(fileName(url)).replace(/\.[^.]*$/, "").normalize("NFC").replace(/[^\p{L}\p{N}\p{M}._-]+/gu, "_").replace(/^[._]+/, "").slice(0, 100) || "references";

function download(url, format, name, label, title, failed) {
  const from = address("references", { url, format }).href;
  if (!token.get()) return h("a", { class: "button quiet", href: from, download: name, title, "data-format": format }, `Download ${label}`);
  // A link cannot send the token.
  const button = h("button", { type: "button", class: "quiet", title, "data-format": format }, `Download ${label}`);
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

function lines({ id, title, needs, text }, open) {
  return h("details", { class: "lines", open, name: "lines" }, h("summary", {}, title, needs ? h("span", { class: "mute" }, ` ${needs}`) : null),
    h("div", { class: "code" }, h("pre", { tabindex: "0", role: "region", "aria-label": `Code for ${title}`, "data-lines": id }, text), copyButton("Copy", () => text)));
}
