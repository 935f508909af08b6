// The page. Its address holds the state that it shows: the file, the node, and the state of the picture.
import { Problem, address, json, token } from "./api.js";
import { drawAttributes, drawChildren, drawChunks, drawDiagnostics, drawFacts, drawFill, drawReaders } from "./details.js";
import { announce, byId, copyButton, encoded, failure, fill, h, label, plural, segments, size, storage, visible } from "./dom.js";
import { QuickLook } from "./look.js";
import { Start, isFolder, recent } from "./start.js";
import { Tree, about as aboutArray, fileName, firstArray, nearest, nodes, walk } from "./tree.js";
import { drawUse } from "./use.js";

/** Parameters of the address that name what is shown; all others are the state of the picture. */
const OWN = ["url", "path", "folder"];
const PHONE = matchMedia("(max-width: 56rem)");

const form = byId("source-form");
const input = byId("url");
const tree = new Tree({ host: byId("tree"), box: byId("tree-box"), input: byId("find"), found: byId("found") }, showNode);
const start = new Start({ openFile: (url) => to({ url }), openFolder: (folder) => to({ folder }) }, (href) => { history.pushState(null, "", href); return fromAddress(); });
/** What the service reports about itself. */
let service = {};
/** Settles when `service` is known. */
let asking = null;
/** The file that is shown, and its description. */
let shown = null;
/** The node that is shown, and its picture. */
let chosen = null;
let look = null;
let reading = new AbortController();
let readingNode = new AbortController();
/** Whether choosing a node adds an entry to the history. */
let isNavigating = false;

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const url = input.value.trim();
  history.pushState(null, "", to(isFolder(url) ? { folder: url } : { url: url.replace(/(\.\w+)\/$/, "$1") }));
  fromAddress();
});
input.addEventListener("input", () => clearProblem());
window.addEventListener("popstate", () => fromAddress());
window.addEventListener("hashchange", () => view());
window.addEventListener("sourcechange", () => {
  if (!shown || !byId("problem").hidden) return;
  showProblem(new Problem("The file has changed since it was opened.", { hint: "What is shown belongs to the version before." }),
    h("button", { type: "button", onclick: () => open(shown.url, query().get("path")) }, "Show the new version"));
});

