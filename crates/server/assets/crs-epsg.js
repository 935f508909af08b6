// Coordinate reference systems of the EPSG dataset, from a table that crates/server/page/epsg.py makes with PROJ.
import { readPacked } from "./packed.js";

let reading = null;

/** Returns the system of an EPSG code: `{code, name, definition, area}`; null if the table lacks it. */
export async function epsg(code) {
  reading ??= readPacked("epsg.txt").then((bytes) => parse(new TextDecoder().decode(bytes)));
  try {
    return (await reading).get(code) ?? null;
  } catch (error) {
    reading = null;
    throw error;
  }
}

/** Each line has the step of the code, name, definition and area of use; a word that equals the one above is empty. */
function parse(text) {
  const systems = new Map();
  let code = 0;
  let above = [[], [], []];
  for (const line of text.split("\n")) {
    const [step, ...cells] = line.split("\t");
    const columns = cells.map((cell, column) => cell.split(" ").map((word, n) => word || above[column][n]));
    code += Number(step);
    const [name, definition, area] = columns;
    systems.set(code, { code, name: name.join(" "), definition: definition.join(" "), area: area.map(Number) });
    above = columns;
  }
  return systems;
}
