// What the map uses of third-party packages; loaded when a map is shown.
export { default as proj4 } from "proj4";
