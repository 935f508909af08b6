// Creates elements without markup in strings: text from a file is never parsed as HTML.

/**
 * Characters that are invisible, change the direction of text, or look like an ordinary space: controls except line
 * breaks and tabs, format characters, spaces except U+0020, variation selectors, blank letters.
 */
const UNSEEN = /(?![\n\t ])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Z}\p{Variation_Selector}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]/gu;

function escaped(letter) {
  const code = letter.codePointAt(0);
  return code > 0xffff ? `\\U${code.toString(16).padStart(8, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** Escapes invisible characters in text, such as `\u200b`. */
export const visible = (text) => text.replace(UNSEEN, escaped);

/** Escapes invisible characters in a name, where a line break or tab is not layout. */
export const label = (name) => visible(String(name)).replace(/\n/g, "\\n").replace(/\t/g, "\\t");

/** Percent-encodes invisible characters in a URL. */
export const encoded = (url) => url.replace(UNSEEN, (letter) => (letter.isWellFormed() ? encodeURIComponent(letter) : ""));

/** Returns a string literal of Python and JavaScript that contains visible characters only. */
export const quoted = (text, language = "python") => JSON.stringify(String(text)).replace(UNSEEN, (letter) => {
  const code = letter.codePointAt(0).toString(16);
  return code.length > 4 && language !== "python" ? `\\u{${code}}` : escaped(letter);
});

/** Returns a path as elements, so that the direction of the letters of one segment does not affect the others. */
export const segments = (path) => String(path).split("/").flatMap((part, n) => [n ? "/" : null, part ? h("bdi", {}, label(part)) : null]);

/** Drops absent children, and escapes texts. */
const shown = (children) => children.flat(Infinity)
  .filter((child) => child !== null && child !== undefined && child !== false)
  .map((child) => (typeof child === "string" ? visible(child) : child));

/** Attributes whose text is shown or announced. */
const READ = new Set(["aria-label", "title"]);

/**
 * Creates an element. Properties that start with "on" are listeners; `class`, names with a dash and names that are not
 * properties of the element are attributes; the rest are properties. Children that are null or false are omitted.
 */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (READ.has(name)) element.setAttribute(name, visible(String(value)));
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && !name.includes("-") && name !== "list") element[name] = value;
    else element.setAttribute(name === "class" ? "class" : name, value === true ? "" : String(value));
  }
  element.append(...shown(children));
  return element;
}

/** Replaces all children. */
export function fill(parent, ...children) {
  parent.replaceChildren(...shown(children));
  return parent;
}

/** Returns an error as a line of text. */
export const failure = ({ message, hint }) => [h("span", { class: "error" }, message), hint ? ` ${hint}` : ""];

/** What the browser keeps. Without storage, nothing is kept. */
export const storage = {
  get(name) {
    try {
      return JSON.parse(localStorage.getItem(name));
    } catch {
      return null;
    }
  },
  set(name, text) {
    try {
      if (text === null) localStorage.removeItem(name);
      else localStorage.setItem(name, text);
    } catch {
      // The choice applies to this visit only.
    }
  },
};

/** Saves a file. Browsers read it after the click. */
export function download(blob, name) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export const byId = (id) => document.getElementById(id);

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Formats a size: "23 bytes", "1.5 MiB". */
export function size(bytes) {
  const unit = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, Number(bytes))) / 10));
  const value = Number(bytes) / 1024 ** unit;
  if (unit === 0) return value === 1 ? "1 byte" : `${value} bytes`;
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${UNITS[unit]}`;
}

/** Formats 1234567 as "1,234,567". */
export const count = (number) => Number(number).toLocaleString("en-GB");

/** Formats a count with its noun: "1 chunk", "3 chunks". */
export const plural = (number, noun) => `${count(number)} ${noun}${Number(number) === 1 ? "" : "s"}`;

/** Copies text, and confirms it on the button for a moment. */
export function copyButton(label, text) {
  const button = h("button", { type: "button", class: "quiet" }, label);
  button.addEventListener("click", async () => {
    const said = await copy(text()).then(() => "Copied", () => "Copying failed");
    button.textContent = said;
    announce(said);
    setTimeout(() => { button.textContent = label; }, 1500);
  });
  return button;
}

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // The clipboard API is not available over plain HTTP.
  const area = h("textarea", { value: text, class: "away" });
  document.body.append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  return isDone || Promise.reject(new Error("refused"));
}

/** Announces a text to screen readers. */
export function announce(text) {
  byId("announcer").textContent = visible(text);
}

/** Calls `paint` when the colour scheme changes, for content that is drawn rather than styled. */
export function onTheme(paint, signal) {
  window.addEventListener("themechange", paint, { signal });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint, { signal });
}
