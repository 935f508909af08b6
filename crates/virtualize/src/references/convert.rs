//! Converts stores from one Zarr format to another.

use std::collections::BTreeMap;

use bytes::Bytes;
use virtualize_map::MapOptions;
use virtualize_references::{Format, PendingChunks};
use virtualize_remedy::Code;
use virtualize_store::StoreOptions;
use virtualize_zarr::{
    Array, ChunkEntry, ChunkGrid, ChunkManifest, FillValue, Hierarchy, Source, ZarrFormat, in_byte_order,
    node,
};

use crate::{
    chunks::fetch,
    decode,
    error::{ArrayError, Error, warning},
    output::failed,
    store::VirtualStore,
};

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
    let (mut omitted, mut changed) = (translation.omitted, translation.changed);
    for (path, work) in translation.pending {
        match make(&mut store, &path, work, options).await {
            Ok(None) => {}
            Ok(Some(what)) => changed.push((path, what)),
            Err(error) => {
                remove(&mut store.hierarchy, &path);
                omitted.push((path, format!("its chunks must be re-encoded: {error}")));
            }
        }
    }
    let omitted = omitted
        .into_iter()
        .map(|(path, reason)| warning(Code::ArrayOmitted, &path, format!("array omitted: {reason}")));
    let changed = changed.into_iter().map(|(path, what)| warning(Code::ArrayChanged, &path, what));
    store.report.diagnostics.extend(omitted.chain(changed));
    let (name, diagnostics) = (store.name().to_owned(), store.report.diagnostics.clone());
    if store.hierarchy.arrays().is_empty() && (before > 0 || !diagnostics.is_empty()) {
        return Err(Error::Refused { name, diagnostics });
    }
    store.checked(strict)
}

/// Removes an array from the hierarchy.
pub(super) fn remove(hierarchy: &mut Hierarchy, path: &str) {
    let (parent, name) = node::split(path);
    if hierarchy.array(path).is_some()
        && let Some(group) = hierarchy.root.group_mut(parent)
    {
        group.children.remove(name);
    }
}

/// Creates the chunks of an array. If they were not created, returns a description of the loss.
///
/// # Errors
/// The chunks cannot be created; the array has to be omitted.
pub(super) async fn make(
    store: &mut VirtualStore,
    path: &str,
    work: PendingChunks,
    options: &StoreOptions,
) -> Result<Option<String>, ArrayError> {
    let chunks = match work {
        PendingChunks::Fill(value) => {
            return Ok(fill(store.hierarchy.array_mut(path).ok_or(ArrayError::NO_ARRAY)?, value));
        }
        PendingChunks::Recode { data_type, codecs } => {
            let array = store.hierarchy.array(path).ok_or(ArrayError::NO_ARRAY)?;
            let chunks = ChunkManifest::default();
            recoded(
                array,
                &Array { data_type, codecs, chunks, ..array.clone() },
                &stored(store, path, options).await?,
            )?
        }
        PendingChunks::ReverseBits => {
            let all = stored(store, path, options).await?;
            all.into_iter()
                .map(|(at, bytes)| (at, bytes.iter().map(|byte| byte.reverse_bits()).collect()))
                .collect()
        }
    };
    let array = store.hierarchy.array_mut(path).ok_or(ArrayError::NO_ARRAY)?;
    array.chunks = ChunkManifest { references: Vec::new(), inline: chunks };
    Ok(None)
}

/// Writes the missing chunks, as the mapping does. If there are too many, makes the value the fill value, which Zarr
/// v2 masks, and returns a message.
fn fill(array: &mut Array, value: FillValue) -> Option<String> {
    if let Some((positions, bytes)) = constant_chunks(array, &value) {
        array.chunks.inline.extend(positions.into_iter().map(|position| (position, bytes.clone())));
        return None;
    }
    let shown =
        value.to_json(&array.data_type, ZarrFormat::V2).map(|json| json.to_string()).unwrap_or_default();
    let masks_nothing = value.to_f64(&array.data_type).is_some_and(f64::is_nan);
    array.fill_value = Some(value);
    (!masks_nothing).then(|| {
        format!(
            "Zarr v2 cannot express that missing chunks read as {shown} without masking it; use zarr3-json"
        )
    })
}

