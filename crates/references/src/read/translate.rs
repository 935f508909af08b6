//! Translation of a hierarchy to the other Zarr format.
//!
//! References stay as they are. Metadata, fill values and sentinels are encoded for the other format. Chunks that it
//! cannot reference are listed ([`PendingChunks`]) for the caller to re-encode.

use serde_json::Value;
use virtualize_zarr::{
    Array, ChunkGrid, Codec, DataType, FillValue, Group, Hierarchy, Implementation, Node, ZarrFormat,
    cf::fill_value_attribute, node::join, readers::in_stored_order,
};

use super::ReferencesError;

/// A hierarchy in the other format, and what could not be translated.
#[derive(Clone, PartialEq, Debug)]
pub struct Translation {
    /// The hierarchy, without the arrays that are omitted.
    pub hierarchy: Hierarchy,
    /// Paths of arrays that are omitted, with the reason.
    pub omitted: Vec<(String, String)>,
    /// Paths of arrays that lost information or changed their axes, with a description.
    pub changed: Vec<(String, String)>,
    /// Paths of arrays with pending chunks. Until those are made, the arrays read as wrong values.
    pub pending: Vec<(String, PendingChunks)>,
}

/// Chunks to make before an array is written.
#[derive(Clone, PartialEq, Debug)]
pub enum PendingChunks {
    /// Missing chunks, to be filled with this value: as missing ones they would read as another.
    Fill(FillValue),
    /// All chunks: decode them as this type by these codecs, and encode them as the array's type by its own codecs.
    Recode {
        /// The type, with the byte orders of structures' members.
        data_type: DataType,
        /// The codecs of the stored chunks.
        codecs: Vec<Codec>,
    },
    /// All chunks: reverse the bits of each byte.
    ReverseBits,
}

/// Translates a hierarchy to a format.
pub fn translate(mut hierarchy: Hierarchy, format: ZarrFormat) -> Translation {
    let mut translator = Translator { format, omitted: Vec::new(), changed: Vec::new(), pending: Vec::new() };
    if hierarchy.format != format {
        translator.group("", &mut hierarchy.root);
        hierarchy.format = format;
    }
    let Translator { omitted, changed, pending, .. } = translator;
    Translation { hierarchy, omitted, changed, pending }
}

struct Translator {
    format: ZarrFormat,
    omitted: Vec<(String, String)>,
    changed: Vec<(String, String)>,
    pending: Vec<(String, PendingChunks)>,
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
                Node::Array(array) => {
                    let translated = match self.format {
                        ZarrFormat::V3 => self.in_v3(&path, name, array),
                        ZarrFormat::V2 => self.in_v2(&path, array),
                    };
                    let failed = translated.err().map(|error| (path, error.to_string()));
                    let is_kept = failed.is_none();
                    self.omitted.extend(failed);
                    is_kept
                }
            }
        });
    }

    fn in_v3(&mut self, path: &str, name: &str, array: &mut Array) -> Result<(), ReferencesError> {
        if let Some(what) = fill_in_v3(array) {
            self.changed.push((path.to_owned(), what));
        }
        let Err(error) = array.to_zarr_json(name) else { return Ok(()) };
        let pending = without_reversed_bits(array).or_else(|| in_one_byte_order(array));
        let pending = pending.ok_or_else(|| error.clone())?;
        array.to_zarr_json(name).map_err(|_| error)?;
        self.pending.push((path.to_owned(), pending));
        Ok(())
    }

    fn in_v2(&mut self, path: &str, array: &mut Array) -> Result<(), ReferencesError> {
        // Zarr v2 expresses a reversal of all axes that comes first.
        let is_reversal = matches!(array.codecs.first(), Some(Codec::Transpose { order }) if order.iter().rev().copied().eq(0..order.len()));
        if let Some(moved) = in_stored_order(array).filter(|_| !is_reversal) {
            *array = moved;
            let names: Vec<_> =
                array.dimension_names.iter().map(|name| name.as_deref().unwrap_or("?")).collect();
            let what = format!(
                "its axes are in the order in which they are stored ({}): Zarr v2 has no codec that moves them",
                names.join(", ")
            );
            self.changed.push((path.to_owned(), what));
        }
        let ChunkGrid::Regular(chunk) = &array.chunk_grid else {
            return Err(ReferencesError::Invalid("Zarr v2 has no chunks of several sizes".to_owned()));
        };
        // Parameters that only v2 encodes.
        Codec::complete(&mut array.codecs, &array.data_type, chunk);
        let (pending, lost) = fill_in_v2(array)?;
        self.pending.extend(pending.map(|value| (path.to_owned(), PendingChunks::Fill(value))));
        self.changed.extend(lost.map(|what| (path.to_owned(), what)));
        array.to_zarray()?;
        Ok(())
    }
}

