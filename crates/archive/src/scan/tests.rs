#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::groups::{FileSets, group, record};
use crate::{
    Layout, Member,
    compat::tests::{attribute, layout, member},
    journal::{Accept, Done, Journal, Listing},
};

/// Groups files as a scan does.
fn sets(members: &[Member], layout: &Layout) -> FileSets {
    let mut journal = Journal::temporary().unwrap();
    let items: Vec<_> = members.iter().map(|member| member.item.clone()).collect();
    journal.stage(&items, &mut Listing::default()).unwrap();
    journal.accept(Accept::default(), &BTreeMap::new(), None).unwrap();
    let works = journal.works(journal.pending().unwrap()).unwrap();
    let ended = works.into_iter().zip(members).map(|(work, member)| {
        let done = Done {
            opened: work.item.clone(),
            replaced: false,
            attempts: 1,
            seconds: 0.0,
            requests: 1,
            retries: 0,
            bytes: 1,
            warnings: Vec::new(),
            related: BTreeMap::new(),
            record: record(member, layout).unwrap(),
        };
        (work, Ok(Box::new(done)))
    });
    journal.finish(ended.collect()).unwrap();
    group(&journal, layout).unwrap().0
}

#[test]
fn files_without_an_optional_array_join_the_first_set() {
    let optional = Layout { optional: BTreeSet::from(["t2m".to_owned()]), ..layout() };
    let (one, mut without, mut other) = (member(0, 31), member(31, 28), member(59, 31));
    without.hierarchy.root.children.remove("t2m");
    attribute(&mut other, "t2m", "units", json!("degC"));
    let sets = sets(&[one, without, other], &optional);
    // A file without the array is compatible with the first; one with other units is not.
    let runs = sets.runs();
    assert_eq!(runs.iter().map(|run| (run.set, run.files.len())).collect::<Vec<_>>(), [(0, 2), (1, 1)]);
    let differences = runs[1].differences.as_ref().unwrap();
    assert_eq!(differences[0].to_string(), "/t2m: attribute units: \"K\" → \"degC\"");
}

#[test]
fn runs_are_in_the_order_of_their_coordinates() {
    // Listed in another order; the third month belongs to another set, and has another reference day.
    let files = [(60, 31, "K"), (0, 31, "K"), (91, 30, "K"), (31, 29, "degC")];
    let members = files.map(|(day, days, units)| {
        let mut member = member(day, days);
        attribute(&mut member, "t2m", "units", json!(units));
        member
    });
    let sets = sets(&members, &layout());
    assert!(sets.is_ordered());
    let runs = sets.runs();
    let described: Vec<_> =
        runs.iter().map(|run| (run.set, run.files.clone(), run.coordinates[0].unwrap())).collect();
    assert_eq!(
        described,
        [
            (0, vec!["file:///0.nc"], ("2000-01-01", "2000-01-31")),
            (1, vec!["file:///31.nc"], ("2000-02-01", "2000-02-29")),
            (0, vec!["file:///60.nc", "file:///91.nc"], ("2000-03-01", "2000-04-30")),
        ]
    );
    assert_eq!(sets.sets()[0].extents, [[30, 31, 92]]);
    assert_eq!((sets.sets()[0].files, sets.sets()[0].bytes, sets.len()), (3, 300, 4));
    assert!(runs[0].differences.is_none());
    let back: Vec<_> =
        runs[2].differences.iter().flat_map(|all| all.iter()).map(ToString::to_string).collect();
    assert_eq!(back, ["/t2m: attribute units: \"degC\" → \"K\""]);
}
