//! Data Layout message, 0x0008 (specification IV.A.2.i).
//!
//! ```text
//! versions 1, 2: version | rank | class | - 5 | (not compact) address O | sizes 4×rank | (compact) size 4, data
//! version 3:     3 | class | compact: size 2, data | contiguous: address O, size L | chunked: rank, B-tree O, sizes 4×rank
//! versions 4, 5: as 3, but chunked: flags | rank | bytes of a size | sizes | index type | its parameters | address O
//!                and virtual: global heap O, index 4
//! ```
//! The rank of a chunked layout is one more than that of the dataspace: the last dimension is the size of an element in
//! bytes.

use bytes::Bytes;

use crate::{Error, context::Format, dataspace::MAX_RANK, model::ChunkIndexKind, reader::Reader};

/// The message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LayoutMessage {
    /// Compact: the elements.
    Compact(Bytes),
    /// Contiguous. The message contains the size from version 3 on.
    Contiguous {
        /// Address; `None` if not allocated.
        address: Option<u64>,
        /// Size in bytes.
        length: Option<u64>,
    },
    /// Chunked.
    Chunked(ChunkedLayout),
    /// Virtual: pointer to the mappings, `None` without mappings.
    Virtual(Option<HeapPointer>),
}

/// Pointer to an object in the global heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeapPointer {
    /// Address of the collection.
    pub(crate) collection: u64,
    /// Index of the object.
    pub(crate) index: u32,
}

/// Chunked layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ChunkedLayout {
    /// Version of the message.
    pub(crate) version: u8,
    /// Chunk shape in elements, slowest axis first.
    pub(crate) chunk_shape: Vec<u64>,
    /// Size of an element in bytes according to the message.
    pub(crate) element_size: u64,
    /// Whether chunks that exceed the extent are unfiltered.
    pub(crate) unfiltered_edges: bool,
    /// Chunk index type.
    pub(crate) index: ChunkIndexKind,
    /// Stored size in bytes and filter mask of a single filtered chunk.
    pub(crate) single: Option<(u64, u32)>,
    /// Address of the index or, for single and implicit chunks, of the data; `None` if not allocated.
    pub(crate) address: Option<u64>,
}

const UNFILTERED_EDGES: u8 = 1;
const SINGLE_FILTERED: u8 = 2;

pub(crate) fn parse(bytes: &[u8], address: u64, format: Format) -> Result<LayoutMessage, Error> {
    let mut reader = Reader::new("data layout message", bytes, address, format);
    let version = reader.version(1..=5)?;
    if version < 3 {
        return parse_old(&mut reader, version);
    }
    match (reader.u8()?, version) {
        (0, _) => {
            let length = reader.u16()?;
            reader.bytes(u64::from(length)).map(LayoutMessage::Compact)
        }
        (1, _) => {
            Ok(LayoutMessage::Contiguous { address: reader.address()?, length: Some(reader.raw_length()?) })
        }
        (2, 3) => parse_btree_chunks(&mut reader).map(LayoutMessage::Chunked),
        (2, _) => parse_indexed_chunks(&mut reader, version).map(LayoutMessage::Chunked),
        (3, 4..) => parse_virtual(&mut reader),
        (class, _) => Err(reader.unsupported(format!("layout class {class} in version {version}"))),
    }
}

fn parse_old(reader: &mut Reader<'_>, version: u8) -> Result<LayoutMessage, Error> {
    let (rank, class) = (reader.u8()?, reader.u8()?);
    check_rank(reader, rank, 1)?;
    reader.skip(5)?;
    let address = if class == 0 { None } else { reader.address()? };
    let sizes = (0..rank).map(|_| reader.u32().map(u64::from)).collect::<Result<Vec<_>, _>>()?;
    match class {
        0 => {
            let length = reader.u32()?;
            reader.bytes(u64::from(length)).map(LayoutMessage::Compact)
        }
        1 => Ok(LayoutMessage::Contiguous { address, length: None }),
        2 => btree_chunks(reader, version, sizes, address).map(LayoutMessage::Chunked),
        _ => Err(reader.unsupported(format!("layout class {class} in version {version}"))),
    }
}

fn check_rank(reader: &Reader<'_>, rank: u8, least: u8) -> Result<(), Error> {
    let most = MAX_RANK.saturating_add(1);
    if (least..=most).contains(&rank) {
        return Ok(());
    }
    Err(reader.malformed(format!("{rank} dimensions, expected {least} to {most}")))
}

fn parse_btree_chunks(reader: &mut Reader<'_>) -> Result<ChunkedLayout, Error> {
    let rank = reader.u8()?;
    let address = reader.address()?;
    check_rank(reader, rank, 2)?;
    let sizes = (0..rank).map(|_| reader.u32().map(u64::from)).collect::<Result<Vec<_>, _>>()?;
    btree_chunks(reader, 3, sizes, address)
}

fn btree_chunks(
    reader: &Reader<'_>,
    version: u8,
    sizes: Vec<u64>,
    address: Option<u64>,
) -> Result<ChunkedLayout, Error> {
    let (chunk_shape, element_size) = split_sizes(reader, sizes)?;
    let index = ChunkIndexKind::BTree1;
    Ok(ChunkedLayout {
        version,
        chunk_shape,
        element_size,
        unfiltered_edges: false,
        index,
        single: None,
        address,
    })
}

/// Separates the chunk shape from the element size, which is stored as the last dimension.
fn split_sizes(reader: &Reader<'_>, mut sizes: Vec<u64>) -> Result<(Vec<u64>, u64), Error> {
    match sizes.pop() {
        Some(element_size) if !sizes.is_empty() && element_size > 0 && !sizes.contains(&0) => {
            Ok((sizes, element_size))
        }
        last => {
            Err(reader
                .malformed(format!("chunk shape {sizes:?} and element size {last:?}, expected 1 or more")))
        }
    }
}

