//! Serialization of hierarchies for journals.

use virtualize_emit::{EmitError, Format};
use virtualize_zarr::{Hierarchy, Source, ZarrFormat};

use crate::error::Error;

/// Serializes a hierarchy as JSON, with the keys of its Zarr format. Sources are reduced to their urls.
///
/// # Errors
/// [`Error::Emit`] if the format cannot express the hierarchy.
pub fn to_text(hierarchy: &Hierarchy, name: &str) -> Result<Vec<u8>, Error> {
    let format = match hierarchy.format {
        ZarrFormat::V2 => Format::KERCHUNK_JSON,
        ZarrFormat::V3 => Format::ZARR3_JSON,
    };
    let mut text = Vec::new();
    let failed = |error: EmitError| Error::Emit {
        name: name.to_owned(),
        reason: error.to_string(),
        broken_pipe: false,
    };
    virtualize_emit::write(hierarchy, format, &mut text).map_err(failed)?;
    Ok(text)
}

/// Reads the output of [`to_text`]. Versions of sources come from `sources`.
///
/// # Errors
/// [`Error::References`] if part of it cannot be read back.
pub fn from_text(text: &[u8], sources: &[Source], name: &str) -> Result<Hierarchy, Error> {
    let failed = |reason: String| Error::References { name: name.to_owned(), reason };
    let set = virtualize_references::from_json(text).map_err(|error| failed(error.to_string()))?;
    if let Some((path, reason)) = set.left_out.iter().next() {
        return Err(failed(format!("array {path} does not come back from its references: {reason}")));
    }
    if let Some(key) = set.ignored.first() {
        return Err(failed(format!("key {key:?} belongs to no array")));
    }
    if let Some(whole) = set.whole_files.first() {
        return Err(failed(format!("array {} refers to a whole file", whole.array)));
    }
    let mut hierarchy = set.hierarchy;
    for source in &mut hierarchy.sources {
        let known = sources.iter().find(|known| known.url == source.url);
        *source =
            known.cloned().ok_or_else(|| failed(format!("{} is not one of the sources", source.url)))?;
    }
    Ok(hierarchy)
}
