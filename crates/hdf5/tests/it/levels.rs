//! Number of round trips that reading takes: one for each level of structures, whatever their number.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use virtualize_bytes::{BoxFuture, ByteRange, Limits, MemorySource, ReadError, ReadRanges};

/// Where the superblock is, so that nothing of the file is within its first bytes.
const SHIFT: usize = 1 << 20;

/// A file whose reads take one round trip, unless their ranges were announced before an earlier read ended.
struct Distant {
    file: MemorySource,
    trips: AtomicU64,
    /// Whether announced ranges are fetched.
    listens: bool,
    announced: Mutex<Vec<ByteRange>>,
    fetched: Mutex<Vec<ByteRange>>,
}

impl Distant {
    fn new(name: &str, listens: bool) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let mut bytes = vec![0; SHIFT];
        bytes.extend(std::fs::read(path).unwrap());
        let file = MemorySource(Bytes::from(bytes));
        let trips = AtomicU64::new(0);
        Self { file, trips, listens, announced: Mutex::default(), fetched: Mutex::default() }
    }

    /// Reads the metadata, and returns the number of round trips.
    fn trips(&self) -> u64 {
        let limits = Limits::default();
        let mut read = std::pin::pin!(virtualize_hdf5::read(self, &limits));
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match read.as_mut().poll(&mut context) {
                Poll::Ready(file) => {
                    assert!(!file.unwrap().objects.is_empty());
                    return self.trips.load(Ordering::Relaxed);
                }
                Poll::Pending => {
                    self.trips.fetch_add(1, Ordering::Relaxed);
                    let announced = std::mem::take(&mut *self.announced.lock().unwrap());
                    self.fetched.lock().unwrap().extend(announced.into_iter().filter(|_| self.listens));
                }
            }
        }
    }

    fn is_fetched(&self, range: &ByteRange) -> bool {
        let fetched = self.fetched.lock().unwrap();
        fetched.iter().any(|known| known.start <= range.start && range.end() <= known.end())
    }
}

impl ReadRanges for Distant {
    fn read_ranges<'a>(&'a self, ranges: &'a [ByteRange]) -> BoxFuture<'a, Result<Vec<Bytes>, ReadError>> {
        Box::pin(async move {
            let now = self.trips.load(Ordering::Relaxed);
            let here = ranges.iter().all(|range| self.is_fetched(range));
            std::future::poll_fn(|_| match here || self.trips.load(Ordering::Relaxed) > now {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            self.file.read_ranges(ranges).await
        })
    }

    fn will_read(&self, ranges: &[ByteRange]) {
        self.announced.lock().unwrap().extend_from_slice(ranges);
    }

    fn may_read(&self, ranges: &[ByteRange]) {
        self.announced.lock().unwrap().extend_from_slice(ranges);
    }

    fn size(&self) -> u64 {
        self.file.size()
    }
}

/// Files, with the trips if announced ranges are ignored, and if they are fetched. Two trips are those for the start of
/// the file and for the superblock behind the user block.
#[test]
fn each_level_of_structures_takes_one_trip() {
    let files = [
        ("attributes.h5", 8, 6),
        ("chunk_indexes.h5", 10, 6),
        ("dimensions.nc", 10, 4),
        ("latest.h5", 10, 3),
        // Dense links: B-tree and heap together, then their root node and root block.
        ("links_new.h5", 8, 5),
        ("links_old.h5", 13, 8),
        // Dense links, then dense attributes.
        ("netcdf4.nc", 15, 6),
    ];
    for (name, alone, announced) in files {
        let trips = |name, listens| Distant::new(&format!("../../fixtures/hdf5/{name}"), listens).trips();
        let trips = (trips(name, false), trips(name, true));
        assert_eq!(trips, (alone, announced), "{name}");
    }
}

/// Headers, B-trees and heaps of all groups and datasets are in the pages of those above them.
#[test]
fn pages_of_metadata_are_read_whole() {
    let trips = |listens| Distant::new("tests/files/paged.h5", listens).trips();
    assert_eq!((trips(false), trips(true)), (12, 6));
}
