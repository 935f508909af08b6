//! Contiguous frames of Blosc 2, as HDF5 filter 32026 stores them.
//! <https://github.com/Blosc/c-blosc2/blob/main/README_CFRAME_FORMAT.rst>
//!
//! ```text
//! header    fixed fields (big-endian, MessagePack), then metalayers by name
//! chunks    one after the other
//! index     a chunk: for each chunk 8 bytes, its offset from the end of the header, or a run of one value
//! trailer   metalayers of variable length, of which HDF5 writes none, and a fingerprint, which decoding does not need
//! ```

use crate::{
    CodecFailure, bounded,
    codecs::{blosc, hdf5_bitshuffle, shuffle},
    corrupt, unsupported,
};

const NAME: &str = "blosc2";

/// Bytes of the header before the metalayers.
const FIXED: usize = 87;
/// Greatest ratio of padded chunks to an array.
const MAX_PADDING: usize = 4;
/// Bytes by which the padded chunks of a small array may exceed that.
const SLACK: usize = 1 << 20;
/// Maximum number of chunks of a frame, which HDF5 writes with one.
const MAX_CHUNKS: usize = 1 << 20;

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
        let size = field::<4>(frame, 0x0b).map(u32::from_be_bytes).map(crate::size);
        let bytes =
            size.filter(|size| *size >= FIXED).and_then(|size| frame.get(..size)).ok_or_else(cut_off)?;
        if bytes.get(2..10) != Some(b"b2frame\0") {
            return Err(corrupt(NAME, "no frame"));
        }
        let [flags, kind] = field(bytes, 0x19).ok_or_else(cut_off)?;
        if flags & 0xf > 2 || flags >> 4 & 3 != 1 || flags & 0x40 != 0 || kind & 0x8f != 0 {
            return Err(unsupported(NAME, format!("frames with flags {flags:#x} and type {kind}")));
        }
        let filters = bytes.get(0x47..).and_then(|filters| filters.get(..usize::from(*bytes.get(0x46)?)));
        pipeline(filters.filter(|filters| filters.len() <= 6).ok_or_else(cut_off)?)?;
        let long = |at| field::<8>(bytes, at).map(u64::from_be_bytes).and_then(|n| usize::try_from(n).ok());
        let short = |at| field::<4>(bytes, at).map(u32::from_be_bytes).map(crate::size);
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
        let sensible = self.chunk > 0 && (1..=MAX_CHUNKS).contains(&chunks);
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
        Some(_) => limit.saturating_mul(MAX_PADDING).saturating_add(SLACK),
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
    let ChunkHeader { element, stored, .. } = ChunkHeader::parse(index)?;
    // The trailer is an array of the version, the layers (the size of their index, a map, and more), the length of the
    // trailer, and the fingerprint.
    let trailer = index.get(stored..).ok_or_else(cut_off)?;
    let has_no_layers = field(trailer, 6) == Some([0xde, 0, 0]);
    let length = trailer.len().checked_sub(23).and_then(|at| field::<5>(trailer, at));
    let is_whole = length.is_some_and(|[kind, length @ ..]| {
        kind == 0xce && crate::size(u32::from_be_bytes(length)) == trailer.len()
    });
    if !has_no_layers || !is_whole {
        return Err(corrupt(NAME, "a trailer with another length, or with metalayers"));
    }
    let index = decode_chunk(index, count * 8)?;
    if index.len() != count * 8 || element != 8 {
        return Err(corrupt(NAME, format!("an index of {} bytes for {count} chunks", index.len())));
    }
    Ok(index.as_chunks::<8>().0.iter().map(|offset| u64::from_le_bytes(*offset)).collect())
}

/// Decodes one chunk of `size` decoded bytes. Its offset may stand for a run of one value.
fn one(header: &Header<'_>, body: &[u8], offset: u64, size: usize) -> Result<Vec<u8>, CodecFailure> {
    if offset >> 63 == 1 {
        let special = u8::try_from(offset >> 56 & 7).unwrap_or(0);
        return Special::of(special)?.fill(&[], header.element, size);
    }
    let start = usize::try_from(offset).ok().filter(|start| *start < header.stored);
    let stored = start.and_then(|start| body.get(start..header.stored)).ok_or_else(cut_off)?;
    let decoded = decode_chunk(stored, size)?;
    if decoded.len() != size {
        return Err(corrupt(NAME, format!("a chunk of {} bytes, expected {size}", decoded.len())));
    }
    Ok(decoded)
}

/// Returns the bytes of a field.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn cut_off() -> CodecFailure {
    corrupt(NAME, "the frame is truncated")
}

