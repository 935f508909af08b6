//! Reads objects of fractal heaps, all heaps of a level together: headers in one batch, then one batch per level of
//! blocks.

use std::collections::BTreeMap;

use bytes::Bytes;
use virtualize_bytes::ByteRange;

use crate::{
    Error,
    batch::read_whole,
    btree2_walk::read_records,
    context::Format,
    filters::decode,
    fractal_heap::{self, Block, FractalHeap, HugeObject, ObjectId},
    io::Io,
    reader::slice,
    sized::read_sized,
};

const BLOCK: &str = "fractal heap block";

/// A heap id, padded with zeros to eight bytes: those of links have seven bytes, others eight.
pub(crate) type HeapId = [u8; 8];

/// An object and its address. An object in a filtered block has the address of the block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HeapObject {
    pub(crate) address: u64,
    pub(crate) bytes: Bytes,
}

type Objects = Vec<Result<HeapObject, Error>>;

/// A heap with its root block as stored.
pub(crate) struct OpenHeap {
    header: FractalHeap,
    root: Option<Result<Bytes, Error>>,
}

/// Number of children of a root block that are announced.
const ANNOUNCED: usize = 1024;

/// Reads the headers and root blocks of the heaps at these addresses.
pub(crate) async fn open_heaps(
    io: &Io<'_>,
    format: Format,
    addresses: &[u64],
) -> Result<Vec<Result<OpenHeap, Error>>, Error> {
    if addresses.is_empty() {
        return Ok(Vec::new());
    }
    let length = |bytes: &[u8], address| fractal_heap::length(bytes, address, format);
    let guess = fractal_heap::header_length(format);
    let headers = read_sized(io, "fractal heap header", addresses, guess, length).await?;
    let parse =
        |(bytes, &address): (Result<Bytes, Error>, &u64)| FractalHeap::parse(&bytes?, address, format);
    let headers: Vec<_> = headers.into_iter().zip(addresses).map(parse).collect();
    let root = |heap: &FractalHeap| heap.root.map(|root| range_of(heap, &root));
    let ranges: Vec<_> = headers.iter().flatten().filter_map(root).collect();
    let mut roots = read_whole(io, BLOCK, &ranges).await.into_iter();
    let open = |header: Result<FractalHeap, Error>| {
        let header = header?;
        let root = header.root.and_then(|_| roots.next());
        if let (Some(block), Some(Ok(bytes))) = (&header.root, &root) {
            io.may_read(children(&header, block, bytes));
        }
        Ok(OpenHeap { header, root })
    };
    Ok(headers.into_iter().map(open).collect())
}

fn range_of(heap: &FractalHeap, block: &Block) -> ByteRange {
    ByteRange::new(block.address, heap.block_length(block))
}

/// Returns the ranges of the first children of an indirect block.
fn children<'a>(
    heap: &'a FractalHeap,
    parent: &'a Block,
    bytes: &'a [u8],
) -> impl Iterator<Item = ByteRange> + 'a {
    let mut offset = parent.offset;
    let mut next = move || {
        let block = heap.child(parent, bytes, offset).ok().flatten()?;
        offset = block.offset.saturating_add(block.size.max(1));
        Some(range_of(heap, &block))
    };
    std::iter::from_fn(move || if parent.rows > 0 { next() } else { None }).take(ANNOUNCED)
}

/// Reads objects of heaps. Returns, for each request, the result of each object, or the error of the whole heap.
pub(crate) async fn read_heap_objects(
    io: &Io<'_>,
    format: Format,
    heaps: Vec<Result<OpenHeap, Error>>,
    requests: &[Vec<HeapId>],
) -> Vec<Result<Objects, Error>> {
    let mut reading = Reading::new(heaps, requests);
    while reading.read_level(io).await {}
    reading.read_huge(io, format).await;
    reading.finish()
}

/// Index of an object in a request.
#[derive(Clone, Copy)]
struct Want {
    heap: usize,
    object: usize,
}

/// An object in a direct block.
#[derive(Clone, Copy)]
struct Managed {
    want: Want,
    offset: u64,
    length: u64,
}