/// Replaces codecs with reversed bits (TIFF's FillOrder 2), which Zarr v3 cannot express, as the mapping of TIFF does:
/// numbers are recompressed, images get their bits in the usual order. Returns `None` if another codec prevents
/// that.
fn without_reversed_bits(array: &mut Array) -> Option<PendingChunks> {
    let (Codec::BitOrder, rest) = array.codecs.split_last()? else { return None };
    if rest.iter().any(|codec| matches!(codec, Codec::Image { .. })) {
        array.codecs.pop();
        return Some(PendingChunks::ReverseBits);
    }
    if !rest.iter().all(is_decoded_here) {
        return None;
    }
    let layout = rest.iter().filter(|codec| matches!(codec, Codec::Transpose { .. } | Codec::Bytes { .. }));
    let codecs = layout.cloned().chain([Codec::Zlib { level: 6 }]).collect();
    let codecs = std::mem::replace(&mut array.codecs, codecs);
    Some(PendingChunks::Recode { data_type: array.data_type.clone(), codecs })
}

/// Converts structures with members of both byte orders to that of the first number, as the mapping of HDF5 does.
/// Returns `None` if a codec cannot be decoded here.
fn in_one_byte_order(array: &mut Array) -> Option<PendingChunks> {
    if !array.data_type.mixes_byte_orders() || !array.codecs.iter().all(is_decoded_here) {
        return None;
    }
    let endian = array.endian();
    let layout = array.codecs.iter().filter(|codec| matches!(codec, Codec::Transpose { .. }));
    let codecs = layout.cloned().chain([Codec::Bytes { endian: Some(endian) }]).collect();
    let codecs = std::mem::replace(&mut array.codecs, codecs);
    let data_type = array.data_type.clone().in_byte_order(endian);
    Some(PendingChunks::Recode { data_type: std::mem::replace(&mut array.data_type, data_type), codecs })
}

fn is_decoded_here(codec: &Codec) -> bool {
    codec.implementation() != Implementation::None
}

// Fill values and sentinels.
//
// xarray takes the `fill_value` of a Zarr v2 array as the sentinel (`_FillValue`) of missing data, whatever the attribute
// `_FillValue`, which counts only if `fill_value` is null. In v3, `fill_value` is only what missing chunks read as, and the
// attribute `_FillValue` holds the sentinel, encoded by type.

const SENTINEL: &str = "_FillValue";

/// Translates the fill value of a Zarr v2 array to v3: the sentinel becomes an attribute, the fill value remains what
/// missing chunks read as. Returns a description of what is lost.
pub fn fill_in_v3(array: &mut Array) -> Option<String> {
    let attribute = array.attributes.remove(SENTINEL).filter(|value| !value.is_null());
    let parsed = attribute.as_ref().and_then(|value| {
        FillValue::from_json(only(value), &array.data_type)
            .or_else(|_| FillValue::from_json(only(value), &sentinel_type(array)))
            .ok()
    });
    // Other packages encode the attribute as in v3.
    let is_same = |value: &Value| {
        parsed == array.fill_value
            || fill_value_attribute::decode(value, &array.data_type) == array.fill_value
    };
    let is_ignored = array.fill_value.is_some() && attribute.as_ref().is_some_and(|value| !is_same(value));
    let is_rounded = array.fill_value.is_none()
        && attribute.as_ref().and_then(|value| only(value).as_f64()).is_some_and(|number| {
            array.data_type.is_float() && FillValue::from_f64(&array.data_type, number).exact().is_none()
        });
    let sentinel = array.fill_value.clone().or(parsed.filter(|_| !is_rounded));
    let encoded =
        sentinel.as_ref().and_then(|sentinel| fill_value_attribute::encode(sentinel, &sentinel_type(array)));
    // xarray masks no times.
    let is_masked = !matches!(array.data_type, DataType::DateTime(_) | DataType::TimeDelta(_));
    let is_lost = encoded.is_none() && (attribute.is_some() || is_masked && array.fill_value.is_some());
    array.attributes.extend(encoded.map(|encoded| (SENTINEL.to_owned(), encoded)));
    let zero = FillValue::zero(&array.data_type);
    array.fill_value.get_or_insert(zero);
    if is_ignored {
        return Some(format!(
            "its attribute {SENTINEL} is dropped: readers of Zarr v2 mask its fill_value instead"
        ));
    }
    is_lost.then(|| match is_rounded {
        true => no_element(&array.data_type),
        false => format!("{SENTINEL} is dropped: Zarr v3 has none for {}", array.data_type),
    })
}