// Chunks of Blosc 2. Numbers are little-endian.
// <https://github.com/Blosc/c-blosc2/blob/main/README_CHUNK_FORMAT.rst>
//
// ```text
// 1  format version, 3 to 5   4  stored size          6  parameters of the filters
// 1  compressor's version     6  filters              1  reserved
// 1  flags                    1  user's compressor    1  more flags
// 1  size of an element       1  its parameter        …  offset of each block, 4 bytes each, then the blocks
// 4  decoded size
// 4  decoded size of a block
// ```

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
enum Filter {
    Shuffle,
    BitShuffle,
    Delta,
}

struct ChunkHeader {
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

impl ChunkHeader {
    fn parse(bytes: &[u8]) -> Result<Self, CodecFailure> {
        let [version, _, flags, element] = field(bytes, 0).ok_or_else(cut_off)?;
        if !(3..=5).contains(&version) || flags & EXTENDED != EXTENDED {
            return Err(unsupported(NAME, format!("chunks of version {version} with flags {flags:#x}")));
        }
        let number = |at| field(bytes, at).map(u32::from_le_bytes).map(crate::size).ok_or_else(cut_off);
        let filters: [u8; 6] = field(bytes, 16).ok_or_else(cut_off)?;
        let [reserved, more] = field(bytes, 30).ok_or_else(cut_off)?;
        let needs_none = flags >> 5 != 0 || flags & COPIED != 0;
        if more & UNKNOWN != 0 || reserved != 0 || more & DICTIONARY != 0 && needs_none {
            return Err(unsupported(NAME, format!("chunks with flags {reserved:#x} and {more:#x}")));
        }
        if element == 0 {
            return Err(corrupt(NAME, "elements of no bytes"));
        }
        // Their parameter is another size of elements.
        let parameters: [u8; 6] = field(bytes, 24).ok_or_else(cut_off)?;
        if filters.iter().zip(parameters).any(|(filter, parameter)| matches!(filter, 1 | 2) && parameter != 0)
        {
            return Err(unsupported(NAME, format!("filters {filters:?} with parameters {parameters:?}")));
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
fn pipeline(numbers: &[u8]) -> Result<Vec<Filter>, CodecFailure> {
    let mut filters = Vec::new();
    for number in numbers {
        match number {
            // None, and truncated precision, which is not undone.
            0 | 4 => {}
            1 => filters.push(Filter::Shuffle),
            2 => filters.push(Filter::BitShuffle),
            // Its reference is the start of the decoded chunk, which is known only where no filter comes before it.
            3 if filters.is_empty() => filters.push(Filter::Delta),
            other => return Err(unsupported(NAME, format!("filters {numbers:?}, of which {other}"))),
        }
    }
    Ok(filters)
}

/// What all elements of a chunk are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Special {
    /// Nothing in particular.
    No,
    Zero,
    NaN,
    /// A value that follows the header.
    Value,
}

impl Special {
    fn of(number: u8) -> Result<Self, CodecFailure> {
        Ok(match number {
            0 => Self::No,
            1 => Self::Zero,
            2 => Self::NaN,
            3 => Self::Value,
            4 => return Err(corrupt(NAME, "a chunk without values")),
            other => return Err(unsupported(NAME, format!("special values {other}"))),
        })
    }

    /// Returns `size` bytes of elements.
    fn fill(self, value: &[u8], element: usize, size: usize) -> Result<Vec<u8>, CodecFailure> {
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

/// Decodes the chunk at the start of `bytes` to at most `limit` bytes.
fn decode_chunk(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let header = ChunkHeader::parse(bytes)?;
    bounded(NAME, Some(header.size), limit)?;
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
    let starts = data.as_chunks::<4>().0.iter().map(|start| crate::size(u32::from_le_bytes(*start)));
    for start in starts.take(header.size.div_ceil(header.block.max(1))) {
        let stored = bytes.get(start..).ok_or_else(cut_off)?;
        let size = header.block.min(header.size - out.len());
        let block = block(&header, stored, size)?;
        append(block, &header, &mut out)?;
    }
    Ok(out)
}

/// Decompresses the streams of a block.
fn block(header: &ChunkHeader, mut stored: &[u8], size: usize) -> Result<Vec<u8>, CodecFailure> {
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
    header: &ChunkHeader,
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
    let length = crate::size(length.unsigned_abs());
    let (stream, rest) = bytes.split_at_checked(length).ok_or_else(cut_off)?;
    if length == size {
        out.extend_from_slice(stream);
    } else {
        let format = header.flags >> 5;
        if format > 4 {
            return Err(unsupported(NAME, format!("compressor {format}")));
        }
        out.extend(blosc::decompress(format, stream, size)?);
    }
    Ok(rest)
}

/// Undoes the filters of a block, and appends it to the chunk.
fn append(mut block: Vec<u8>, header: &ChunkHeader, out: &mut Vec<u8>) -> Result<(), CodecFailure> {
    for filter in header.filters.iter().rev() {
        match filter {
            Filter::Shuffle => block = shuffle::decode(&block, u32::try_from(header.element).unwrap_or(1))?,
            Filter::BitShuffle => block = hdf5_bitshuffle::unshuffle(&block, header.element),
            // The first block of a chunk holds exclusive ors with the preceding element, all others with the start of the
            // first block.
            Filter::Delta => {
                let unit = match header.element {
                    element @ (1 | 2 | 4 | 8) => element,
                    other if other.is_multiple_of(8) => 8,
                    _ => 1,
                };
                let whole = block.len() - block.len() % unit;
                if out.is_empty() {
                    for at in unit..whole {
                        let before = block.get(at - unit).copied().unwrap_or(0);
                        block.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= before);
                    }
                } else {
                    let reference = out.iter();
                    block.iter_mut().take(whole).zip(reference).for_each(|(byte, other)| *byte ^= other);
                }
            }
        }
    }
    out.extend(block);
    Ok(())
}

// The n-dimensional layer of Blosc 2 (metalayer `b2nd`): a grid of chunks, each a grid of blocks padded to whole ones.
// <https://github.com/Blosc/c-blosc2/blob/main/README_B2ND_METALAYER.rst>

/// Maximum number of axes that the format allows.
const MAX_AXES: usize = 16;

/// Maximum number of metalayers that the library reads.
const MAX_LAYERS: u16 = 16;

/// Shapes, slowest axis first.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Layer {
    shape: Vec<usize>,
    chunk: Vec<usize>,
    block: Vec<usize>,
}

/// Returns the content of a metalayer, MessagePack's bin32: a marker and 4 bytes of length come before it.
fn layer(header: &[u8], offset: usize) -> Result<&[u8], CodecFailure> {
    let rest = header.get(offset..).and_then(<[u8]>::split_first_chunk::<5>);
    let ([marker, length @ ..], rest) = rest.ok_or_else(cut_off)?;
    let content = rest.get(..crate::size(u32::from_be_bytes(*length)));
    content.filter(|_| *marker == 0xc6).ok_or_else(|| corrupt(NAME, "a metalayer without content"))
}

impl Layer {
    /// Returns the layer of a frame by its header; `None` if it has none.
    fn find(header: &[u8]) -> Result<Option<Self>, CodecFailure> {
        // Metalayers: an array of 3, the size of the index (3 bytes), a map of names to offsets from the start.
        let [map, count @ ..] = field::<3>(header, FIXED + 4).ok_or_else(cut_off)?;
        let count = u16::from_be_bytes(count);
        if map != 0xde || count > MAX_LAYERS {
            return Err(corrupt(NAME, format!("{count} metalayers in a map of type {map:#x}")));
        }
        let mut entries = header.get(FIXED + 7..).unwrap_or_default();
        for _ in 0..count {
            let (marker, rest) = entries.split_first().ok_or_else(cut_off)?;
            let (name, rest) = rest.split_at_checked(usize::from(marker & 0x1f)).ok_or_else(cut_off)?;
            let ([kind, offset @ ..], rest) = rest.split_first_chunk::<5>().ok_or_else(cut_off)?;
            if marker & 0xe0 != 0xa0 || *kind != 0xd2 {
                return Err(corrupt(NAME, "a metalayer without a name or an offset"));
            }
            let content = layer(header, crate::size(u32::from_be_bytes(*offset)))?;
            if name == b"b2nd" {
                return Self::parse(content).map(Some);
            }
            entries = rest;
        }
        Ok(None)
    }

    fn parse(content: &[u8]) -> Result<Self, CodecFailure> {
        let [_, version, axes] = field(content, 0).ok_or_else(cut_off)?;
        let axes = usize::from(axes);
        if version > 1 || !(1..=MAX_AXES).contains(&axes) {
            return Err(unsupported(NAME, format!("{axes} axes in version {version} of the layer")));
        }
        let mut rest = content.get(3..).unwrap_or_default();
        let shape = take_list::<8>(&mut rest, axes, |n| usize::try_from(u64::from_be_bytes(n)).ok());
        let chunk = take_list::<4>(&mut rest, axes, |n| Some(crate::size(u32::from_be_bytes(n))));
        let block = take_list::<4>(&mut rest, axes, |n| Some(crate::size(u32::from_be_bytes(n))));
        let (Some(shape), Some(chunk), Some(block)) = (shape, chunk, block) else { return Err(cut_off()) };
        // A type may follow: its kind and, as MessagePack's str32, its name.
        if !rest.is_empty() {
            let [_, marker, length @ ..] = field::<6>(rest, 0).ok_or_else(cut_off)?;
            let name = rest.get(6..).and_then(|rest| rest.get(..crate::size(u32::from_be_bytes(length))));
            if marker != 0xdb || name.is_none() {
                return Err(corrupt(NAME, "a type without a name"));
            }
        }
        let layer = Self { shape, chunk, block };
        let fits = layer.chunk.iter().zip(&layer.block).all(|(chunk, block)| (1..=*chunk).contains(block));
        if !fits || layer.shape.contains(&0) {
            return Err(corrupt(NAME, format!("shapes {layer:?}")));
        }
        Ok(layer)
    }

    /// Returns the bytes of all chunks, whose blocks are padded; `None` past the address space.
    fn padded_bytes(&self, element: usize) -> Option<usize> {
        let mut axes = self.shape.iter().zip(&self.chunk).zip(&self.block);
        axes.try_fold(element, |bytes, ((shape, chunk), block)| {
            let padded = chunk.checked_next_multiple_of(*block)?;
            bytes.checked_mul(shape.div_ceil(*chunk).checked_mul(padded)?)
        })
    }

    /// Returns the elements of the array in C order, given those of the chunks.
    fn arrange(&self, chunks: &[u8], element: usize, limit: usize) -> Result<Vec<u8>, CodecFailure> {
        let total = self.shape.iter().try_fold(element, |bytes, n| bytes.checked_mul(*n));
        let mut out = vec![0; bounded(NAME, total, limit)?];
        let chunk_grid: Vec<usize> =
            self.shape.iter().zip(&self.chunk).map(|(n, chunk)| n.div_ceil(*chunk)).collect();
        let block_grid: Vec<usize> =
            self.chunk.iter().zip(&self.block).map(|(n, block)| n.div_ceil(*block)).collect();
        let block_bytes = self.block.iter().try_fold(element, |bytes, n| bytes.checked_mul(*n));
        let mut blocks = chunks.chunks_exact(block_bytes.filter(|bytes| *bytes > 0).ok_or_else(cut_off)?);
        for chunk in indices(&chunk_grid) {
            for block in indices(&block_grid) {
                let source = blocks.next().ok_or_else(cut_off)?;
                self.place(source, &chunk, &block, element, &mut out);
            }
        }
        Ok(out)
    }

    /// Copies the rows of a block that are inside its chunk and the array.
    fn place(&self, block: &[u8], chunk_at: &[usize], block_at: &[usize], element: usize, out: &mut [u8]) {
        // Start of the block in the array, and how much of it counts, axis by axis.
        let mut start = Vec::with_capacity(self.shape.len());
        let mut extent = Vec::with_capacity(self.shape.len());
        let shapes = self.shape.iter().zip(&self.chunk).zip(&self.block);
        for (((shape, chunk), size), (in_grid, in_chunk)) in shapes.zip(chunk_at.iter().zip(block_at)) {
            let (first, within) = (in_grid * chunk, in_chunk * size);
            let end = (within + size).min(*chunk).min(shape.saturating_sub(first));
            start.push(first + within);
            extent.push(end.saturating_sub(within));
        }
        let (Some((columns, outer)), Some(width)) = (extent.split_last(), self.block.last()) else { return };
        for row in indices(outer) {
            let from = flat(&row, &self.block).saturating_mul(*width);
            let to: Vec<usize> = row.iter().zip(&start).map(|(row, start)| row + start).collect();
            let last = self.shape.last().copied().unwrap_or(0);
            let to = flat(&to, &self.shape).saturating_mul(last) + start.last().copied().unwrap_or(0);
            let source = block.get(from * element..(from + columns) * element);
            if let (Some(source), Some(target)) =
                (source, out.get_mut(to * element..(to + columns) * element))
            {
                target.copy_from_slice(source);
            }
        }
    }
}

/// Returns the position of an index into all axes of a shape but the last, in rows.
fn flat(index: &[usize], shape: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |flat, (at, size)| flat * size + at)
}

/// Splits off MessagePack's array of integers of `N` bytes.
fn take_list<const N: usize>(
    bytes: &mut &[u8],
    count: usize,
    number: impl Fn([u8; N]) -> Option<usize>,
) -> Option<Vec<usize>> {
    // One byte, or three for more than 15 numbers.
    let head = if *bytes.first()? == 0xdc { 3 } else { 1 };
    let (list, rest) = bytes.get(head..)?.split_at_checked(count * (N + 1))?;
    *bytes = rest;
    list.chunks_exact(N + 1).map(|item| number(*item.get(1..)?.first_chunk()?)).collect()
}

/// Returns all indices of a grid, the last axis fastest.
fn indices(grid: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    (0..grid.iter().product()).map(move |mut number| {
        let mut index = vec![0; grid.len()];
        for (at, size) in index.iter_mut().zip(grid).rev() {
            *at = number % size;
            number /= size;
        }
        index
    })
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
            ChunkHeader::parse(&bytes)
        };
        assert!(parsed(8).is_ok() && parsed(4).is_ok());
        assert!(parsed(0).is_err() && parsed(16).is_err());
    }
}
