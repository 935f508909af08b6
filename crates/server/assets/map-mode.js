// The map as a mode of the viewer.
import { georeference } from "./georeference.js";

/** Returns where the viewer's array is on Earth (see `georeference`); null if its rows and columns are not horizontal axes. */
export function placeOf({ node, view }) {
  const found = georeference({ root: rootOf(node) }, node.path);
  const [rows, columns] = view.axes;
  const isShown = found && [found.y, found.x].every((axis) => axis === rows || axis === columns);
  return isShown ? found : null;
}

/** Returns the options of `MapView` for the viewer's array, slice and colours. */
export function mapOptions({ node, source, view, signal }, shade) {
  return { source, description: { root: rootOf(node) }, path: node.path, at: view.at, colours: coloursOf(view, shade), signal };
}

/** Returns colours as `MapView` takes them. `shade`: what the viewer's `shade()` returned. */
export function coloursOf({ bands }, shade) {
  if (!bands) {
    const [low, high] = shade.range;
    return { low, high, map: shade.map, reverse: shade.reverse, scale: shade.scale, palette: shade.palette };
  }
  const { axis, numbers } = bands;
  const ranged = numbers.slice(0, 3).map((index, n) => ({ index, low: shade.bands[n][0], high: shade.bands[n][1] }));
  return { axis, bands: ranged, alpha: numbers.length > 3 ? { index: numbers[3], low: 0, high: shade.opaque } : null };
}

function rootOf(node) {
  let root = node;
  while (root.parent) root = root.parent;
  return root.description;
}
