// Coordinate reference systems: positions between longitude and latitude and the coordinates of a file.
import { definition, isComplete, isGeographic } from "./crs-cf.js";
import { epsg } from "./crs-epsg.js";
import { transformer } from "./crs-proj.js";
import { proj4 } from "./vendor-map.js";

/** Methods of WKT that proj4js reads and computes as PROJ does; a test compares all systems of EPSG. */
const METHODS = new Set([
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
  if (isComplete(attributes)) return projected(attributes.grid_mapping_name.replaceAll("_", " "), definition(attributes));
  const wkt = [attributes.crs_wkt, attributes.spatial_ref].find((text) => typeof text === "string" && text.includes("["));
  if (wkt) return fromWkt(wkt);
  const named = code ?? [attributes.spatial_ref, attributes.epsg_code].find((text) => /^EPSG:\d+/i.test(text)) ?? null;
  if (named) return fromCode(named);
  if (isGeographic(attributes)) return PLAIN;
  if (attributes.grid_mapping_name) return projected(attributes.grid_mapping_name.replaceAll("_", " "), definition(attributes));
  if (attributes.geo_keys?.GTModelTypeGeoKey) throw new Error("neither an EPSG code nor WKT describes the system of the GeoKeys exactly");
  throw new Error("the file does not declare a coordinate reference system");
}

/** Looks up a code such as `EPSG:32633`, or `EPSG:26711+3855` with heights. */
async function fromCode(text) {
  const [, number] = /^EPSG:(\d+)/i.exec(text) ?? [];
  const found = number && await epsg(Number(number));
  if (!found) throw new Error(`positions in ${text} cannot be computed here`);
  return projected(`EPSG:${found.code} ${found.name}`, found.definition, found.area);
}

function projected(name, text, area = null) {
  const kind = /proj=(\w+)/.exec(text)[1];
  const isDegrees = kind === "longlat" || kind === "ob_tran";
  const length = isDegrees ? { unit: "°", metres: null } : unit(text);
  return { name, isGeographic: kind === "longlat", ...length, area, isLocal: LOCAL.test(kind), isCylindrical: CYLINDRICAL.test(kind), ...checked(transformer(text), kind, length.metres) };
}

const UNITS = { "us-ft": ["US ft", 1200 / 3937], ft: ["ft", 0.3048] };

function unit(text) {
  const [, name] = /units=(\S+)/.exec(text) ?? [];
  const [, factor] = /to_meter=(\S+)/.exec(text) ?? [];
  if (factor) return { unit: "units", metres: factor.split("/").map(Number).reduce((up, down) => up / down) };
  const [shown, metres] = name ? UNITS[name] ?? ["units", NaN] : ["m", 1];
  return { unit: shown, metres };
}

async function fromWkt(wkt) {
  const own = () => wktName(wkt);
  const problem = wktProblem(wkt);
  if (problem) {
    const [, id] = /(?:ID|AUTHORITY)\["EPSG","?(\d+)"?\]\]\s*$/.exec(wkt) ?? [];
    const found = id && await epsg(Number(id));
    if (!found) throw new Error(`positions in "${own()}" cannot be computed here: ${problem}`);
    return projected(`EPSG:${found.code} ${found.name}`, found.definition, found.area);
  }
  let system;
  try {
    system = new proj4.Proj(wkt);
  } catch {
    throw new Error(`positions in "${own()}" cannot be computed here`);
  }
  system.datum.datum_type = NO_DATUM;
  // Rasters have easting before northing, in whatever order the system names its axes.
  if (!/^(ws|sw)/.test(system.axis)) system.axis = "enu";
  const isGeographic = system.projName === "longlat";
  const metres = system.to_meter ?? 1;
  const shown = isGeographic ? { unit: "°", metres: null } : { unit: metres === 1 ? "m" : "units", metres };
  return { name: own(), isGeographic, ...shown, area: null, isLocal: LOCAL.test(system.projName), isCylindrical: CYLINDRICAL.test(system.projName), ...checked(transformer(system), system.projName, shown.metres) };
}

const wktName = (wkt) => /\["([^"]*)"/.exec(wkt)?.[1] ?? "a system without a name";

/** Returns why a system in WKT is not computed; null if it is. */
function wktProblem(wkt) {
  const method = /(?:METHOD|PROJECTION)\s*\[\s*"([^"]*)"/.exec(wkt)?.[1];
  if (method && !METHODS.has(method.toLowerCase().replaceAll(/[^a-z0-9]/g, ""))) return `the method ${method} is not supported`;
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