/** Returns the address of a state, relative to the page. */
function to(state) {
  const query = new URLSearchParams(Object.entries(state).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  return `./${query.size ? `?${query}` : ""}`;
}

const query = () => new URL(location.href).searchParams;

/** Returns the state of the picture in the address. */
const pictureState = () => Object.fromEntries([...query()].filter(([name]) => !OWN.includes(name)));

/** Shows what the address says. */
async function fromAddress() {
  const url = query().get("url");
  const path = query().get("path");
  input.value = encoded(url ?? "");
  if (url && shown?.url === url) view();
  if (!url) return startPage();
  if (shown?.url !== url) return open(url, path);
  if (path && chosen?.path === path) return look?.restore?.(pictureState());
  return showPath(path);
}

/** Shows the start page; `wanted`: the file that a sign-in shows. */
function startPage(wanted = null) {
  reading.abort();
  readingNode.abort();
  shown = null;
  chosen = null;
  clearProblem();
  busy(false);
  view();
  const folder = query().get("folder");
  document.title = folder ? `${visible(fileName(folder))} – virtualize` : "virtualize";
  start.show(service, folder, wanted);
}

async function open(url, path) {
  reading.abort();
  reading = new AbortController();
  const { signal } = reading;
  shown = null;
  chosen = null;
  clearProblem();
  busy(true);
  view();
  try {
    const [description] = await Promise.all([json(address("inspect", { url, format: "zarr3-json" }), { signal }), asking]);
    shown = { url, description };
    recent.add(url);
    view();
    byId("side").open = !PHONE.matches;
    showSource(url, description);
    tree.show(description);
    showPath(path);
    announce("The file is shown.");
  } catch (error) {
    if (error.name === "AbortError") return;
    await asking;
    if (signal.aborted) return;
    startPage(error.status === 401 ? url : null);
    input.value = encoded(url);
    if (error.status === 401) {
      if (token.get()) fill(byId("sign-in-why"), "The token is not accepted. ", ...byId("sign-in-why").childNodes);
      byId("sign-in-token").focus();
      return;
    }
    showProblem(error);
    input.setAttribute("aria-invalid", "true");
    input.focus();
    input.select();
  } finally {
    if (reading.signal === signal) busy(false);
  }
}

/** Shows the node at a path, without a new entry in the history; without a path, the first array. */
function showPath(path) {
  clearProblem();
  isNavigating = true;
  try {
    if (path && tree.choose(path)) return;
    const first = firstArray(tree.root) ?? tree.root;
    if (!path) history.replaceState(null, "", to({ url: shown.url, path: first.path, ...pictureState() }));
    tree.choose(path ? nearest(tree.root, path).path : first.path);
    if (path) showProblem(new Problem(`The file has no group or array ${label(path)}.`, { hint: "The link may belong to another version of the file. The nearest group is shown." }));
  } finally {
    isNavigating = false;
  }
}

function busy(is) {
  byId("main").toggleAttribute("aria-busy", is);
  byId("open").disabled = is;
  byId("busy").hidden = !is;
}

/** Shows a problem: its detail, its hint, and a button for what to do. */
function showProblem(error, button = null) {
  const known = error instanceof Problem;
  fill(byId("problem"), h("p", {}, h("strong", {}, known ? error.message : `This page failed: ${error.message}`)),
    error.hint ? h("p", { class: "hint" }, error.hint) : null, button,
    known && (error.status || error.request) ? h("p", { class: "mute" }, [error.code, error.status && `status ${error.status}`, error.request && `request ${error.request}`].filter(Boolean).join(", ")) : null);
  byId("problem").hidden = false;
}

function clearProblem() {
  byId("problem").hidden = true;
  fill(byId("problem"));
  input.removeAttribute("aria-invalid");
}

function showSource(url, description) {
  const { file } = description;
  const arrays = [...walk(nodes(description))].filter(({ kind }) => kind === "array").length;
  const facts = [file.format, file.size !== null && size(file.size), plural(arrays, "array"),
    file.modified && `modified ${new Date(file.modified).toISOString().slice(0, 16).replace("T", " ")} UTC`, file.etag && `etag ${file.etag}`];
  const cut = url.lastIndexOf("/") + 1;
  const folder = url.slice(0, cut);
  const canList = (service.allow ?? []).some((prefix) => folder.startsWith(prefix.endsWith("/") ? prefix : `${prefix}/`)) && !/^https?:/i.test(url);
  const above = segments(folder);
  fill(byId("file-name"), canList ? h("a", { class: "where", href: to({ folder }), title: "Show the folder", onclick: (event) => start.follow(event, to({ folder })) }, above) : h("span", { class: "where" }, above),
    h("bdi", {}, label(url.slice(cut))));
  fill(byId("file-facts"), facts.filter(Boolean).join(" · "));
  const worst = ["error", "warning"].find((severity) => description.diagnostics.some((each) => each.severity === severity));
  const number = description.diagnostics.length;
  byId("file-diagnostics-box").hidden = !number;
  fill(byId("file-diagnostics-title"), h("span", { class: `mark ${worst ?? ""}` }, plural(number, "diagnostic")), " of the file");
  byId("file-diagnostics-box").open = false;
  drawDiagnostics(byId("file-diagnostics"), description, null, go);
}

const go = (path) => tree.choose(path, { focus: !PHONE.matches });

/** Shows a node, and aborts the reads of the previous one. */
function showNode(node) {
  const { url, description } = shown;
  if (!isNavigating && chosen !== node) history.pushState(null, "", to({ url, path: node.path }));
  if (!isNavigating && PHONE.matches) { byId("side").open = false; byId("node-title").focus(); }
  if (!isNavigating) clearProblem();
  readingNode.abort();
  readingNode = new AbortController();
  chosen = node;
  look = null;
  document.title = `${visible(label(node.path === "/" ? fileName(url) : node.name))} – ${label(fileName(url))} – virtualize`;
  fill(byId("node-title"), segments(node.path));
  fill(byId("node-kind"), node.kind);
  fill(byId("node-about"), node.kind === "array" ? aboutArray(node) : "");
  for (const panel of document.querySelectorAll("[data-for]")) panel.hidden = !panel.dataset.for.split(" ").includes(node.kind);
  drawDiagnostics(byId(node.kind === "array" ? "diagnostics" : "node-diagnostics"), description, node.path, go);
  fill(byId("summary"));
  if (node.kind === "omitted") { fill(byId("omitted"), node.description.because); return; }
  drawAttributes(byId("attributes"), node.description.attributes, node.description.data_type);
  drawUse(byId("use"), description, url, node, showProblem);
  if (node.kind === "group") drawChildren(byId("children"), node, go);
  else showArray(node);
}

let keeping = 0;

function showArray(node) {
  drawFacts(byId("facts"), node.description);
  drawFill(byId("fill"), node.description);
  drawReaders(byId("readers"), node.description);
  const { url, description } = shown;
  const { signal } = readingNode;
  look = new QuickLook(byId("look"), node, description.zarr.store.split("/").at(-1));
  // The address has the state of the picture. Browsers limit how often it may change.
  look.onchange = () => {
    clearTimeout(keeping);
    keeping = setTimeout(() => {
      if (chosen === node && look) history.replaceState(null, "", to({ url, path: node.path, ...look.state() }));
    }, 250);
  };
  guarded(byId("look"), () => look.show(signal, pictureState()));
  // How the array is stored is read when it is looked at.
  const box = byId("storage");
  const chunks = () => {
    if (!box.open || signal.aborted) return;
    box.removeEventListener("toggle", chunks);
    if (node.description.chunks.segments) fill(byId("layout"), h("p", { class: "mute" }, "The chunks are those of the groups that are its segments."));
    else guarded(byId("layout"), () => drawChunks(byId("layout"), url, node.path, signal));
  };
  fill(byId("layout"));
  box.addEventListener("toggle", chunks, { signal });
  chunks();
}

/** Shows the error of a failed panel in its place. */
async function guarded(host, work) {
  try {
    await work();
  } catch (error) {
    if (error.name === "AbortError") return;
    fill(host, h("p", {}, failure(error)));
  }
}

/** Shows the view that the address selects: the start page or a file. */
function view() {
  byId("start").hidden = shown !== null || !byId("busy").hidden;
  byId("source").hidden = shown === null;
}

async function restart() {
  shown = null;
  asking = json(address("about")).catch((error) => ({ needsToken: error.status === 401, failed: error.message })).then((about) => {
    service = about;
    if (query().has("url")) view();
  });
  // The start page shows what the service allows; a file is read meanwhile.
  if (!query().has("url")) await asking;
  return fromAddress();
}

const theme = byId("theme");
theme.value = document.documentElement.dataset.theme ?? "system";
theme.addEventListener("change", () => {
  const { value } = theme;
  if (value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = value;
  storage.set("virtualize.theme", value === "system" ? null : value);
  window.dispatchEvent(new Event("themechange"));
});

/** Keeps the token of one of the two forms: in the header, and on the start page. */
function keepToken(text) {
  token.set(text.trim());
  tokenBox.open = false;
  fill(byId("token-state"), token.get() ? "set" : "none");
  announce(token.get() ? "The token is kept for this tab." : "The token is forgotten.");
  restart();
}

const tokenBox = byId("token-box");
for (const [form, input] of [["token-form", "token"], ["sign-in", "sign-in-token"]]) {
  byId(form).addEventListener("submit", (event) => {
    event.preventDefault();
    const { value } = byId(input);
    byId(input).value = "";
    keepToken(value);
  });
}
byId("token-forget").addEventListener("click", () => keepToken(""));
tokenBox.addEventListener("keydown", (event) => { if (event.key === "Escape") { tokenBox.open = false; tokenBox.querySelector("summary").focus(); } });
fill(byId("token-state"), token.get() ? "set" : "none");
byId("copy-link").replaceWith(Object.assign(copyButton("Copy link", () => location.href), { id: "copy-link" }));
byId("home").addEventListener("click", (event) => start.follow(event, "./"));
restart();
