// Elements without markup in strings: nothing that comes from a file is ever parsed as HTML.

/** Characters that are not seen, or turn the text around them: controls but line breaks and tabs, formats, blank letters. */
const UNSEEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]/gu;

/** Text as it is shown: what would not be seen is escaped, as `\u200b`. */
export const visible = (text) => text.replace(UNSEEN, (letter) => {
  const code = letter.codePointAt(0);
  return code > 0xffff ? `\\U${code.toString(16).padStart(8, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
});

/** Children that are there, texts as they are shown. */
const shown = (children) => children.flat(Infinity)
  .filter((child) => child !== null && child !== undefined && child !== false)
  .map((child) => (typeof child === "string" ? visible(child) : child));

/** Attributes that are read to people. */
const READ = new Set(["aria-label", "title"]);

/**
 * Makes an element. Properties that start with "on" are listeners, `class` and names with a dash or that the element
 * does not know are attributes, the rest are properties. Children that are null or false are left out.
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

export const byId = (id) => document.getElementById(id);

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** "23 bytes", "1.5 MiB". */
export function size(bytes) {
  let unit = 0;
  let value = Number(bytes);
  while (value >= 1024 && unit + 1 < UNITS.length) {
    value /= 1024;
    unit += 1;
  }
  if (unit === 0) return value === 1 ? "1 byte" : `${value} bytes`;
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${UNITS[unit]}`;
}

/** 1234567 as "1,234,567". */
export const count = (number) => Number(number).toLocaleString("en-GB");

/** "1 chunk", "3 chunks". */
export const plural = (number, noun) => `${count(number)} ${noun}${Number(number) === 1 ? "" : "s"}`;

/** Copies text, and says so on the button for a moment. */
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
  // Pages over plain HTTP have no clipboard of their own.
  const area = h("textarea", { value: text, class: "away" });
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("refused");
  return undefined;
}

/** Says something to screen readers. */
export function announce(text) {
  byId("announcer").textContent = visible(text);
}

/** Calls `paint` whenever light turns to dark or back, for what is drawn and not styled. */
export function onTheme(paint, signal) {
  window.addEventListener("themechange", paint, { signal });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint, { signal });
}
