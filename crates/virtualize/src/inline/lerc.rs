//! Decoding and encoding of LERC chunks.

use bytes::Bytes;
use virtualize_bytes::Limits;
use virtualize_codec::lerc::{self, Layout};
use virtualize_map::LercLayout;
use virtualize_map::tiff::{lerc_outer_codecs, stored_type};
use virtualize_zarr::{Array, Codec, DataType};

use super::error::ChunkError;

/// Returns a chunk without its mask, with all rows.
pub(super) fn without_mask(
    limits: &Limits,
    array: &Array,
    bytes: &Bytes,
    layout: LercLayout,
    height: u64,
) -> Result<Bytes, ChunkError> {
    let outer = lerc_outer_codecs(&array.codecs).ok_or(ChunkError::NoLerc)?;
    let data_type = stored_type(array);
    let whole = LercLayout { rows: height, ..layout };
    let size = size_of(limits, data_type, &whole)?;
    let mut values = decoded(limits, data_type, outer, bytes, &layout)?;
    values.resize(size, 0);
    let blob = lerc::encode(data_type, &codec_layout(&whole), &values)?;
    Ok(virtualize_codec::encode(outer, &blob)?.into())
}

/// Returns the numbers of a strip or tile, as libtiff returns them.
pub(super) fn decoded(
    limits: &Limits,
    data_type: &DataType,
    outer: &[Codec],
    bytes: &[u8],
    layout: &LercLayout,
) -> Result<Vec<u8>, ChunkError> {
    // A blob is not much longer than its values: it adds a header, a mask and flags of blocks.
    let most = size_of(limits, data_type, layout)?.saturating_mul(2).saturating_add(1 << 16);
    let blobs = lerc::unwrap(outer, bytes, most)?;
    Ok(lerc::decode(&blobs, data_type, &codec_layout(layout))?)
}

pub(super) fn codec_layout(layout: &LercLayout) -> Layout {
    let LercLayout { rows, columns, samples, has_alpha } = *layout;
    Layout { rows, columns, samples, has_alpha }
}

/// Returns the bytes of a strip or tile, if they fit the memory limit.
fn size_of(limits: &Limits, data_type: &DataType, layout: &LercLayout) -> Result<usize, ChunkError> {
    let size = layout.elements().and_then(|elements| elements.checked_mul(data_type.number_size()));
    size.filter(|size| *size <= limits.structure_bytes)
        .and_then(|size| usize::try_from(size).ok())
        .ok_or_else(|| ChunkError::TooLarge(format!("{layout:?}")))
}
