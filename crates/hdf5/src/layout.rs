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
use virtualize_bytes::ByteRange;

use crate::{
    Error,
    chunk_index::{ChunkRequest, read_chunk_tables},
    cursor::{Format, Reader},
    dataspace::MAX_RANK,
    global_heap::fetch_collections,
    io::Io,
    model::{ChunkIndexKind, ChunkSizes, Chunked, Dataspace, ExternalSegment, Layout, VirtualMapping},
    symbol_tables::{LocalHeap, read_local_heaps},
    value::{Collections, object_in},
    virtual_dataset::parse_virtual_layout,
};

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
        (2, 3) => {
            let (rank, address) = (reader.u8()?, reader.address()?);
            check_rank(&reader, rank, 2)?;
            let sizes = (0..rank).map(|_| reader.u32().map(u64::from)).collect::<Result<Vec<_>, _>>()?;
            Ok(LayoutMessage::Chunked(ChunkedLayout { address, ..chunks(&reader, version, sizes)? }))
        }
        (2, _) => {
            let (flags, rank, width) = (reader.u8()?, reader.u8()?, reader.u8()?);
            check_rank(&reader, rank, 2)?;
            if flags & !(UNFILTERED_EDGES | SINGLE_FILTERED) != 0 {
                return Err(reader.unsupported(format!("chunk flags {flags:#04x}, expected 0 to 3")));
            }
            if !(1..=8).contains(&width) {
                return Err(reader.malformed(format!("chunk sizes of {width} bytes, expected 1 to 8")));
            }
            let sizes = (0..rank).map(|_| reader.uint(width)).collect::<Result<Vec<_>, _>>()?;
            let chunks = chunks(&reader, version, sizes)?;
            let (index, single) = index(&mut reader, flags)?;
            let (unfiltered_edges, address) = (flags & UNFILTERED_EDGES != 0, reader.address()?);
            Ok(LayoutMessage::Chunked(ChunkedLayout { unfiltered_edges, index, single, address, ..chunks }))
        }
        (3, 4..) => {
            let collection = reader.address()?;
            let index = reader.u32()?;
            Ok(LayoutMessage::Virtual(collection.map(|collection| HeapPointer { collection, index })))
        }
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
        2 => Ok(LayoutMessage::Chunked(ChunkedLayout { address, ..chunks(reader, version, sizes)? })),
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

