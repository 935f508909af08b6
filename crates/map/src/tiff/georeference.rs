//! Georeferencing of an image: transform, control points and rational polynomials, as GDAL reads them and rioxarray and the
//! Zarr conventions `spatial` and `proj` name them.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use virtualize_tiff::model::{Geo, GeoKey, Ifd, Image};
use virtualize_zarr::cf::conventions::Grid;
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, Group, Node, ZarrFormat,
};

use super::crs::{Crs, PROJECTED_CRS};
use super::image::{Geometry, Names};
use super::multiscales::is_reduced;
use crate::MapOptions;

/// GTRasterTypeGeoKey (1025).
pub(super) const RASTER_TYPE: u16 = 1025;

/// Name of the grid mapping variable.
pub(crate) const GRID_MAPPING: &str = "spatial_ref";

/// Georeferencing of one image.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Georeference {
    /// From pixel corners to model coordinates; `None` if the file has control points, or neither.
    pub(super) transform: Option<Transform>,
    /// Coordinate reference system.
    pub(super) crs: Crs,
    /// Ground control points: column and row of the raster, then x, y, z of the model.
    pub(super) control_points: Vec<[f64; 5]>,
    /// Coefficients of the rational polynomials (RPCCoefficientTag), in the order of the tag.
    pub(super) rpc: Option<Vec<f64>>,
}

/// An affine transformation `[x, a, b, y, d, e]` in GDAL's order: x + column · a + row · b, and y + column · d + row · e. Column
/// 0, row 0 is the outer corner of the first pixel.
pub(super) type Transform = [f64; 6];

impl Georeference {
    /// Returns the georeferencing of an image: its own, or for overviews and masks that of their main image at their scale.
    pub(super) fn of(ifd: &Ifd, geometry: &Geometry, main: Option<&Ifd>) -> Option<Self> {
        if let Some(geo) = &ifd.geo {
            return Some(Self::from_tags(geo));
        }
        let main = main?;
        let (image, geo) = (main.image.as_ref().ok()?, main.geo.as_ref()?);
        let is_whole = |part: &Image| {
            part.subfile_type & 0b101 != 0
                && ((part.width, part.height) == (image.width, image.height) || is_reduced(image, part))
        };
        ifd.image.as_ref().ok().filter(|part| is_whole(part))?;
        let whole = Self::from_tags(geo);
        let (columns, rows) =
            (image.width as f64 / geometry.width as f64, image.height as f64 / geometry.height as f64);
        Some(Self {
            transform: whole
                .transform
                .map(|[x, a, b, y, d, e]| [x, a * columns, b * rows, y, d * columns, e * rows]),
            control_points: Vec::new(),
            rpc: None,
            ..whole
        })
    }

    /// Returns whether there is a transform without rotation: x depends on columns only, and y on rows.
    pub(super) fn is_upright(&self) -> bool {
        self.transform.is_some_and(|[_, _, b, _, d, _]| b == 0.0 && d == 0.0)
    }

    fn from_tags(geo: &Geo) -> Self {
        let transform = transform_of(geo);
        let control_points = match transform {
            Some(_) => Vec::new(),
            None => {
                // GDAL measures control points from the corners of pixels, too.
                let shift = if is_point(geo) { 0.5 } else { 0.0 };
                geo.tie_points.iter().map(|[i, j, _, x, y, z]| [i + shift, j + shift, *x, *y, *z]).collect()
            }
        };
        Self { transform, crs: Crs::of(geo), control_points, rpc: geo.rpc.clone() }
    }

    /// Adds the attributes of the Zarr conventions `proj` and `spatial`.
    pub(super) fn add_to_group(&self, geometry: &Geometry, attributes: &mut Map<String, Value>) {
        if let Some(crs) = self.crs.of_convention() {
            crs.describe(attributes);
        }
        if let Some([x0, a, b, y0, d, e]) = self.transform {
            let Names { x, y, .. } = geometry.names();
            let grid = Grid {
                dimensions: [y.clone(), x.clone()],
                shape: [geometry.height, geometry.width],
                transform: [a, b, x0, d, e, y0],
            };
            grid.describe(attributes);
        }
    }

    /// Attributes of the grid mapping variable.
    pub(super) fn grid_mapping(&self) -> Map<String, Value> {
        let mut attributes = self.crs.attributes();
        if let Some(transform) = &self.transform {
            let numbers = transform.map(|number| format!("{number:?}"));
            attributes.insert("GeoTransform".into(), numbers.join(" ").into());
        }
        if !self.control_points.is_empty() {
            attributes.insert("gcps".into(), control_points(&self.control_points).to_string().into());
        }
        if let Some(rpc) = &self.rpc {
            attributes.insert("rpc_coefficients".into(), json!(rpc));
        }
        attributes
    }
}

/// Whether raster coordinates are relative to the centres of pixels (PixelIsPoint).
fn is_point(geo: &Geo) -> bool {
    geo.keys.get(&RASTER_TYPE) == Some(&GeoKey::Short(2))
}

