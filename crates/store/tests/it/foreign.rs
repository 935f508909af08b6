//! Files read through a store that the caller provides.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use virtualize_bytes::{BoxFuture, ByteRange, ReadError, ReadErrorKind, ReadRanges};
use virtualize_store::{FileVersion, ForeignStore, StoreError, StoreOptions, open};

/// A store of one file, which counts requests.
#[derive(Debug)]
struct OneFile {
    url: &'static str,
    content: Mutex<(Bytes, &'static str)>,
    requests: Mutex<Vec<ByteRange>>,
}

impl OneFile {
    fn of(content: &'static [u8]) -> Arc<Self> {
        let content = Mutex::new((Bytes::from_static(content), "one"));
        Arc::new(Self { url: "any://where/a b?%.nc", content, requests: Mutex::default() })
    }

    fn answer(&self, url: &str, range: ByteRange) -> Result<(FileVersion, Bytes), ReadError> {
        if url != self.url {
            return Err(ReadError::new(ReadErrorKind::NotFound, "no such key"));
        }
        self.requests.lock().unwrap().push(range);
        let (bytes, etag) = self.content.lock().unwrap().clone();
        let size = bytes.len() as u64;
        let range = range.clamp_to(size);
        let at = |offset: u64| usize::try_from(offset).unwrap();
        let version = FileVersion { size, etag: Some(etag.to_owned()), modified: Some(1_500_001) };
        Ok((version, bytes.slice(at(range.start)..at(range.end()))))
    }
}

impl ForeignStore for OneFile {
    fn read<'a>(
        &'a self,
        url: &'a str,
        range: ByteRange,
        _if_match: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(FileVersion, Bytes), ReadError>> {
        Box::pin(async move { self.answer(url, range) })
    }
}

fn options(store: &Arc<OneFile>) -> StoreOptions {
    StoreOptions { through: Some(store.clone()), ..StoreOptions::default() }
}

#[tokio::test]
async fn a_file_is_read_and_urls_stay_as_they_are() {
    let content: &'static [u8] = Box::leak((0..6_000_000_u32).map(|n| (n % 251) as u8).collect());
    let store = OneFile::of(content);
    let file = open(store.url, &options(&store)).await.unwrap();
    assert_eq!((file.url(), file.size(), file.etag()), (store.url, 6_000_000, Some("one")));
    assert_eq!(file.modified(), Some(1_501), "rounded up");
    assert_eq!(file.name(), "any://where/a b");
    let ranges = [(5_999_990, 20), (0, 3), (3_000_000, 1000), (3_010_000, 1000)];
    let ranges: Vec<_> = ranges.iter().map(|&(start, length)| ByteRange::new(start, length)).collect();
    let parts = file.read_ranges(&ranges).await.unwrap();
    assert_eq!(parts[0], content[5_999_990..]);
    assert_eq!(parts[3], content[3_010_000..3_011_000]);
    assert_eq!(store.requests.lock().unwrap().len(), 3, "one to open, neighbours merged");
    let once = file.read_once(ByteRange::new(4_000_000, 500_000)).await.unwrap();
    assert_eq!(once, content[4_000_000..4_500_000]);
}

#[tokio::test]
async fn a_changed_file_is_refused() {
    let store = OneFile::of(&[1; 5_000_000]);
    let file = open(store.url, &options(&store)).await.unwrap();
    *store.content.lock().unwrap() = (Bytes::from_static(&[2; 5_000_000]), "two");
    let read = file.read_ranges(&[ByteRange::new(4_000_000, 8)]).await.unwrap_err();
    assert_eq!(read.kind, ReadErrorKind::Changed);
    let read = file.read_once(ByteRange::new(4_000_000, 8)).await.unwrap_err();
    assert!(matches!(read, StoreError::Changed { .. }));
}

#[tokio::test]
async fn empty_and_missing_files() {
    let store = OneFile::of(&[]);
    assert_eq!(open(store.url, &options(&store)).await.unwrap().size(), 0);
    let missing = open("any://where/b", &options(&store)).await.unwrap_err();
    assert_eq!(missing, StoreError::NotFound { name: "any://where/b".into() });
}
