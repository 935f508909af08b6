// What the page uses of third-party packages.
export { bin, extent, quantileSorted, ticks, tickStep } from "d3-array";
export { format } from "d3-format";
export { scaleLinear, scaleLog, scaleSymlog } from "d3-scale";
export { interpolateCividis, interpolateGreys, interpolateInferno, interpolateMagma, interpolateRdBu, interpolateTurbo, interpolateViridis, schemeTableau10 } from "d3-scale-chromatic";