/// Returns ground control points as GeoJSON, in rioxarray's form.
fn control_points(points: &[[f64; 5]]) -> Value {
    let feature = |(number, [column, row, x, y, z]): (usize, &[f64; 5])| {
        json!({
            "type": "Feature",
            "properties": { "id": number.to_string(), "info": "", "row": row, "col": column },
            "geometry": { "type": "Point", "coordinates": [x, y, z] },
        })
    };
    json!({
        "type": "FeatureCollection",
        "features": (1..).zip(points).map(feature).collect::<Vec<Value>>(),
    })
}

/// Reads the transformation as GDAL does: from a sidecar, else from the pixel scale and the first tie point, else from the
/// matrix.
pub(super) fn transform_of(geo: &Geo) -> Option<Transform> {
    if geo.sidecar_transform.is_some() {
        return geo.sidecar_transform;
    }
    let scale = geo.pixel_scale.filter(|[width, height, _]| *width != 0.0 && *height != 0.0);
    let corner @ [x, a, b, y, d, e] = match (scale, geo.tie_points.first(), geo.transformation) {
        (Some([width, height, _]), Some([i, j, _, x, y, _]), _) => {
            let height = -height.abs();
            [x - i * width, width, 0.0, y - j * height, 0.0, height]
        }
        (None, _, Some([a, b, _, x, d, e, _, y, ..])) => [x, a, b, y, d, e],
        _ => return None,
    };
    // The origin is the centre of the first pixel.
    let of_centre = || [x - (a * 0.5 + b * 0.5), a, b, y - (d * 0.5 + e * 0.5), d, e];
    Some(if is_point(geo) { of_centre() } else { corner })
}

/// Adds `band` to the main image, and `spatial_ref` to georeferenced ones; also `x` and `y` if the transform is not rotated.
pub(super) fn add(
    group: &mut Group,
    geometry: &Geometry,
    georeference: Option<&Georeference>,
    is_main: bool,
    options: &MapOptions,
) {
    if is_main {
        add_numbers(group, "band", (1..=geometry.bands).collect(), options);
    }
    let Some(georeference) = georeference else { return };
    insert(group, GRID_MAPPING, None, DataType::Int64, vec![0; 8], georeference.grid_mapping(), options);
    if let Some(transform) = georeference.transform.filter(|_| georeference.is_upright()) {
        let Names { x, y, .. } = geometry.names();
        let axes = [(x.as_str(), geometry.width), (y.as_str(), geometry.height)];
        add_axes(group, axes, &georeference.crs, transform, options);
    }
}

/// Adds the grid mapping of a grid that is not rotated, and its axes: names and lengths of x and y.
///
/// # Errors
/// Why the coordinate reference system cannot be written. Nothing is added.
pub(crate) fn add_grid(
    group: &mut Group,
    geo: &Geo,
    axes: Option<[(&str, u64); 2]>,
    options: &MapOptions,
) -> Result<(), String> {
    let mut georeference = Georeference::from_tags(geo);
    let crs = &mut georeference.crs;
    if let Some(problem) = crs.problem.take() {
        return Err(problem);
    }
    let is_geographic = !geo.keys.contains_key(&PROJECTED_CRS);
    (crs.is_in_degrees, crs.is_projected) = (is_geographic, !is_geographic);
    let mut attributes = georeference.grid_mapping();
    attributes.remove("geo_keys");
    insert(group, GRID_MAPPING, None, DataType::Int64, vec![0; 8], attributes, options);
    if let (Some(axes), Some(transform)) = (axes, georeference.transform) {
        add_axes(group, axes, &georeference.crs, transform, options);
    }
    Ok(())
}

/// Adds a variable of integers along an axis of the same name.
pub(super) fn add_numbers(group: &mut Group, name: &str, numbers: Vec<u64>, options: &MapOptions) {
    let content = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
    insert(group, name, Some(name), DataType::Int64, content, Map::new(), options);
}

/// Variable with the names of the bands.
pub(super) const BAND_NAMES: &str = "band_name";

/// Adds the names of bands as a variable along their axis, and lists it in the attribute `coordinates` of the array. The
/// index of the axis remains the band number, as in rioxarray.
pub(super) fn add_band_names(
    group: &mut Group,
    geometry: &Geometry,
    names: &[String],
    attributes: &mut Map<String, Value>,
    options: &MapOptions,
) {
    add_names(group, BAND_NAMES, &geometry.names().band, names, attributes, options);
}

/// Adds a variable of texts along an axis, and lists it in the attribute `coordinates` of an array.
pub(super) fn add_names(
    group: &mut Group,
    name: &str,
    axis: &str,
    texts: &[String],
    attributes: &mut Map<String, Value>,
    options: &MapOptions,
) {
    let Some(content) = vlen_utf8(texts) else { return };
    let mut array = variable(Some(axis), DataType::String, content, Map::new(), options);
    array.shape = vec![texts.len() as u64];
    array.chunk_grid = ChunkGrid::Regular(array.shape.clone());
    array.codecs = vec![Codec::VlenUtf8];
    array.fill_value = (options.format == ZarrFormat::V3).then(|| FillValue::zero(&DataType::String));
    group.children.insert(name.to_owned(), Node::Array(Box::new(array)));
    let others = attributes.get("coordinates").and_then(Value::as_str).filter(|others| !others.is_empty());
    let all = others.map_or_else(|| name.to_owned(), |others| format!("{others} {name}"));
    attributes.insert("coordinates".into(), all.into());
}

