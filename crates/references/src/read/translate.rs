//! Translation of a hierarchy to the other Zarr format.
//!
//! References stay as they are. Metadata, fill values and sentinels are encoded for the other format. Chunks that it
//! cannot reference are listed ([`PendingChunks`]) for the caller to re-encode.

use virtualize_zarr::{
    Array, ChunkGrid, Codec, DataType, FillValue, Group, Hierarchy, Implementation, Node, ZarrFormat,
    node::join, readers::in_stored_order,
};

use super::{ReferencesError, fill};

/// A hierarchy in the other format, and what could not be translated.
#[derive(Clone, PartialEq, Debug)]
pub struct Translation {
    /// The hierarchy, without the arrays that are omitted.
    pub hierarchy: Hierarchy,
    /// Paths of arrays that are omitted, with the reason.
    pub omitted: Vec<(String, String)>,
    /// Paths of arrays that lost information or changed their axes, with a description.
    pub changed: Vec<(String, String)>,
    /// Paths of arrays with pending chunks. Until those are made, the arrays read as wrong values.
    pub pending: Vec<(String, PendingChunks)>,
}

/// Chunks to make before an array is written.
#[derive(Clone, PartialEq, Debug)]
pub enum PendingChunks {
    /// Missing chunks, to be filled with this value: as missing ones they would read as another.
    Fill(FillValue),
    /// All chunks: decode them as this type by these codecs, and encode them as the array's type by its own codecs.
    Recode {
        /// The type, with the byte orders of structures' members.
        data_type: DataType,
        /// The codecs of the stored chunks.
        codecs: Vec<Codec>,
    },
    /// All chunks: reverse the bits of each byte.
    ReverseBits,
}

/// Translates a hierarchy to a format.
pub fn translate(mut hierarchy: Hierarchy, format: ZarrFormat) -> Translation {
    let mut translator = Translator { format, omitted: Vec::new(), changed: Vec::new(), pending: Vec::new() };
    if hierarchy.format != format {
        translator.group("", &mut hierarchy.root);
        hierarchy.format = format;
    }
    let Translator { omitted, changed, pending, .. } = translator;
    Translation { hierarchy, omitted, changed, pending }
}

struct Translator {
    format: ZarrFormat,
    omitted: Vec<(String, String)>,
    changed: Vec<(String, String)>,
    pending: Vec<(String, PendingChunks)>,
}

impl Translator {
    fn group(&mut self, path: &str, group: &mut Group) {
        group.children.retain(|name, node| {
            let path = join(path, name);
            match node {
                Node::Group(child) => {
                    self.group(&path, child);
                    true
                }
                Node::Array(array) => match self.array(&path, name, array) {
                    Ok(()) => true,
                    Err(error) => {
                        self.omitted.push((path, error.to_string()));
                        false
                    }
                },
            }
        });
    }

    fn array(&mut self, path: &str, name: &str, array: &mut Array) -> Result<(), ReferencesError> {
        match self.format {
            ZarrFormat::V3 => self.in_v3(path, name, array),
            ZarrFormat::V2 => self.in_v2(path, array),
        }
    }

    fn in_v3(&mut self, path: &str, name: &str, array: &mut Array) -> Result<(), ReferencesError> {
        if let Some(what) = fill::in_v3(array) {
            self.changed.push((path.to_owned(), what));
        }
        let Err(error) = array.to_zarr_json(name) else { return Ok(()) };
        let pending = without_reversed_bits(array).or_else(|| in_one_byte_order(array));
        let pending = pending.ok_or_else(|| error.clone())?;
        array.to_zarr_json(name).map_err(|_| error)?;
        self.pending.push((path.to_owned(), pending));
        Ok(())
    }

    fn in_v2(&mut self, path: &str, array: &mut Array) -> Result<(), ReferencesError> {
        if let Some(moved) = in_stored_order(array).filter(|_| !has_order_of_v2(&array.codecs)) {
            *array = moved;
            let names: Vec<_> =
                array.dimension_names.iter().map(|name| name.as_deref().unwrap_or("?")).collect();
            let what = format!(
                "its axes are in the order in which they are stored ({}): Zarr v2 has no codec that moves them",
                names.join(", ")
            );
            self.changed.push((path.to_owned(), what));
        }
        complete(array)?;
        if let Some(value) = fill::in_v2(array)? {
            self.pending.push((path.to_owned(), PendingChunks::Fill(value)));
        }
        array.to_zarray()?;
        Ok(())
    }
}

/// Whether Zarr v2 expresses the chain's transposition: none, or a reversal of all axes that comes first.
fn has_order_of_v2(codecs: &[Codec]) -> bool {
    match codecs.first() {
        Some(Codec::Transpose { order }) => order.iter().rev().copied().eq(0..order.len()),
        _ => true,
    }
}

/// Replaces codecs with reversed bits (TIFF's FillOrder 2), which Zarr v3 cannot express, as the mapping of TIFF does:
/// numbers are recompressed, images get their bits in the usual order. Returns `None` if another codec prevents
/// that.
fn without_reversed_bits(array: &mut Array) -> Option<PendingChunks> {
    let (Codec::BitOrder, rest) = array.codecs.split_last()? else { return None };
    if rest.iter().any(|codec| matches!(codec, Codec::Image { .. })) {
        array.codecs.pop();
        return Some(PendingChunks::ReverseBits);
    }
    if !rest.iter().all(is_decoded_here) {
        return None;
    }
    let layout = rest.iter().filter(|codec| matches!(codec, Codec::Transpose { .. } | Codec::Bytes { .. }));
    let codecs = layout.cloned().chain([Codec::Zlib { level: 6 }]).collect();
    let codecs = std::mem::replace(&mut array.codecs, codecs);
    Some(PendingChunks::Recode { data_type: array.data_type.clone(), codecs })
}

/// Converts structures with members of both byte orders to that of the first number, as the mapping of HDF5 does.
/// Returns `None` if a codec cannot be decoded here.
fn in_one_byte_order(array: &mut Array) -> Option<PendingChunks> {
    if !array.data_type.mixes_byte_orders() || !array.codecs.iter().all(is_decoded_here) {
        return None;
    }
    let endian = array.endian();
    let layout = array.codecs.iter().filter(|codec| matches!(codec, Codec::Transpose { .. }));
    let codecs = layout.cloned().chain([Codec::Bytes { endian: Some(endian) }]).collect();
    let codecs = std::mem::replace(&mut array.codecs, codecs);
    let data_type = array.data_type.clone().in_byte_order(endian);
    Some(PendingChunks::Recode { data_type: std::mem::replace(&mut array.data_type, data_type), codecs })
}

fn is_decoded_here(codec: &Codec) -> bool {
    codec.implementation() != Implementation::None
}

/// Sets the parameters of codecs that only v2 encodes.
///
/// # Errors
/// Rectilinear grids.
fn complete(array: &mut Array) -> Result<(), ReferencesError> {
    let ChunkGrid::Regular(chunk) = &array.chunk_grid else {
        return Err(ReferencesError::Invalid("Zarr v2 has no chunks of several sizes".to_owned()));
    };
    Codec::complete(&mut array.codecs, &array.data_type, chunk);
    Ok(())
}
