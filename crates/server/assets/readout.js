// The line below a picture or a map: where an element is, and its value.
import { bandNames, categories } from "./colour.js";
import { fill, h } from "./dom.js";
import { measured, spell, spellStored, written } from "./values.js";

/** Milliseconds that the pointer rests before an element that is not drawn is read. */
const REST = 50;

export class Readout {
  constructor(hint) {
    this.element = h("output", { class: "readout", "aria-live": "polite" }, hint);
  }

  /** Shows what `known` has: `{text, data}`. Otherwise shows what `read(signal)` returns, when the pointer rests. */
  tell(known, read) {
    clearTimeout(this.waiting);
    this.reading?.abort();
    if (known) { this.show(known); return; }
    const { signal } = (this.reading = new AbortController());
    this.waiting = setTimeout(async () => {
      try {
        const found = await read(signal);
        if (!signal.aborted) this.show(found);
      } catch (error) {
        if (error.name !== "AbortError" && !signal.aborted) fill(this.element, error.message);
      }
    }, REST);
  }

  show({ text, data }) {
    fill(this.element, text);
    Object.assign(this.element.dataset, data);
  }
}

/** Formats an element of an array as `Block.at` returns it: one value, or those of bands with their names. */
export function describe(array, found, bands) {
  if (!bands) return value(array, found[0], categories(array.attributes));
  const names = bandNames(array, bands.axis);
  return found.map((each, n) => `${names?.[bands.numbers[n]] ?? `${array.name(bands.axis)} ${bands.numbers[n]}`}: ${value(array, each)}`).join(", ");
}

function value({ type, means, attributes }, { stored, value, isMasked }, classes = null) {
  if (isMasked) return "no data (masked)";
  if (value !== value && !Array.isArray(stored)) return `no data (stored ${spellStored(stored, type)})`;
  if (means.packed) return `${measured(value, attributes)} (stored ${spell(stored)})`;
  if (Array.isArray(stored) || typeof stored === "boolean") return spellStored(stored, type, written);
  const label = classes?.find((each) => each.value === value)?.label;
  return `${measured(stored, attributes, type)}${label ? ` (${label})` : ""}`;
}
