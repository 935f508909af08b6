//! Consolidated metadata: the documents of all nodes in one.

use serde_json::{Map, Value, json};
use virtualize_zarr::{Group, Hierarchy, MetadataError, Node, ZarrFormat, node::join};

use super::{EmitError, is_valid_name};

/// Metadata documents of a hierarchy by key, parents first.
pub(crate) type Documents = Vec<(String, Value)>;

/// Returns all metadata documents of a hierarchy: the root's, for Zarr v2 the consolidated one, and those of the other
/// nodes.
pub(crate) fn documents(hierarchy: &Hierarchy) -> Result<Documents, EmitError> {
    let mut below = Vec::new();
    children("", &hierarchy.root, hierarchy.format, &mut below)?;
    let mut all = Vec::with_capacity(below.len() + 3);
    match hierarchy.format {
        ZarrFormat::V2 => {
            push_group("", &hierarchy.root, ZarrFormat::V2, &mut all);
            let metadata: Map<_, _> = all.iter().chain(&below).cloned().collect();
            let consolidated = json!({"metadata": metadata, "zarr_consolidated_format": 1});
            all.push((".zmetadata".to_owned(), consolidated));
        }
        ZarrFormat::V3 => {
            all.push(("zarr.json".to_owned(), consolidated_root(hierarchy, &below)));
        }
    }
    all.append(&mut below);
    Ok(all)
}

/// Returns the root's `zarr.json` with the given documents as consolidated metadata.
pub(crate) fn consolidated_root(hierarchy: &Hierarchy, below: &Documents) -> Value {
    let metadata: Map<_, _> = below
        .iter()
        .map(|(key, document)| (key.trim_end_matches("/zarr.json").to_owned(), document.clone()))
        .collect();
    let mut root = hierarchy.root.to_zarr_json();
    if let Some(root) = root.as_object_mut() {
        let consolidated = json!({"kind": "inline", "must_understand": false, "metadata": metadata});
        root.insert("consolidated_metadata".to_owned(), consolidated);
    }
    root
}

/// Appends the documents of the nodes below a group, parents first.
fn children(path: &str, group: &Group, format: ZarrFormat, out: &mut Documents) -> Result<(), EmitError> {
    for (name, node) in &group.children {
        if !is_valid_name(name) {
            return Err(EmitError::Name { path: format!("/{path}"), name: name.clone() });
        }
        let path = join(path, name);
        match node {
            Node::Group(group) => {
                push_group(&format!("{path}/"), group, format, out);
                children(&path, group, format, out)?;
            }
            Node::Array(array) => {
                let wrong = |error: MetadataError| EmitError::array(&path, error);
                match format {
                    ZarrFormat::V2 => {
                        out.push((format!("{path}/.zarray"), array.to_zarray().map_err(wrong)?));
                        out.push((format!("{path}/.zattrs"), array.to_zattrs(name)));
                    }
                    ZarrFormat::V3 => {
                        out.push((format!("{path}/zarr.json"), array.to_zarr_json(name).map_err(wrong)?));
                    }
                }
            }
        }
    }
    Ok(())
}

fn push_group(prefix: &str, group: &Group, format: ZarrFormat, out: &mut Documents) {
    match format {
        ZarrFormat::V2 => {
            out.push((format!("{prefix}.zgroup"), json!({"zarr_format": 2})));
            out.push((format!("{prefix}.zattrs"), group.to_zattrs()));
        }
        ZarrFormat::V3 => out.push((format!("{prefix}zarr.json"), group.to_zarr_json())),
    }
}