fn parse_indexed_chunks(reader: &mut Reader<'_>, version: u8) -> Result<ChunkedLayout, Error> {
    let (flags, rank, width) = (reader.u8()?, reader.u8()?, reader.u8()?);
    check_rank(reader, rank, 2)?;
    if flags & !(UNFILTERED_EDGES | SINGLE_FILTERED) != 0 {
        return Err(reader.unsupported(format!("chunk flags {flags:#04x}, expected 0 to 3")));
    }
    if !(1..=8).contains(&width) {
        return Err(reader.malformed(format!("chunk sizes of {width} bytes, expected 1 to 8")));
    }
    let sizes = (0..rank).map(|_| reader.uint(width)).collect::<Result<Vec<_>, _>>()?;
    let (chunk_shape, element_size) = split_sizes(reader, sizes)?;
    let (index, single) = index(reader, flags)?;
    let unfiltered_edges = flags & UNFILTERED_EDGES != 0;
    let address = reader.address()?;
    Ok(ChunkedLayout { version, chunk_shape, element_size, unfiltered_edges, index, single, address })
}

/// Reads the chunk index type. Parameters of arrays and trees are not used: their headers repeat them.
fn index(reader: &mut Reader<'_>, flags: u8) -> Result<(ChunkIndexKind, Option<(u64, u32)>), Error> {
    let (kind, parameters) = match reader.u8()? {
        1 if flags & SINGLE_FILTERED != 0 => {
            let single = (reader.raw_length()?, reader.u32()?);
            return Ok((ChunkIndexKind::Single, Some(single)));
        }
        1 => (ChunkIndexKind::Single, 0),
        2 => (ChunkIndexKind::Implicit, 0),
        3 => (ChunkIndexKind::FixedArray, 1),
        4 => (ChunkIndexKind::ExtensibleArray, 5),
        5 => (ChunkIndexKind::BTree2, 6),
        kind => return Err(reader.unsupported(format!("chunk index type {kind}, expected 1 to 5"))),
    };
    let parameters = reader.take(parameters)?;
    let is_valid = match (kind, parameters) {
        // The size of nodes has several bytes. The others are percentages.
        (ChunkIndexKind::BTree2, [.., split, merge]) => {
            (1..=100).contains(split) && (1..=100).contains(merge)
        }
        _ => !parameters.contains(&0),
    };
    if !is_valid {
        return Err(reader.malformed(format!("parameters {parameters:?} of the chunk index")));
    }
    Ok((kind, None))
}

fn parse_virtual(reader: &mut Reader<'_>) -> Result<LayoutMessage, Error> {
    let collection = reader.address()?;
    let index = reader.u32()?;
    Ok(LayoutMessage::Virtual(collection.map(|collection| HeapPointer { collection, index })))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { base: 0x10, offset_size: 4, length_size: 4 };

    fn parsed(bytes: &[u8]) -> LayoutMessage {
        parse(bytes, 0, FORMAT).unwrap()
    }

    #[test]
    fn compact_and_contiguous() {
        assert_eq!(parsed(&[3, 0, 2, 0, 7, 8]), LayoutMessage::Compact(Bytes::from_static(&[7, 8])));
        let old = [1, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 7, 8];
        assert_eq!(parsed(&old), LayoutMessage::Compact(Bytes::from_static(&[7, 8])));
        let contiguous = LayoutMessage::Contiguous { address: Some(0x50), length: Some(8) };
        assert_eq!(parsed(&[4, 1, 0x40, 0, 0, 0, 8, 0, 0, 0]), contiguous);
        let nowhere = LayoutMessage::Contiguous { address: None, length: None };
        assert_eq!(parsed(&[2, 1, 1, 0, 0, 0, 0, 0, 255, 255, 255, 255, 4, 0, 0, 0]), nowhere);
    }

    #[test]
    fn chunks_in_a_btree() {
        let LayoutMessage::Chunked(layout) = parsed(&[3, 2, 2, 0x40, 0, 0, 0, 5, 0, 0, 0, 4, 0, 0, 0]) else {
            panic!("chunked")
        };
        assert_eq!((layout.chunk_shape, layout.element_size, layout.address), (vec![5], 4, Some(0x50)));
    }

    #[test]
    fn a_single_filtered_chunk() {
        let bytes = [4, 2, 3, 2, 1, 5, 4, 1, 9, 0, 0, 0, 2, 0, 0, 0, 0x40, 0, 0, 0];
        let LayoutMessage::Chunked(layout) = parsed(&bytes) else { panic!("chunked") };
        assert_eq!((layout.index, layout.single), (ChunkIndexKind::Single, Some((9, 2))));
        assert!(layout.unfiltered_edges);
        assert_eq!(layout.address, Some(0x50));
    }

    #[test]
    fn virtual_and_invalid_layouts() {
        let pointer = HeapPointer { collection: 0x50, index: 3 };
        assert_eq!(parsed(&[4, 3, 0x40, 0, 0, 0, 3, 0, 0, 0]), LayoutMessage::Virtual(Some(pointer)));
        assert!(
            parse(&[3, 3, 0x40, 0, 0, 0, 3, 0, 0, 0], 0, FORMAT).is_err(),
            "virtual layout before version 4"
        );
        assert!(parse(&[3, 2, 2, 0x40, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0], 0, FORMAT).is_err(), "empty chunk");
        assert!(parse(&[6, 0], 0, FORMAT).is_err());
    }
}
