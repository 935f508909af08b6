//! Reads the layouts of all datasets: chunk indexes, external file lists and virtual mappings, each in batches over all
//! datasets.

use bytes::Bytes;
use virtualize_bytes::ByteRange;

use crate::{
    Error,
    chunk_request::{ChunkIndex, ChunkRequest},
    chunks::read_chunk_tables,
    context::Format,
    external_files::{ExternalFiles, Slot},
    global_heap_walk::fetch_collections,
    group::heap_text,
    io::Io,
    layout::{ChunkedLayout, HeapPointer, LayoutMessage},
    model::{
        ChunkIndexKind, ChunkSizes, ChunkTable, Chunked, Dataspace, ExternalSegment, Layout, VirtualMapping,
    },
    symbol_tables::read_local_heaps,
    value::{Collections, object_in},
    virtual_layout::parse_virtual_layout,
};

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

/// Reads the layout of each dataset.
pub(crate) async fn read_layouts(
    io: &Io<'_>,
    format: Format,
    requests: Vec<LayoutRequest>,
) -> Result<Vec<Layout>, Error> {
    let names: Vec<_> = requests.iter().filter_map(|request| Some(request.external.as_ref()?.heap)).collect();
    let mut names = read_local_heaps(io, format, &names).await?.into_iter();
    let blocks = read_mapping_blocks(io, format, &requests).await?;
    let mut tables = read_tables(io, format, &requests).await.into_iter();
    let mut layout = |request: LayoutRequest| {
        let names = request.external.as_ref().and_then(|_| names.next());
        let needed = extent_bytes(&request.dataspace, request.element_size);
        match (request.message, request.external, names) {
            (LayoutMessage::Contiguous { .. }, Some(files), Some(names)) => {
                names.and_then(|names| external(io, &files, &names)).map(Layout::External)
            }
            (LayoutMessage::Compact(bytes), ..) => compact(bytes, needed, request.header),
            (LayoutMessage::Contiguous { address, length }, ..) => {
                check_extent(io, address, needed)?;
                Ok(Layout::Contiguous(address.map(|start| ByteRange::new(start, length.unwrap_or(needed)))))
            }
            (LayoutMessage::Chunked(chunked), ..) => match tables.next() {
                Some(table) => table.map(|table| Layout::Chunked(with_table(chunked, table))),
                None => Err(Error::malformed("chunk index", request.header, "not read")),
            },
            (LayoutMessage::Virtual(pointer), ..) => {
                mappings(io, &blocks, pointer, format).map(Layout::Virtual)
            }
        }
    };
    let within = |layout: Layout| check_end(io, &layout).map(|()| layout);
    let layouts = requests.into_iter().map(|request| layout(request).and_then(within));
    Ok(layouts.map(|layout| layout.unwrap_or_else(Layout::Unreadable)).collect())
}

/// Returns the layout of compact elements, which must have the size of the extent.
fn compact(bytes: Bytes, needed: u64, header: u64) -> Result<Layout, Error> {
    if bytes.len() as u64 == needed {
        return Ok(Layout::Compact(bytes));
    }
    let problem = format!("{} bytes of elements, expected {needed}", bytes.len());
    Err(Error::malformed("compact layout", header, problem))
}

