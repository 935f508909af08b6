// What the page uses of third-party packages.
export { ascending, bisectRight, bisector, extent, ticks } from "d3-array";
export { format } from "d3-format";
export { interpolateCividis, interpolateGreys, interpolateInferno, interpolateMagma, interpolateRdBu, interpolateTurbo, interpolateViridis, schemeTableau10 } from "d3-scale-chromatic";
