//! Comparison and merge of metadata documents (`zarr.json`).

use icechunk::format::snapshot::NodeSnapshot;
use serde_json::{Map, Value};
use virtualize_zarr::{Array, cf::attributes::decides_values};

use crate::{IcechunkError, metadata::node_error};

/// Members of an array's document, besides its attributes, that determine its values.
const STATE: [&str; 6] = ["shape", "data_type", "chunk_grid", "fill_value", "codecs", "dimension_names"];

/// Parses the document of a node.
pub(crate) fn document_of(path: &str, node: &NodeSnapshot) -> Result<Value, IcechunkError> {
    serde_json::from_slice(&node.user_data)
        .map_err(|error| node_error(path, format!("invalid metadata in the repository: {error}")))
}

pub(crate) fn is_array(document: &Value) -> bool {
    document.get("node_type").and_then(Value::as_str) == Some("array")
}

/// Returns the shape of an array in elements, slowest axis first.
pub(crate) fn shape_of(document: &Value) -> Option<Vec<u64>> {
    document.get("shape")?.as_array()?.iter().map(Value::as_u64).collect()
}

/// Returns the names and lengths of an array's named dimensions.
pub(crate) fn dimensions(document: &Value) -> Vec<(String, u64)> {
    let names = document.get("dimension_names").and_then(Value::as_array);
    let pairs = names.into_iter().flatten().zip(shape_of(document).unwrap_or_default());
    pairs.filter_map(|(name, length)| Some((name.as_str()?.to_owned(), length))).collect()
}

/// Returns whether the documents of two arrays are equivalent, except for attributes that do not determine values.
pub(crate) fn same_state(one: &Value, other: &Value) -> bool {
    difference(one, other).is_none()
}

/// Describes the first difference between the documents of an array that affects its values.
pub(crate) fn difference(before: &Value, now: &Value) -> Option<String> {
    let shown = |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), ToString::to_string);
    if let Some(member) = STATE.iter().find(|member| before.get(**member) != now.get(**member))
        && !is_equivalent(before, now)
    {
        let (before, now) = (shown(before.get(*member)), shown(now.get(*member)));
        return Some(format!("{member} was {before} and is now {now}"));
    }
    let nothing = Map::new();
    let (before, now) = (attributes(before, &nothing), attributes(now, &nothing));
    let differs = |name: &&String| decides_values(name) && before.get(*name) != now.get(*name);
    let name = before.keys().chain(now.keys()).find(differs)?;
    let (before, now) = (shown(before.get(name)), shown(now.get(name)));
    Some(format!("attribute {name} was {before} and is now {now}"))
}

/// Returns whether two documents describe the same array. Other libraries serialize the same metadata differently, so
/// unequal members need not differ in meaning.
fn is_equivalent(one: &Value, other: &Value) -> bool {
    let normalized = |document: &Value| {
        let mut array = Array::from_zarr_json(document).ok()?.array;
        array.attributes = Map::new();
        array.to_zarr_json("").ok()
    };
    match (normalized(one), normalized(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

/// Returns `new` with the attributes that others have set in `current`. An attribute that does not determine values is
/// changed only if its value is still the recorded one.
pub(crate) fn merge(recorded: &Value, current: &Value, new: &Value) -> Value {
    let nothing = Map::new();
    let [recorded, current, ours] = [recorded, current, new].map(|document| attributes(document, &nothing));
    let mut merged = current.clone();
    for name in ours.keys().chain(recorded.keys()).chain(current.keys()) {
        let (before, now) = (recorded.get(name), ours.get(name));
        if !decides_values(name) && (before == now || current.get(name) != before) {
            continue;
        }
        match now {
            Some(value) => merged.insert(name.clone(), value.clone()),
            None => merged.remove(name),
        };
    }
    let mut document = new.clone();
    if let Some(members) = document.as_object_mut() {
        members.insert("attributes".to_owned(), merged.into());
    }
    document
}

fn attributes<'a>(document: &'a Value, nothing: &'a Map<String, Value>) -> &'a Map<String, Value> {
    document.get("attributes").and_then(Value::as_object).unwrap_or(nothing)
}
