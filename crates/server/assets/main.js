// The page. Its address holds the state that it shows.
import { Problem, address, json, token } from "./api.js";
import { drawAttributes, drawChildren, drawDiagnostics, drawFacts, drawFill, drawReaders } from "./details.js";
import { announce, byId, count, fill, h, plural, size } from "./dom.js";
import { Jobs } from "./jobs.js";
import { drawLayout } from "./layout.js";
import { QuickLook } from "./look.js";
import { Tree } from "./tree.js";
import { drawUse } from "./use.js";
import { width } from "./values.js";

const form = byId("source-form");
const input = byId("url");
const tree = new Tree(byId("tree"), (node) => showNode(node));
const jobs = new Jobs(showProblem);
/** The current state: `{url, description}`. */
let shown = null;
let reading = new AbortController();
let readingNode = new AbortController();

form.addEventListener("submit", (event) => {
  event.preventDefault();
  visit({ url: input.value.trim() });
});
input.addEventListener("input", () => clearProblem());
window.addEventListener("popstate", () => fromAddress());
window.addEventListener("hashchange", () => view());

/** Writes a state to the address, and shows it. */
function visit(state, { replace = false } = {}) {
  const to = new URL(location.href);
  for (const name of ["url", "path"]) {
    if (state[name] && state[name] !== "/") to.searchParams.set(name, state[name]);
    else to.searchParams.delete(name);
  }
  to.hash = "";
  if (to.href !== location.href) history[replace ? "replaceState" : "pushState"](null, "", to);
  return fromAddress();
}

function fromAddress() {
  const query = new URL(location.href).searchParams;
  const url = query.get("url") ?? "";
  const path = query.get("path") ?? "/";
  view();
  input.value = url;
  if (!url) return nothing();
  if (shown?.url !== url) return open(url, path);
  return chosen?.path === path ? undefined : tree.choose(path) || tree.choose("/");
}

function nothing() {
  reading.abort();
  shown = null;
  clearProblem();
  byId("start").hidden = false;
  byId("source").hidden = true;
  document.title = "virtualize";
}

async function open(url, path) {
  reading.abort();
  reading = new AbortController();
  const { signal } = reading;
  shown = null;
  clearProblem();
  busy(true);
  try {
    const description = await json(address("inspect", { url, format: "zarr3-json" }), { signal });
    shown = { url, description };
    byId("start").hidden = true;
    byId("source").hidden = false;
    showSource(url, description);
    tree.show(description);
    if (!tree.choose(path)) tree.choose("/");
    document.title = `${url.split("/").at(-1)} – virtualize`;
    announce("The file is shown.");
  } catch (error) {
    if (error.name === "AbortError") return;
    byId("source").hidden = true;
    byId("start").hidden = false;
    showProblem(error);
    input.setAttribute("aria-invalid", "true");
    if (error.status === 401) { byId("token-box").open = true; byId("token").focus(); } else { input.focus(); input.select(); }
  } finally {
    if (reading.signal === signal) busy(false);
  }
}

function busy(is) {
  byId("main").toggleAttribute("aria-busy", is);
  byId("open").disabled = is;
  byId("busy").hidden = !is;
}

