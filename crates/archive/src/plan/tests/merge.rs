//! Sets that can be put together: what it costs to find them.

use crate::plan::extent::{Direction, Extent};
use std::cell::Cell;

use super::{
    super::{FileExtent, Files, Known, OnDuplicate, PlanOptions, Range, Signatures, plan},
    sets::signature,
};
use crate::{Along, Layout, compat::Signature, values::Scalar};

/// A kind of files that differs from the others in codecs alone.
fn kind(number: usize, is_read: bool) -> Signature {
    signature().codec(&format!("codec {number}")).change(|array, stored| {
        array.chunks = Some(vec![serde_json::Value::Null]);
        stored.is_read = is_read;
    })
}

/// Files of two times each, of which the second is the next one's first; their kinds by turns.
fn files(kinds: &[Signature], count: usize) -> Files {
    let mut files = Files::default();
    for row in 0..count {
        let kind = &kinds[row % kinds.len()];
        let range = Range {
            first: Scalar::Unsigned(row as u64),
            last: Scalar::Unsigned(row as u64 + 1),
            direction: Direction::Increasing,
            digest: row as u64,
            units: None,
            is_even: false,
        };
        let kind = files.kind(&kind.storage_digest(), || kind.digest());
        files.push(kind, FileExtent(vec![Extent { size: 2, range: Some(range) }].into()));
    }
    files
}

/// Number of sets, and how often the coordinates of a file were requested, each file counted.
fn planned(kinds: &[Signature], count: usize) -> (usize, usize) {
    let layout = Layout::along(vec![Along::Concat("time".to_owned())]);
    let comparisons = Cell::new(0);
    let coordinates = |row: u64, _: &str| {
        comparisons.set(comparisons.get() + 1);
        Some(vec![Scalar::Unsigned(row), Scalar::Unsigned(row + 1)])
    };
    let by_kind: Signatures = kinds.iter().map(|kind| (kind.storage_digest(), kind.clone())).collect();
    let known = Known { signatures: by_kind, coordinates: &coordinates, ..Known::nothing() };
    let options = PlanOptions {
        on_duplicate: OnDuplicate::First,
        on_mismatch: super::super::OnMismatch::Split,
        ..PlanOptions::default()
    };
    let plan = plan(files(kinds, count), &known, &layout, &options).unwrap();
    (plan.sets.len(), comparisons.get())
}

#[test]
fn many_sets_that_agree_are_one_and_each_file_is_looked_at_a_few_times() {
    let kinds: Vec<_> = (0..256).map(|number| kind(number, true)).collect();
    let (sets, comparisons) = planned(&kinds, 256 * 10);
    assert_eq!(sets, 1);
    // Once to find that they are one, once or twice to place them.
    assert!(comparisons <= 3 * 256 * 10, "{comparisons}");
}

#[test]
fn many_sets_that_do_not_agree_stay_so() {
    let kinds: Vec<_> = (0..64).map(|number| kind(number, false)).collect();
    let (sets, comparisons) = planned(&kinds, 64 * 10);
    assert_eq!(sets, 64);
    assert!(comparisons <= 3 * 64 * 10, "{comparisons}");
    let mut kinds: Vec<_> = (0..64).map(|number| kind(number, number % 2 == 0)).collect();
    kinds.push(kind(1000, true));
    assert_eq!(planned(&kinds, 65 * 4).0, 33, "those that are read are one");
}
