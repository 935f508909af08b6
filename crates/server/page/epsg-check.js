// Reads systems from standard input, and writes the largest error of proj4js for each, in metres, by code.
import { readFileSync } from "node:fs";
import { transformer } from "../assets/crs.js";

const round = (degrees) => Math.abs(((degrees + 540) % 360) - 180);

/** Returns the distance between expected and computed positions, of both directions. */
function error({ definition, points, expected, metres }) {
  const to = transformer(definition);
  let most = 0;
  points.forEach(([longitude, latitude], n) => {
    const [x, y] = to.forward([longitude, latitude]);
    const [back, up] = to.inverse(expected[n]);
    const forward = Math.hypot(x - expected[n][0], y - expected[n][1]) * metres;
    const inverse = Math.hypot(round(back - longitude) * Math.cos((latitude * Math.PI) / 180), up - latitude) * 111320;
    for (const each of [forward, inverse]) most = Math.max(most, each === each ? each : Infinity);
  });
  return most;
}

const errors = JSON.parse(readFileSync(0, "utf8")).map((system) => {
  try {
    return [system.code, Math.min(1e9, error(system))];
  } catch {
    return [system.code, 1e9];
  }
});
console.log(JSON.stringify(Object.fromEntries(errors)));
