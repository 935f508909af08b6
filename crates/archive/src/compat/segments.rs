//! Which files can be segments of one dataset although their arrays differ in storage.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use virtualize::{
    segments::{common_type, has_missing_value, number_type},
    zarr::{DataType, NodePath, cf::missing::MISSING},
};

use crate::Layout;

use super::{
    difference::numbers_agree,
    signature::{ArraySignature, GROUP_TRANSFORM, Signature, TRANSFORM},
};

/// Types that the elements of arrays are converted to, by path.
pub(crate) type Conversions = BTreeMap<NodePath, DataType>;

/// Returns how files of several signatures can be segments of one dataset: their arrays have the same dimensions, sizes and
/// meaning, and types that one type holds exactly.
///
/// # Errors
/// They cannot: the path of an array that prevents it, or `None` for groups and overviews.
pub(crate) fn form_segments(all: &[&Signature], layout: &Layout) -> Result<Conversions, Option<NodePath>> {
    let (first, others) = all.split_first().ok_or(None)?;
    let groups = |one: &Signature| {
        let mut groups = one.groups.clone();
        groups.values_mut().for_each(|attributes| drop(attributes.remove(GROUP_TRANSFORM)));
        groups.retain(|_, attributes| !attributes.is_empty());
        groups
    };
    let agree = |other: &&Signature| {
        other.levels.is_empty() && groups(first) == groups(other) && first.grids_agree(other)
    };
    if !first.levels.is_empty() || !others.iter().all(agree) {
        return Err(None);
    }
    let paths: BTreeSet<&NodePath> =
        all.iter().flat_map(|one| one.arrays.keys().chain(one.optional.keys())).collect();
    let mut conversions = Conversions::new();
    for path in paths {
        let target = one_array(path, all, layout).ok_or_else(|| Some(path.clone()))?;
        conversions.extend(target.map(|data_type| (path.clone(), data_type)));
    }
    Ok(conversions)
}

/// Returns the type that the elements of an array are converted to, if they are; `None` if the arrays cannot be one.
fn one_array(path: &NodePath, all: &[&Signature], layout: &Layout) -> Option<Option<DataType>> {
    let found = all.iter().filter_map(|one| {
        let array = one.arrays.get(path).or_else(|| one.optional.get(path))?;
        Some((*one, array))
    });
    let found: Vec<(&Signature, &ArraySignature)> = found.collect();
    let Some(((leading, first), others)) = found.split_first() else { return Some(None) };
    // Where a file has the array, it must not read as missing.
    if found.iter().any(|(_, array)| !array.is_omitted()) && all.iter().any(|one| one.omits(path)) {
        return None;
    }
    let meaning = |array: &ArraySignature| {
        let mut attributes = array.attributes.clone();
        attributes.retain(|name, _| !MISSING.contains(&name.as_str()) && name != TRANSFORM);
        attributes
    };
    let missing = |array: &ArraySignature| {
        MISSING.map(|name| array.attributes.get(name).cloned().unwrap_or(Value::Null))
    };
    let is_alike = others.iter().all(|(signature, other)| {
        let roles = |signature: &Signature| signature.stored.get(path).map(|stored| stored.roles.clone());
        let is_near = leading
            .grids
            .get(path)
            .zip(signature.grids.get(path))
            .is_some_and(|(one, other)| one.agrees(other));
        other.dimensions == first.dimensions
            && other.sizes == first.sizes
            && meaning(other) == meaning(first)
            && (other.values == first.values || is_near)
            && roles(leading) == roles(signature)
    });
    if !is_alike {
        return None;
    }
    // Numbers that are copied are converted to one type when they are written.
    if found.iter().all(|(signature, _)| signature.numbers.contains_key(path)) {
        return (found.len() == all.len() && numbers_agree(path, all)).then_some(None);
    }
    let is_fixed = first.values.is_some();
    let same_type = others.iter().all(|(_, other)| other.data_type == first.data_type);
    let same_missing = others.iter().all(|(_, other)| missing(other) == missing(first));
    let is_everywhere = found.len() == all.len();
    if same_type && same_missing && (is_everywhere || is_fixed) {
        return Some(None);
    }
    let types =
        found.iter().map(|(_, array)| number_type(&array.data_type)).collect::<Option<Vec<DataType>>>();
    let Some(types) = types else {
        let can_be_missing = has_missing_value(&first.data_type);
        return (same_type && same_missing && can_be_missing).then_some(None);
    };
    let is_given = Layout::has(&layout.optional, path) && layout.fill(path).is_some();
    let has_sentinel = is_given || missing(first).iter().any(|value| !value.is_null());
    let is_float = types.iter().all(DataType::is_float);
    if same_type && same_missing && (has_sentinel || is_float) {
        return Some(None);
    }
    let can_be_converted = !is_fixed && !first.attributes.contains_key("_Unsigned");
    common_type(&types, has_sentinel || !same_missing || !is_everywhere)
        .filter(|_| can_be_converted)
        .map(Some)
}
