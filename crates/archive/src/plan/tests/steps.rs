//! The order of files by their coordinates, and the notes about it.

use super::{
    super::{FileExtent, Files, Plan, Range},
    plan::{brief, extent, planned},
};
use crate::plan::extent::{Direction, Extent};
use crate::{error::CombineError, values::Scalar};

/// First and last coordinate of a file, of any type.
fn of(first: Scalar, last: Scalar) -> Extent {
    let direction = if first == last { Direction::Single } else { Direction::Increasing };
    Extent { size: 2, range: Some(Range { first, last, direction, digest: 0, units: None, is_even: false }) }
}

fn plan_of(extents: impl IntoIterator<Item = Extent>) -> Result<Plan, CombineError> {
    planned(extents.into_iter().map(|extent| brief(vec![extent])).collect())
}

fn rows(plan: &Plan) -> Vec<u64> {
    plan.sets[0].blocks.iter().map(|block| block.row).collect()
}

fn text(text: &str) -> Scalar {
    Scalar::Text(std::sync::Arc::new(text.to_owned()))
}

/// Numbers of several types are compared as numbers, by their exact values.
#[test]
fn coordinates_of_several_types() {
    use Scalar::{Float, Int, Unsigned};
    let kinds = || Err("coordinates time of different kinds".to_owned());
    let large = (1_i64 << 53) + 1;
    let cases = [
        ([(Float(3.0), Float(4.0)), (Int(1), Int(2))], Ok(vec![1, 0])),
        ([(Float(3.5), Float(4.0)), (Int(1), Int(2))], Ok(vec![1, 0])),
        ([(Int(3), Float(4.5)), (Int(1), Int(2))], Ok(vec![1, 0])),
        ([(Float(3.5), Float(4.0)), (Float(1.0), Float(2.0))], Ok(vec![1, 0])),
        ([(Unsigned(u64::MAX), Unsigned(u64::MAX)), (Int(-1), Int(2))], Ok(vec![1, 0])),
        // All are whole: a number that no float holds can be compared.
        ([(Int(large), Int(large)), (Float(1.0), Float(2.0))], Ok(vec![1, 0])),
        ([(Int(large), Int(large)), (Float(1.5), Float(2.0))], kinds()),
        ([(text("b"), text("c")), (text("a"), text("aa"))], Ok(vec![1, 0])),
        ([(text("b"), text("c")), (Int(1), Int(2))], kinds()),
        ([(Int(1), Int(2)), (text("b"), text("c"))], kinds()),
        ([(Float(1.5), Float(2.5)), (text("b"), text("c"))], kinds()),
        ([(Int(1), Int(2)), (Int(3), text("c"))], kinds()),
    ];
    for (ends, expected) in cases {
        let case = format!("{ends:?}");
        let found = plan_of(ends.map(|(first, last)| of(first, last)));
        let found = match found {
            Ok(plan) => Ok(rows(&plan)),
            Err(CombineError::Subject { problem, .. }) => Err(problem.to_string()),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(found, expected, "{case}");
    }
}

/// Errors that name coordinates show dates where units are times, and units where they are not.
#[test]
fn coordinates_are_printed_as_people_write_them() {
    let shown = |units: Option<&str>, one: (i64, i64), other: (i64, i64)| {
        let extents = [one, other].map(|(first, last)| extent(first, last, units));
        match plan_of(extents) {
            Err(CombineError::Subject { problem, .. }) => {
                let text = problem.to_string();
                let ends = text.strip_prefix("time overlaps: ").and_then(|ends| ends.split_once(" and "));
                let (left, right) = ends.unwrap();
                (left.to_owned(), right.to_owned())
            }
            other => panic!("{other:?}"),
        }
    };
    let is = |left: &str, right: &str| (left.to_owned(), right.to_owned());
    assert_eq!(shown(None, (0, 4), (3, 3)), is("0 to 4", "3"));
    assert_eq!(shown(Some("m"), (0, 4), (3, 3)), is("0 to 4 m", "3 m"));
    let days = shown(Some("days since 2000-01-01"), (0, 4), (3, 3));
    assert_eq!(days, is("2000-01-01 to 2000-01-05", "2000-01-04"));
    // A date after the year 9999 is none.
    let far = shown(Some("days since 2000-01-01"), (0, 4_000_000), (3, 3));
    assert_eq!(far, is("0 to 4000000 days since 2000-01-01", "2000-01-04"));
}

/// Notes on steps, by the first and last coordinates and the number of elements of each file.
fn notes(files: &[(i64, i64, u64)]) -> Vec<String> {
    let sized = |(first, last, size): &(i64, i64, u64)| Extent { size: *size, ..extent(*first, *last, None) };
    plan_of(files.iter().map(sized)).unwrap().notes.into_iter().map(|note| note.text).collect()
}

#[test]
fn the_usual_step_is_the_most_frequent_one() {
    // Steps within the files are 2, and between them 12.
    assert_eq!(
        notes(&[(0, 8, 5), (20, 28, 5)]),
        ["6 times the usual step between 0 to 8 (0.nc) and 20 to 28 (1.nc)"]
    );
    // Single elements have no step of their own.
    assert_eq!(notes(&[(0, 0, 1), (12, 12, 1)]), [""; 0]);
    let singles = |times: &[i64]| notes(&times.iter().map(|time| (*time, *time, 1)).collect::<Vec<_>>());
    // 40, 42, 44, 46 and 50 are alike (at most a quarter apart), and 44 is in their middle.
    assert_eq!(
        singles(&[0, 40, 82, 126, 172, 222, 332]),
        ["2.5 times the usual step between 222 (5.nc) and 332 (6.nc)"]
    );
    // A shorter step changes nothing.
    assert_eq!(
        singles(&[0, 1, 41, 83, 127, 173, 223, 333]),
        [
            "0.023 times the usual step between 0 (0.nc) and 1 (1.nc)",
            "2.5 times the usual step between 223 (6.nc) and 333 (7.nc)"
        ]
    );
    // 40 and 50 are alike, and so are 50 and 51: of several the shortest is the usual one.
    assert_eq!(singles(&[0, 40, 90, 141]), ["1.275 times the usual step between 90 (2.nc) and 141 (3.nc)"]);
    // The most frequent step, not the longest of them.
    assert_eq!(
        singles(&[0, 1, 2, 3, 13, 23]),
        [
            "10 times the usual step between 3 (3.nc) and 13 (4.nc)",
            "10 times the usual step between 13 (4.nc) and 23 (5.nc)"
        ]
    );
    // Steps of three quarters and of five quarters are usual, those beyond are not.
    assert_eq!(singles(&[0, 4, 8, 12, 15, 20, 24]), [""; 0]);
    assert_eq!(
        notes(&[(0, 400, 5), (474, 874, 5), (1000, 1400, 5), (1475, 1875, 5), (2000, 2400, 5)]),
        [
            "0.74 times the usual step between 0 to 400 (0.nc) and 474 to 874 (1.nc)",
            "1.26 times the usual step between 474 to 874 (1.nc) and 1000 to 1400 (2.nc)"
        ]
    );
    // Of two steps the shorter one.
    assert_eq!(singles(&[0, 10, 30]), ["2 times the usual step between 10 (1.nc) and 30 (2.nc)"]);
    // Steps that a double does not tell apart are none.
    assert_eq!(singles(&[1 << 60, (1 << 60) + 1, (1 << 60) + 2]), [""; 0]);
}

#[test]
fn twenty_irregular_steps_are_listed() {
    let with = |odd: i64| {
        let odds = (0..odd).map(|n| (1000 + n * 10, 1000 + n * 10, 1));
        let usual = (0..30).map(|n| (n, n, 1));
        notes(&usual.chain(odds).collect::<Vec<_>>())
    };
    assert_eq!(with(19).len(), 19);
    assert_eq!(with(20).len(), 20);
    assert!(with(20).iter().all(|text| text.contains("times the usual step between")));
    let more = with(22);
    assert_eq!((more.len(), more[20].as_str()), (21, "22 irregular steps in all"));
}

/// Units are kept once, however many files have them.
#[test]
fn files_share_their_units() {
    let mut files = Files::default();
    let kind = files.kind("storage", || "signature".to_owned());
    for units in ["m", "km", "m", "m", "km"] {
        files.push(kind, FileExtent(vec![extent(0, 1, Some(units))].into()));
    }
    assert_eq!(files.len(), 5);
    let of = |file| files.extent(file).unwrap().range(0).unwrap().units.clone().unwrap();
    let same = |one, other| std::sync::Arc::ptr_eq(&of(one), &of(other));
    assert!(same(0, 2) && same(0, 3) && same(1, 4) && !same(0, 1));
    let text = |file| of(file).units.clone();
    assert_eq!([0, 1, 4].map(text), ["m", "km", "km"].map(|units| Some(units.to_owned())));
}
