//! Converts numbers of several data types to one type, exactly.

use std::collections::BTreeSet;

use bytes::Bytes;
use virtualize::zarr::{DataType, FillValue, ZarrFormat};

use super::{accumulate::Growing, pieces::Form};
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
pub(super) fn unify_types(growing: &mut Growing<'_>, format: ZarrFormat) -> Result<Option<String>, Problem> {
    if growing.pieces.forms().all(|form| form.other.is_none()) {
        return Ok(None);
    }
    let usual = (growing.first.data_type.clone(), Sentinels::of(&growing.first, format));
    let types = types(growing, &usual)?;
    let candidates = candidates(&types, growing.are_times);
    let found = candidates.iter().find_map(|target| Some((target, exact(growing, &usual.0, target)?)));
    let names: BTreeSet<String> = types.iter().map(ToString::to_string).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let (target, (values, starts)) = found.ok_or_else(|| Problem::Types { types: names.clone() })?;
    growing.pieces.set_values(values, starts, |form| {
        let own = type_of(form, &usual.0);
        if own != target {
            form.values = form.values.map(|bytes| bytes / size_of(own) as u64 * size_of(target) as u64);
        }
        form.other = None;
    });
    growing.first.data_type = target.clone();
    growing.first.fill_value = (format == ZarrFormat::V3).then(|| FillValue::zero(target));
    for name in MISSING {
        growing.attributes.kept.remove(name);
        growing.first.attributes.remove(name);
    }
    Ok((types.len() > 1).then(|| format!("files have types {names}: converted to {target}")))
}

/// Returns the types of all parts. `usual` are type and missing values of the first file.
fn types(growing: &Growing<'_>, usual: &(DataType, Sentinels)) -> Result<Vec<DataType>, Problem> {
    let mut types = Vec::new();
    for n in growing.pieces.iter() {
        let other = growing.pieces.form(n).and_then(|form| form.other.as_deref());
        let (data_type, sentinels) = other.unwrap_or(usual);
        let values = growing.pieces.values(n).ok_or(Problem::NotRead)?;
        if values.chunks_exact(size_of(data_type)).any(|element| sentinels.is_missing(element)) {
            return Err(Problem::MissingValues { url: growing.url_of(n) });
        }
        if !types.contains(data_type) {
            types.push(data_type.clone());
        }
    }
    Ok(types)
}

/// Returns the values of all parts in another type, and where those of each part start. Returns `None` if one is not
/// representable exactly.
fn exact(growing: &Growing<'_>, usual: &DataType, target: &DataType) -> Option<(Vec<u8>, Vec<u64>)> {
    let (mut all, mut starts) = (Vec::new(), Vec::new());
    for n in 0..u32::try_from(growing.pieces.len()).ok()? {
        starts.push(all.len() as u64);
        let (own, values) = (type_of(growing.pieces.form(n)?, usual), growing.pieces.values(n)?);
        if own == target {
            all.extend_from_slice(values);
            continue;
        }
        for element in values.chunks_exact(size_of(own)) {
            match converted(&FillValue::Fixed(Bytes::copy_from_slice(element)), own, target)? {
                FillValue::Fixed(bytes) => all.extend_from_slice(&bytes),
                FillValue::Text(_) | FillValue::Variable(_) => return None,
            }
        }
    }
    Some((all, starts))
}

fn type_of<'a>(form: &'a Form, usual: &'a DataType) -> &'a DataType {
    form.other.as_ref().map_or(usual, |other| &other.0)
}

/// Returns the size of an element in bytes, at least 1.
fn size_of(data_type: &DataType) -> usize {
    data_type.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(1).max(1)
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
