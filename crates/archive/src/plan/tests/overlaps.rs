//! Random files along one dimension, compared with a model: a list of coordinates, each with the file that it comes from.
//! `OVERLAPS=1000000 cargo test -p virtualize-archive --lib random_overlaps` runs more than the default of 4,000.

use crate::plan::extent::{Direction, Extent, Units};
use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use super::super::{
    Block, FileExtent, Files, Known, Omitted, OnDuplicate, Plan, PlanOptions, PlannedSet, Range, Selection,
};
use crate::{
    Along, Layout,
    error::{CombineError, Note},
    values::Scalar,
};

const DAYS: &str = "days since 2000-01-01";
const HOURS: &str = "hours since 1999-12-31";

/// A file: days since 2000-01-01, in the order in which it has them, and whether they are stored in hours.
#[derive(Clone, PartialEq, Debug)]
struct File {
    days: Vec<i64>,
    in_hours: bool,
}

impl File {
    /// Random days of a window, not all of them.
    fn random(rng: &mut Rng, is_down: bool, in_hours: bool) -> Self {
        let start = rng.i64(-3..12);
        let step = if rng.u8(..6) == 0 { 2 } else { 1 };
        let mut days: Vec<i64> = (0..rng.i64(1..6)).map(|n| start + n * step).collect();
        if days.len() > 2 && rng.bool() {
            days.remove(rng.usize(1..days.len() - 1));
        }
        if is_down {
            days.reverse();
        }
        Self { days, in_hours }
    }

    /// A file with the same ends, the same number of days, and any days between them.
    fn twin(&self, rng: &mut Rng, is_down: bool, in_hours: bool) -> Self {
        let all = self.set();
        let (low, high) = (all.first().copied().unwrap(), all.last().copied().unwrap());
        let mut between: Vec<i64> = (low + 1..high).collect();
        rng.shuffle(&mut between);
        between.truncate(all.len().saturating_sub(2));
        let days: BTreeSet<i64> = between.into_iter().chain([low, high]).collect();
        let mut days: Vec<i64> = days.into_iter().collect();
        if is_down {
            days.reverse();
        }
        Self { days, in_hours }
    }

    fn scalars(&self) -> Vec<Scalar> {
        let stored = |day: &i64| if self.in_hours { (day + 1) * 24 } else { *day };
        self.days.iter().map(stored).map(Scalar::Int).collect()
    }

    fn range(&self) -> Range {
        let units = Units::of(Some(if self.in_hours { HOURS } else { DAYS }), None);
        let scalars = self.scalars();
        let direction = Direction::Single;
        let (first, last) = (scalars[0].clone(), scalars[0].clone());
        let range = Range { first, last, direction, digest: 0, units, is_even: false };
        range.part(&scalars).unwrap()
    }

    fn extent(&self) -> Extent {
        Extent { size: self.days.len() as u64, range: Some(self.range()) }
    }

    fn set(&self) -> BTreeSet<i64> {
        self.days.iter().copied().collect()
    }
}

fn plan(files: &[File], on_duplicate: OnDuplicate) -> Result<Plan, CombineError> {
    let mut planned = Files::default();
    let kind = planned.kind("storage", || "signature".to_owned());
    files.iter().for_each(|file| planned.push(kind, FileExtent(vec![file.extent()].into())));
    let coordinates = |row: u64, _: &str| Some(files[usize::try_from(row).unwrap()].scalars());
    let known = Known { coordinates: &coordinates, ..Known::nothing() };
    let layout = Layout::along(vec![Along::Concat("time".to_owned())]);
    super::super::plan(planned, &known, &layout, &PlanOptions { on_duplicate, ..PlanOptions::default() })
}