/// A block to read, and the requested objects below it.
struct Visit {
    heap: usize,
    block: Block,
    wants: Vec<Managed>,
}

struct Reading {
    heaps: Vec<Result<FractalHeap, Error>>,
    /// Root blocks that were not visited yet.
    roots: Vec<Option<Result<Bytes, Error>>>,
    found: Vec<Vec<Option<Result<HeapObject, Error>>>>,
    next: Vec<Visit>,
    huge: Vec<(Want, HugeObject)>,
    huge_indexed: Vec<(Want, u64)>,
}

impl Reading {
    fn new(heaps: Vec<Result<OpenHeap, Error>>, requests: &[Vec<HeapId>]) -> Self {
        let found = requests.iter().map(|ids| ids.iter().map(|_| None).collect()).collect();
        let parts = heaps.into_iter().map(|heap| match heap {
            Ok(OpenHeap { header, root }) => (Ok(header), root),
            Err(error) => (Err(error), None),
        });
        let (heaps, roots) = parts.unzip();
        let (next, huge, huge_indexed) = (Vec::new(), Vec::new(), Vec::new());
        let mut reading = Self { heaps, roots, found, next, huge, huge_indexed };
        for (heap, ids) in requests.iter().enumerate() {
            reading.sort_ids(heap, ids);
        }
        reading
    }

    /// Groups the ids of a heap by kind of object.
    fn sort_ids(&mut self, heap: usize, ids: &[HeapId]) {
        let Some(Ok(header)) = self.heaps.get(heap).cloned() else { return };
        let mut wants = Vec::new();
        for (object, id) in ids.iter().enumerate() {
            let want = Want { heap, object };
            match header.parse_id(id) {
                Ok(ObjectId::Managed { offset, length }) => wants.push(Managed { want, offset, length }),
                Ok(ObjectId::Huge(huge)) => self.huge.push((want, huge)),
                Ok(ObjectId::HugeIndexed(number)) => self.huge_indexed.push((want, number)),
                Ok(ObjectId::Tiny(bytes)) => {
                    self.put(want, Ok(HeapObject { address: header.address, bytes: bytes.into() }));
                }
                Err(error) => self.put(want, Err(error)),
            }
        }
        if let (Some(block), false) = (header.root, wants.is_empty()) {
            self.next.push(Visit { heap, block, wants });
        }
    }

    fn put(&mut self, want: Want, object: Result<HeapObject, Error>) {
        if let Some(place) = self.found.get_mut(want.heap).and_then(|found| found.get_mut(want.object)) {
            *place = Some(object);
        }
    }

    /// Returns the blocks of one level: root blocks, which are read already, or blocks below them.
    async fn blocks(&mut self, io: &Io<'_>, visits: &[Visit]) -> Vec<Result<Bytes, Error>> {
        let mut root = |visit: &Visit| self.roots.get_mut(visit.heap)?.take();
        let roots: Vec<_> = visits.iter().map_while(&mut root).collect();
        if roots.len() == visits.len() {
            return roots;
        }
        let range = |visit: &Visit| match self.heaps.get(visit.heap) {
            Some(Ok(heap)) => range_of(heap, &visit.block),
            _ => ByteRange::new(visit.block.address, 0),
        };
        read_whole(io, BLOCK, &visits.iter().map(range).collect::<Vec<_>>()).await
    }

    /// Visits one level of blocks. Returns whether there was one.
    async fn read_level(&mut self, io: &Io<'_>) -> bool {
        let visits = std::mem::take(&mut self.next);
        let blocks = self.blocks(io, &visits).await;
        let any = !visits.is_empty();
        for (visit, bytes) in visits.into_iter().zip(blocks) {
            let Some(Ok(heap)) = self.heaps.get(visit.heap).cloned() else { continue };
            let bytes = bytes.and_then(|bytes| open_block(io, &heap, &visit.block, bytes));
            match (bytes, visit.block.rows) {
                (Ok(bytes), 0) => self.take_objects(&heap, &visit, &bytes),
                (Ok(bytes), _) => self.descend(&heap, &visit, &bytes),
                (Err(error), _) => visit.wants.iter().for_each(|m| self.put(m.want, Err(error.clone()))),
            }
        }
        any
    }

