use futures::executor::block_on;
use virtualize_bytes::{Budget, Budgeted, ByteRange};
use virtualize_map::Report;
use virtualize_store::Object;
use virtualize_zarr::{ChunkGrid, DataType, Node, SourceId, ZarrFormat};

use super::*;
use crate::options::Options;
use crate::source_formats::SourceFormat;
use crate::sources::Sources;

/// Bytes of a chunk.
const CHUNK: u64 = 1000;
/// Chunks of each array.
const CHUNKS: u64 = 100;

/// A TIFF file of one directory with one entry, followed by bytes.
fn file() -> Vec<u8> {
    let mut file = b"II*\0\x08\0\0\0\x01\0\0\x01\x04\0\x01\0\0\0\x10\0\0\0\0\0\0\0".to_vec();
    file.extend((0..CHUNK * CHUNKS).map(|n| u8::try_from(n / CHUNK).unwrap()));
    file
}

fn array() -> Array {
    Array {
        shape: vec![CHUNK * CHUNKS],
        data_type: DataType::UInt8,
        chunk_grid: ChunkGrid::Regular(vec![CHUNK]),
        fill_value: None,
        codecs: Vec::new(),
        dimension_names: Vec::new(),
        attributes: serde_json::Map::new(),
        chunks: ChunkManifest::default(),
    }
}

fn reversed(range: ByteRange) -> ChunkContent {
    ChunkContent::Stored { source: SourceId(0), range, change: StoredChange::ReverseBits }
}

/// Two arrays with a task for each chunk.
fn mapped() -> Mapped {
    let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
    let mut tasks = Vec::new();
    for path in ["good", "bad"] {
        hierarchy.root.children.insert(path.to_owned(), Node::Array(Box::new(array())));
        tasks.extend((0..CHUNKS).map(|position| {
            let range = ByteRange::new(26 + position * CHUNK, CHUNK);
            let content = reversed(range);
            InlineTask { array: path.to_owned(), positions: vec![position], content }
        }));
    }
    tasks.sort_by_key(|task| task.positions[0]);
    Mapped { hierarchy, tasks, report: Report::default(), companions: &[] }
}

fn run(mapped: &mut Mapped) {
    let (object, options) = (Object::in_memory("memory:///a.tif", file()), Options::default());
    let budget = Budget::of_file(&options.limits, object.bytes());
    let sources = Sources::new(object.url(), &options.store, &budget);
    let file = block_on(SourceFormat::Tiff.read(&object, &options, &budget)).unwrap();
    let own = Budgeted::new(object.as_ref(), &budget);
    let urls = vec![object.url().to_owned()];
    let maker = ChunkMaker { own: &own, limits: &options.limits, file: &file, sources: &sources, urls };
    block_on(run_in_batches(&maker, mapped, 10 * CHUNK)).unwrap();
}

#[test]
fn batches_are_bounded_and_hold_all() {
    let sizes = batches(vec![1, 9, 1, 11, 1, 0], 10, |bytes| *bytes).map(|batch| batch.len());
    assert_eq!(sizes.collect::<Vec<_>>(), [2, 1, 1, 2]);
}

#[test]
fn chunks_of_all_batches_are_made() {
    let mut mapped = mapped();
    run(&mut mapped);
    for path in ["good", "bad"] {
        let inline = &mapped.hierarchy.array(path).unwrap().chunks.inline;
        assert_eq!(inline.len() as u64, CHUNKS);
        for (position, bytes) in inline {
            assert_eq!(bytes, &vec![u8::try_from(*position).unwrap().reverse_bits(); 1000]);
        }
    }
}

#[test]
fn the_first_failure_in_a_later_batch_leaves_out_its_array() {
    let mut mapped = mapped();
    let (first, second) = (ByteRange::new(1 << 20, 7), ByteRange::new(1 << 30, 7));
    for (position, range) in [(61, first), (62, second), (97, second)] {
        let mut of_bad = mapped.tasks.iter_mut().filter(|task| task.array == "bad");
        of_bad.nth(position).unwrap().content = reversed(range);
    }
    run(&mut mapped);
    assert!(mapped.hierarchy.array("bad").is_none());
    assert_eq!(mapped.hierarchy.array("good").unwrap().chunks.inline.len() as u64, CHUNKS);
    let why = mapped.report.arrays["bad"].omitted.clone().unwrap();
    assert!(why.contains(&first.to_string()), "{why}");
}

#[test]
fn errors_of_ranges_say_what_is_wrong() {
    let fetched = Fetched { most: 100, ..Fetched::default() };
    let why = |length| fetched.range(SourceId(0), ByteRange::new(0, length)).unwrap_err();
    assert!(why(101).ends_with("are more than the 100 that may be read at once"));
    assert!(why(100).ends_with("the file ends before"));
}

#[test]
fn results_come_in_order_with_and_without_threads() {
    for wanted in [0, 3] {
        let workers = Workers::start(wanted);
        let jobs = (0..100).map(|n| workers.run(move || n * n));
        let results: Vec<_> = block_on(futures::stream::iter(jobs).buffered(workers.jobs()).collect());
        assert_eq!(results, (0..100).map(|n| Some(n * n)).collect::<Vec<_>>());
    }
}
