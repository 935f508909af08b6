use std::collections::BTreeSet;

use serde_json::json;

use super::groups::{Eras, Seen};
use crate::{
    Layout,
    compat::tests::{attribute, layout, member},
};

#[test]
fn files_that_lack_an_optional_array_are_of_the_first_group() {
    let optional = Layout { optional: BTreeSet::from(["t2m".to_owned()]), ..layout() };
    let (one, mut without, mut other) = (member(0, 31), member(31, 28), member(59, 31));
    without.hierarchy.root.children.remove("t2m");
    attribute(&mut other, "t2m", "scale_factor", json!(0.5));
    let mut eras = Eras::default();
    for member in [&one, &without, &other] {
        eras.add(Seen::of(member, &optional));
    }
    // A file without the array is compatible with the first; one with a different scale is not.
    let stretches = eras.stretches();
    assert_eq!(
        stretches.iter().map(|stretch| (stretch.era, stretch.files.len())).collect::<Vec<_>>(),
        [(0, 2), (1, 1)]
    );
    let differences = stretches[1].differences.as_ref().unwrap();
    assert_eq!(differences[0].to_string(), "/t2m: attribute scale_factor: 0.01 → 0.5");
}

#[test]
fn eras_are_in_the_order_of_their_coordinates() {
    let mut eras = Eras::default();
    // Listed in another order; the third month belongs to another era, and has another reference day.
    for (day, days, scale) in [(60, 31, 0.01), (0, 31, 0.01), (91, 30, 0.01), (31, 29, 0.02)] {
        let mut member = member(day, days);
        attribute(&mut member, "t2m", "scale_factor", json!(scale));
        eras.add(Seen::of(&member, &layout()));
    }
    assert!(eras.is_ordered());
    let stretches = eras.stretches();
    let said: Vec<_> = stretches
        .iter()
        .map(|stretch| (stretch.era, stretch.files.clone(), stretch.coordinates[0].unwrap()))
        .collect();
    assert_eq!(
        said,
        [
            (0, vec!["file:///0.nc"], ("2000-01-01", "2000-01-31")),
            (1, vec!["file:///31.nc"], ("2000-02-01", "2000-02-29")),
            (0, vec!["file:///60.nc", "file:///91.nc"], ("2000-03-01", "2000-04-30")),
        ]
    );
    assert_eq!(eras.eras()[0].extents, [[30, 31, 92]]);
    assert_eq!((eras.eras()[0].files, eras.eras()[0].bytes, eras.len()), (3, 300, 4));
    assert!(stretches[0].differences.is_none());
    let back: Vec<_> =
        stretches[2].differences.iter().flat_map(|all| all.iter()).map(ToString::to_string).collect();
    assert_eq!(back, ["/t2m: attribute scale_factor: 0.02 → 0.01"]);
}
