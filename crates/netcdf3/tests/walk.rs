//! Files through [`read`]: requests, and headers of any length.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::arithmetic_side_effects,
    reason = "a test fails by panicking"
)]

use std::sync::Mutex;

use bytes::Bytes;
use futures::executor::block_on;
use virtualize_bytes::{BoxFuture, ByteRange, Limits, MemorySource, ReadError, ReadRanges};
use virtualize_netcdf3::{Error, read};

/// A file that records the requested ranges.
struct Recorded(MemorySource, Mutex<Vec<ByteRange>>);

impl ReadRanges for Recorded {
    fn read_ranges<'a>(&'a self, ranges: &'a [ByteRange]) -> BoxFuture<'a, Result<Vec<Bytes>, ReadError>> {
        self.1.lock().unwrap().extend(ranges);
        self.0.read_ranges(ranges)
    }

    fn size(&self) -> u64 {
        self.0.size()
    }
}

/// Returns a CDF-1 file with `count` dimensions of 16 bytes each.
fn with_dimensions(count: u32) -> Vec<u8> {
    let mut bytes = b"CDF\x01\0\0\0\0\0\0\0\x0a".to_vec();
    bytes.extend(count.to_be_bytes());
    for number in 0..count {
        bytes.extend(4_u32.to_be_bytes());
        bytes.extend(format!("{number:04x}").bytes().take(4));
        bytes.extend(7_u32.to_be_bytes());
    }
    bytes.extend([0; 16]);
    bytes
}

#[test]
fn a_long_header_takes_few_requests() {
    let source = Recorded(MemorySource(with_dimensions(50_000).into()), Mutex::default());
    let file = block_on(read(&source, &Limits::default())).unwrap();
    assert_eq!(file.classic.unwrap().dimensions.len(), 50_000);
    let requests = source.1.into_inner().unwrap();
    let kib = |n: u64| n << 10;
    let expected = [(0, kib(64)), (kib(64), kib(192)), (kib(256), 600_032 - kib(256))];
    let found: Vec<_> = requests.iter().map(|range| (range.start, range.length)).collect();
    assert_eq!(found, expected);
}

#[test]
fn counts_that_the_file_cannot_have_are_refused() {
    let mut bytes = with_dimensions(3);
    bytes[12..16].copy_from_slice(&900_000_u32.to_be_bytes());
    let error = block_on(read(&MemorySource(bytes.clone().into()), &Limits::default())).unwrap_err();
    assert!(matches!(error, Error::Malformed { .. } | Error::Truncated { .. }), "{error}");
    bytes[12..16].fill(0xff);
    let error = block_on(read(&MemorySource(bytes.into()), &Limits::default())).unwrap_err();
    assert!(matches!(error, Error::Limit { .. }), "{error}");
}

#[test]
fn a_header_that_ends_early_is_refused() {
    let whole = with_dimensions(3);
    for length in 4..whole.len() {
        let part = Bytes::copy_from_slice(&whole[..length]);
        let error = block_on(read(&MemorySource(part), &Limits::default())).unwrap_err();
        assert!(matches!(error, Error::Truncated { .. }), "{length}: {error}");
    }
    assert!(block_on(read(&MemorySource(whole.into()), &Limits::default())).is_ok());
}

#[test]
fn a_header_past_the_limit_is_refused() {
    let limits = Limits { structure_bytes: 100_000, ..Limits::default() };
    let error = block_on(read(&MemorySource(with_dimensions(50_000).into()), &limits)).unwrap_err();
    assert!(matches!(error, Error::Limit { structure: "header", .. }), "{error}");
}
