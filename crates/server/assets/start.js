// The start page: folders of the service, examples, and recent files.
import { address, json } from "./api.js";
import { announce, byId, fill, h, label, plural, segments, size } from "./dom.js";
import { fileName } from "./nodes.js";

const RECENT = "virtualize.recent";
/** Maximum number of recent files. */
const KEPT = 12;
/** Number of entries that one request lists. */
const PAGE = 200;
/** Names of files that the service may open. */
const OPENABLE = /\.(nc4?|cdf|h5|hdf5?|he5|h4|tiff?|gtiff|geotiff|cog|btf|tf8|ome)$/i;

export class Start {
  /** @param {{openFile: (url) => string, openFolder: (url) => string}} links return the addresses of files and folders */
  constructor(links, visit) {
    this.links = links;
    this.visit = visit;
    this.reading = new AbortController();
  }

  /** Shows the start page, at a folder or at the list of allowed prefixes. */
  show(about, folder) {
    this.reading.abort();
    this.reading = new AbortController();
    this.about = about;
    byId("sign-in").hidden = !about.needsToken;
    byId("folder-title").parentElement.hidden = about.needsToken === true;
    this.list("examples", about.examples ?? []);
    this.list("recent", recent.list());
    if (recent.list().length) byId("recent").append(h("button", { type: "button", class: "quiet", id: "recent-clear", onclick: () => { recent.clear(); byId("recent-box").hidden = true; announce("The list of recent files is empty."); } }, "Clear"));
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
        : [h("button", { type: "button", class: "link", onclick: () => begin(folder) }, segments(prefix)), h("span", { class: "mute" }, " (a web server: enter the URL of a file)")]);
    })));
  }

  async folder(url) {
    const { signal } = this.reading;
    const host = byId("folder");
    const rows = h("tbody", {});
    const more = h("button", { type: "button", class: "quiet", hidden: true }, "Show more");
    const status = h("p", { class: "mute", role: "status" }, "Reading the folder …");
    fill(host, this.crumbs(url), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Files of the folder" }, h("table", { class: "listing" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Name"), h("th", { scope: "col", class: "number" }, "Size"), h("th", { scope: "col" }, "Modified (UTC)"))), rows)), status, more);
    const shown = { folders: 0, files: 0 };
    const read = async (after) => {
      more.disabled = true;
      try {
        const listed = await json(address("folder", { url, limit: PAGE, after }), { signal });
        rows.append(...listed.folders.map((each) => this.row(each, url)), ...listed.files.map((each) => this.row(each, url)));
        shown.folders += listed.folders.length;
        shown.files += listed.files.length;
        fill(status, shown.folders + shown.files ? `${plural(shown.folders, "folder")}, ${plural(shown.files, "file")}${listed.next ? " so far" : ""}.` : "The folder is empty.");
        more.hidden = !listed.next;
        more.onclick = () => read(listed.next);
      } catch (error) {
        if (error.name === "AbortError") return;
        fill(status, h("span", { class: "error" }, error.message), error.hint ? ` ${error.hint}` : "");
      } finally {
        more.disabled = false;
      }
    };
    await read(null);
  }

  row(entry, folder) {
    if (typeof entry === "string") {
      return h("tr", {}, h("td", {}, this.link(entry, this.links.openFolder(entry), h("span", { class: "folder" }, h("bdi", {}, label(`${fileName(entry)}/`))))), h("td", {}), h("td", {}));
    }
    const name = h("bdi", {}, label(decoded(entry.url.slice(folder.length)) || fileName(entry.url)));
    return h("tr", {},
      h("td", {}, OPENABLE.test(entry.url) ? this.link(entry.url, this.links.openFile(entry.url), name) : h("span", { class: "mute" }, name)),
      h("td", { class: "number" }, entry.size === null || entry.size === undefined ? "" : size(entry.size)),
      h("td", {}, entry.modified ? h("time", { dateTime: entry.modified }, entry.modified.slice(0, 16).replace("T", " ")) : ""));
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

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Puts a prefix into the field for the URL. */
function begin(prefix) {
  const input = byId("url");
  input.value = prefix;
  input.focus();
  input.setSelectionRange(prefix.length, prefix.length);
}

/** The recent files, which the browser keeps: URLs only, and none that may contain a credential. */
export const recent = {
  list() {
    try {
      const kept = JSON.parse(localStorage.getItem(RECENT) ?? "[]");
      return Array.isArray(kept) ? kept.filter((url) => typeof url === "string" && plain(url)).slice(0, KEPT) : [];
    } catch {
      return [];
    }
  },
  add(url) {
    if (!plain(url)) return;
    try {
      localStorage.setItem(RECENT, JSON.stringify([url, ...recent.list().filter((each) => each !== url)].slice(0, KEPT)));
    } catch {
      // Without storage there is no list.
    }
  },
  clear() {
    try {
      localStorage.removeItem(RECENT);
    } catch {
      // Without storage there is no list.
    }
  },
};

/** Returns whether a URL has no query, fragment or user name, any of which may be a credential. */
const plain = (url) => !/[?#]|\/\/[^/]*@/.test(url);
