// Coordinate reference systems: positions between longitude and latitude and the coordinates of a file, by proj4js.
import { readPacked } from "./api.js";
import { proj4 } from "./vendor-map.js";

/** Methods of WKT that proj4js reads and computes as PROJ does; a test compares all systems of EPSG. */
const WKT_METHODS = new Set([
  "albers", "albersconicequalarea", "albersequalarea", "americanpolyconic", "polyconic", "azimuthalequidistant", "modifiedazimuthalequidistant",
  "equalearth", "hotineobliquemercator", "hotineobliquemercatorvarianta", "lambertazimuthalequalarea", "lambertconformalconic",
  "lambertconformalconic1sp", "lambertconformalconic2sp", "lambertconicconformal1sp", "lambertconicconformal2sp", "mercator1sp", "mercatorvarianta",
  "mercatorvariantaspherical", "obliquestereographic", "doublestereographic", "polarstereographic", "polarstereographicvarianta", "polarstereographicvariantb",
  "mercatorauxiliarysphere", "transversemercator", "gausskruger", "sinusoidal", "mollweide", "krovaknorthorientated",
]);
/** The value by which proj4js marks a system whose datum is not shifted. */
const NO_DATUM = 5;
/** Projections that are not defined, or not unique, far from their centre. */
const LOCAL = /^(tmerc|utm|etmerc|omerc|somerc|cass|krovak|poly|nzmg|sterea|Transverse|Gauss|Hotine|American|Polyconic|Krovak|Oblique|Double)/i;
/** Projections in which x is proportional to longitude, and continues past the date line. */
const CYLINDRICAL = /^(merc|eqc|cea|mill|mercator)/i;
const PLAIN = { name: "longitude and latitude", isGeographic: true, unit: "°", metres: null, area: null, isLocal: false, forward: (point) => point, inverse: (point) => point };

/**
 * Returns the system of a file. `code` is that of the attribute `proj:code`; `mapping` holds the attributes of the grid
 * mapping variable; both may be null. `degrees`: the coordinates are known to be longitudes and latitudes. Throws an
 * error that names the reason if positions cannot be computed.
 *
 * `forward` and `inverse` convert `[longitude, latitude]` in degrees, on the system's own datum, to `[x, y]` and back.
 * `metres` is the length of a unit of x and y; null for degrees. Positions without an equivalent are NaN.
 */
export async function loadCrs({ code = null, mapping = null, degrees = false }) {
  const attributes = mapping ?? {};
  if (degrees && (isGeographic(attributes) || !mapping)) return PLAIN;
  const fromMapping = () => projected(attributes.grid_mapping_name.replaceAll("_", " "), definition(attributes));
  if (attributes.grid_mapping_name in METHODS && ellipsoid(attributes)) return fromMapping();
  const wkt = [attributes.crs_wkt, attributes.spatial_ref].find((text) => typeof text === "string" && text.includes("["));
  if (wkt) return fromWkt(wkt);
  const named = code ?? [attributes.spatial_ref, attributes.epsg_code].find((text) => /^EPSG:\d+/i.test(text)) ?? null;
  const found = named && await epsg(/^EPSG:(\d+)/i.exec(named)?.[1]);
  if (named && !found) throw new Error(`positions in ${named} cannot be computed here`);
  if (found) return found;
  if (isGeographic(attributes)) return PLAIN;
  if (attributes.grid_mapping_name) return fromMapping();
  if (attributes.geo_keys?.GTModelTypeGeoKey) throw new Error("neither an EPSG code nor WKT describes the system of the GeoKeys exactly");
  throw new Error("the file does not declare a coordinate reference system");
}

const UNITS = { "us-ft": ["US ft", 1200 / 3937], ft: ["ft", 0.3048] };

/** Returns the system of a PROJ string. */
function projected(name, text, area = null) {
  const value = (key) => new RegExp(`${key}=(\\S+)`).exec(text)?.[1];
  const kind = value("proj");
  const isDegrees = kind === "longlat" || kind === "ob_tran";
  const [unit, metres] = isDegrees ? ["°", null]
    : value("to_meter") ? ["units", value("to_meter").split("/").map(Number).reduce((up, down) => up / down)]
    : value("units") ? UNITS[value("units")] ?? ["units", NaN] : ["m", 1];
  return { name, isGeographic: kind === "longlat", unit, metres, area, isLocal: LOCAL.test(kind), isCylindrical: CYLINDRICAL.test(kind), ...checked(transformer(text), kind, metres) };
}