/// Checks that as many bytes as the elements of a dataset need are within the file. The library opens no dataset without
/// elements that has an address.
fn check_extent(io: &Io<'_>, address: Option<u64>, needed: u64) -> Result<(), Error> {
    let Some(address) = address else { return Ok(()) };
    let end = address.checked_add(needed).filter(|end| needed > 0 && *end <= io.size());
    end.map(|_| ()).ok_or_else(|| {
        let problem = format!("{needed} bytes of elements, expected 1 or more within {:#x}", io.size());
        Error::malformed("contiguous layout", address, problem)
    })
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

fn with_table(chunked: ChunkedLayout, chunks: ChunkTable) -> Chunked {
    let ChunkedLayout { chunk_shape, index, unfiltered_edges, .. } = chunked;
    Chunked { chunk_shape, index, unfiltered_edges, chunks }
}

/// Returns the size of all elements in bytes. It saturates.
fn extent_bytes(dataspace: &Dataspace, element_size: u64) -> u64 {
    dataspace.shape().map_or(0, |shape| shape.iter().copied().fold(element_size, u64::saturating_mul))
}

fn external(io: &Io<'_>, files: &ExternalFiles, heap: &Bytes) -> Result<Vec<ExternalSegment>, Error> {
    let segment = |slot: &Slot| {
        let file = heap_text(heap, slot.name, files.heap)?;
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

/// Reads the global heap collections that contain the mappings of virtual datasets.
async fn read_mapping_blocks(
    io: &Io<'_>,
    format: Format,
    requests: &[LayoutRequest],
) -> Result<Collections, Error> {
    let pointers = requests.iter().filter_map(|request| match request.message {
        LayoutMessage::Virtual(pointer) => pointer,
        _ => None,
    });
    let mut collections = Collections::new();
    let addresses = pointers.map(|pointer| pointer.collection).collect();
    fetch_collections(io, format, addresses, &mut collections).await?;
    Ok(collections)
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

/// Reads the chunk tables of the chunked datasets, in their order.
async fn read_tables(
    io: &Io<'_>,
    format: Format,
    requests: &[LayoutRequest],
) -> Vec<Result<ChunkTable, Error>> {
    let chunked = requests.iter().filter_map(|request| match &request.message {
        LayoutMessage::Chunked(chunked) => Some(chunk_request(request, chunked)),
        _ => None,
    });
    let chunked: Vec<_> = chunked.collect();
    let good = chunked.iter().flatten().cloned().collect();
    let mut tables = read_chunk_tables(io, format, good).await.into_iter();
    let missing = || Err(Error::malformed("chunk index", 0, "not read"));
    let next = |request: Result<_, _>| request.and_then(|_| tables.next().unwrap_or_else(missing));
    chunked.into_iter().map(next).collect()
}

fn chunk_request(request: &LayoutRequest, chunked: &ChunkedLayout) -> Result<ChunkRequest, Error> {
    let element_size =
        u32::try_from(request.element_size).ok().filter(|&size| u64::from(size) == chunked.element_size);
    let Some(element_size) = element_size else {
        let (message, datatype) = (chunked.element_size, request.element_size);
        let problem = format!("elements of {message} bytes, expected {datatype} of the datatype");
        return Err(Error::malformed("data layout message", request.header, problem));
    };
    let chunk = chunked.chunk_shape.iter().copied().fold(chunked.element_size, u64::saturating_mul);
    if chunked.index == ChunkIndexKind::BTree1 && chunk > u32::MAX.into() {
        let problem = format!("chunks of {chunk} bytes in a version 1 B-tree, expected less than 4 GiB");
        return Err(Error::malformed("data layout message", request.header, problem));
    }
    let shape = request.dataspace.shape().unwrap_or_default().to_vec();
    let max_shape = match &request.dataspace {
        Dataspace::Simple { max_shape: Some(max_shape), .. } => max_shape.clone(),
        _ => shape.iter().copied().map(Some).collect(),
    };
    let chunk_shape = chunked.chunk_shape.clone();
    let filtered = request.filtered;
    let (index, version) = (index_of(chunked), chunked.version);
    Ok(ChunkRequest { index, shape, max_shape, chunk_shape, element_size, version, filtered })
}

fn index_of(chunked: &ChunkedLayout) -> ChunkIndex {
    let address = chunked.address;
    match chunked.index {
        ChunkIndexKind::BTree1 => ChunkIndex::BTree1 { address },
        ChunkIndexKind::Single => {
            let (size, filter_mask) = chunked.single.unwrap_or((0, 0));
            ChunkIndex::Single { address, size, filter_mask }
        }
        ChunkIndexKind::Implicit => ChunkIndex::Implicit { address },
        ChunkIndexKind::FixedArray => ChunkIndex::FixedArray { address },
        ChunkIndexKind::ExtensibleArray => ChunkIndex::ExtensibleArray { address },
        ChunkIndexKind::BTree2 => ChunkIndex::BTree2 { address },
    }
}

#[cfg(test)]
mod tests {
    use virtualize_bytes::{Limits, MemorySource};

    use super::*;

    /// libhdf5 opens no such dataset, whatever size its layout message declares.
    #[test]
    fn contiguous_elements_are_within_the_file() {
        let source = MemorySource(vec![0; 100].into());
        let io = Io::new(&source, Limits::default());
        assert!(check_extent(&io, None, 200).is_ok() && check_extent(&io, Some(90), 10).is_ok());
        for (address, needed) in [(90, 11), (90, 0), (u64::MAX, 1)] {
            assert!(check_extent(&io, Some(address), needed).is_err(), "{address} {needed}");
        }
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
            chunk_request(&request, &chunked)
        };
        assert!(read((1 << 14) - 1).is_ok() && read(1 << 14).is_err());
    }

    #[test]
    fn compact_elements_have_the_size_of_the_extent() {
        let read = |needed| compact(Bytes::from_static(&[1, 2]), needed, 0);
        assert!(read(2).is_ok() && read(1).is_err() && read(0).is_err() && read(4).is_err());
    }

    #[test]
    fn external_files_have_names() {
        let source = MemorySource(vec![0; 100].into());
        let io = Io::new(&source, Limits::default());
        let read = |name| {
            let files = ExternalFiles { heap: 0, slots: vec![Slot { name, offset: 0, size: None }] };
            external(&io, &files, &Bytes::from_static(b"\0a.raw\0"))
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
}
