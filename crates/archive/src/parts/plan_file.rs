//! A plan: the list of the files of a run, as one object.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use virtualize::{ByteRange, Object, StoreOptions};

use super::{
    ListingDigest, ListingId, PartsError,
    columns::{Columns, Group},
    items, place, schema,
    sealed::{Fault, Sealed, SealedWriter},
};
use crate::Item;

/// Files in a row group: a worker fetches those of its shard.
const GROUP: usize = 4096;
/// Version of the format.
const VERSION: u32 = 1;
const KIND: &str = "plan";

/// The header of a plan.
#[derive(Serialize, Deserialize)]
struct Header {
    kind: String,
    version: u32,
    program: String,
    listing: ListingId,
    /// Files in each row group but the last.
    group: u64,
}

/// Writes a plan file by file.
pub(crate) struct PlanWriter {
    writer: SealedWriter,
    digest: ListingDigest,
    pending: Vec<Item>,
}

impl PlanWriter {
    pub(crate) fn new(name: &str) -> Result<Self, PartsError> {
        let writer = schema(&format!("message plan {{ {} }}", items::SCHEMA))
            .and_then(|schema| SealedWriter::new(schema, &["properties"]));
        let writer = writer.map_err(|fault| encoding(name, &fault))?;
        Ok(Self { writer, digest: ListingDigest::default(), pending: Vec::new() })
    }

    /// Adds the next file.
    pub(crate) fn add(&mut self, item: Item, name: &str) -> Result<(), PartsError> {
        self.digest.add(&item);
        self.pending.push(item);
        if self.pending.len() < GROUP { Ok(()) } else { self.flush(name) }
    }

    fn flush(&mut self, name: &str) -> Result<(), PartsError> {
        let items = std::mem::take(&mut self.pending);
        let written = self.writer.group(|group| items::write(&mut Columns(group), items.iter()));
        written.map_err(|fault| encoding(name, &fault))
    }

    /// Returns the bytes of the plan, and the identity of its listing.
    pub(crate) fn finish(mut self, name: &str) -> Result<(Bytes, ListingId), PartsError> {
        if !self.pending.is_empty() {
            self.flush(name)?;
        }
        let listing = self.digest.finish();
        let header = Header {
            kind: KIND.to_owned(),
            version: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            listing: listing.clone(),
            group: GROUP as u64,
        };
        let (bytes, _) = self.writer.finish(&header).map_err(|fault| encoding(name, &fault))?;
        Ok((bytes, listing))
    }
}

/// Writes a plan, unless it is there already. Another plan is replaced only with `overwrite`.
pub(crate) async fn write_plan(
    location: &str,
    (bytes, listing): (Bytes, ListingId),
    overwrite: bool,
    options: &StoreOptions,
) -> Result<(), PartsError> {
    if !overwrite && let Some(there) = PlanFile::open_if_there(location, options).await? {
        if there.listing == listing {
            return Ok(());
        }
        let (found, expected) = (there.listing.files, listing.files);
        return Err(PartsError::OtherPlan { name: there.name, found, expected });
    }
    Ok(place::write(location, bytes, options).await?)
}

/// A plan that is read, a row group at a time.
pub(crate) struct PlanFile {
    name: String,
    object: Arc<Object>,
    sealed: Sealed,
    /// The identity of its listing.
    pub(crate) listing: ListingId,
    group: u64,
}

impl PlanFile {
    /// Opens a plan.
    pub(crate) async fn open(location: &str, options: &StoreOptions) -> Result<Self, PartsError> {
        Self::of_object(place::open_object(location, options).await?).await
    }

    async fn open_if_there(location: &str, options: &StoreOptions) -> Result<Option<Self>, PartsError> {
        match place::open_if_there(location, options).await? {
            Some(object) => Self::of_object(object).await.map(Some),
            None => Ok(None),
        }
    }

    pub(super) async fn of_object(object: Arc<Object>) -> Result<Self, PartsError> {
        let name = object.name().to_owned();
        let damaged = |fault: Fault| damaged(&name, &fault);
        let sealed = place::read_footer(&object).await?.map_err(damaged)?;
        let Header { kind, version, program, listing, group } = sealed.header().map_err(damaged)?;
        if kind != KIND {
            let reason = format!("it is a {kind}");
            return Err(PartsError::Damaged { name, kind: KIND, reason });
        }
        super::check_version(&name, KIND, (version, VERSION), &program)?;
        if group == 0 || listing.files.div_ceil(group) != sealed.len() as u64 {
            let reason = format!("{} row groups of {group} files, for {} files", sealed.len(), listing.files);
            return Err(PartsError::Damaged { name, kind: KIND, reason });
        }
        Ok(Self { name, object, sealed, listing, group })
    }

    /// Returns the number of row groups.
    pub(crate) fn groups(&self) -> usize {
        self.sealed.len()
    }

    /// Reads the files of a row group.
    pub(crate) async fn group(&self, index: usize) -> Result<Vec<Item>, PartsError> {
        let (start, length) = self.sealed.range(index).unwrap_or_default();
        let bytes = self.object.read_once(ByteRange::new(start, length)).await?;
        let read = self.sealed.read_group(index, bytes, |rows, reader| items::read(&Group { rows, reader }));
        let items = read.map_err(|fault| damaged(&self.name, &fault))?;
        let first = (index as u64).saturating_mul(self.group);
        let expected = self.group.min(self.listing.files.saturating_sub(first));
        match items.len() as u64 == expected {
            true => Ok(items),
            false => {
                let reason = format!("row group {index} has {} files, expected {expected}", items.len());
                Err(PartsError::Damaged { name: self.name.clone(), kind: KIND, reason })
            }
        }
    }

    /// Reads files by their positions. Fetches only the row groups that have them.
    pub(crate) async fn range(&self, range: Range<u64>) -> Result<Vec<Item>, PartsError> {
        let mut items = Vec::new();
        if range.is_empty() {
            return Ok(items);
        }
        for index in range.start / self.group..range.end.div_ceil(self.group) {
            let first = index.saturating_mul(self.group);
            let group = self.group(usize::try_from(index).unwrap_or(usize::MAX)).await?;
            let wanted = (first..).zip(group).filter(|(position, _)| range.contains(position));
            items.extend(wanted.map(|(_, item)| item));
        }
        Ok(items)
    }

    /// Checks that all files that were read are those of the listing.
    pub(crate) fn check_listing(&self, read: &ListingId) -> Result<(), PartsError> {
        match *read == self.listing {
            true => Ok(()),
            false => {
                let reason =
                    format!("SHA-256 of the files is {}, expected {}", read.sha256, self.listing.sha256);
                Err(PartsError::Damaged { name: self.name.clone(), kind: KIND, reason })
            }
        }
    }
}

fn damaged(name: &str, fault: &Fault) -> PartsError {
    PartsError::Damaged { name: name.to_owned(), kind: KIND, reason: fault.to_string() }
}

fn encoding(name: &str, fault: &Fault) -> PartsError {
    PartsError::Encoding { name: name.to_owned(), reason: fault.to_string() }
}
