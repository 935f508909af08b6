//! Files along two dimensions.

use super::{
    super::PlanOptions,
    plan::{Brief, brief, extent, files, layout, nested, plan},
};
use crate::plan::extent::Extent;
use crate::{
    Along, Layout,
    error::{CombineError, Note},
};

/// A file of a member, from a first to a last time.
fn at(member: i64, first: i64, last: i64) -> Brief {
    brief(vec![extent(member, member, None), extent(first, last, None)])
}

fn holes(count: i64) -> (Vec<Brief>, PlanOptions) {
    // Member 0 has all times, member 1 only the last one.
    let all = (0..=count).map(|time| at(0, time, time)).chain([at(1, count, count)]);
    (all.collect(), PlanOptions { allow_holes: true, ..PlanOptions::default() })
}

#[test]
fn empty_places_are_listed_up_to_twenty() {
    let note = |subject: &str, text: &str| Note { subject: subject.to_owned(), text: text.to_owned() };
    for count in [1, 19, 20, 21, 30] {
        let (all, options) = holes(count);
        let found = plan(all, &nested(), &options).unwrap();
        let listed = count.min(20);
        let mut expected: Vec<_> = (0..listed)
            .map(|time| note(&format!("member 1, time {time}"), "no file: reads as the fill value"))
            .collect();
        expected.extend((count > 20).then(|| note("holes", &format!("{count} in all"))));
        assert_eq!(found.notes, expected);
        let places: Vec<_> = found.sets[0].blocks.iter().map(|block| block.at.to_vec()).collect();
        let last = u32::try_from(count).unwrap();
        let expected: Vec<_> = (0..=last).map(|n| vec![0, n]).chain([vec![1, last]]).collect();
        assert_eq!(places, expected);
        let (all, _) = holes(count);
        let error = plan(all, &nested(), &PlanOptions::default()).unwrap_err();
        let first = "member 1, time 0".to_owned();
        assert_eq!(error, CombineError::Holes { count: u64::try_from(count).unwrap(), first });
    }
}

#[test]
fn files_at_one_place_have_one_size() {
    let error = |all: Vec<Brief>| plan(all, &nested(), &PlanOptions::default()).unwrap_err();
    // Without coordinates, files follow their names.
    let bare = |sizes: &[(i64, u64)]| {
        let one = |(member, size): &(i64, u64)| {
            brief(vec![extent(*member, *member, None), Extent { size: *size, range: None }])
        };
        sizes.iter().map(one).collect::<Vec<_>>()
    };
    let named = error(bare(&[(0, 4), (0, 3), (1, 4), (1, 2)]));
    let expected = "1.nc and 3.nc: files at the same position have different lengths: 3 and 2";
    assert_eq!(named.to_string(), expected);
    let found = plan(bare(&[(1, 4), (0, 4), (0, 3), (1, 3)]), &nested(), &PlanOptions::default()).unwrap();
    let blocks: Vec<_> = found.sets[0].blocks.iter().map(|block| (block.row, block.at.to_vec())).collect();
    assert_eq!(blocks, [(1, vec![0, 0]), (2, vec![0, 1]), (0, vec![1, 0]), (3, vec![1, 1])]);
    assert_eq!(found.sets[0].sizes, [vec![1, 1], vec![4, 3]]);
}

#[test]
fn two_dimensions_without_coordinates_have_no_order() {
    let bare = || Extent { size: 2, range: None };
    let layout = Layout::along(["run", "level", "time"].map(|name| Along::Concat(name.to_owned())).into());
    let of = |extents: Vec<Extent>| plan(vec![brief(extents)], &layout, &PlanOptions::default());
    let error = of(vec![bare(), extent(0, 1, None), bare()]).unwrap_err();
    let expected = "dimensions run and time: neither file has a coordinate; cannot determine the file order";
    assert_eq!(error.to_string(), expected);
    assert!(of(vec![extent(0, 0, None), bare(), extent(0, 1, None)]).is_ok());
}

/// Names in descending order are sorted too.
#[test]
fn files_without_coordinates_follow_their_names() {
    let mut all = files(&[(0, 0); 12]);
    for brief in &mut all {
        brief.extents[0].range = None;
    }
    let found = plan(all, &layout(), &PlanOptions::default()).unwrap();
    let rows: Vec<u64> = found.sets[0].blocks.iter().map(|block| block.row).collect();
    assert_eq!(rows, (0..12).collect::<Vec<_>>(), "10.nc follows 9.nc");
}