/// What the files become, or nothing if they must be refused.
fn expected(files: &[File], on_duplicate: OnDuplicate) -> Option<(PlannedSet, BTreeSet<u64>)> {
    let mut owners: BTreeMap<i64, usize> = BTreeMap::new();
    for (n, file) in files.iter().enumerate() {
        for day in &file.days {
            let owner = owners.entry(*day).or_insert(n);
            if on_duplicate == OnDuplicate::Last {
                *owner = n;
            }
        }
    }
    let total: usize = files.iter().map(|file| file.days.len()).sum();
    if on_duplicate == OnDuplicate::Error && total > owners.len() {
        return None;
    }
    // Elements of a file that come from it.
    let kept = |n: usize| -> Vec<(u64, i64)> {
        let own = (0..).zip(files[n].days.iter().copied());
        own.filter(|(_, day)| owners.get(day) == Some(&n)).collect()
    };
    let is_down =
        (0..files.len()).map(&kept).any(|kept| kept.first().map(|one| one.1) > kept.last().map(|one| one.1));
    let mut order: Vec<usize> = owners.values().copied().collect();
    if is_down {
        order.reverse();
    }
    order.dedup();
    // Each file that is left contributes one run.
    if order.iter().collect::<BTreeSet<_>>().len() < order.len() {
        return None;
    }
    let block = |(at, n): (u32, usize)| {
        let kept = kept(n);
        let (start, end) = (kept[0].0, kept[kept.len() - 1].0 + 1);
        assert_eq!(end - start, kept.len() as u64, "one run");
        let of = files[n].days.len() as u64;
        let selection = (end - start < of).then(|| vec![Some(Selection { start, end, of })].into());
        (Block { row: n as u64, at: vec![at].into(), selection }, end - start)
    };
    let (blocks, sizes): (Vec<Block>, Vec<u64>) = (0..).zip(order.iter().copied()).map(block).unzip();
    let omitted = (0..files.len()).filter(|n| !order.contains(n)).map(|n| n as u64).collect();
    let (signature, group) = ("signature".to_owned(), String::new());
    Some((PlannedSet { signature, group, sizes: vec![sizes], blocks, ..PlannedSet::default() }, omitted))
}

/// Whether two files have the same ends and other coordinates between them, which is refused.
fn have_same_ends(files: &[File]) -> bool {
    let ends = |file: &File| (file.set().first().copied(), file.set().last().copied(), file.days.len());
    files.iter().any(|one| files.iter().any(|other| ends(one) == ends(other) && one.set() != other.set()))
}

fn check(files: &[File], on_duplicate: OnDuplicate) -> &'static str {
    let case = format!("{files:?} {on_duplicate:?}");
    match (plan(files, on_duplicate), expected(files, on_duplicate)) {
        (Ok(plan), Some((set, omitted))) => {
            assert_eq!(plan.sets, [set], "{case}");
            let rows: BTreeSet<u64> = plan.omitted.iter().map(|file| file.row).collect();
            assert_eq!((rows, plan.omitted.len()), (omitted.clone(), omitted.len()), "{case}");
            let cut: Vec<_> = plan.sets[0].blocks.iter().filter(|block| block.selection.is_some()).collect();
            for block in &cut {
                let own = |note: &&Note| note.subject == block.row.to_string();
                assert_eq!(plan.notes.iter().filter(own).count(), 1, "{case}");
            }
            if cut.is_empty() { "whole" } else { "cut" }
        }
        (Err(CombineError::Subject { problem, .. }), expected) => match problem.to_string() {
            text if text.contains("covers the same range") => {
                assert!(have_same_ends(files), "{case}");
                "same ends"
            }
            text if text.contains("overlaps") || text == "duplicate coordinates" => {
                assert_eq!(expected.map(|one| one.0), None, "{case}");
                "refused"
            }
            problem => panic!("{problem} {case}"),
        },
        (Err(error), _) => panic!("{error} {case}"),
        (Ok(plan), None) => panic!("{plan:?} {case}"),
    }
}

#[test]
fn random_overlaps() {
    let cases: u64 = std::env::var("OVERLAPS").ok().and_then(|count| count.parse().ok()).unwrap_or(4_000);
    let mut found = BTreeMap::new();
    for seed in 0..cases {
        let mut rng = Rng::with_seed(seed);
        let is_down = rng.bool();
        let units = rng.u8(..3);
        let count = rng.usize(1..6);
        let mut files: Vec<File> = Vec::new();
        for _ in 0..count {
            let in_hours = units == 1 || units == 2 && rng.bool();
            let file = match files.last() {
                Some(last) if rng.u8(..4) == 0 => last.twin(&mut rng, is_down, in_hours),
                _ => File::random(&mut rng, is_down, in_hours),
            };
            files.push(file);
        }
        for on_duplicate in [OnDuplicate::Error, OnDuplicate::First, OnDuplicate::Last] {
            *found.entry(check(&files, on_duplicate)).or_insert(0) += 1;
        }
    }
    assert!(cases < 4_000 || found.len() == 4 && found.values().all(|count| *count > 50), "{found:?}");
}