/// Separates the chunk shape from the element size, which is stored as the last dimension. Returns unallocated chunks in a
/// version 1 B-tree.
fn chunks(reader: &Reader<'_>, version: u8, mut sizes: Vec<u64>) -> Result<ChunkedLayout, Error> {
    match sizes.pop() {
        Some(element_size) if !sizes.is_empty() && element_size > 0 && !sizes.contains(&0) => {
            Ok(ChunkedLayout {
                version,
                chunk_shape: sizes,
                element_size,
                unfiltered_edges: false,
                index: ChunkIndexKind::BTree1,
                single: None,
                address: None,
            })
        }
        last => {
            Err(reader
                .malformed(format!("chunk shape {sizes:?} and element size {last:?}, expected 1 or more")))
        }
    }
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

// Reads the layouts of all datasets: chunk indexes, external file lists and virtual mappings, each in batches over all
// datasets.

/// The properties of a dataset that determine the location of its elements.
#[derive(Clone, Debug)]
pub(crate) struct LayoutRequest {
    pub(crate) message: LayoutMessage,
    pub(crate) external: Option<ExternalFiles>,
    pub(crate) dataspace: Dataspace,
    /// Size of an element in bytes.
    pub(crate) element_size: u64,
    /// Whether the dataset has filters.
    pub(crate) filtered: bool,
    /// Address of the object header.
    pub(crate) header: u64,
}

/// Reads the layout of each dataset. Returns it with the address of the dataset's header.
pub(crate) async fn read_layouts(
    io: &Io<'_>,
    format: Format,
    requests: Vec<LayoutRequest>,
) -> Result<Vec<(u64, Layout)>, Error> {
    let names: Vec<_> = requests.iter().filter_map(|request| Some(request.external.as_ref()?.heap)).collect();
    let mut names = read_local_heaps(io, format, &names).await?.into_iter();
    let pointers = requests.iter().filter_map(|request| match request.message {
        LayoutMessage::Virtual(pointer) => pointer,
        _ => None,
    });
    let mut collections = Collections::new();
    let addresses = pointers.map(|pointer| pointer.collection).collect();
    fetch_collections(io, format, addresses, &mut collections).await?;
    let blocks = collections;
    let chunked = requests.iter().filter_map(|request| match &request.message {
        LayoutMessage::Chunked(layout) => Some(chunk_request(request, layout)),
        _ => None,
    });
    let mut tables = read_chunk_tables(io, format, chunked.collect()).await.into_iter();
    let mut layout = |request: LayoutRequest| {
        let names = request.external.as_ref().and_then(|_| names.next());
        let needed = request.dataspace.elements().saturating_mul(request.element_size);
        match (request.message, request.external, names) {
            (LayoutMessage::Contiguous { .. }, Some(files), Some(names)) => {
                names.and_then(|names| external(io, &files, &names)).map(Layout::External)
            }
            (LayoutMessage::Compact(bytes), ..) => Ok(Layout::Compact(bytes)),
            (LayoutMessage::Contiguous { address, length }, ..) => {
                Ok(Layout::Contiguous(address.map(|start| ByteRange::new(start, length.unwrap_or(needed)))))
            }
            (LayoutMessage::Chunked(chunked), ..) => match tables.next() {
                Some(chunks) => chunks.map(|chunks| {
                    let ChunkedLayout { chunk_shape, index, unfiltered_edges, .. } = chunked;
                    Layout::Chunked(Chunked { chunk_shape, index, unfiltered_edges, chunks })
                }),
                None => Err(Error::malformed("chunk index", request.header, "not read")),
            },
            (LayoutMessage::Virtual(pointer), ..) => {
                mappings(io, &blocks, pointer, format).map(Layout::Virtual)
            }
        }
    };
    let headers: Vec<_> = requests.iter().map(|request| request.header).collect();
    let within = |layout: Layout| check_end(io, &layout).map(|()| layout);
    let layouts = requests.into_iter().map(|request| {
        let layout = layout(request).and_then(within);
        layout.unwrap_or_else(Layout::Unreadable)
    });
    Ok(headers.into_iter().zip(layouts).collect())
}

/// Checks that the elements of a dataset are within the file.
fn check_end(io: &Io<'_>, layout: &Layout) -> Result<(), Error> {
    let past = match layout {
        Layout::Contiguous(Some(range)) => Some((range.start, range.length)),
        Layout::Chunked(Chunked { chunks, .. }) => match &chunks.sizes {
            ChunkSizes::Uniform(size) => chunks.addresses.iter().max().map(|address| (*address, *size)),
            ChunkSizes::Each(sizes) => {
                let ends = chunks.addresses.iter().zip(sizes.iter());
                let ends = ends.map(|(address, size)| (*address, u64::from(*size)));
                ends.max_by_key(|(address, size)| address.saturating_add(*size))
            }
        },
        _ => None,
    };
    let past = past.filter(|(address, size)| address.saturating_add(*size) > io.size());
    past.map_or(Ok(()), |(address, size)| {
        let problem = format!("{size} bytes, past the end of the file at {:#x}", io.size());
        Err(Error::malformed("stored elements", address, problem))
    })
}

fn external(io: &Io<'_>, files: &ExternalFiles, heap: &LocalHeap) -> Result<Vec<ExternalSegment>, Error> {
    let segment = |slot: &Slot| {
        let file = heap.text(slot.name)?;
        if file.is_empty() {
            return Err(Error::malformed(
                "external data files message",
                files.heap,
                "an empty name of a file",
            ));
        }
        // All segments may refer to the same text in the heap.
        let bytes = (size_of::<ExternalSegment>() as u64).saturating_add(file.len() as u64);
        io.hold("external file lists", bytes)?;
        Ok(ExternalSegment { file, offset: slot.offset, size: slot.size })
    };
    files.slots.iter().map(segment).collect()
}

fn mappings(
    io: &Io<'_>,
    blocks: &Collections,
    pointer: Option<HeapPointer>,
    format: Format,
) -> Result<Vec<VirtualMapping>, Error> {
    let Some(pointer) = pointer else { return Ok(Vec::new()) };
    let block = object_in(blocks, pointer)?.unwrap_or_default();
    // Datasets may share a block. A coordinate of two bytes becomes a vector.
    io.hold("virtual dataset blocks", (block.len() as u64).saturating_mul(16))?;
    let mappings = parse_virtual_layout(&block, pointer.collection, format, io.left())?;
    let names = mappings.iter().map(|mapping| mapping.file.len().saturating_add(mapping.dataset.len()));
    io.hold("names of virtual mappings", names.fold(0, usize::saturating_add) as u64)?;
    Ok(mappings)
}

fn chunk_request<'a>(
    request: &'a LayoutRequest,
    layout: &'a ChunkedLayout,
) -> Result<ChunkRequest<'a>, Error> {
    let (size, expected) = (layout.element_size, request.element_size);
    if size != expected {
        let problem = format!("elements of {size} bytes, expected {expected} of the datatype");
        return Err(Error::malformed("data layout message", request.header, problem));
    }
    let chunk = layout.chunk_shape.iter().copied().fold(size, u64::saturating_mul);
    if layout.index == ChunkIndexKind::BTree1 && chunk > u32::MAX.into() {
        let problem = format!("chunks of {chunk} bytes in a version 1 B-tree, expected less than 4 GiB");
        return Err(Error::malformed("data layout message", request.header, problem));
    }
    let shape = request.dataspace.shape().unwrap_or_default();
    let max_shape = match &request.dataspace {
        Dataspace::Simple { max_shape: Some(max_shape), .. } => max_shape.clone(),
        _ => shape.iter().copied().map(Some).collect(),
    };
    Ok(ChunkRequest { layout, shape, max_shape, filtered: request.filtered })
}

