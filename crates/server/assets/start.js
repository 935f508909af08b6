// The start page: folders of the service, examples, and recent files.
import { address, json } from "./api.js";
import { announce, byId, count, failure, fill, h, label, plural, segments, size, storage } from "./dom.js";
import { decoded, fileName } from "./tree.js";
import { ascending } from "./vendor.js";

const RECENT = "virtualize.recent";
/** Maximum number of recent files. */
const KEPT = 12;
/** Number of entries that one request lists. */
const PAGE = 1000;
/** Names of files that the service may open, and of folders that are archives. */
const OPENABLE = /\.(nc4?|cdf|h5|hdf5?|he5|h4|tiff?|gtiff|geotiff|cog|btf|tf8|ome|json|dmrpp|zarr|parq(uet)?|icechunk)$/i;
const ARCHIVE = /\.(zarr|parq(uet)?|icechunk)\/$/i;

/** Returns whether a URL names a folder that is listed. */
export const isFolder = (url) => url.endsWith("/") && !ARCHIVE.test(url);

export class Start {
  /** @param {{openFile: (url) => string, openFolder: (url) => string}} links return the addresses of files and folders */
  constructor(links, visit) {
    this.links = links;
    this.visit = visit;
    this.reading = new AbortController();
  }

  /** Shows the start page, at a folder or at the list of allowed prefixes; `wanted`: the file that a sign-in shows. */
  show(about, folder, wanted = null) {
    this.reading.abort();
    this.reading = new AbortController();
    this.about = about;
    byId("sign-in").hidden = !about.needsToken && !wanted;
    fill(byId("sign-in-why"), wanted ? ["Sign in to see ", h("bdi", {}, label(fileName(wanted))), "."] : "Sign in to see the files of this service.");
    byId("folder-title").parentElement.hidden = about.needsToken === true;
    this.list("examples", about.examples ?? []);
    this.list("recent", recent.list());
    if (recent.list().length) byId("recent").append(h("button", { type: "button", class: "quiet", id: "recent-clear", onclick: () => { storage.set(RECENT, null); byId("recent-box").hidden = true; announce("The list of recent files is empty."); } }, "Clear"));
    fill(byId("version"), about.version ? `virtualize ${about.version}` : "");
    if (folder) this.folder(folder);
    else this.prefixes();
  }

  link(url, address, ...content) {
    return h("a", { href: address, title: url, onclick: (event) => this.follow(event, address) }, ...content);
  }

  /** Follows a link without loading the page again, unless the user asks for a new tab. */
  follow(event, address) {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    this.visit(address);
  }

  list(name, urls) {
    byId(`${name}-box`).hidden = !urls.length;
    fill(byId(name), h("ul", { class: "plain files" }, urls.map((url) => h("li", {},
      this.link(url, this.links.openFile(url), label(fileName(url))), h("div", { class: "mute where" }, segments(url.slice(0, url.lastIndexOf("/") + 1)))))));
  }

  prefixes() {
    const { allow = [] } = this.about;
    if (!allow.length) return fill(byId("folder"), h("p", { class: "mute" }, this.about.failed ?? "This service reads no files: it was started without --allow."));
    return fill(byId("folder"), h("ul", { class: "plain files" }, allow.map((prefix) => {
      const isFile = OPENABLE.test(prefix);
      const canList = isFile || !/^https?:/i.test(prefix);
      const folder = prefix.endsWith("/") || isFile ? prefix : `${prefix}/`;
      return h("li", {}, canList
        ? this.link(prefix, isFile ? this.links.openFile(prefix) : this.links.openFolder(folder), segments(prefix))
        : [h("button", { type: "button", class: "link", onclick: () => { byId("url").value = folder; byId("url").focus(); } }, segments(prefix)), h("span", { class: "mute" }, " (a web server: enter the URL of a file)")]);
    })));
  }