fn days(days: &[i64]) -> File {
    File { days: days.to_vec(), in_hours: false }
}

#[test]
fn what_is_omitted_and_cut_is_reported() {
    let files = [days(&[0, 1, 2]), days(&[1, 2, 3, 4]), days(&[3]), days(&[0, 1, 2])];
    let found = plan(&files, OnDuplicate::First).unwrap();
    let reason = "other files have all of its coordinates time".to_owned();
    let omitted = |row: u64| Omitted { row, url: row.to_string(), reason: reason.clone() };
    assert_eq!(found.omitted, [omitted(2), omitted(3)]);
    let text = "elements 2 to 3 of 4 along time are used; other files have the others";
    assert_eq!(found.notes, [Note { subject: "1".to_owned(), text: text.to_owned() }]);
    // Files with the same coordinates that overlap no other.
    let found = plan(&[days(&[0, 1]), days(&[0, 1])], OnDuplicate::Last).unwrap();
    let reason = "it has the same coordinates as 1".to_owned();
    assert_eq!(found.omitted, [Omitted { row: 0, url: "0".to_owned(), reason }]);
    assert!(found.notes.is_empty());
}

/// The error names the two files in the order of their coordinates.
#[test]
fn refused_overlaps_name_both_files() {
    let named = |files: &[File], on_duplicate| match plan(files, on_duplicate) {
        Err(CombineError::Subject { subject, problem, .. }) => (subject, problem.to_string()),
        other => panic!("{other:?}"),
    };
    let is = |left: &str, right: &str, problem: String| (format!("{left} and {right}"), problem);
    let interleaved = || {
        "time overlaps, and their coordinates interleave, so that no contiguous selection \
         separates them"
            .to_owned()
    };
    // File 1 is within file 0.
    let within = [days(&[0, 3]), days(&[1, 2])];
    assert_eq!(named(&within, OnDuplicate::First), is("1", "0", interleaved()));
    // The first file has the day in the middle of the other.
    let middle = [days(&[1]), days(&[0, 1, 2])];
    assert_eq!(named(&middle, OnDuplicate::First), is("0", "1", interleaved()));
    let two = [days(&[0, 1, 2, 3]), days(&[5, 6]), days(&[2, 4])];
    assert_eq!(named(&two, OnDuplicate::Last), is("2", "0", interleaved()));
    // Files that go up and down.
    let second = [days(&[0, 1]), days(&[1, 2, 4, 3])];
    assert_eq!(named(&second, OnDuplicate::First), is("0", "1", interleaved()));
    let first = [days(&[0, 2, 1, 4]), days(&[4, 5])];
    assert_eq!(named(&first, OnDuplicate::First), is("1", "0", interleaved()));
    let hours = File { in_hours: true, ..days(&[0, 2, 3]) };
    let same_ends =
        "time covers the same range (2000-01-01 to 2000-01-04) in both files, with different values";
    let same_ends = same_ends.to_owned();
    assert_eq!(named(&[days(&[0, 1, 3]), hours], OnDuplicate::First), is("0", "1", same_ends));
}

/// A file whose coordinates are not all known cannot be cut.
#[test]
fn overlaps_with_missing_coordinates_are_refused() {
    let files = [days(&[0, 1]), days(&[1, 2])];
    for known in [None, Some(1)] {
        let mut planned = Files::default();
        let kind = planned.kind("storage", || "signature".to_owned());
        files.iter().for_each(|file| planned.push(kind, FileExtent(vec![file.extent()].into())));
        let coordinates = |row: u64, _: &str| {
            let mut all = files[usize::try_from(row).unwrap()].scalars();
            all.truncate(known?);
            Some(all)
        };
        let known = Known { coordinates: &coordinates, ..Known::nothing() };
        let layout = Layout::along(vec![Along::Concat("time".to_owned())]);
        let options = PlanOptions { on_duplicate: OnDuplicate::First, ..PlanOptions::default() };
        let problem = "time overlaps that of other files, and some of its values are missing";
        let error = super::super::plan(planned, &known, &layout, &options).unwrap_err();
        assert_eq!(error.to_string(), format!("0: {problem}"));
    }
}
