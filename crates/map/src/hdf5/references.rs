//! References as text: the path of the object, and which part of it is meant.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use virtualize_hdf5::model::{Datatype, Element, ReferenceKind, Selection};
use virtualize_remedy::Code;
use virtualize_zarr::{Array, Group, Node, node::join};

use super::Mapper;
use super::names::ObjectNames;
use super::plan::item_type;
use crate::{ChunkContent, Error, InlineTask, ReferenceText, Result, Severity};

/// Suffix of the array with the parts that references select.
const PART: &str = "_part";

/// Returns the path of the object that an element refers to; empty for a null reference.
///
/// # Errors
/// The object has no path, or only one in a linked file.
pub fn reference_path(element: &Element, names: &ObjectNames) -> Result<String> {
    let address = match element {
        Element::Object(None) => return Ok(String::new()),
        Element::Object(Some(address)) | Element::Region(address, _) | Element::Attribute(address, _) => {
            *address
        }
        Element::Unknown(what) => return Err(Error::unresolved(*what, "has no path")),
        _ => return Err(Error::unresolved("an element", "is no reference")),
    };
    if names.is_linked() {
        return Err(Error::unresolved("a reference", "leads to an object of another file"));
    }
    let path = names.path(address).map(|path| format!("/{path}"));
    path.ok_or_else(|| {
        Error::unresolved("a reference", format!("leads to the object at {address}, which has no path"))
    })
}

/// Returns the part of an object that an element refers to, as a JSON object; `None` for the whole object.
pub fn reference_part(element: &Element) -> Option<Map<String, Value>> {
    let part = match element {
        Element::Attribute(_, name) => json!({"attribute": name}),
        Element::Region(_, selection) => selection_json(selection),
        _ => return None,
    };
    match part {
        Value::Object(part) => Some(part),
        _ => None,
    }
}

fn selection_json(selection: &Selection) -> Value {
    match selection {
        Selection::None => json!({"selection": "none"}),
        Selection::All => json!({"selection": "all"}),
        // References have no clipped ones.
        Selection::Regular(slabs) | Selection::Clipped { slabs, .. } => {
            let start: Vec<_> = slabs.iter().map(|slab| slab.start).collect();
            let stride: Vec<_> = slabs.iter().map(|slab| slab.stride).collect();
            let count: Vec<_> = slabs.iter().map(|slab| slab.count).collect();
            let block: Vec<_> = slabs.iter().map(|slab| slab.block).collect();
            json!({
                "selection": "hyperslab", "start": start, "stride": stride, "count": count, "block": block,
            })
        }
        Selection::Blocks(blocks) => json!({"selection": "blocks", "blocks": blocks}),
        Selection::Points(points) => json!({"selection": "points", "points": points}),
    }
}

/// Whether elements may refer to less than an object.
pub(super) fn has_parts(datatype: &Datatype) -> bool {
    matches!(
        item_type(datatype),
        Datatype::Reference { kind: ReferenceKind::Region | ReferenceKind::Standard(_), .. }
    )
}

impl Mapper<'_> {
    /// Adds the array with the parts that references select, next to the array of their paths, which was mapped last.
    pub(super) fn add_parts(
        &mut self,
        group: &mut Group,
        place: &str,
        name: &str,
        array: &Array,
        taken: &BTreeSet<&str>,
    ) {
        let path = join(place, name);
        let mut part_name = format!("{name}{PART}");
        while taken.contains(part_name.as_str()) || group.children.contains_key(&part_name) {
            part_name.push('_');
        }
        let part_path = join(place, &part_name);
        let tasks: Vec<_> =
            self.tasks.iter().rev().take_while(|task| task.array == path).map(of_part).collect();
        self.tasks
            .extend(tasks.into_iter().rev().map(|task| InlineTask { array: part_path.clone(), ..task }));
        let report = self.report.arrays.get(&path).cloned().unwrap_or_default();
        self.report.arrays.insert(part_path, report);
        let message =
            format!("\"{part_name}\" holds the part of its target that each reference selects, as JSON");
        self.diagnose(Severity::Info, Code::ReferencePart, &path, message);
        let part = Array { attributes: Map::new(), ..array.clone() };
        group.children.insert(part_name, Node::Array(Box::new(part)));
    }
}

fn of_part(task: &InlineTask) -> InlineTask {
    let mut task = task.clone();
    if let ChunkContent::Variable { references, .. } = &mut task.content {
        *references = Some(ReferenceText::Part);
    }
    task
}

#[cfg(test)]
mod tests {
    use virtualize_bytes::Address;
    use virtualize_hdf5::model::Slab;

    use super::*;

    fn part(element: &Element) -> String {
        Value::Object(reference_part(element).unwrap()).to_string()
    }

    #[test]
    fn parts_of_objects() {
        let slab = Slab { start: 1, stride: 2, count: Some(3), block: None };
        let region = |selection| part(&Element::Region(Address(8), selection));
        assert_eq!(
            region(Selection::Regular(vec![slab])),
            r#"{"block":[null],"count":[3],"selection":"hyperslab","start":[1],"stride":[2]}"#
        );
        assert_eq!(
            region(Selection::Blocks(vec![(vec![0, 2], vec![3, 5])])),
            r#"{"blocks":[[[0,2],[3,5]]],"selection":"blocks"}"#
        );
        assert_eq!(region(Selection::Points(vec![vec![7]])), r#"{"points":[[7]],"selection":"points"}"#);
        assert_eq!(region(Selection::All), r#"{"selection":"all"}"#);
        assert_eq!(part(&Element::Attribute(Address(8), "a".to_owned())), r#"{"attribute":"a"}"#);
        assert_eq!(reference_part(&Element::Object(None)), None);
    }

    #[test]
    fn what_has_no_path_is_an_error() {
        let names = ObjectNames::default();
        assert_eq!(reference_path(&Element::Object(None), &names).unwrap(), "");
        assert!(reference_path(&Element::Object(Some(Address(7))), &names).is_err());
        assert!(reference_path(&Element::Unknown("reference into another file"), &names).is_err());
    }
}