async function fromWkt(wkt) {
  const name = /\["([^"]*)"/.exec(wkt)?.[1] ?? "a system without a name";
  const problem = wktProblem(wkt);
  if (problem) {
    const found = await epsg(/(?:ID|AUTHORITY)\["EPSG","?(\d+)"?\]\]\s*$/.exec(wkt)?.[1]);
    if (!found) throw new Error(`positions in "${name}" cannot be computed here: ${problem}`);
    return found;
  }
  let system;
  try {
    system = new proj4.Proj(wkt);
  } catch {
    throw new Error(`positions in "${name}" cannot be computed here`);
  }
  system.datum.datum_type = NO_DATUM;
  // Rasters have easting before northing, in whatever order the system names its axes.
  if (!/^(ws|sw)/.test(system.axis)) system.axis = "enu";
  const isGeographic = system.projName === "longlat";
  const metres = system.to_meter ?? 1;
  const shown = isGeographic ? { unit: "°", metres: null } : { unit: metres === 1 ? "m" : "units", metres };
  return { name, isGeographic, ...shown, area: null, isLocal: LOCAL.test(system.projName), isCylindrical: CYLINDRICAL.test(system.projName), ...checked(transformer(system), system.projName, shown.metres) };
}

/** Returns why a system in WKT is not computed; null if it is. */
function wktProblem(wkt) {
  const method = /(?:METHOD|PROJECTION)\s*\[\s*"([^"]*)"/.exec(wkt)?.[1];
  if (method && !WKT_METHODS.has(method.toLowerCase().replaceAll(/[^a-z0-9]/g, ""))) return `the method ${method} is not supported`;
  if (/PRIMEM\["[^"]*",\s*(?!-?0(\.0*)?[\],])/.test(wkt)) return "its prime meridian is not that of Greenwich";
  if (/"grads?"/i.test(wkt)) return "its angles are in grads";
  if (/^\s*(COMPOUNDCRS|COMPD_CS|BOUNDCRS|GEODCRS|GEOCCS|ENGCRS|ENGINEERINGCRS|LOCAL_CS)/.test(wkt)) return "it is no plain horizontal system";
  return null;
}

/**
 * Makes functions that return NaN where a position has no equivalent: outside the domain of a projection, its functions
 * return numbers that do not lead back.
 */
function checked({ forward, inverse }, kind, metres) {
  const attempt = (work, point) => {
    try {
      const found = work([...point]);
      return Number.isFinite(found[0]) && Number.isFinite(found[1]) ? found : [NaN, NaN];
    } catch {
      return [NaN, NaN];
    }
  };
  const tolerance = metres === null ? 1e-5 : 1 / (metres || 1);
  const samePlace = ([x1, y1], [x2, y2]) => Math.abs(y1 - y2) < 1e-4 && Math.abs(((x1 - x2 + 540) % 360) - 180) * Math.cos((y1 * Math.PI) / 180) < 1e-4;
  // East of the date line, cylindrical projections continue past their width.
  const samePoint = ([x1, y1], [x2, y2]) => Math.abs(y1 - y2) < tolerance && (CYLINDRICAL.test(kind) || Math.abs(x1 - x2) < tolerance);
  const both = (there, back, same) => (point) => {
    const found = attempt(there, point);
    return same(point, attempt(back, found)) ? found : [NaN, NaN];
  };
  if (kind === "longlat") return { forward: (point) => attempt(forward, point), inverse: (point) => attempt(inverse, point) };
  return { forward: both(forward, inverse, samePlace), inverse: both(inverse, forward, samePoint) };
}

/** Parameters by projection: names of PROJ and of CF. */
const OFFSETS = { x_0: "false_easting", y_0: "false_northing" };
const METHODS = {
  albers_conical_equal_area: (a) => ["aea", { ...parallels(a), lat_0: "latitude_of_projection_origin", lon_0: "longitude_of_central_meridian" }],
  azimuthal_equidistant: () => ["aeqd", { lat_0: "latitude_of_projection_origin", lon_0: "longitude_of_projection_origin" }],
  geostationary: (a) => ["geos", { lon_0: "longitude_of_projection_origin", h: "perspective_point_height", sweep: () => a.sweep_angle_axis ?? { x: "y", y: "x" }[a.fixed_angle_axis] ?? "y" }],
  lambert_azimuthal_equal_area: () => ["laea", { lat_0: "latitude_of_projection_origin", lon_0: "longitude_of_projection_origin" }],
  lambert_conformal_conic: (a) => ["lcc", { ...parallels(a), lat_0: origin(a, parallels(a).lat_1), lon_0: "longitude_of_central_meridian" }],
  lambert_cylindrical_equal_area: (a) => ["cea", { lon_0: "longitude_of_central_meridian", lat_ts: a.standard_parallel === undefined ? 0 : "standard_parallel" }],
  mercator: (a) => ["merc", { lon_0: "longitude_of_projection_origin", ...scaled(a) }],
  orthographic: () => ["ortho", { lat_0: "latitude_of_projection_origin", lon_0: "longitude_of_projection_origin" }],
  polar_stereographic: (a) => ["stere", { lat_0: origin(a, 90 * Math.sign(parallels(a).lat_1)), lon_0: a.straight_vertical_longitude_from_pole === undefined ? "longitude_of_projection_origin" : "straight_vertical_longitude_from_pole", ...scaled(a) }],
  sinusoidal: () => ["sinu", { lon_0: "longitude_of_projection_origin" }],
  stereographic: (a) => ["stere", { lat_0: "latitude_of_projection_origin", lon_0: "longitude_of_projection_origin", ...scaled(a) }],
  transverse_mercator: (a) => ["tmerc", { lat_0: "latitude_of_projection_origin", lon_0: "longitude_of_central_meridian", k_0: a.scale_factor_at_central_meridian === undefined ? 1 : "scale_factor_at_central_meridian" }],
  rotated_latitude_longitude: (a) => ["ob_tran", { o_proj: () => "longlat", o_lat_p: "grid_north_pole_latitude", o_lon_p: a.north_pole_grid_longitude === undefined ? 0 : "north_pole_grid_longitude", lon_0: 180 + number(a, "grid_north_pole_longitude") }],
};

