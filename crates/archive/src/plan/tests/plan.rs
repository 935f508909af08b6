//! Places of files by what is known of them.

use super::super::{FileExtent, Files, Known, OnDuplicate, OnMismatch, Plan, PlanOptions, Range};
use crate::plan::extent::{Direction, Extent, Units};
use crate::{Along, Layout, error::CombineError, values::Scalar};

pub(super) fn layout() -> Layout {
    Layout::along(vec![Along::Concat("time".to_owned())])
}

pub(super) fn nested() -> Layout {
    Layout::along(vec![Along::Stack("member".to_owned()), Along::Concat("time".to_owned())])
}

/// From a first to a last number.
pub(super) fn extent(first: i64, last: i64, units: Option<&str>) -> Extent {
    let direction = match first.cmp(&last) {
        std::cmp::Ordering::Less => Direction::Increasing,
        std::cmp::Ordering::Equal => Direction::Single,
        std::cmp::Ordering::Greater => Direction::Decreasing,
    };
    let range = Range {
        first: Scalar::Int(first),
        last: Scalar::Int(last),
        direction,
        digest: 0,
        units: Units::of(units, None),
        is_even: false,
    };
    Extent { size: first.abs_diff(last) + 1, range: Some(range) }
}

/// A file of a signature.
#[derive(Clone)]
pub(super) struct Brief {
    signature: &'static str,
    pub(super) extents: Vec<Extent>,
}

pub(super) fn brief(extents: Vec<Extent>) -> Brief {
    Brief { signature: "a", extents }
}

/// Files from a first to a last time.
pub(super) fn files(ranges: &[(i64, i64)]) -> Vec<Brief> {
    ranges.iter().map(|(first, last)| brief(vec![extent(*first, *last, None)])).collect()
}

pub(super) fn plan(briefs: Vec<Brief>, layout: &Layout, options: &PlanOptions) -> Result<Plan, CombineError> {
    let mut files = Files::default();
    for Brief { signature, extents } in briefs {
        let kind = files.kind(signature, || signature.to_owned());
        files.push(kind, FileExtent(extents.into()));
    }
    let known = Known { url: &|row| format!("{row}.nc"), ..Known::nothing() };
    super::super::plan(files, &known, layout, options)
}

pub(super) fn planned(briefs: Vec<Brief>) -> Result<Plan, CombineError> {
    plan(briefs, &layout(), &PlanOptions::default())
}

/// Rows of the first set, in order.
fn rows(plan: &Plan) -> Vec<u64> {
    plan.sets[0].blocks.iter().map(|block| block.row).collect()
}

#[test]
fn files_follow_their_coordinates() {
    let up = planned(files(&[(8, 9), (0, 3), (4, 7)])).unwrap();
    assert_eq!((rows(&up), up.sets[0].sizes.clone()), (vec![1, 2, 0], vec![vec![4, 4, 2]]));
    assert!(up.notes.is_empty(), "{:?}", up.notes);
    let down = planned(files(&[(3, 0), (9, 8), (7, 4)])).unwrap();
    assert_eq!(rows(&down), [1, 2, 0]);
    let single = planned(files(&[(5, 5), (3, 3), (4, 4)])).unwrap();
    assert_eq!(rows(&single), [1, 2, 0]);
    // A single coordinate follows the order of the others.
    assert_eq!(rows(&planned(files(&[(5, 5), (9, 6), (4, 1)])).unwrap()), [1, 0, 2]);
}

#[test]
fn files_that_overlap_are_refused() {
    for ranges in
        [&[(0, 4), (4, 8)][..], &[(0, 9), (3, 4)], &[(0, 4), (0, 8)], &[(0, 4), (9, 5)], &[(9, 4), (4, 0)]]
    {
        let error = planned(files(ranges)).unwrap_err();
        assert!(matches!(error, CombineError::Subject { .. }), "{ranges:?}: {error}");
    }
    let mut odd = files(&[(0, 4)]);
    odd[0].extents[0].range.as_mut().unwrap().direction = Direction::Neither;
    assert!(planned(odd).unwrap_err().to_string().contains("neither increases nor decreases"));
}

#[test]
fn some_with_and_some_without_coordinates_are_refused() {
    let mut some = files(&[(0, 4), (5, 9)]);
    some[1].extents[0].range = None;
    assert!(planned(some).unwrap_err().to_string().contains("1.nc: the second file has no coordinate time"));
    let mut none = files(&[(5, 9), (0, 4)]);
    for brief in &mut none {
        brief.extents[0].range = None;
    }
    assert_eq!(rows(&planned(none).unwrap()), [0, 1]);
}

#[test]
fn duplicates() {
    let twice = || files(&[(0, 4), (5, 9), (5, 9)]);
    assert!(planned(twice()).unwrap_err().to_string().contains("duplicate coordinates"));
    for (on_duplicate, kept, out) in [(OnDuplicate::First, [0, 1], 2), (OnDuplicate::Last, [0, 2], 1)] {
        let options = PlanOptions { on_duplicate, ..PlanOptions::default() };
        let plan = plan(twice(), &layout(), &options).unwrap();
        assert_eq!((rows(&plan), plan.omitted[0].row), (kept.to_vec(), out));
    }
    let mut others = twice();
    others[2].extents[0].range.as_mut().unwrap().digest = 1;
    let options = PlanOptions { on_duplicate: OnDuplicate::First, ..PlanOptions::default() };
    let error = plan(others, &layout(), &options).unwrap_err();
    assert!(error.to_string().contains("with different values"), "{error}");
}

#[test]
fn gaps_are_noted() {
    let plan = planned(files(&[(0, 3), (4, 7), (10, 13)])).unwrap();
    assert_eq!(plan.notes.len(), 1);
    assert!(
        plan.notes[0].text.starts_with("3 times the usual step between 4 to 7 (1.nc)"),
        "{}",
        plan.notes[0].text
    );
}