/// Returns the positions of missing chunks, and the chunk to write there; `None` if they would exceed the memory
/// limit.
fn constant_chunks(array: &Array, value: &FillValue) -> Option<(Vec<u64>, Bytes)> {
    let limits = MapOptions::default();
    let ChunkGrid::Regular(shape) = &array.chunk_grid else { return None };
    let all = array.chunk_grid.counts(&array.shape).iter().try_fold(1_u64, |all, n| all.checked_mul(*n))?;
    let missing = all.checked_sub(array.chunks.len()).filter(|n| *n <= limits.constant_chunk_limit)?;
    let element = value.to_stored(&array.data_type, array.endian())?;
    let elements = decode::count(shape)?;
    let bytes = elements.checked_mul(element.len() as u64)?;
    let copies = if array.codecs.len() > 1 { 1 } else { missing };
    bytes.checked_mul(copies).filter(|bytes| *bytes <= limits.inline_limit)?;
    let chunk =
        virtualize_codec::encode(&array.codecs, &element.repeat(usize::try_from(elements).ok()?)).ok()?;
    let mut there = array.chunks.iter().map(|(at, _)| at).peekable();
    let is_missing = |at: &u64| there.next_if_eq(at).is_none();
    Some(((0..all).filter(is_missing).collect(), chunk.into()))
}

/// Returns all chunks as stored, from files or inline.
async fn stored(
    store: &VirtualStore,
    path: &str,
    options: &StoreOptions,
) -> Result<BTreeMap<u64, Bytes>, ArrayError> {
    let array = store.hierarchy.array(path).ok_or(ArrayError::NO_ARRAY)?;
    let most = MapOptions::default().inline_limit;
    let mut all = fetch(store, array, most, options).await?;
    for (position, entry) in array.chunks.iter() {
        if let ChunkEntry::Inline(bytes) = entry {
            all.insert(position, bytes.clone());
        }
    }
    Ok(all)
}

/// Re-encodes stored chunks from the codecs of `was` to those of `array`.
fn recoded(
    array: &Array,
    was: &Array,
    stored: &BTreeMap<u64, Bytes>,
) -> Result<BTreeMap<u64, Bytes>, ArrayError> {
    let limit = MapOptions::default().inline_limit;
    let mut made = BTreeMap::new();
    let mut size = 0_u64;
    for (position, bytes) in stored {
        let shape = decode::chunk_shape(was, *position).ok_or_else(|| ArrayError::no_chunk(*position))?;
        let bytes_of_chunk = decode::count(&shape).and_then(|n| n.checked_mul(array.data_type.size()?));
        size = size.saturating_add(bytes_of_chunk.unwrap_or(u64::MAX));
        if size > limit {
            let text = format!("more than {limit} bytes would have to be inlined");
            return Err(ArrayError::invalid(text));
        }
        let elements = decode::elements(was, &shape, bytes)?;
        let little = in_byte_order(&elements, &was.data_type, was.endian());
        let elements = little.and_then(|little| in_byte_order(&little, &array.data_type, array.endian()));
        let elements = elements.ok_or(ArrayError::VARIABLE_SIZE)?;
        let encoded = virtualize_codec::encode(&array.codecs, &elements)?;
        made.insert(*position, encoded.into());
    }
    Ok(made)
}

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
    virtualize_references::write(hierarchy, format, &mut text).map_err(|error| failed(name, error))?;
    Ok(text)
}

/// Reads the output of [`to_text`]. Versions of sources come from `sources`.
///
/// # Errors
/// [`Error::References`] if part of it cannot be read back.
pub fn from_text(text: &[u8], sources: &[Source], name: &str) -> Result<Hierarchy, Error> {
    let failed = |reason: String| Error::References { name: name.to_owned(), reason };
    let set = virtualize_references::from_json(text).map_err(|error| failed(error.to_string()))?;
    if let Some((path, reason)) = set.omitted.iter().next() {
        return Err(failed(format!("array {path} differs when its references are read: {reason}")));
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
