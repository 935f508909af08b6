//! Names of other files in the metadata of a file: external links and raw data, virtual sources, planes of an OME-TIFF.

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
