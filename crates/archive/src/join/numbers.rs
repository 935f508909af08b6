//! Converts numbers of several data types to one type, exactly.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use virtualize::zarr::{DataType, FillValue, ZarrFormat};

use super::accumulate::{Growing, Piece};
use crate::error::Problem;
use crate::values::{
    convert::converted,
    sentinel::{MISSING, Sentinels},
};

/// Converts the values of a copied array to one data type if files have several types, or several missing values that
/// do not occur in the data. Returns a note on the conversion.
///
/// # Errors
/// Missing values that occur in the data, values that were not read, and values that no single type represents exactly.
pub(super) fn unify_types(growing: &mut Growing, format: ZarrFormat) -> Result<Option<String>, Problem> {
    if growing.pieces.values().all(|piece| piece.other.is_none()) {
        return Ok(None);
    }
    let mut types = Vec::new();
    let usual = (growing.first.data_type.clone(), Sentinels::of(&growing.first, format));
    for piece in growing.pieces.values() {
        let (data_type, sentinels) = piece.other.as_deref().unwrap_or(&usual);
        let values = piece.values.as_ref().ok_or(Problem::NotRead)?;
        if elements(values, data_type).any(|element| sentinels.is_missing(element)) {
            return Err(Problem::MissingValues { url: piece.url.to_string() });
        }
        if !types.contains(data_type) {
            types.push(data_type.clone());
        }
    }
    let candidates = candidates(&types, growing.are_times);
    let exact = |target: &DataType| -> Option<Vec<Bytes>> {
        let pieces = growing.pieces.values();
        let one = |piece: &Piece| {
            let (own, _) = piece.other.as_deref().unwrap_or(&usual);
            all(piece.values.as_ref()?, own, target)
        };
        pieces.map(one).collect()
    };
    let found = candidates.iter().find_map(|target| Some((target, exact(target)?)));
    let names: BTreeSet<String> = types.iter().map(ToString::to_string).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let (target, values) = found.ok_or_else(|| Problem::Types { types: names.clone() })?;
    for (piece, values) in growing.pieces.values_mut().zip(values) {
        piece.values = Some(values);
        piece.other = None;
    }
    growing.first.data_type = target.clone();
    growing.first.fill_value = (format == ZarrFormat::V3).then(|| FillValue::zero(target));
    for name in MISSING {
        growing.attributes.kept.remove(name);
        growing.first.attributes.remove(name);
    }
    Ok((types.len() > 1).then(|| format!("files have types {names}: converted to {target}")))
}

/// Returns candidate types in order of preference: NumPy's promotion rules, except that times prefer integers.
fn candidates(types: &[DataType], is_time: bool) -> Vec<DataType> {
    if let [only] = types {
        return vec![only.clone()];
    }
    let widest = || types.iter().max_by_key(|one| one.size()).cloned();
    let is_of_one_kind =
        types.iter().all(DataType::is_signed_integer) || types.iter().all(DataType::is_float);
    let is_whole = is_time || types.iter().all(DataType::is_integer);
    let wide = widest().filter(|_| is_of_one_kind);
    wide.into_iter().chain(is_whole.then_some(DataType::Int64)).chain([DataType::Float64]).collect()
}

fn elements<'a>(values: &'a Bytes, data_type: &DataType) -> impl Iterator<Item = &'a [u8]> {
    let size = data_type.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(1).max(1);
    values.chunks_exact(size)
}

/// Converts all values to another type; `None` if one is not representable exactly.
fn all(values: &Bytes, old: &DataType, new: &DataType) -> Option<Bytes> {
    if old == new {
        return Some(values.clone());
    }
    let mut all = BytesMut::new();
    for element in elements(values, old) {
        match converted(&FillValue::Fixed(values.slice_ref(element)), old, new)? {
            FillValue::Fixed(bytes) => all.extend_from_slice(&bytes),
            FillValue::Text(_) | FillValue::Variable(_) => return None,
        }
    }
    Some(all.freeze())
}