#[test]
fn files_of_length_0_are_omitted() {
    let mut all = files(&[(0, 3), (4, 7)]);
    all[0].extents[0] = Extent { size: 0, range: None };
    let plan = planned(all).unwrap();
    assert_eq!((rows(&plan), plan.omitted[0].row), (vec![1], 0));
    assert_eq!(planned(Vec::new()).unwrap_err(), CombineError::Nothing);
}

#[test]
fn sets() {
    let mixed = || {
        let mut all = files(&[(0, 3), (4, 7), (8, 9)]);
        all[1].signature = "b";
        all
    };
    assert!(matches!(planned(mixed()).unwrap_err(), CombineError::Sets { sets } if sets.len() == 2));
    let with = |on_mismatch| plan(mixed(), &layout(), &PlanOptions { on_mismatch, ..PlanOptions::default() });
    let split = with(OnMismatch::Split).unwrap();
    let groups: Vec<_> = split.sets.iter().map(|set| (set.group.as_str(), set.blocks.len())).collect();
    assert_eq!(groups, [("set_0", 2), ("set_1", 1)]);
    let skip = with(OnMismatch::Skip).unwrap();
    assert_eq!((rows(&skip), skip.omitted[0].row, skip.sets[0].group.as_str()), (vec![0, 2], 1, ""));
}

#[test]
fn other_units_are_compared_as_times() {
    let of = |first, last, units| brief(vec![extent(first, last, Some(units))]);
    // 2000-01-03 and 2000-01-02.
    let later = of(2, 2, "days since 2000-01-01");
    let plan = planned(vec![later.clone(), of(24, 30, "hours since 2000-01-01")]).unwrap();
    assert_eq!(rows(&plan), [1, 0]);
    let error = planned(vec![later.clone(), of(24, 50, "hours since 2000-01-01")]).unwrap_err();
    assert!(error.to_string().contains("overlaps"), "{error}");
    let error = planned(vec![later.clone(), of(2880, 2880, "minutes since 2000-01-01")]).unwrap_err();
    assert!(error.to_string().contains("duplicate coordinates"), "{error}");
    let error = planned(vec![later, of(1, 1, "months since 2000-01-01")]).unwrap_err();
    assert!(error.to_string().contains("cannot be compared"), "{error}");
}

#[test]
fn an_arrangement_of_two_dimensions() {
    let at = |member, first, last| brief(vec![extent(member, member, None), extent(first, last, None)]);
    let all = || vec![at(7, 4, 5), at(3, 0, 3), at(7, 0, 3), at(3, 4, 5)];
    let whole = plan(all(), &nested(), &PlanOptions::default()).unwrap();
    let places: Vec<_> = whole.sets[0].blocks.iter().map(|block| (block.row, block.at.to_vec())).collect();
    assert_eq!(places, [(1, vec![0, 0]), (3, vec![0, 1]), (2, vec![1, 0]), (0, vec![1, 1])]);
    let mut holes = all();
    holes.remove(0);
    let error = plan(holes.clone(), &nested(), &PlanOptions::default()).unwrap_err();
    assert_eq!(error, CombineError::Holes { count: 1, first: "member 7, time 4".to_owned() });
    let options = PlanOptions { allow_holes: true, ..PlanOptions::default() };
    assert_eq!(plan(holes, &nested(), &options).unwrap().sets[0].blocks.len(), 3);
    let mut uneven = all();
    uneven[0].extents[1].size = 3;
    assert!(plan(uneven, &nested(), &PlanOptions::default()).is_err());
}

/// Notes about steps, for files of such times.
fn gaps(ranges: &[(i64, i64)], units: Option<&str>) -> Vec<String> {
    let briefs = ranges.iter().map(|(first, last)| brief(vec![extent(*first, *last, units)])).collect();
    planned(briefs).unwrap().notes.into_iter().map(|note| note.text).collect()
}

#[test]
fn a_gap_is_where_a_file_is_missing() {
    let single = |times: &[i64]| times.iter().map(|time| (*time, *time)).collect::<Vec<_>>();
    assert_eq!(
        gaps(&single(&[5, 6, 8]), None),
        ["2 times the usual step between 6 (1.nc) and 8 (2.nc)"],
        "of two steps the shorter is the usual one"
    );
    assert_eq!(gaps(&single(&[5, 7, 8]), None), ["2 times the usual step between 5 (0.nc) and 7 (1.nc)"]);
    assert_eq!(gaps(&single(&[5, 7]), None), [""; 0]);
    assert_eq!(
        gaps(&single(&[0, 31, 59, 90, 120, 181]), None),
        ["2.033 times the usual step between 120 (4.nc) and 181 (5.nc)"]
    );
    let days = gaps(&single(&[5, 6, 8]), Some("days since 2000-01-01"));
    assert_eq!(days, ["2 times the usual step between 2000-01-07 (1.nc) and 2000-01-09 (2.nc)"]);
    // Several elements a file, going up and down.
    assert_eq!(
        gaps(&[(0, 3), (4, 7), (12, 15)], None),
        ["5 times the usual step between 4 to 7 (1.nc) and 12 to 15 (2.nc)"]
    );
    assert_eq!(
        gaps(&[(15, 12), (7, 4), (3, 0)], None),
        ["5 times the usual step between 15 to 12 (0.nc) and 7 to 4 (1.nc)"]
    );
    assert_eq!(
        gaps(&[(0, 1), (2, 2), (3, 3), (5, 5)], None),
        ["2 times the usual step between 3 (2.nc) and 5 (3.nc)"]
    );
}
