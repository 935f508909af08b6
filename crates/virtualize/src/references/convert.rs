//! Converts stores from one Zarr format to another.

use virtualize_remedy::Code;
use virtualize_store::StoreOptions;
use virtualize_zarr::{Hierarchy, Node, ZarrFormat, node};

use super::{location::warning, pending};
use crate::error::Error;
use crate::store::VirtualStore;

/// Converts a store to a Zarr format. Chunks that the format cannot refer to are read, re-encoded and inlined. Arrays
/// that it cannot express are omitted; the report lists all losses.
///
/// # Errors
/// [`Error::Strict`] if there are warnings and `strict` is set; [`Error::Refused`] if no array is left.
pub async fn convert(
    mut store: VirtualStore,
    format: ZarrFormat,
    strict: bool,
    options: &StoreOptions,
) -> Result<VirtualStore, Error> {
    let before = store.hierarchy.arrays().len();
    let hierarchy = std::mem::replace(&mut store.hierarchy, Hierarchy::new(format));
    let translation = virtualize_references::translate(hierarchy, format);
    store.hierarchy = translation.hierarchy;
    let (mut left_out, mut changed) = (translation.left_out, translation.changed);
    for (path, work) in translation.pending {
        match pending::make(&mut store, &path, work, options).await {
            Ok(None) => {}
            Ok(Some(what)) => changed.push((path, what)),
            Err(error) => {
                remove(&mut store.hierarchy, &path);
                left_out.push((path, format!("its chunks have to be made anew: {error}")));
            }
        }
    }
    let left_out = left_out
        .into_iter()
        .map(|(path, reason)| warning(Code::ArrayLeftOut, &path, format!("the array is left out: {reason}")));
    let changed = changed.into_iter().map(|(path, what)| warning(Code::ArrayChanged, &path, what));
    store.report.diagnostics.extend(left_out.chain(changed));
    let (name, diagnostics) = (store.name().to_owned(), store.report.diagnostics.clone());
    if store.hierarchy.arrays().is_empty() && (before > 0 || !diagnostics.is_empty()) {
        return Err(Error::Refused { name, diagnostics });
    }
    if strict && store.warnings().next().is_some() {
        return Err(Error::Strict { name, diagnostics });
    }
    Ok(store)
}

/// Removes an array from the hierarchy.
fn remove(hierarchy: &mut Hierarchy, path: &str) {
    let (parent, name) = node::split(path);
    if let Some(group) = hierarchy.root.group_mut(parent)
        && matches!(group.children.get(name), Some(Node::Array(_)))
    {
        group.children.remove(name);
    }
}
