// What the map uses of third-party packages; loaded when a map is shown.
export { select } from "d3-selection";
export { zoom, zoomIdentity } from "d3-zoom";
export { default as proj4 } from "proj4";