/// Removes the names of bands, for an array of images that differ in them.
pub(super) fn remove_band_names(group: &mut Group, attributes: &mut Map<String, Value>) {
    group.children.remove(BAND_NAMES);
    let Some(Value::String(all)) = attributes.get_mut("coordinates") else { return };
    *all = all.split(' ').filter(|name| *name != BAND_NAMES).collect::<Vec<_>>().join(" ");
}

/// Encodes texts as the codec `vlen-utf8`: their number, then length and bytes of each; integers have 4 bytes, least
/// significant first. `None` past 32 bits.
fn vlen_utf8(texts: &[String]) -> Option<Vec<u8>> {
    let length = |length: usize| u32::try_from(length).ok().map(u32::to_le_bytes);
    let mut content = length(texts.len())?.to_vec();
    for text in texts {
        content.extend(length(text.len())?);
        content.extend(text.as_bytes());
    }
    Some(content)
}

/// Decodes what [`vlen_utf8`] encodes.
pub(super) fn texts_of_vlen_utf8(chunk: &[u8]) -> Option<Vec<String>> {
    let (count, mut rest) = chunk.split_first_chunk()?;
    let mut texts = Vec::new();
    for _ in 0..u32::from_le_bytes(*count) {
        let (length, behind) = rest.split_first_chunk()?;
        let (text, behind) = behind.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        texts.push(String::from_utf8(text.to_vec()).ok()?);
        rest = behind;
    }
    Some(texts)
}

/// Returns whether coordinates of these lengths are small enough to be inlined.
pub(super) fn has_axes(width: u64, height: u64, options: &MapOptions) -> bool {
    width.saturating_add(height).saturating_mul(8) <= options.inline_limit
}

fn add_axes(
    group: &mut Group,
    [(x, width), (y, height)]: [(&str, u64); 2],
    crs: &Crs,
    transform: Transform,
    options: &MapOptions,
) {
    if !has_axes(width, height, options) {
        return;
    }
    // Centres of pixels, with the arithmetic of rioxarray. Without rotation, x depends on columns only, and y on rows.
    let [left, a, _, top, _, e] = transform;
    let centres = |start: f64, step: f64, count: u64| -> Vec<u8> {
        let first = step * 0.5 + start;
        (0..count).flat_map(|index| (step * index as f64 + first).to_le_bytes()).collect()
    };
    let (columns, rows) = (centres(left, a, width), centres(top, e, height));
    insert(group, x, Some(x), DataType::Float64, columns, axis_attributes(crs, true), options);
    insert(group, y, Some(y), DataType::Float64, rows, axis_attributes(crs, false), options);
}

/// Returns the CF attributes of a horizontal axis.
fn axis_attributes(crs: &Crs, is_x: bool) -> Map<String, Value> {
    let mut attributes = Map::new();
    attributes.insert("axis".into(), if is_x { "X" } else { "Y" }.into());
    let (name, units) = match (crs.is_in_degrees, is_x) {
        (true, true) => ("longitude", Some("degrees_east")),
        (true, false) => ("latitude", Some("degrees_north")),
        (false, true) => ("projection_x_coordinate", crs.is_metric.then_some("metre")),
        (false, false) => ("projection_y_coordinate", crs.is_metric.then_some("metre")),
    };
    if crs.is_in_degrees || crs.is_projected {
        attributes.insert("standard_name".into(), name.into());
        if let Some(units) = units {
            attributes.insert("units".into(), units.into());
        }
    }
    attributes
}

/// Inserts an array of one inlined chunk of 8-byte elements; a scalar if there is no dimension.
fn insert(
    group: &mut Group,
    name: &str,
    dimension: Option<&str>,
    data_type: DataType,
    content: Vec<u8>,
    attributes: Map<String, Value>,
    options: &MapOptions,
) {
    let array = variable(dimension, data_type, content, attributes, options);
    group.children.insert(name.to_owned(), Node::Array(Box::new(array)));
}

pub(crate) fn variable(
    dimension: Option<&str>,
    data_type: DataType,
    content: Vec<u8>,
    attributes: Map<String, Value>,
    options: &MapOptions,
) -> Array {
    let shape: Vec<u64> = dimension.iter().map(|_| content.len() as u64 / 8).collect();
    Array {
        chunk_grid: ChunkGrid::Regular(shape.clone()),
        shape,
        data_type,
        fill_value: match options.format {
            ZarrFormat::V2 => None,
            ZarrFormat::V3 => Some(FillValue::Fixed(Bytes::from_static(&[0; 8]))),
        },
        codecs: vec![Codec::Bytes { endian: Some(Endian::Little) }],
        dimension_names: dimension.iter().map(|name| Some((*name).to_owned())).collect(),
        attributes,
        chunks: ChunkManifest { references: Vec::new(), inline: [(0, Bytes::from(content))].into() },
    }
}
