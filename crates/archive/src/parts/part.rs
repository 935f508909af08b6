//! A part: what was learned of the files of a shard, as one object.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::Arc,
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use virtualize::StoreOptions;

use super::{
    ListingId, PartsError, ShardNumber, place,
    rows::{self, PartRow},
    sealed::{Fault, Sealed, SealedWriter},
};
use crate::journal::OptionDifference;

/// Version of the format.
const VERSION: u32 = 1;
const KIND: &str = "part";
/// Most files in a row group.
const GROUP: usize = 10_000;
/// Bytes of chunk tables, values and documents from which a row group is complete.
const GROUP_BYTES: usize = 64 << 20;

/// The header of a part.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct PartHeader {
    kind: String,
    version: u32,
    program: String,
    /// The options on which rows depend, by name, as JSON.
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) listing: ListingId,
    pub(crate) shard: ShardNumber,
    /// Position of the first file.
    pub(crate) first: u64,
    /// Number of files.
    pub(crate) files: u64,
    /// Number of files that could not be read.
    pub(crate) failed: u64,
    /// Number of those whose store was not available.
    pub(crate) unavailable: u64,
    pub(crate) seconds: f64,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

/// What reading a shard took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) seconds: f64,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

/// What tells a part from a plan.
#[derive(Deserialize)]
struct Kind {
    kind: String,
}

/// What a part must agree in with a run.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Expected {
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) listing: ListingId,
}

/// Encodes a part. Also returns its header, and the digest that identifies it.
pub(crate) fn encode(
    name: &str,
    expected: Expected,
    shard: ShardNumber,
    spent: Spent,
    rows: &[PartRow],
) -> Result<(Bytes, PartHeader, String), PartsError> {
    let Expected { options, listing } = expected;
    let sum = |of: fn(&PartRow) -> u64| rows.iter().map(of).fold(0, u64::saturating_add);
    let header = PartHeader {
        kind: KIND.to_owned(),
        version: VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        options,
        shard,
        first: shard.range(listing.files).start,
        files: rows.len() as u64,
        failed: sum(|row| u64::from(row.failure().is_some())),
        unavailable: sum(|row| u64::from(row.is_unavailable())),
        seconds: spent.seconds,
        requests: spent.requests,
        bytes: spent.bytes,
        listing,
    };
    let write = || {
        let mut writer = SealedWriter::new(rows::schema()?, rows::REPETITIVE)?;
        for group in groups_of(rows) {
            writer.group(|out| rows::write(out, group))?;
        }
        writer.finish(&header)
    };
    let (bytes, sha256) =
        write().map_err(|fault| PartsError::Encoding { name: name.to_owned(), reason: fault.to_string() })?;
    Ok((bytes, header, sha256))
}

/// Divides rows into row groups.
fn groups_of(rows: &[PartRow]) -> impl Iterator<Item = &[PartRow]> {
    let mut rest = rows;
    std::iter::from_fn(move || {
        let mut size = 0_usize;
        let fits = |row: &&PartRow| {
            let before = size;
            size = size.saturating_add(row.size());
            before < GROUP_BYTES
        };
        let count = rest.iter().take(GROUP).take_while(fits).count();
        let (group, others) = rest.split_at_checked(count)?;
        rest = others;
        (!group.is_empty()).then_some(group)
    })
}

/// A part that is read.
pub(crate) struct PartFile {
    /// Its name for messages.
    pub(crate) name: String,
    pub(crate) header: PartHeader,
    file: Bytes,
    sealed: Sealed,
}

impl PartFile {
    /// Reads a part and checks all its bytes.
    pub(crate) async fn open(location: &str, options: &StoreOptions) -> Result<Self, PartsError> {
        Self::of_object(&*place::open_object(location, options).await?).await
    }

    /// Reads a part as [`Self::open`] does, if it exists.
    pub(crate) async fn open_if_there(
        location: &str,
        options: &StoreOptions,
    ) -> Result<Option<Self>, PartsError> {
        match place::open_if_there(location, options).await? {
            Some(object) => Self::of_object(&object).await.map(Some),
            None => Ok(None),
        }
    }