/** Shows a problem: its detail and its hint. */
function showProblem(error) {
  const known = error instanceof Problem;
  fill(byId("problem"), h("p", {}, h("strong", {}, known ? error.message : `This page failed: ${error.message}`)),
    error.hint ? h("p", { class: "hint" }, error.hint) : null,
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
  const nodes = [...byKind(description.root)];
  const arrays = nodes.filter((node) => node.node === "array").length;
  const facts = [file.format, file.size !== null && size(file.size), plural(arrays, "array"), plural(nodes.length - arrays, "group"),
    file.modified && `modified ${new Date(file.modified).toISOString().slice(0, 19).replace("T", " ")}`, file.etag && `etag ${file.etag}`];
  fill(byId("file-name"), url);
  fill(byId("file-facts"), facts.filter(Boolean).join(" · "));
  const worst = ["error", "warning"].find((severity) => description.diagnostics.some((each) => each.severity === severity));
  const number = description.diagnostics.length;
  fill(byId("file-diagnostics-title"), `Diagnostics of the file (${count(number)})`);
  byId("file-diagnostics-box").open = worst !== undefined && number <= 6;
  drawDiagnostics(byId("file-diagnostics"), description, null, go);
}

function* byKind(node) {
  yield node;
  for (const child of Object.values(node.children ?? {})) yield* byKind(child);
}

const go = (path) => tree.choose(path, { focus: true });

let chosen = null;

/** Shows a node, and aborts the reads of the previous one. */
function showNode(node) {
  readingNode.abort();
  readingNode = new AbortController();
  chosen = node;
  const { url, description } = shown;
  const to = new URL(location.href);
  if ((to.searchParams.get("path") ?? "/") !== node.path) {
    if (node.path === "/") to.searchParams.delete("path");
    else to.searchParams.set("path", node.path);
    history.replaceState(null, "", to);
  }
  const isArray = node.kind === "array";
  fill(byId("node-title"), node.path);
  fill(byId("node-kind"), node.kind === "left-out" ? "left out" : node.kind);
  for (const panel of document.querySelectorAll("[data-for]")) panel.hidden = !panel.dataset.for.split(" ").includes(node.kind);
  drawDiagnostics(byId("diagnostics"), description, node.path, go);
  if (node.kind === "left-out") { fill(byId("left-out"), node.description.because); return; }
  drawAttributes(byId("attributes"), node.description.attributes, node.description.data_type);
  drawUse(byId("use"), description, url, groupOf(node), showProblem);
  if (node.kind === "group") drawChildren(byId("children"), node, go);
  if (!isArray) return;
  drawFacts(byId("facts"), node.description);
  drawFill(byId("fill"), node.description);
  drawReaders(byId("readers"), node.description);
  const { signal } = readingNode;
  guarded(byId("layout"), () => drawLayout(byId("layout"), url, node.path, signal));
  if (!width(node.description.data_type)) {
    fill(byId("look"), h("p", { class: "mute" }, `Values of the type ${node.description.data_type} are not drawn.`));
    return;
  }
  const look = new QuickLook(byId("look"), (name, length) => coordinates(node, name, length));
  guarded(byId("look"), () => look.show(segment(description), node.path, isPlain(node.description), signal));
}

/** Shows the error of a failed panel in its place. */
async function guarded(host, work) {
  try {
    await work();
  } catch (error) {
    if (error.name === "AbortError") return;
    fill(host, h("p", {}, h("span", { class: "error" }, error.message)), error.hint ? h("p", { class: "hint" }, error.hint) : null);
  }
}

/** Returns the path segment that names the source in the version shown. */
const segment = ({ zarr }) => (zarr.versioned ?? zarr.store).split("/").filter(Boolean).at(-1);

const isPlain = ({ codecs }) => codecs.length === 1 && codecs[0].name === "bytes";

const groupOf = (node) => (node.kind === "group" ? node : node.parent).path.replace(/^\//, "");

/** Finds the coordinates of a dimension: an array of the same name with one axis, in the group or an ancestor. */
function coordinates(node, name, length) {
  for (let group = node.parent; group; group = group.parent) {
    const found = group.children.find((child) => child.name === name && child.kind === "array");
    const { description } = found ?? {};
    if (description?.shape.length === 1 && description.shape[0] === length && description.dimensions?.[0] === name) {
      return { path: found.path, attributes: description.attributes };
    }
  }
  return null;
}

/** Shows the view that the address selects: inspection or jobs. */
function view() {
  const isJobs = location.hash === "#jobs" && !byId("nav-jobs").hidden;
  byId("jobs").hidden = !isJobs;
  byId("inspect").hidden = isJobs;
  byId("nav-inspect").toggleAttribute("aria-current", !isJobs);
  byId("nav-jobs").toggleAttribute("aria-current", isJobs);
  if (isJobs) jobs.refresh();
}

/** Shows the allowed prefixes; hides the hint if the service does not report them. */
async function about() {
  try {
    const said = await json(address("about"));
    const allowed = said.allow ?? [];
    fill(byId("allowed"), allowed.length
      ? ["This service reads files below ", allowed.flatMap((prefix, n) => [n ? ", " : "", h("button", { type: "button", class: "link", onclick: () => begin(prefix) }, h("code", {}, prefix))])]
      : "This service reads no files: it was started without --allow.");
    if (said.version) fill(byId("version"), said.version);
  } catch {
    byId("allowed").hidden = true;
  }
}

function begin(given) {
  const prefix = /\.[a-z0-9]{1,5}$|\/$/i.test(given) ? given : `${given}/`;
  input.value = prefix;
  input.focus();
  input.setSelectionRange(prefix.length, prefix.length);
}

function themeSwitch() {
  const root = document.documentElement;
  const select = byId("theme");
  select.value = root.dataset.theme ?? "system";
  select.addEventListener("change", () => {
    if (select.value === "system") delete root.dataset.theme;
    else root.dataset.theme = select.value;
    try {
      if (select.value === "system") localStorage.removeItem("virtualize.theme");
      else localStorage.setItem("virtualize.theme", select.value);
    } catch {
      // Without storage, the choice applies to this visit only.
    }
    window.dispatchEvent(new Event("themechange"));
  });
}

function tokenBox() {
  const box = byId("token-box");
  const state = () => fill(byId("token-state"), token.get() ? "set" : "none");
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    token.set(byId("token").value.trim());
    byId("token").value = "";
    box.open = false;
    state();
    announce(token.get() ? "The token is kept for this tab." : "The token is forgotten.");
    restart();
  });
  byId("token-forget").addEventListener("click", () => { token.set(""); state(); box.open = false; restart(); });
  box.addEventListener("keydown", (event) => { if (event.key === "Escape") { box.open = false; box.querySelector("summary").focus(); } });
  state();
}

async function findJobs() {
  byId("nav-jobs").hidden = !await jobs.available();
  view();
}

async function restart() {
  shown = null;
  await Promise.all([about(), findJobs()]);
  return fromAddress();
}

themeSwitch();
tokenBox();
restart();
