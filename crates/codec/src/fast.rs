//! Decoders that write to memory of known length, for chunks as they should be: [`decode`] either fills its output with
//! exactly what the decoders of [`crate::codecs`] return, or gives up. Those decide about all other chunks.

use std::fmt;

use virtualize_zarr::Codec;

use crate::codecs::{self, predictor::Layout};

/// Maximum number of bytes that one stored byte is expected to decode to. Memory for more is not allocated in advance.
const RATIO: usize = 2000;
/// Chunks of at most this many bytes are decoded here however few bytes store them.
const SMALL: usize = 1 << 16;

/// Decoders that are used again for the next chunk.
#[derive(Default)]
pub(crate) struct State {
    deflate: Option<libdeflater::Decompressor>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    lzw: Option<weezl::decode::Decoder>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

/// Returns whether decoders may allocate `length` bytes before they decode `stored` bytes.
pub(crate) fn is_plausible(stored: usize, length: usize) -> bool {
    length <= SMALL || length <= stored.saturating_mul(RATIO)
}

/// Returns whether a codec leaves chunks in stored order unchanged.
pub(crate) fn keeps(codec: &Codec) -> bool {
    matches!(
        codec,
        Codec::Transpose { .. }
            | Codec::Bytes { .. }
            | Codec::ReversedBytes { .. }
            | Codec::VlenUtf8
            | Codec::VlenBytes
            | Codec::Rounded { .. }
    )
}

/// Decodes bytes that fill `out`; `None` if they do not, or are damaged.
pub(crate) fn decode(codec: &Codec, bytes: &[u8], out: &mut [u8], state: &mut State) -> Option<()> {
    match codec {
        Codec::Zlib { .. } => {
            let deflate = state.deflate.get_or_insert_with(libdeflater::Decompressor::new);
            is_full(deflate.zlib_decompress(bytes, out).ok()?, out)
        }
        Codec::Gzip { .. } => {
            // The last member must be the only one.
            let size = u32::from_le_bytes(*bytes.last_chunk::<4>()?);
            is_full(usize::try_from(size).ok()?, out)?;
            let deflate = state.deflate.get_or_insert_with(libdeflater::Decompressor::new);
            is_full(deflate.gzip_decompress(bytes, out).ok()?, out)
        }
        Codec::Zstd { .. } => {
            if state.zstd.is_none() {
                state.zstd = zstd::bulk::Decompressor::new().ok();
            }
            is_full(state.zstd.as_mut()?.decompress_to_buffer(bytes, out).ok()?, out)
        }
        Codec::Shuffle { element_size } => {
            is_full(bytes.len(), out)?;
            codecs::shuffle::decode_into(bytes, out, usize::try_from(*element_size).ok()?);
            Some(())
        }
        Codec::Delta { axis, dtype, shape } => {
            is_full(bytes.len(), out)?;
            out.copy_from_slice(bytes);
            Layout::new(*axis, dtype, shape).ok()?.decode_delta(out);
            Some(())
        }
        Codec::FloatPredictor { axis, dtype, shape } => {
            is_full(Layout::new(*axis, dtype, shape).ok()?.decode_floats(bytes, out), out)
        }
        Codec::Lzw => codecs::lzw::decode_into(bytes, out, &mut state.lzw),
        Codec::Hdf5Lz4 => codecs::hdf5_lz4::decode_into(bytes, out).ok(),
        other => {
            let decoded = codecs::decode(other, bytes, out.len()).ok()??;
            is_full(decoded.len(), out)?;
            out.copy_from_slice(&decoded);
            Some(())
        }
    }
}

fn is_full(length: usize, out: &[u8]) -> Option<()> {
    (length == out.len()).then_some(())
}
