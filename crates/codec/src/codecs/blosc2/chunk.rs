//! Chunks of Blosc 2. Numbers are little-endian.
//! <https://github.com/Blosc/c-blosc2/blob/main/README_CHUNK_FORMAT.rst>
//!
//! ```text
//! 1  format version, 3 to 5   4  stored size          6  parameters of the filters
//! 1  compressor's version     6  filters              1  reserved
//! 1  flags                    1  user's compressor    1  more flags
//! 1  size of an element       1  its parameter        …  offset of each block, 4 bytes each, then the blocks
//! 4  decoded size
//! 4  decoded size of a block
//! ```

use super::{NAME, cut_off, field, unsupported, usize_of};
use crate::{
    CodecFailure,
    codecs::{blosc, hdf5_bitshuffle, shuffle},
    corrupt,
};

const HEADER: usize = 32;

/// Flag: the chunk is stored without compression.
const COPIED: u8 = 2;
/// Flags: the header has 32 bytes.
const EXTENDED: u8 = 5;
/// Flag: a block is one stream.
const ONE_STREAM: u8 = 16;
/// Further flag: streams need a dictionary.
const DICTIONARY: u8 = 1;
/// Further flags that change the meaning of a chunk: a longer header, a codec elsewhere, a lazy chunk, an instrumented codec.
const UNKNOWN: u8 = 0x8e;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Filter {
    Shuffle,
    BitShuffle,
    Delta,
}

struct Header {
    flags: u8,
    /// Bytes per element.
    element: usize,
    /// Decoded bytes.
    size: usize,
    /// Decoded bytes of a block; the last one may have fewer.
    block: usize,
    /// Stored bytes.
    stored: usize,
    /// In the order of encoding.
    filters: Vec<Filter>,
    special: Special,
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Self, CodecFailure> {
        let [version, _, flags, element] = field(bytes, 0).ok_or_else(cut_off)?;
        if !(3..=5).contains(&version) || flags & EXTENDED != EXTENDED {
            return Err(unsupported(&format!("chunks of version {version} with flags {flags:#x}")));
        }
        let number = |at| field(bytes, at).map(u32::from_le_bytes).map(usize_of).ok_or_else(cut_off);
        let filters: [u8; 6] = field(bytes, 16).ok_or_else(cut_off)?;
        let [reserved, more] = field(bytes, 30).ok_or_else(cut_off)?;
        let needs_none = flags >> 5 != 0 || flags & COPIED != 0;
        if more & UNKNOWN != 0 || reserved != 0 || more & DICTIONARY != 0 && needs_none {
            return Err(unsupported(&format!("chunks with flags {reserved:#x} and {more:#x}")));
        }
        if element == 0 {
            return Err(corrupt(NAME, "elements of no bytes"));
        }
        // Their parameter is another size of elements.
        let parameters: [u8; 6] = field(bytes, 24).ok_or_else(cut_off)?;
        if filters.iter().zip(parameters).any(|(filter, parameter)| matches!(filter, 1 | 2) && parameter != 0)
        {
            return Err(unsupported(&format!("filters {filters:?} with parameters {parameters:?}")));
        }
        let (size, block) = (number(4)?, number(8)?);
        if size > 0 && !(1..=size).contains(&block) {
            return Err(corrupt(NAME, format!("blocks of {block} bytes in a chunk of {size}")));
        }
        Ok(Self {
            flags,
            element: usize::from(element),
            size,
            block,
            stored: number(12)?,
            filters: pipeline(&filters)?,
            special: Special::of(more >> 4 & 7)?,
        })
    }
}

/// Returns the filters that decoding has to undo.
pub(super) fn pipeline(numbers: &[u8]) -> Result<Vec<Filter>, CodecFailure> {
    let mut filters = Vec::new();
    for number in numbers {
        match number {
            // None, and truncated precision, which is not undone.
            0 | 4 => {}
            1 => filters.push(Filter::Shuffle),
            2 => filters.push(Filter::BitShuffle),
            // Its reference is the start of the decoded chunk, which is known only where no filter comes before it.
            3 if filters.is_empty() => filters.push(Filter::Delta),
            other => return Err(unsupported(&format!("filters {numbers:?}, of which {other}"))),
        }
    }
    Ok(filters)
}

/// What all elements of a chunk are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Special {
    /// Nothing in particular.
    No,
    Zero,
    NaN,
    /// A value that follows the header.
    Value,
}

impl Special {
    pub(super) fn of(number: u8) -> Result<Self, CodecFailure> {
        Ok(match number {
            0 => Self::No,
            1 => Self::Zero,
            2 => Self::NaN,
            3 => Self::Value,
            4 => return Err(corrupt(NAME, "a chunk without values")),
            other => return Err(unsupported(&format!("special values {other}"))),
        })
    }

    /// Returns `size` bytes of elements.
    pub(super) fn fill(self, value: &[u8], element: usize, size: usize) -> Result<Vec<u8>, CodecFailure> {
        let value = match (self, element) {
            (Self::Zero, _) => return Ok(vec![0; size]),
            (Self::NaN, 4) => &f32::NAN.to_le_bytes()[..],
            (Self::NaN, 8) => &f64::NAN.to_le_bytes()[..],
            (Self::Value, _) if !value.is_empty() => value,
            _ => return Err(corrupt(NAME, format!("{self:?} of {element} bytes"))),
        };
        if !size.is_multiple_of(value.len()) {
            return Err(corrupt(NAME, format!("{size} bytes of values of {}", value.len())));
        }
        Ok(value.repeat(size / value.len()))
    }
}

