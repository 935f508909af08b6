//! From one format to another.

use virtualize_zarr::ZarrFormat;

use super::read::warning;
use crate::{Error, VirtualStore};

/// Says a store in the words of a Zarr format. Arrays that it cannot say are left out, and what is lost is told, in the
/// report.
///
/// # Errors
/// [`Error::Strict`] where there is any warning and none is wanted; [`Error::Refused`] where no array is left.
pub fn convert(mut store: VirtualStore, format: ZarrFormat, strict: bool) -> Result<VirtualStore, Error> {
    let before = store.hierarchy.arrays().len();
    let empty = virtualize_zarr::Hierarchy::new(format);
    let hierarchy = std::mem::replace(&mut store.hierarchy, empty);
    let translation = virtualize_references::translate(hierarchy, format);
    let left_out = translation
        .left_out
        .into_iter()
        .map(|(path, reason)| warning("array-left-out", &path, format!("the array is left out: {reason}")));
    let changed = translation.changed.into_iter().map(|(path, what)| warning("array-changed", &path, what));
    store.report.diagnostics.extend(left_out.chain(changed));
    store.hierarchy = translation.hierarchy;
    let (name, diagnostics) = (store.name().to_owned(), store.report.diagnostics.clone());
    if store.hierarchy.arrays().is_empty() && (before > 0 || !diagnostics.is_empty()) {
        return Err(Error::Refused { name, diagnostics });
    }
    if strict && store.warnings().next().is_some() {
        return Err(Error::Strict { name, diagnostics });
    }
    Ok(store)
}
