//! Coordinate variables and the grid mapping variable of an image, in its array's group.

use bytes::Bytes;
use serde_json::{Map, Value};
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, Group, Node, ZarrFormat,
};

use super::{
    geometry::{Geometry, Names},
    georeference::{Georeference, Transform},
};
use crate::MapOptions;

/// Adds `band` to the main image, and `spatial_ref` to georeferenced ones; also `x` and `y` if the transform is not rotated.
pub(super) fn add(
    group: &mut Group,
    geometry: &Geometry,
    georeference: Option<&Georeference>,
    is_main: bool,
    options: &MapOptions,
) {
    if is_main {
        let bands: Vec<u8> = (1..=geometry.bands).flat_map(u64::to_le_bytes).collect();
        insert(group, "band", Some("band"), DataType::Int64, bands, Map::new(), options);
    }
    let Some(georeference) = georeference else { return };
    insert(group, "spatial_ref", None, DataType::Int64, vec![0; 8], georeference.grid_mapping(), options);
    if let Some(transform) = georeference.transform.filter(|transform| !transform.is_rotated()) {
        add_axes(group, geometry, georeference, transform, options);
    }
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

fn add_axes(
    group: &mut Group,
    geometry: &Geometry,
    georeference: &Georeference,
    transform: Transform,
    options: &MapOptions,
) {
    if geometry.width.saturating_add(geometry.height).saturating_mul(8) > options.inline_limit {
        return;
    }
    let little = |values: Vec<f64>| values.into_iter().flat_map(f64::to_le_bytes).collect::<Vec<u8>>();
    let (x, y) = (little(transform.columns(geometry.width)), little(transform.rows(geometry.height)));
    let Names { x: x_name, y: y_name, .. } = geometry.names();
    insert(group, x_name, Some(x_name), DataType::Float64, x, axis_attributes(georeference, true), options);
    insert(group, y_name, Some(y_name), DataType::Float64, y, axis_attributes(georeference, false), options);
}

/// Returns the CF attributes of a horizontal axis.
fn axis_attributes(georeference: &Georeference, is_x: bool) -> Map<String, Value> {
    let crs = &georeference.crs;
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

fn variable(
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