/// Returns the bytes of an element, and of the stored chunk.
pub(super) fn sizes(bytes: &[u8]) -> Result<(usize, usize), CodecFailure> {
    Header::parse(bytes).map(|header| (header.element, header.stored))
}

/// Decodes the chunk at the start of `bytes` to at most `limit` bytes.
pub(super) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let header = Header::parse(bytes)?;
    if header.size > limit {
        return Err(CodecFailure::TooLong { codec: NAME.to_owned(), limit });
    }
    let bytes = bytes.get(..header.stored).ok_or_else(cut_off)?;
    let data = bytes.get(HEADER..).ok_or_else(cut_off)?;
    if header.special != Special::No {
        return header.special.fill(data, header.element, header.size);
    }
    if header.flags & COPIED != 0 {
        return data.get(..header.size).map(<[u8]>::to_vec).ok_or_else(cut_off);
    }
    if header.block == 0 && header.size > 0 {
        return Err(corrupt(NAME, "blocks of no bytes"));
    }
    let mut out = Vec::with_capacity(header.size.min(bytes.len().saturating_mul(255)));
    let starts = data.as_chunks::<4>().0.iter().map(|start| usize_of(u32::from_le_bytes(*start)));
    for start in starts.take(header.size.div_ceil(header.block.max(1))) {
        let stored = bytes.get(start..).ok_or_else(cut_off)?;
        let size = header.block.min(header.size - out.len());
        let block = block(&header, stored, size)?;
        append(block, &header, &mut out)?;
    }
    Ok(out)
}

/// Decompresses the streams of a block.
fn block(header: &Header, mut stored: &[u8], size: usize) -> Result<Vec<u8>, CodecFailure> {
    let splits = header.flags & ONE_STREAM == 0 && size == header.block;
    let streams = if splits { header.element } else { 1 };
    let each = size / streams;
    let mut out = Vec::with_capacity(size);
    for _ in 0..streams {
        let (length, rest) = stored.split_first_chunk::<4>().ok_or_else(cut_off)?;
        stored = stream(header, i32::from_le_bytes(*length), rest, each, &mut out)?;
    }
    if out.len() != size {
        return Err(corrupt(NAME, format!("a block of {} bytes, expected {size}", out.len())));
    }
    Ok(out)
}

/// Decompresses one stream, and returns what follows it. A length of 0 stands for zeros, a negative one for a repeated
/// byte.
fn stream<'a>(
    header: &Header,
    length: i32,
    bytes: &'a [u8],
    size: usize,
    out: &mut Vec<u8>,
) -> Result<&'a [u8], CodecFailure> {
    if length <= 0 {
        let (token, rest) = if length == 0 {
            (1, bytes)
        } else {
            *bytes.split_first().map(|(t, r)| (*t, r)).as_ref().ok_or_else(cut_off)?
        };
        let byte = u8::try_from(length.unsigned_abs()).ok().filter(|_| token & 1 == 1);
        let byte =
            byte.ok_or_else(|| corrupt(NAME, format!("a stream of length {length} with token {token}")))?;
        out.resize(out.len() + size, byte);
        return Ok(rest);
    }
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let (stream, rest) = bytes.split_at_checked(length).ok_or_else(cut_off)?;
    if length == size {
        out.extend_from_slice(stream);
    } else {
        let format = header.flags >> 5;
        if format > 4 {
            return Err(unsupported(&format!("compressor {format}")));
        }
        out.extend(blosc::decompress(format, stream, size)?);
    }
    Ok(rest)
}

/// Undoes the filters of a block, and appends it to the chunk.
fn append(mut block: Vec<u8>, header: &Header, out: &mut Vec<u8>) -> Result<(), CodecFailure> {
    for filter in header.filters.iter().rev() {
        match filter {
            Filter::Shuffle => block = shuffle::decode(&block, u32::try_from(header.element).unwrap_or(1))?,
            Filter::BitShuffle => {
                let whole = block.len() - block.len() % (8 * header.element);
                let (planes, rest) = block.split_at(whole);
                let mut elements = hdf5_bitshuffle::unshuffle(planes, header.element);
                elements.extend_from_slice(rest);
                block = elements;
            }
            Filter::Delta => undo_delta(&mut block, out, header.element),
        }
    }
    out.extend(block);
    Ok(())
}

/// Undoes the delta filter. The first block of a chunk holds exclusive ors with the preceding element, all others with the
/// start of the first block.
fn undo_delta(block: &mut [u8], decoded: &[u8], element: usize) {
    let unit = match element {
        1 | 2 | 4 | 8 => element,
        other if other.is_multiple_of(8) => 8,
        _ => 1,
    };
    let whole = block.len() - block.len() % unit;
    if decoded.is_empty() {
        for at in unit..whole {
            let before = block.get(at - unit).copied().unwrap_or(0);
            block.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= before);
        }
    } else {
        block.iter_mut().take(whole).zip(decoded).for_each(|(byte, reference)| *byte ^= reference);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C-Blosc2 reads no chunk with larger blocks.
    #[test]
    fn blocks_are_within_the_chunk() {
        let parsed = |block: u32| {
            let sizes = [8_u32, block, 40].map(u32::to_le_bytes).concat();
            let bytes = [&[5, 1, EXTENDED | COPIED, 8][..], &sizes, &[0; 16]].concat();
            Header::parse(&bytes)
        };
        assert!(parsed(8).is_ok() && parsed(4).is_ok());
        assert!(parsed(0).is_err() && parsed(16).is_err());
    }
}
