// Positions between longitude and latitude and the coordinates of a system, by proj4js.
import { proj4 } from "./vendor-map.js";


/**
 * Returns the functions `forward` and `inverse` of a system: of longitude and latitude in degrees, east of Greenwich and
 * on the system's own ellipsoid, to `[x, y]`, and back. No datum is shifted. `definition` is a PROJ string without a
 * datum, or a definition that proj4js has parsed.
 */
export function transformer(definition) {
  const system = typeof definition === "string" ? new proj4.Proj(withPlus(definition)) : definition;
  const { a, b } = system;
  const degrees = new proj4.Proj(`+proj=longlat +a=${a} +b=${b}`);
  const pair = proj4(degrees, system);
  // The axes of a few systems point west or south, which proj4js heeds only if it is asked to.
  return { forward: (point) => pair.forward(point, true), inverse: (point) => pair.inverse(point, true) };
}

const withPlus = (definition) => definition.split(" ").filter(Boolean).map((part) => (part.startsWith("+") ? part : `+${part}`)).join(" ");
