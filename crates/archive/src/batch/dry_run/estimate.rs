//! Extrapolates from the files of a sample to all files.

use serde::Serialize;
use virtualize::Stats;

use crate::journal::Survey;

/// Memory of a run without files, in bytes.
const BASE: u64 = 64 << 20;
/// Memory of a file whose metadata is being read, by the bytes that were fetched of it: those and what is made of them.
const TIMES_FETCHED: u64 = 3;
/// Memory of a file that is combined with others, in bytes.
const PLANNED: u64 = 300;

/// Size of a journal without files, in bytes.
const EMPTY_JOURNAL: u64 = 64 << 10;

/// Prices of requests, for a thousand of them.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Prices {
    /// Price of a thousand requests that read.
    pub get: f64,
    /// Price of a thousand requests that list.
    pub list: f64,
}

/// Prices of S3 Standard in us-east-1, in dollars.
impl Default for Prices {
    fn default() -> Self {
        Self { get: 0.0004, list: 0.005 }
    }
}

/// What reading all files would take, as estimated from a sample.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Estimate {
    /// Number of files to read.
    pub files: u64,
    /// Number of requests to read them.
    pub requests: u64,
    /// Number of requests to list the inputs.
    pub listings: u64,
    /// Bytes fetched.
    pub bytes: u64,
    /// Seconds to read the files.
    pub seconds: f64,
    /// Memory of the run in bytes.
    pub memory: u64,
    /// Size of the journal in bytes, with the files that it has.
    pub journal: u64,
    /// Price of the requests; 0 for files that are not in a bucket.
    pub cost: f64,
}

/// What reading the sample took.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Measured {
    /// Number of files, those that failed included.
    pub(super) files: u64,
    /// Number of files that were read.
    pub(super) read: u64,
    /// Number of those that are in buckets.
    pub(super) in_buckets: u64,
    /// Requests and bytes.
    pub(super) stats: Stats,
    /// Durations of all files that were read together.
    pub(super) seconds: f64,
    /// Bytes that they take in the journal.
    pub(super) journal: u64,
}

/// How a run reads files.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Conditions {
    pub(super) at_once: u64,
    pub(super) cores: u64,
    pub(super) prices: Prices,
    /// Number of requests that listed the inputs.
    pub(super) listings: u64,
}

/// Returns the estimate; `None` if no file of the sample could be read.
pub(super) fn estimate(survey: &Survey, measured: &Measured, how: &Conditions) -> Option<Estimate> {
    let Measured { files, read, in_buckets, stats, seconds, journal } = *measured;
    if read == 0 {
        return None;
    }
    let all = number(survey.to_read) / number(files);
    let requests = number(stats.requests) * all;
    let at_once = how.at_once.min(survey.to_read).max(1);
    // Waiting overlaps as far as files are read at once; computing, as far as there are cores.
    let seconds = seconds / number(read);
    let computing = (seconds - (stats.seconds + stats.retries.seconds) / number(files)).max(0.0);
    let wall = (seconds / number(at_once)).max(computing / number(how.cores.min(at_once).max(1)));
    let billed = number(in_buckets) / number(files);
    let fetched = stats.bytes / files;
    Some(Estimate {
        files: survey.to_read,
        requests: rounded(requests),
        listings: how.listings,
        bytes: rounded(number(stats.bytes) * all),
        seconds: wall * number(survey.to_read),
        memory: BASE
            .saturating_add(at_once.saturating_mul(fetched).saturating_mul(TIMES_FETCHED))
            .saturating_add(survey.files.saturating_mul(PLANNED)),
        journal: rounded(number(journal) * number(survey.files) / number(read)).saturating_add(EMPTY_JOURNAL),
        cost: (requests * billed * how.prices.get + number(how.listings) * how.prices.list) / 1000.0,
    })
}

#[expect(clippy::cast_precision_loss, reason = "estimates have few digits")]
fn number(count: u64) -> f64 {
    count as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn rounded(count: f64) -> u64 {
    count.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_like_those_of_the_sample() {
        let survey = Survey { files: 5000, to_read: 4000, ..Survey::default() };
        let stats = Stats { requests: 60, bytes: 2000, seconds: 8.0, ..Stats::default() };
        let measured = Measured { files: 20, read: 20, in_buckets: 10, stats, seconds: 10.0, journal: 8000 };
        let prices = Prices { get: 1.0, list: 10.0 };
        let how = Conditions { at_once: 64, cores: 2, prices, listings: 5 };
        let found = estimate(&survey, &measured, &how).unwrap();
        assert_eq!((found.files, found.requests, found.bytes), (4000, 12_000, 400_000));
        // 0.1 s of computing a file on two cores take longer than 0.5 s of 64 files at once.
        assert!((found.seconds - 4000.0 * 0.1 / 2.0).abs() < 1e-6, "{}", found.seconds);
        assert_eq!(found.journal, 2_000_000 + EMPTY_JOURNAL);
        // Half of the requests are billed, and the listings.
        assert!((found.cost - (6.0 + 0.05)).abs() < 1e-9, "{}", found.cost);
        let slow = Conditions { at_once: 4, ..how };
        assert!((estimate(&survey, &measured, &slow).unwrap().seconds - 500.0).abs() < 1e-6);
        assert_eq!(estimate(&survey, &Measured::default(), &how), None);
    }
}