// External Data Files message, 0x0007 (specification IV.A.2.h).
//
// ```text
// 1 | - 3 | allocated slots 2 | used slots 2 | local heap O | slots: name offset L, offset in the file L, size L
// ```

/// The message. Names are in the local heap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ExternalFiles {
    /// Address of the local heap with the names.
    pub(crate) heap: u64,
    pub(crate) slots: Vec<Slot>,
}

/// A segment of an external file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    /// Offset of the file name in the local heap.
    pub(crate) name: u64,
    /// Offset of the first byte in the file.
    pub(crate) offset: u64,
    /// Size in bytes; `None` for unlimited.
    pub(crate) size: Option<u64>,
}

pub(crate) fn parse_external(bytes: &[u8], address: u64, format: Format) -> Result<ExternalFiles, Error> {
    let mut reader = Reader::new("external data files message", bytes, address, format);
    reader.version(1..=1)?;
    reader.skip(3)?;
    let (allocated, used) = (reader.u16()?, reader.u16()?);
    if allocated == 0 || used > allocated {
        return Err(reader.malformed(format!("{used} slots in use of {allocated}")));
    }
    let heap = reader.defined_address()?;
    let slot = |_| {
        let (name, offset) = (reader.raw_length()?, reader.raw_length()?);
        Ok(Slot { name, offset, size: reader.length()? })
    };
    Ok(ExternalFiles { heap, slots: (0..used).map(slot).collect::<Result<_, Error>>()? })
}

#[cfg(test)]
mod tests {
    use virtualize_bytes::{Limits, MemorySource};

    use super::*;
    use crate::model::ChunkTable;

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

    #[test]
    fn chunks_in_old_trees_are_smaller_than_4_gib() {
        let read = |rows| {
            let chunked = ChunkedLayout {
                version: 3,
                chunk_shape: vec![rows, 1 << 16],
                element_size: 4,
                unfiltered_edges: false,
                index: ChunkIndexKind::BTree1,
                single: None,
                address: None,
            };
            let request = LayoutRequest {
                message: LayoutMessage::Chunked(chunked.clone()),
                external: None,
                dataspace: Dataspace::Simple { shape: vec![0, 1], max_shape: None },
                element_size: 4,
                filtered: true,
                header: 0,
            };
            chunk_request(&request, &chunked).is_ok()
        };
        assert!(read((1 << 14) - 1) && !read(1 << 14));
    }

    #[test]
    fn external_files_have_names() {
        let source = MemorySource(vec![0; 100].into());
        let io = Io::new(&source, Limits::default());
        let read = |name| {
            let files = ExternalFiles { heap: 0, slots: vec![Slot { name, offset: 0, size: None }] };
            let data = Bytes::from_static(b"\0a.raw\0");
            external(&io, &files, &LocalHeap { address: 0, data })
        };
        assert_eq!(read(1).unwrap()[0].file, "a.raw");
        assert!(read(0).is_err() && read(7).is_err());
    }

    #[test]
    fn rejects_elements_past_the_declared_end() {
        let source = MemorySource(vec![0; 100].into());
        let mut io = Io::new(&source, Limits::default());
        io.set_end(50);
        let contiguous = |start| check_end(&io, &Layout::Contiguous(Some(ByteRange::new(start, 10))));
        assert!(contiguous(40).is_ok() && contiguous(41).is_err());
        let chunked = |sizes| {
            let chunks = ChunkTable { addresses: vec![45, 30].into(), sizes, ..ChunkTable::default() };
            let index = ChunkIndexKind::Single;
            let chunked = Chunked { chunk_shape: vec![1], index, unfiltered_edges: false, chunks };
            check_end(&io, &Layout::Chunked(chunked))
        };
        assert!(chunked(ChunkSizes::Uniform(5)).is_ok() && chunked(ChunkSizes::Uniform(6)).is_err());
        assert!(chunked(ChunkSizes::Each(vec![5, 20].into())).is_ok());
        assert!(chunked(ChunkSizes::Each(vec![5, 21].into())).is_err());
    }

    #[test]
    fn slots() {
        let format = Format { base: 0, offset_size: 2, length_size: 2 };
        let bytes = [1, 0, 0, 0, 2, 0, 1, 0, 0x40, 0, 8, 0, 16, 0, 0xFF, 0xFF];
        let slots = vec![Slot { name: 8, offset: 16, size: None }];
        assert_eq!(parse_external(&bytes, 0, format).unwrap(), ExternalFiles { heap: 0x40, slots });
        let mut bytes = bytes;
        bytes[4] = 0;
        assert!(parse_external(&bytes, 0, format).is_err());
    }
}