const parallels = ({ standard_parallel: given }) => {
  const [first, second] = [given].flat();
  return second === undefined ? { lat_1: Number(first) } : { lat_1: Number(first), lat_2: Number(second) };
};

/** Some writers omit the latitude of origin where another parameter implies it. */
const origin = ({ latitude_of_projection_origin: given }, implied) => (given === undefined && Number.isFinite(implied) ? implied : "latitude_of_projection_origin");

const scaled = (a) => (a.standard_parallel === undefined ? { k_0: a.scale_factor_at_projection_origin === undefined ? 1 : "scale_factor_at_projection_origin" } : { lat_ts: "standard_parallel" });

const ELLIPSOIDS = { "WGS 84": "WGS84", WGS84: "WGS84", "GRS 1980": "GRS80", GRS80: "GRS80" };

function number(attributes, name) {
  const value = Number([attributes[name]].flat()[0]);
  if (!Number.isFinite(value)) throw new Error(`the attribute ${name} of the grid mapping is missing, or is not a number`);
  return value;
}

/** Returns the ellipsoid as PROJ writes it; null if the attributes do not determine it. */
function ellipsoid(a) {
  if (a.semi_major_axis !== undefined) {
    const axis = `+a=${number(a, "semi_major_axis")}`;
    if (a.inverse_flattening !== undefined) return number(a, "inverse_flattening") === 0 ? `+R=${number(a, "semi_major_axis")}` : `${axis} +rf=${number(a, "inverse_flattening")}`;
    if (a.semi_minor_axis !== undefined) return `${axis} +b=${number(a, "semi_minor_axis")}`;
    return `+R=${number(a, "semi_major_axis")}`;
  }
  if (a.earth_radius !== undefined) return `+R=${number(a, "earth_radius")}`;
  const known = ELLIPSOIDS[a.reference_ellipsoid_name];
  return known ? `+ellps=${known}` : null;
}

/** Returns whether the coordinates are longitudes and latitudes. */
const isGeographic = (attributes) => attributes.grid_mapping_name === "latitude_longitude";

/** Returns the PROJ string of a grid mapping. Throws if it cannot be expressed. Without an ellipsoid, WGS 84 is assumed, as in pyproj. */
function definition(attributes) {
  const method = METHODS[attributes.grid_mapping_name];
  if (!method) throw new Error(`the grid mapping ${attributes.grid_mapping_name} is not supported`);
  const [name, parameters] = method(attributes);
  const offsets = Object.entries(OFFSETS).filter(([, from]) => attributes[from] !== undefined);
  const parts = Object.entries({ ...parameters, ...Object.fromEntries(offsets) }).map(([key, from]) => `+${key}=${typeof from === "function" ? from() : typeof from === "string" ? number(attributes, from) : from}`);
  const prime = attributes.longitude_of_prime_meridian ? [`+pm=${number(attributes, "longitude_of_prime_meridian")}`] : [];
  return [`+proj=${name}`, ...parts, ...prime, ellipsoid(attributes) ?? "+ellps=WGS84"].join(" ");
}

/** Returns the system of an EPSG code; null if the table lacks it. A code of two systems, such as 26711+3855, is that of the first. */
async function epsg(code) {
  const systems = await readPacked("epsg.txt", (bytes) => parse(new TextDecoder().decode(bytes)));
  const found = systems.get(Number(code));
  return found ? projected(`EPSG:${code} ${found.name}`, found.definition, found.area) : null;
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
    systems.set(code, { name: name.join(" "), definition: definition.join(" "), area: area.map(Number) });
    above = columns;
  }
  return systems;
}

/**
 * Returns the functions `forward` and `inverse` of a system: of longitude and latitude in degrees, east of Greenwich and
 * on the system's own ellipsoid, to `[x, y]`, and back. No datum is shifted. `definition` is a PROJ string without a
 * datum, or a definition that proj4js has parsed.
 */
function transformer(definition) {
  const system = typeof definition === "string" ? new proj4.Proj(definition.replace(/(^| )(?=[^ +])/g, "$1+")) : definition;
  const { a, b } = system;
  const degrees = new proj4.Proj(`+proj=longlat +a=${a} +b=${b}`);
  const pair = proj4(degrees, system);
  // The axes of a few systems point west or south, which proj4js heeds only if it is asked to.
  return { forward: (point) => pair.forward(point, true), inverse: (point) => pair.inverse(point, true) };
}