  async folder(url) {
    const { signal } = this.reading;
    const rows = h("tbody", {});
    const more = h("button", { type: "button", class: "quiet", hidden: true }, "Show more");
    const status = h("p", { class: "mute", role: "status" }, "Reading the folder …");
    const filter = h("input", { type: "search", name: "filter", autocomplete: "off", spellcheck: false, placeholder: "Filter names", "aria-label": "Filter names", oninput: () => draw() });
    const entries = [];
    const order = { by: "name", down: false };
    let next = null;
    const draw = () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      const shown = entries.filter(({ name }) => words.every((word) => name.toLowerCase().includes(word)));
      const compare = (one, other) => (order.by === "name" ? one.name.localeCompare(other.name, "en", { numeric: true }) : ascending(one[order.by] ?? "", other[order.by] ?? ""));
      shown.sort((one, other) => Number(other.isFolder) - Number(one.isFolder) || (order.down ? compare(other, one) : compare(one, other)));
      rows.replaceChildren(...shown.map((entry) => this.row(entry)));
      const folders = shown.filter((entry) => entry.isFolder).length;
      fill(status, entries.length ? `${plural(folders, "folder")}, ${plural(shown.length - folders, "file")}${words.length ? ` of ${count(entries.length)} match` : ""}${next ? " so far" : ""}.` : "The folder is empty.");
      for (const head of heads) head.setAttribute("aria-sort", head.dataset.by === order.by ? (order.down ? "descending" : "ascending") : "none");
    };
    const sort = (by) => {
      Object.assign(order, { by, down: order.by === by ? !order.down : by !== "name" });
      draw();
    };
    const heads = [["name", "Name"], ["size", "Size"], ["modified", "Modified (UTC)"]].map(([by, text]) => h("th", { scope: "col", class: by === "size" ? "number" : "", "data-by": by }, h("button", { type: "button", class: "link", onclick: () => sort(by) }, text)));
    fill(byId("folder"), this.crumbs(url), h("div", { class: "controls" }, this.parent(url), filter), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Files of the folder" }, h("table", { class: "listing" }, h("thead", {}, h("tr", {}, heads)), rows)), status, more);
    const read = async (after) => {
      more.disabled = true;
      try {
        const listed = await json(address("folder", { url, limit: PAGE, after }), { signal });
        for (const each of listed.folders) entries.push({ url: each, name: fileName(each), isFolder: isFolder(each) });
        for (const each of listed.files) entries.push({ ...each, name: decoded(each.url.slice(url.length)) || fileName(each.url), isFolder: false });
        next = listed.next;
        draw();
        more.hidden = !next;
        more.onclick = () => read(next);
      } catch (error) {
        if (error.name === "AbortError") return;
        fill(status, failure(error));
      } finally {
        more.disabled = false;
      }
    };
    await read(null);
  }

  row({ url, name, isFolder: opens, size: bytes, modified }) {
    const shown = h("bdi", {}, label(opens ? `${name}/` : name));
    const file = url.replace(/\/$/, "");
    return h("tr", {},
      h("td", {}, opens ? this.link(url, this.links.openFolder(url), h("span", { class: "folder" }, shown)) : OPENABLE.test(file) ? this.link(file, this.links.openFile(file), shown) : h("span", { class: "mute" }, shown)),
      h("td", { class: "number" }, bytes === null || bytes === undefined ? "" : size(bytes)),
      h("td", {}, modified ? h("time", { dateTime: modified }, modified.slice(0, 16).replace("T", " ")) : ""));
  }

  /** Returns a link to the folder above, or to the list of folders. */
  parent(url) {
    const above = url.replace(/[^/]*\/$/, "");
    const isAllowed = (this.about.allow ?? []).some((prefix) => above.startsWith(prefix.endsWith("/") ? prefix : `${prefix}/`));
    return isAllowed ? this.link(above, this.links.openFolder(above), "↑ Parent folder") : h("a", { href: "./", onclick: (event) => this.follow(event, "./") }, "↑ All folders");
  }

  /** Returns links to the folders above, up to the allowed prefix. */
  crumbs(url) {
    const prefix = (this.about.allow ?? []).map((each) => (each.endsWith("/") ? each : `${each}/`)).filter((each) => url.startsWith(each)).sort((a, b) => a.length - b.length)[0] ?? url;
    const steps = [prefix];
    for (const part of url.slice(prefix.length).split("/").filter(Boolean)) steps.push(`${steps.at(-1)}${part}/`);
    return h("nav", { class: "crumbs", "aria-label": "Folder" }, h("ol", {},
      h("li", {}, h("a", { href: "./", onclick: (event) => this.follow(event, "./") }, "All folders")),
      steps.map((step, n) => h("li", {}, n + 1 === steps.length
        ? h("span", { "aria-current": "location" }, segments(n ? `${fileName(step)}` : step))
        : this.link(step, this.links.openFolder(step), segments(n ? fileName(step) : step))))));
  }
}

/** The recent files, which the browser keeps: URLs only, and none that may contain a credential. */
export const recent = {
  list() {
    const kept = storage.get(RECENT);
    return Array.isArray(kept) ? kept.filter((url) => typeof url === "string" && plain(url)).slice(0, KEPT) : [];
  },
  add(url) {
    if (plain(url)) storage.set(RECENT, JSON.stringify([url, ...recent.list().filter((each) => each !== url)].slice(0, KEPT)));
  },
};

/** Returns whether a URL has no query, fragment or user name, any of which may be a credential. */
const plain = (url) => !/[?#]|\/\/[^/]*@/.test(url);