    async fn of_object(object: &virtualize::Object) -> Result<Self, PartsError> {
        Self::of_bytes(object.name(), place::read_whole(object).await?)
    }

    pub(super) fn of_bytes(name: &str, file: Bytes) -> Result<Self, PartsError> {
        let name = name.to_owned();
        let sealed = Sealed::of_file(&file).map_err(|fault| damaged(&name, &fault))?;
        let Kind { kind } = sealed.header().map_err(|fault| damaged(&name, &fault))?;
        if kind != KIND {
            return Err(PartsError::Plan { name });
        }
        let header: PartHeader = sealed.header().map_err(|fault| damaged(&name, &fault))?;
        super::check_version(&name, KIND, (header.version, VERSION), &header.program)?;
        let range = header.shard.range(header.listing.files);
        if (header.first, header.files) != (range.start, range.end - range.start) {
            let reason = format!(
                "{} files from {}, expected those of shard {}",
                header.files, header.first, header.shard
            );
            return Err(PartsError::Damaged { name, kind: KIND, reason });
        }
        if sealed.len() == 0 && header.files > 0 {
            let reason = format!("no row group, for {} files", header.files);
            return Err(PartsError::Damaged { name, kind: KIND, reason });
        }
        Ok(Self { name, header, file, sealed })
    }

    /// Returns the digest that identifies the part.
    pub(crate) fn sha256(&self) -> &str {
        &self.sealed.seal
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.file.len() as u64
    }

    /// Returns the positions of its files.
    pub(crate) fn range(&self) -> Range<u64> {
        self.header.shard.range(self.header.listing.files)
    }

    /// Checks that the part belongs to a run.
    pub(crate) fn check(&self, expected: &Expected) -> Result<(), PartsError> {
        let name = self.name.clone();
        let differences = OptionDifference::between(&self.header.options, &expected.options);
        if !differences.is_empty() {
            return Err(PartsError::OtherOptions { name, differences });
        }
        let start = |sha256: &str| sha256.get(..12).unwrap_or(sha256).to_owned();
        let (found, wanted) = (&self.header.listing, &expected.listing);
        match found == wanted {
            true => Ok(()),
            false => Err(PartsError::OtherListing {
                name,
                found: found.files,
                digest: start(&found.sha256),
                expected: wanted.files,
                of: start(&wanted.sha256),
            }),
        }
    }

    /// Reads the rows of each row group in turn.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Result<Vec<PartRow>, PartsError>> {
        let mut next = self.header.first;
        let mut shared = HashMap::new();
        (0..self.sealed.len()).map(move |index| {
            let rows = self.group(index, next, &mut shared).map_err(|fault| damaged(&self.name, &fault))?;
            next = next.saturating_add(rows.len() as u64);
            Ok(rows)
        })
    }

    fn group(
        &self,
        index: usize,
        first: u64,
        shared: &mut HashMap<Bytes, Arc<str>>,
    ) -> Result<Vec<PartRow>, Fault> {
        let bytes = self.sealed.group_bytes(&self.file, index)?;
        let rows = self.sealed.read_group(index, bytes, |count, reader| rows::read(count, reader, shared))?;
        let end = self.range().end;
        for (expected, row) in (first..).zip(&rows) {
            if row.position != expected || expected >= end {
                let reason =
                    format!("file {}, expected {expected} of a shard that ends at {end}", row.position);
                return Err(Fault::Row { row: expected - self.header.first, reason });
            }
        }
        let next = first.saturating_add(rows.len() as u64);
        match index + 1 == self.sealed.len() && next != end {
            true => Err(Fault::Row { row: next - self.header.first, reason: format!("no files to {end}") }),
            false => Ok(rows),
        }
    }
}

fn damaged(name: &str, fault: &Fault) -> PartsError {
    PartsError::Damaged { name: name.to_owned(), kind: KIND, reason: fault.to_string() }
}
