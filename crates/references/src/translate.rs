//! From one Zarr format to the other. Chunks stay as they are; metadata, fill values and sentinels change their spelling.
//!
//! xarray reads the `fill_value` of a Zarr v2 array as a sentinel (`_FillValue`), and that of a v3 array as storage alone:
//! there the attribute `_FillValue` says the sentinel, encoded by type.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use virtualize_zarr::{
    Array, ChunkGrid, Codec, DataType, FillValue, Group, Hierarchy, Node, ZarrFormat, node::join,
};

const SENTINEL: &str = "_FillValue";

/// A hierarchy in the other format, and what could not go along.
#[derive(Clone, PartialEq, Debug)]
pub struct Translation {
    /// What could.
    pub hierarchy: Hierarchy,
    /// Paths of arrays that are left out, with the reason.
    pub left_out: Vec<(String, String)>,
    /// Paths of arrays that lost something, with what and why.
    pub changed: Vec<(String, String)>,
}

/// Says a hierarchy in a format.
pub fn translate(mut hierarchy: Hierarchy, format: ZarrFormat) -> Translation {
    let mut translation = Translator { format, left_out: Vec::new(), changed: Vec::new() };
    if hierarchy.format != format {
        translation.group("", &mut hierarchy.root);
        hierarchy.format = format;
    }
    let Translator { left_out, changed, .. } = translation;
    Translation { hierarchy, left_out, changed }
}

struct Translator {
    format: ZarrFormat,
    left_out: Vec<(String, String)>,
    changed: Vec<(String, String)>,
}

impl Translator {
    fn group(&mut self, path: &str, group: &mut Group) {
        group.children.retain(|name, node| {
            let path = join(path, name);
            match node {
                Node::Group(child) => {
                    self.group(&path, child);
                    true
                }
                Node::Array(array) => match self.array(&path, name, array) {
                    Ok(()) => true,
                    Err(reason) => {
                        self.left_out.push((path, reason));
                        false
                    }
                },
            }
        });
    }

    fn array(&mut self, path: &str, name: &str, array: &mut Array) -> Result<(), String> {
        match self.format {
            ZarrFormat::V3 => {
                self.say_in_v3(path, array);
                array.to_zarr_json(name).map(drop).map_err(|error| error.to_string())
            }
            ZarrFormat::V2 => {
                complete(array)?;
                say_in_v2(array)?;
                array.to_zarray().map(drop).map_err(|error| error.to_string())
            }
        }
    }

    /// The sentinel becomes an attribute, the fill value stays what missing chunks read as.
    fn say_in_v3(&mut self, path: &str, array: &mut Array) {
        let attribute = array.attributes.remove(SENTINEL).filter(|value| !value.is_null());
        let plain = |value: &Value| {
            let one = value
                .as_array()
                .filter(|list| list.len() == 1)
                .and_then(|list| list.first())
                .unwrap_or(value);
            FillValue::from_json(one, &array.data_type).ok()
        };
        let sentinel = match &attribute {
            Some(value) => plain(value),
            None => array.fill_value.clone(),
        };
        let encoded = sentinel.as_ref().and_then(|sentinel| encode(sentinel, &array.data_type));
        match (encoded, attribute.is_some() || array.fill_value.is_some()) {
            (Some(encoded), _) => drop(array.attributes.insert(SENTINEL.to_owned(), encoded)),
            (None, true) => {
                let what = format!("{SENTINEL} is dropped: Zarr v3 says none for {}", array.data_type);
                self.changed.push((path.to_owned(), what));
            }
            (None, false) => {}
        }
        array.fill_value =
            Some(array.fill_value.clone().unwrap_or_else(|| FillValue::zero(&array.data_type)));
    }
}

/// The sentinel becomes the fill value where missing chunks allow it.
fn say_in_v2(array: &mut Array) -> Result<(), String> {
    let storage = array.fill_value.clone().unwrap_or_else(|| FillValue::zero(&array.data_type));
    let attribute = array.attributes.remove(SENTINEL).filter(|value| !value.is_null());
    let sentinel = match &attribute {
        Some(value) => Some(decode(value, &array.data_type).ok_or("its _FillValue is not one of its type")?),
        None => None,
    };
    let chunks = array.chunk_grid.counts(&array.shape).iter().try_fold(1_u64, |all, n| all.checked_mul(*n));
    let is_whole = Some(array.chunks.len()) == chunks;
    let is_nan = storage.to_f64(&array.data_type).is_some_and(f64::is_nan);
    array.fill_value = match sentinel {
        Some(sentinel) if sentinel == storage || is_whole => Some(sentinel),
        // That NaN means no data changes nothing.
        None if is_nan && !is_whole => Some(storage),
        None if is_whole || storage == FillValue::zero(&array.data_type) => None,
        Some(sentinel) if storage == FillValue::zero(&array.data_type) => {
            let plain =
                sentinel.to_json(&array.data_type, ZarrFormat::V2).map_err(|error| error.to_string())?;
            array.attributes.insert(SENTINEL.to_owned(), plain);
            None
        }
        _ => {
            return Err(
                "Zarr v2 cannot say both what its missing chunks read as and which value means no data"
                    .into(),
            );
        }
    };
    Ok(())
}

/// Codecs whose shape and type only v2 says get them: what comes out of `codecs` of Zarr v3 can be decoded then.
///
/// # Errors
/// A grid that Zarr v2 has not.
pub fn complete(array: &mut Array) -> Result<(), String> {
    let ChunkGrid::Regular(chunk) = &array.chunk_grid else {
        return Err("Zarr v2 has no chunks of several sizes".to_owned());
    };
    let endian = array.endian();
    let spelled = array.data_type.to_v2(endian).ok().and_then(|dtype| dtype.as_str().map(str::to_owned));
    let put = |dtype: &mut String| spelled.iter().for_each(|spelled| dtype.clone_from(spelled));
    let mut shape_here = chunk.clone();
    for codec in &mut array.codecs {
        match codec {
            Codec::Transpose { order } => {
                shape_here = order.iter().filter_map(|axis| shape_here.get(*axis).copied()).collect();
            }
            Codec::Delta { dtype, shape, .. } | Codec::FloatPredictor { dtype, shape, .. } => {
                put(dtype);
                shape.clone_from(&shape_here);
            }
            Codec::PackBitsOfIntegers { dtype, .. } => put(dtype),
            _ => {}
        }
    }
    Ok(())
}

/// `_FillValue` as xarray decodes it in Zarr v3; nothing where it refuses the dataset.
fn encode(value: &FillValue, data_type: &DataType) -> Option<Value> {
    let float = |number: f64| Value::from(BASE64_STANDARD.encode(number.to_le_bytes()));
    if data_type.is_float() {
        return value.to_f64(data_type).map(float);
    }
    if data_type.is_integer() || *data_type == DataType::Bool {
        return value.to_json(data_type, ZarrFormat::V3).ok();
    }
    None
}

/// The reverse of [`encode`]; plain values as well.
fn decode(value: &Value, data_type: &DataType) -> Option<FillValue> {
    let encoded = value.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
    match encoded.and_then(|bytes| bytes.try_into().ok()).map(f64::from_le_bytes) {
        Some(number) if data_type.is_float() => FillValue::from_f64(data_type, number).value(),
        _ => FillValue::from_json(value, data_type).ok(),
    }
}