    fn take_objects(&mut self, heap: &FractalHeap, visit: &Visit, bytes: &Bytes) {
        for managed in &visit.wants {
            let object = heap.place_in(&visit.block, managed.offset, managed.length).map(|(start, end)| {
                let address = visit.block.address.saturating_add(start);
                HeapObject { address, bytes: slice(bytes, start, end).unwrap_or_default() }
            });
            self.put(managed.want, object);
        }
    }

    fn descend(&mut self, heap: &FractalHeap, visit: &Visit, bytes: &[u8]) {
        let mut children: BTreeMap<u64, Visit> = BTreeMap::new();
        for managed in &visit.wants {
            match heap.child(&visit.block, bytes, managed.offset) {
                Ok(Some(block)) => {
                    let new = || Visit { heap: visit.heap, block, wants: Vec::new() };
                    children.entry(block.offset).or_insert_with(new).wants.push(*managed);
                }
                Ok(None) => {}
                Err(error) => self.put(managed.want, Err(error)),
            }
        }
        self.next.extend(children.into_values());
    }

    async fn read_huge(&mut self, io: &Io<'_>, format: Format) {
        self.look_up_huge(io, format).await;
        let huge = std::mem::take(&mut self.huge);
        let ranges: Vec<_> = huge.iter().map(|(_, at)| ByteRange::new(at.address, at.length)).collect();
        let blocks = read_whole(io, "huge object", &ranges).await;
        for ((want, at), bytes) in huge.into_iter().zip(blocks) {
            let Some(Ok(heap)) = self.heaps.get(want.heap) else { continue };
            let bytes = bytes.and_then(|bytes| match at.filtered {
                Some((mask, size)) => decode(io, &heap.filters, mask, bytes, size, at.address),
                None => Ok(bytes),
            });
            self.put(want, bytes.map(|bytes| HeapObject { address: at.address, bytes }));
        }
    }

    /// Resolves huge objects with indirect ids through the B-tree of the heap.
    async fn look_up_huge(&mut self, io: &Io<'_>, format: Format) {
        let mut wanted: BTreeMap<usize, Vec<(Want, u64)>> = BTreeMap::new();
        for (want, number) in std::mem::take(&mut self.huge_indexed) {
            wanted.entry(want.heap).or_default().push((want, number));
        }
        let tree = |heap: &usize| match self.heaps.get(*heap) {
            Some(Ok(header)) => header.huge,
            _ => None,
        };
        wanted.retain(|heap, _| tree(heap).is_some());
        let trees: Vec<_> = wanted.keys().filter_map(tree).collect();
        let records = read_records(io, format, &trees).await;
        for ((heap, wants), records) in wanted.into_iter().zip(records) {
            let Some(Ok(header)) = self.heaps.get(heap) else { continue };
            let parsed = records.and_then(|records| {
                let records = records.records.chunks_exact(records.record_size.max(1));
                records.map(|record| header.parse_huge_record(record)).collect::<Result<BTreeMap<_, _>, _>>()
            });
            for (want, number) in wants {
                match &parsed {
                    Ok(parsed) => self.huge.extend(parsed.get(&number).map(|at| (want, *at))),
                    Err(error) => self.put(want, Err(error.clone())),
                }
            }
        }
    }

    fn finish(self) -> Vec<Result<Objects, Error>> {
        let finish = |(heap, found): (Result<FractalHeap, Error>, Vec<Option<_>>)| {
            let address = heap?.address;
            let missing = || Err(Error::malformed("fractal heap", address, "no such object"));
            Ok(found.into_iter().map(|object| object.unwrap_or_else(missing)).collect())
        };
        self.heaps.into_iter().zip(self.found).map(finish).collect()
    }
}

/// Reverses the filters of a direct block and checks its header.
fn open_block(io: &Io<'_>, heap: &FractalHeap, block: &Block, bytes: Bytes) -> Result<Bytes, Error> {
    let bytes = match block.filtered {
        Some((_, mask)) => decode(io, &heap.filters, mask, bytes, block.size, block.address)?,
        None => bytes,
    };
    heap.check_block(block, &bytes)?;
    Ok(bytes)
}
