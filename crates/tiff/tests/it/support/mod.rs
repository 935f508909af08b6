//! Builds small TIFF files in memory and reads them.

#![allow(unreachable_pub, reason = "tests are not an API")]
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic, reason = "a test may fail")]
#![allow(clippy::cast_possible_truncation, reason = "numbers of the tests are small")]

use std::{
    pin::pin,
    sync::Mutex,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use virtualize_bytes::{BoxFuture, ByteRange, Endian, Limits, MemorySource, ReadError, ReadRanges};
use virtualize_tiff::{Error, model, read};

pub const ALL_KINDS: [(Endian, bool); 4] =
    [(Endian::Little, false), (Endian::Big, false), (Endian::Little, true), (Endian::Big, true)];

/// A file under construction: values and data first, then the directory that refers to them.
#[derive(Clone)]
pub struct Builder {
    endian: Endian,
    big: bool,
    pub bytes: Vec<u8>,
    /// Position of the offset of the next directory in the chain.
    link: usize,
}

/// An entry, with a value of numbers of `width` bytes each.
pub struct Entry {
    tag: u16,
    kind: u16,
    count: u64,
    width: usize,
    numbers: Vec<u64>,
}

pub fn short(tag: u16, numbers: &[u64]) -> Entry {
    entry(tag, 3, 2, numbers)
}

pub fn long(tag: u16, numbers: &[u64]) -> Entry {
    entry(tag, 4, 4, numbers)
}

pub fn ascii(tag: u16, text: &str) -> Entry {
    let bytes = text.bytes().chain([0]).map(u64::from);
    entry(tag, 2, 1, &bytes.collect::<Vec<_>>())
}

pub fn doubles(tag: u16, numbers: &[f64]) -> Entry {
    entry(tag, 12, 8, &numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>())
}

pub fn entry(tag: u16, kind: u16, width: usize, numbers: &[u64]) -> Entry {
    Entry { tag, kind, count: numbers.len() as u64, width, numbers: numbers.to_vec() }
}

impl Entry {
    /// Declares another count than that of the values.
    pub fn claiming(self, count: u64) -> Self {
        Self { count, ..self }
    }
}

impl Builder {
    pub fn new(endian: Endian, big: bool) -> Self {
        let mut builder = Self { endian, big, bytes: Vec::new(), link: 4 };
        builder.bytes.extend(if endian == Endian::Little { b"II" } else { b"MM" });
        builder.put(if big { 43 } else { 42 }, 2);
        if big {
            builder.put(8, 2);
            builder.put(0, 2);
            builder.link = 8;
        }
        builder.put(0, builder.word());
        builder
    }

    fn word(&self) -> usize {
        if self.big { 8 } else { 4 }
    }

    fn encode(&self, number: u64, width: usize) -> Vec<u8> {
        match self.endian {
            Endian::Little => number.to_le_bytes()[..width].to_vec(),
            Endian::Big => number.to_be_bytes()[8 - width..].to_vec(),
        }
    }

    fn put(&mut self, number: u64, width: usize) {
        let bytes = self.encode(number, width);
        self.bytes.extend(bytes);
    }

    pub fn data(&mut self, bytes: &[u8]) -> u64 {
        let at = self.bytes.len() as u64;
        self.bytes.extend(bytes);
        at
    }

    /// Adds a directory outside of the main chain.
    pub fn detached(&mut self, entries: &[Entry]) -> u64 {
        let fields: Vec<Vec<u8>> = entries.iter().map(|entry| self.field(entry)).collect();
        let at = self.bytes.len() as u64;
        self.put(entries.len() as u64, if self.big { 8 } else { 2 });
        for (entry, field) in entries.iter().zip(fields) {
            self.put(u64::from(entry.tag), 2);
            self.put(u64::from(entry.kind), 2);
            self.put(entry.count, self.word());
            self.bytes.extend(field);
        }
        self.put(0, self.word());
        at
    }

    /// Returns the last field of an entry: the value if it fits, else its offset.
    fn field(&mut self, entry: &Entry) -> Vec<u8> {
        let mut value: Vec<u8> = Vec::new();
        for &number in &entry.numbers {
            value.extend(self.encode(number, entry.width));
        }
        if entry.count.saturating_mul(entry.width as u64) > self.word() as u64 {
            let at = self.data(&value);
            return self.encode(at, self.word());
        }
        value.resize(self.word(), 0);
        value
    }

    /// Adds a directory to the main chain.
    pub fn directory(&mut self, entries: &[Entry]) -> u64 {
        let at = self.detached(entries);
        self.link_to(at);
        self.link = self.bytes.len() - self.word();
        at
    }

    /// Links the last directory of the chain to `offset`.
    pub fn link_to(&mut self, offset: u64) {
        let bytes = self.encode(offset, self.word());
        self.bytes[self.link..][..bytes.len()].copy_from_slice(&bytes);
    }

    pub fn read(self) -> Result<model::File, Error> {
        read_bytes(self.bytes)
    }
}

/// Returns the entries of an uncompressed 8-bit image of one strip.
pub fn gray(width: u64, height: u64, offset: u64) -> Vec<Entry> {
    vec![
        short(256, &[width]),
        short(257, &[height]),
        short(258, &[8]),
        long(273, &[offset]),
        long(279, &[width * height]),
    ]
}

/// Reads the only image of a little-endian classic TIFF: [`gray`] 4 × 4, with `changes` replacing entries with their
/// tags.
pub fn image_with(changes: Vec<Entry>) -> Result<model::Image, Error> {
    only_ifd(changes).image
}

/// Reads the only directory of such a file.
pub fn only_ifd(changes: Vec<Entry>) -> model::Ifd {
    let mut builder = Builder::new(Endian::Little, false);
    let offset = builder.data(&[7; 64]);
    let mut entries = gray(4, 4, offset);
    entries.retain(|entry| changes.iter().all(|change| change.tag != entry.tag));
    entries.extend(changes.into_iter().filter(|entry| entry.count > 0));
    builder.directory(&entries);
    builder.read().unwrap().ifds.remove(0)
}

/// Removes the entry with this tag in [`image_with`].
pub fn without(tag: u16) -> Entry {
    short(tag, &[])
}

pub fn read_bytes(bytes: Vec<u8>) -> Result<model::File, Error> {
    read_source(&MemorySource(Bytes::from(bytes)), &Limits::default())
}

/// One poll is enough, because memory is always ready.
pub fn read_source(source: &dyn ReadRanges, limits: &Limits) -> Result<model::File, Error> {
    match pin!(read(source, limits)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("memory never waits"),
    }
}

/// A file in memory that records the requested ranges, one batch per read.
pub struct Metered {
    memory: MemorySource,
    pub batches: Mutex<Vec<Vec<ByteRange>>>,
}

impl Metered {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { memory: MemorySource(Bytes::from(bytes)), batches: Mutex::default() }
    }
}

impl ReadRanges for Metered {
    fn read_ranges<'a>(&'a self, ranges: &'a [ByteRange]) -> BoxFuture<'a, Result<Vec<Bytes>, ReadError>> {
        self.batches.lock().unwrap().push(ranges.to_vec());
        self.memory.read_ranges(ranges)
    }

    fn size(&self) -> u64 {
        self.memory.size()
    }
}
