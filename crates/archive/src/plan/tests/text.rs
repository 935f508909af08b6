//! The text of extents in journals.

use crate::plan::extent::{Direction, Extent, Units};
use std::sync::Arc;

use super::super::{FileExtent, Range};
use crate::values::Scalar;

fn extent(first: Scalar, last: Scalar, units: Option<Arc<Units>>) -> Extent {
    let range =
        Range { first, last, direction: Direction::Increasing, digest: u64::MAX, units, is_even: true };
    Extent { size: 24, range: Some(range) }
}

/// Values that JSON has no number for, or that a parser might round.
fn scalars() -> Vec<Scalar> {
    let floats = [0.1 + 0.2, 1e300, 5e-324, -0.0, 3.0, f64::INFINITY, f64::NEG_INFINITY, f64::MAX];
    let text = |text: &str| Scalar::Text(Arc::new(text.to_owned()));
    let mut all: Vec<_> = floats.into_iter().map(Scalar::Float).collect();
    all.extend([i64::MIN, -1, 0, i64::MAX].map(Scalar::Int));
    all.extend([Scalar::Unsigned(u64::MAX), text(""), text("\"\\\n\u{0}é"), text("12")]);
    all
}

#[test]
fn extents_survive_their_text() {
    let units = [
        None,
        Units::of(Some("hours since 2000-01-01"), None),
        Units::of(None, Some("noleap")),
        Units::of(Some("d\"ays"), Some("")),
    ];
    for first in scalars() {
        for last in scalars() {
            for units in &units {
                let one = extent(first.clone(), last.clone(), units.clone());
                let bare = Extent { size: u64::MAX, range: None };
                for extents in [vec![], vec![one.clone()], vec![bare, one]] {
                    let extent = FileExtent(extents.into());
                    let text = serde_json::to_string(&extent).unwrap();
                    let back: FileExtent = serde_json::from_str(&text).unwrap();
                    assert_eq!(format!("{back:?}"), format!("{extent:?}"), "{text}");
                }
            }
        }
    }
    let nan = FileExtent(vec![extent(Scalar::Float(f64::NAN), Scalar::Float(f64::NAN), None)].into());
    let back: FileExtent = serde_json::from_str(&serde_json::to_string(&nan).unwrap()).unwrap();
    assert_eq!(format!("{back:?}"), format!("{nan:?}"));
}

#[test]
fn each_direction_has_a_sign() {
    for (direction, sign) in [
        (Direction::Single, "="),
        (Direction::Increasing, "+"),
        (Direction::Decreasing, "-"),
        (Direction::Neither, "?"),
    ] {
        let (first, last) = (Scalar::Int(1), Scalar::Int(1));
        let range = Range { first, last, direction, digest: 5, units: None, is_even: false };
        let extent = FileExtent(vec![Extent { size: 1, range: Some(range) }].into());
        let text = format!("[{{\"size\":1,\"range\":[1,1,\"{sign}\",5,null,null,false]}}]");
        assert_eq!(serde_json::to_string(&extent).unwrap(), text);
        assert_eq!(serde_json::from_str::<FileExtent>(&text).unwrap(), extent);
    }
}

#[test]
fn the_text_is_small_and_stable() {
    let units = Units::of(Some("hours since 2000-01-01"), None);
    let one = FileExtent(
        vec![extent(Scalar::Int(0), Scalar::Float(23.5), units), Extent { size: 1, range: None }].into(),
    );
    let text = serde_json::to_string(&one).unwrap();
    let range = r#"[0,23.5,"+",18446744073709551615,"hours since 2000-01-01",null,true]"#;
    assert_eq!(text, format!(r#"[{{"size":24,"range":{range}}},{{"size":1,"range":null}}]"#));
    for damaged in ["", "[]x", "[[24]]", "[[-1,null]]", r#"[[1,[0,0,"*",0,null,null]]]"#, r#"[[1,[0]]]"#] {
        assert!(serde_json::from_str::<FileExtent>(damaged).is_err(), "{damaged}");
    }
}
