// Grid mappings of the CF conventions (appendix F) as PROJ strings.

/** Parameters by projection: names of PROJ and of CF. */
const OFFSETS = { x_0: "false_easting", y_0: "false_northing" };
const METHODS = {
  albers_conical_equal_area: (a) => ["aea", { ...parallels(a), lat_0: "latitude_of_projection_origin", lon_0: "longitude_of_central_meridian" }],
  azimuthal_equidistant: () => ["aeqd", { lat_0: "latitude_of_projection_origin", lon_0: "longitude_of_projection_origin" }],
  geostationary: (a) => ["geos", { lon_0: "longitude_of_projection_origin", h: "perspective_point_height", sweep: sweep(a) }],
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

/** The axis that the instrument moves second is the other one. */
const sweep = ({ sweep_angle_axis: axis, fixed_angle_axis: fixed }) => () => axis ?? (fixed ? { x: "y", y: "x" }[fixed] : "y");

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

/** Returns whether the attributes name a projection that can be expressed, with an ellipsoid. */
export const isComplete = (attributes) => attributes.grid_mapping_name in METHODS && ellipsoid(attributes) !== null;

/** Returns whether the coordinates are longitudes and latitudes. */
export const isGeographic = (attributes) => attributes.grid_mapping_name === "latitude_longitude";

/** Returns the PROJ string of a grid mapping. Throws if it cannot be expressed. Without an ellipsoid, WGS 84 is assumed, as in pyproj. */
export function definition(attributes) {
  const method = METHODS[attributes.grid_mapping_name];
  if (!method) throw new Error(`the grid mapping ${attributes.grid_mapping_name} is not supported`);
  const [name, parameters] = method(attributes);
  const parts = Object.entries({ ...parameters, ...offsets(attributes) }).map(([key, from]) => `+${key}=${typeof from === "function" ? from() : typeof from === "string" ? number(attributes, from) : from}`);
  const prime = attributes.longitude_of_prime_meridian ? [`+pm=${number(attributes, "longitude_of_prime_meridian")}`] : [];
  return [`+proj=${name}`, ...parts, ...prime, ellipsoid(attributes) ?? "+ellps=WGS84"].join(" ");
}

const offsets = (a) => Object.fromEntries(Object.entries(OFFSETS).filter(([, from]) => a[from] !== undefined));
