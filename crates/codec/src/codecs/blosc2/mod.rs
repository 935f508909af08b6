//! Contiguous frames of Blosc 2, as HDF5 filter 32026 stores them.
//! <https://github.com/Blosc/c-blosc2/blob/main/README_CFRAME_FORMAT.rst>
//!
//! ```text
//! header    fixed fields (big-endian, MessagePack), then metalayers by name
//! chunks    one after the other
//! index     a chunk: for each chunk 8 bytes, its offset from the end of the header, or a run of one value
//! trailer   metalayers of variable length, of which HDF5 writes none, and a fingerprint, which decoding does not need
//! ```

mod chunk;
mod nd;

use self::{chunk::Special, nd::Layer};
use crate::{CodecFailure, corrupt};

const NAME: &str = "blosc2";

/// Bytes of the header before the metalayers.
const FIXED: usize = 87;
/// Greatest ratio of padded chunks to an array.
const MOST_PADDING: usize = 4;
/// Bytes by which the padded chunks of a small array may exceed that.
const SLACK: usize = 1 << 20;
/// Most chunks of a frame, which HDF5 writes with one.
const MOST_CHUNKS: usize = 1 << 20;

/// Fixed fields of the header.
struct Header<'a> {
    /// All of the header, with metalayers.
    bytes: &'a [u8],
    /// Decoded bytes of all chunks.
    decoded: usize,
    /// Stored bytes of all chunks.
    stored: usize,
    /// Decoded bytes of a chunk; the last one may have fewer.
    chunk: usize,
    /// Bytes per element.
    element: usize,
}

impl<'a> Header<'a> {
    fn parse(frame: &'a [u8]) -> Result<Self, CodecFailure> {
        let size = field::<4>(frame, 0x0b).map(u32::from_be_bytes).map(usize_of);
        let bytes =
            size.filter(|size| *size >= FIXED).and_then(|size| frame.get(..size)).ok_or_else(cut_off)?;
        if bytes.get(2..10) != Some(b"b2frame\0") {
            return Err(corrupt(NAME, "no frame"));
        }
        let [flags, kind] = field(bytes, 0x19).ok_or_else(cut_off)?;
        if flags & 0xf > 2 || flags >> 4 & 3 != 1 || flags & 0x40 != 0 || kind & 0x8f != 0 {
            return Err(unsupported(&format!("frames with flags {flags:#x} and type {kind}")));
        }
        let filters = bytes.get(0x47..).and_then(|filters| filters.get(..usize::from(*bytes.get(0x46)?)));
        chunk::pipeline(filters.filter(|filters| filters.len() <= 6).ok_or_else(cut_off)?)?;
        let long = |at| field::<8>(bytes, at).map(u64::from_be_bytes).and_then(|n| usize::try_from(n).ok());
        let short = |at| field::<4>(bytes, at).map(u32::from_be_bytes).map(usize_of);
        if long(0x10) != Some(frame.len()) {
            return Err(corrupt(NAME, format!("a frame of {} bytes with another length", frame.len())));
        }
        Ok(Self {
            bytes,
            decoded: long(0x1e).ok_or_else(cut_off)?,
            stored: long(0x27).ok_or_else(cut_off)?,
            element: short(0x30).filter(|n| *n > 0).ok_or_else(|| corrupt(NAME, "elements of no bytes"))?,
            chunk: short(0x3a).filter(|n| i32::try_from(*n).is_ok()).ok_or_else(cut_off)?,
        })
    }

    fn chunks(&self) -> Result<usize, CodecFailure> {
        if self.decoded == 0 {
            return Ok(0);
        }
        let chunks =
            self.decoded.checked_next_multiple_of(self.chunk.max(1)).unwrap_or(0) / self.chunk.max(1);
        let sensible = self.chunk > 0 && (1..=MOST_CHUNKS).contains(&chunks);
        sensible
            .then_some(chunks)
            .ok_or_else(|| corrupt(NAME, format!("{chunks} chunks of {} bytes", self.chunk)))
    }
}

/// Decodes a frame to at most `limit` bytes.
pub(super) fn decode(frame: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let header = Header::parse(frame)?;
    let layer = Layer::find(header.bytes)?;
    let most = match &layer {
        None => limit,
        Some(layer) if layer.padded_bytes(header.element) != Some(header.decoded) => {
            return Err(corrupt(NAME, format!("{} bytes for {layer:?}", header.decoded)));
        }
        Some(_) => limit.saturating_mul(MOST_PADDING).saturating_add(SLACK),
    };
    if header.decoded > most {
        return Err(CodecFailure::TooLong { codec: NAME.to_owned(), limit });
    }
    let body = frame.get(header.bytes.len()..).unwrap_or_default();
    let count = header.chunks()?;
    let mut decoded = Vec::with_capacity(header.decoded.min(frame.len().saturating_mul(4)));
    for (place, offset) in offsets(&header, body, count)?.into_iter().enumerate() {
        let size = header.chunk.min(header.decoded - place * header.chunk);
        decoded.extend(one(&header, body, offset, size)?);
    }
    match layer {
        Some(layer) => layer.arrange(&decoded, header.element, limit),
        None => Ok(decoded),
    }
}

/// Returns the offsets of the chunks, from the end of the header.
fn offsets(header: &Header<'_>, body: &[u8], count: usize) -> Result<Vec<u64>, CodecFailure> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let index = body.get(header.stored..).ok_or_else(cut_off)?;
    let (element, stored) = chunk::sizes(index)?;
    check_trailer(index.get(stored..).ok_or_else(cut_off)?)?;
    let index = chunk::decode(index, count * 8)?;
    if index.len() != count * 8 || element != 8 {
        return Err(corrupt(NAME, format!("an index of {} bytes for {count} chunks", index.len())));
    }
    Ok(index.as_chunks::<8>().0.iter().map(|offset| u64::from_le_bytes(*offset)).collect())
}

/// Checks that a trailer of this length has no metalayers: it is an array of the version, the layers (the size of their index,
/// a map, and more), the length of the trailer, and the fingerprint.
fn check_trailer(trailer: &[u8]) -> Result<(), CodecFailure> {
    let map = field::<3>(trailer, 6);
    let length = trailer.len().checked_sub(23).and_then(|at| field::<5>(trailer, at));
    match (map, length) {
        (Some([0xde, 0, 0]), Some([0xce, length @ ..]))
            if usize_of(u32::from_be_bytes(length)) == trailer.len() =>
        {
            Ok(())
        }
        _ => Err(corrupt(NAME, "a trailer with another length, or with metalayers")),
    }
}

/// Decodes one chunk of `size` decoded bytes. Its offset may stand for a run of one value.
fn one(header: &Header<'_>, body: &[u8], offset: u64, size: usize) -> Result<Vec<u8>, CodecFailure> {
    if offset >> 63 == 1 {
        let special = u8::try_from(offset >> 56 & 7).unwrap_or(0);
        return Special::of(special)?.fill(&[], header.element, size);
    }
    let start = usize::try_from(offset).ok().filter(|start| *start < header.stored);
    let stored = start.and_then(|start| body.get(start..header.stored)).ok_or_else(cut_off)?;
    let decoded = chunk::decode(stored, size)?;
    if decoded.len() != size {
        return Err(corrupt(NAME, format!("a chunk of {} bytes, expected {size}", decoded.len())));
    }
    Ok(decoded)
}

/// Returns the bytes of a field.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn usize_of(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn cut_off() -> CodecFailure {
    corrupt(NAME, "the frame is truncated")
}

fn unsupported(what: &str) -> CodecFailure {
    CodecFailure::NoDecoder(format!("{NAME}: {what}"))
}
