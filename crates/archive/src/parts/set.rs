//! The parts of a run.

use std::ops::Range;

use futures::TryStreamExt;
use virtualize::StoreOptions;

use super::{
    PartFile, PartsError, ShardNumber,
    part::Expected,
    shard::{gaps, overlaps, shards_of},
};
use crate::list::{Filter, Input, ListError, ListOptions, list};

/// Most ranges and shards that an error names.
const NAMED: usize = 20;

/// Returns the locations of parts: objects, folders or prefixes that end in `/`, and patterns.
pub(crate) async fn locate(places: &[String], options: &StoreOptions) -> Result<Vec<String>, ListError> {
    let options = ListOptions { store: options.clone(), ..ListOptions::default() };
    let inputs = places.iter().map(|place| Input::Files(place.clone())).collect();
    let listed = list(inputs, Filter::default(), options)?;
    let urls = listed.map_ok(|item| item.url);
    // Workers that were killed may have left temporary files beside their parts.
    urls.try_filter(|url| std::future::ready(!virtualize_store::is_temporary(url))).try_collect().await
}

/// A part that was checked.
#[derive(Clone, Debug)]
pub(crate) struct CheckedPart {
    pub(crate) location: String,
    sha256: String,
    range: Range<u64>,
    shard: ShardNumber,
}

/// Parts that were checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartSet(Vec<CheckedPart>);

impl PartSet {
    /// Adds a part, after a check that it belongs to the run.
    pub(crate) fn add(
        &mut self,
        location: &str,
        part: &PartFile,
        expected: &Expected,
    ) -> Result<(), PartsError> {
        part.check(expected)?;
        self.0.push(CheckedPart {
            location: location.to_owned(),
            sha256: part.sha256().to_owned(),
            range: part.range(),
            shard: part.header.shard,
        });
        Ok(())
    }

    /// Checks that the parts have all unread files, given by their positions, and returns them in the order of their
    /// files, equal ones once.
    pub(crate) fn complete(
        mut self,
        files: u64,
        unread: &[Range<u64>],
    ) -> Result<Vec<CheckedPart>, PartsError> {
        let ranges = self.0.iter().map(|part| part.range.clone()).collect();
        let gaps = overlaps(&gaps(ranges, files), unread);
        if !gaps.is_empty() {
            return Err(self.missing(&gaps, files));
        }
        self.0.sort_by(|one, other| key(one).cmp(&key(other)));
        self.0.dedup_by(|one, other| one.sha256 == other.sha256);
        Ok(self.0)
    }

    /// Names the shards to read. Of several divisions into shards, that whose shards have the fewest files is named.
    fn missing(&self, gaps: &[Range<u64>], files: u64) -> PartsError {
        let mut divisions: Vec<u64> = self.0.iter().map(|part| part.shard.of).collect();
        divisions.sort_unstable();
        divisions.dedup();
        let shards = divisions.into_iter().rev().map(|of| shards_of(gaps, of, files));
        let size = |shards: &Vec<ShardNumber>| -> u64 {
            shards.iter().map(|shard| shard.range(files)).map(|range| range.end - range.start).sum()
        };
        let shards = shards.min_by_key(size).unwrap_or_default();
        let ranges: Vec<String> = gaps.iter().map(of_range).collect();
        PartsError::Missing {
            count: gaps.iter().map(|gap| gap.end - gap.start).sum(),
            files,
            ranges: some(&ranges),
            shards: some(&shards),
            first: shards.first().map(ToString::to_string).unwrap_or_default(),
            one: shards.len() == 1,
        }
    }
}

impl CheckedPart {
    /// Returns whether a part is the one that was checked.
    pub(crate) fn is(&self, part: &PartFile) -> bool {
        self.sha256 == part.sha256()
    }
}

fn key(part: &CheckedPart) -> (u64, u64, &str) {
    (part.range.start, part.range.end, &part.sha256)
}

/// Returns a range of positions for users, who count from 1.
fn of_range(range: &Range<u64>) -> String {
    match range.end - range.start {
        1 => format!("file {}", range.end),
        _ => format!("files {} to {}", range.start + 1, range.end),
    }
}

fn some<T: ToString>(all: &[T]) -> String {
    let shown: Vec<String> = all.iter().take(NAMED).map(ToString::to_string).collect();
    let more = all.len().saturating_sub(NAMED);
    let shown = shown.join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}
