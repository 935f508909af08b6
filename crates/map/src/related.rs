//! Other files that the metadata of a file names: external links and raw data, virtual sources, planes of an OME-TIFF.

use virtualize_zarr::Source;

/// Another file that a file names; `F` is its metadata.
#[derive(Clone, Debug)]
pub enum OtherFile<F> {
    /// Its metadata was read.
    Read(Box<F>, Source),
    /// It does not exist.
    Missing,
    /// It is not allowed, or could not be read; the reason.
    Refused(String),
}

/// Returns the url of a file that the file at `own` names.
///
/// Relative names start in the folder of `own`, as libhdf5 and OME resolve them; absolute ones are paths of the local
/// file system.
pub(crate) fn resolve_relative(own: &str, name: &str) -> String {
    let folder = own.rsplit_once('/').map_or("", |(folder, _)| folder);
    match name.strip_prefix('/') {
        Some(absolute) => format!("file:///{absolute}"),
        None => format!("{folder}/{}", name.strip_prefix("./").unwrap_or(name)),
    }
}
