//! Shards of a listing, and the files that none of them covers.

use std::{fmt, ops::Range, str::FromStr};

use serde::{Deserialize, Serialize};

use super::PartsError;

/// A shard of a listing: one of `of` contiguous ranges of nearly equal length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct ShardNumber {
    /// Number of the shard, from 1.
    pub number: u64,
    /// Number of shards.
    pub of: u64,
}

impl ShardNumber {
    /// Returns a shard that exists.
    ///
    /// # Errors
    /// [`PartsError::Shard`].
    pub(crate) fn new(number: u64, of: u64) -> Result<Self, PartsError> {
        match (1..=of).contains(&number) {
            true => Ok(Self { number, of }),
            false => Err(PartsError::Shard { number, of }),
        }
    }

    /// Returns the positions of its files in a listing of `files` files.
    pub fn range(self, files: u64) -> Range<u64> {
        let bound = |number: u64| {
            let at = u128::from(number.min(self.of)) * u128::from(files) / u128::from(self.of.max(1));
            u64::try_from(at).unwrap_or(files)
        };
        bound(self.number.saturating_sub(1))..bound(self.number)
    }
}

impl fmt::Display for ShardNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for ShardNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        let shard = parts.map(|(number, of)| Self { number, of });
        let shard = shard.filter(|shard| (1..=shard.of).contains(&shard.number));
        shard.ok_or_else(|| "expected K/N, with K from 1 to N, such as 3/10".to_owned())
    }
}

/// Returns the number of files of a shard that suits a listing of `files` files: 1,000 to 10,000 if there are enough
/// files for 16 workers, else at least 250.
pub fn shard_size(files: u64) -> u64 {
    (files / 256).max((files / 16).min(1000)).clamp(250, 10_000)
}

/// Returns the ranges of positions that `covered` leaves out of `0..files`.
pub(super) fn gaps(mut covered: Vec<Range<u64>>, files: u64) -> Vec<Range<u64>> {
    covered.sort_by_key(|range| (range.start, range.end));
    let (mut gaps, mut end) = (Vec::new(), 0);
    for range in covered.into_iter().filter(|range| !range.is_empty()) {
        if range.start > end {
            gaps.push(end..range.start);
        }
        end = end.max(range.end);
    }
    if end < files {
        gaps.push(end..files);
    }
    gaps
}

/// Returns the positions that are in ranges of both. Each must be in ascending order, without overlaps.
pub(super) fn overlaps(one: &[Range<u64>], other: &[Range<u64>]) -> Vec<Range<u64>> {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut both = Vec::new();
    while let (Some(first), Some(second)) = (one.peek(), other.peek()) {
        let range = first.start.max(second.start)..first.end.min(second.end);
        if first.end <= second.end {
            one.next()
        } else {
            other.next()
        };
        if !range.is_empty() {
            both.push(range);
        }
    }
    both
}

/// Returns the shards of `of` that have files in the gaps.
pub(crate) fn shards_of(gaps: &[Range<u64>], of: u64, files: u64) -> Vec<ShardNumber> {
    let mut shards = Vec::new();
    for gap in gaps {
        let mut position = gap.start;
        while position < gap.end {
            let shard = ShardNumber { number: first_shard(position, of, files), of };
            shards.push(shard);
            position = shard.range(files).end;
        }
    }
    shards.dedup();
    shards
}

/// Returns the number of the shard that has a position.
fn first_shard(position: u64, of: u64, files: u64) -> u64 {
    let (mut low, mut high) = (1, of.max(1));
    while low < high {
        let middle = low.midpoint(high);
        match (ShardNumber { number: middle, of }).range(files).end > position {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_divide_a_listing() {
        for files in [0, 1, 2, 7, 100, 1001] {
            for of in [1, 2, 3, 7, 64, 200] {
                let shards: Vec<_> = (1..=of).map(|number| ShardNumber { number, of }).collect();
                let ranges: Vec<_> = shards.iter().map(|shard| shard.range(files)).collect();
                assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
                assert_eq!((ranges[0].start, ranges[ranges.len() - 1].end), (0, files));
                assert_eq!(gaps(ranges.clone(), files), []);
                for missing in 0..ranges.len() {
                    let others = ranges.iter().enumerate().filter(|(at, _)| *at != missing);
                    let gaps = gaps(others.map(|(_, range)| range.clone()).collect(), files);
                    let expected: Vec<_> = shards
                        .iter()
                        .skip(missing)
                        .take(usize::from(!ranges[missing].is_empty()))
                        .copied()
                        .collect();
                    assert_eq!(shards_of(&gaps, of, files), expected);
                }
            }
        }
    }

    #[test]
    fn sizes_of_shards() {
        let sizes = [1, 3_999, 8_000, 16_000, 300_000, 10_000_000].map(shard_size);
        assert_eq!(sizes, [250, 250, 500, 1_000, 1_171, 10_000]);
    }

    #[test]
    fn positions_in_both() {
        let pairs = |ranges: &[Range<u64>]| ranges.iter().flat_map(Clone::clone).collect::<Vec<_>>();
        let ranges = |bits: u32| -> Vec<Range<u64>> {
            let all: Vec<_> = (0..8).filter(|bit| bits & (1 << bit) != 0).map(|at| at..at + 1).collect();
            gaps(gaps(all, 8), 8)
        };
        for one in 0..256 {
            for other in [0, 0x0f, 0x5a, 0xff, 0x81, 0x3c] {
                assert_eq!(pairs(&overlaps(&ranges(one), &ranges(other))), pairs(&ranges(one & other)));
            }
        }
    }

    #[test]
    fn shards_are_written_as_fractions() {
        assert_eq!("3/10".parse(), Ok(ShardNumber { number: 3, of: 10 }));
        for wrong in ["0/3", "4/3", "3", "1/0", "a/b", "-1/2", "1/2/3"] {
            assert!(wrong.parse::<ShardNumber>().is_err(), "{wrong}");
        }
    }
}