/// Describes a sentinel that masks nothing.
fn no_element(data_type: &DataType) -> String {
    format!("{SENTINEL} is dropped: it masks nothing, since {data_type} cannot represent it")
}

/// Translates the fill value and sentinel of a Zarr v3 array to v2. The sentinel becomes the fill value if both are
/// equal or no attribute can hold it; otherwise it becomes a plain attribute. Returns the value to fill missing chunks
/// with if they would read as another one, and a description of what is lost.
///
/// # Errors
/// A sentinel that is not of the array's type.
fn fill_in_v2(array: &mut Array) -> Result<(Option<FillValue>, Option<String>), ReferencesError> {
    let zero = FillValue::zero(&array.data_type);
    let storage = array.fill_value.take().unwrap_or_else(|| zero.clone());
    let attribute = array.attributes.remove(SENTINEL).filter(|value| !value.is_null());
    let mut lost = None;
    if let Some(value) = attribute {
        let decoded = |data_type: &DataType| fill_value_attribute::decode(&value, data_type);
        match decoded(&array.data_type).or_else(|| decoded(&sentinel_type(array))) {
            Some(sentinel) => match plain(&sentinel, &sentinel_type(array)).filter(|_| sentinel != storage) {
                Some(plain) => drop(array.attributes.insert(SENTINEL.to_owned(), plain)),
                None => array.fill_value = Some(sentinel),
            },
            None if array.data_type.is_float() && decoded(&DataType::Float64).is_some() => {
                lost = Some(no_element(&array.data_type));
            }
            None => {
                return Err(ReferencesError::Invalid("its _FillValue is not one of its type".to_owned()));
            }
        }
    }
    let chunks = array.chunk_grid.counts(&array.shape).iter().try_fold(1_u64, |all, n| all.checked_mul(*n));
    let is_whole = Some(array.chunks.len()) == chunks;
    let reads_right = *array.fill_value.as_ref().unwrap_or(&zero) == storage;
    Ok(((!is_whole && !reads_right).then_some(storage), lost))
}

/// Returns the type of `_FillValue`. For unsigned integers with `_Unsigned = "false"`, xarray requires a signed number.
fn sentinel_type(array: &Array) -> DataType {
    match array.attributes.get("_Unsigned").and_then(Value::as_str) {
        Some("false") => array.data_type.with_sign(true),
        _ => array.data_type.clone(),
    }
}

/// Returns the element of a list of one; other values as they are.
fn only(value: &Value) -> &Value {
    match value.as_array().map(Vec::as_slice) {
        Some([one]) => one,
        _ => value,
    }
}

/// Returns the sentinel as plain JSON, which xarray compares with the data of a Zarr v2 array. NaN, infinities, complex
/// numbers and byte strings have no such form.
fn plain(sentinel: &FillValue, data_type: &DataType) -> Option<Value> {
    let json = sentinel.to_json(data_type, ZarrFormat::V2).ok()?;
    let is_plain = match data_type {
        DataType::String => json.is_string(),
        _ => json.is_number() || json.is_boolean(),
    };
    is_plain.then_some(json)
}
