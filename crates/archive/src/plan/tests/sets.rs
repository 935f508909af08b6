//! Files that differ, and which of them are put together nevertheless.

use crate::compat::signature::{Numbers, Stored};
use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    super::{
        FileExtent, Files, Known, Omitted, OnDuplicate, OnMismatch, Plan, PlanOptions, Signatures, plan,
    },
    plan::{brief, extent, layout},
};
use crate::{
    Layout,
    compat::{ArraySignature, DimRole, Signature},
    error::CombineError,
};

/// Files whose array `v` grows in chunks of two elements, compressed, and too large to be read.
pub(super) fn signature() -> Signature {
    let codecs = vec!["zlib".to_owned()];
    let array = ArraySignature {
        data_type: "int16".to_owned(),
        dimensions: vec![Some("time".to_owned())],
        sizes: vec![None],
        chunks: Some(vec![json!(2)]),
        codecs: Some(codecs.clone()),
        fill_value: json!(0),
        attributes: BTreeMap::new(),
        values: None,
    };
    let stored = Stored {
        roles: vec![DimRole::Axis(0)],
        shape: vec![None],
        chunks: Some(vec![Some(2)]),
        codecs,
        element: 2,
        is_plain: false,
        is_read: false,
    };
    Signature {
        arrays: [("v".to_owned(), array)].into(),
        stored: [("v".to_owned(), stored)].into(),
        ..Signature::default()
    }
}

impl Signature {
    pub(super) fn change(mut self, change: impl FnOnce(&mut ArraySignature, &mut Stored)) -> Self {
        change(self.arrays.get_mut("v").unwrap(), self.stored.get_mut("v").unwrap());
        self
    }

    pub(super) fn codec(self, name: &str) -> Self {
        let codecs = vec![name.to_owned()];
        self.change(|array, stored| (array.codecs, stored.codecs) = (Some(codecs.clone()), codecs))
    }

    fn chunk(self, size: u64) -> Self {
        self.change(|array, stored| {
            (array.chunks, stored.chunks) = (Some(vec![json!(size)]), Some(vec![Some(size)]));
        })
    }

    fn read(self) -> Self {
        self.change(|_, stored| stored.is_read = true)
    }

    fn plain(self) -> Self {
        self.change(|array, stored| {
            (array.chunks, stored.is_plain) = (Some(vec![Value::Null]), true);
        })
    }

    /// With a coordinate of a type, whose values are whole numbers.
    fn with_time(mut self, data_type: &str, any_missing: bool) -> Self {
        let mut time = self.arrays["v"].clone();
        (time.data_type, time.chunks, time.codecs) = (data_type.to_owned(), None, None);
        let numbers =
            Numbers { are_times: false, has_sentinel: false, any_missing, are_whole: true, are_float: true };
        self.arrays.insert("time".to_owned(), time);
        self.numbers.insert("time".to_owned(), numbers);
        self
    }
}

/// Files in the order of their times, each of some elements.
fn planned(
    files: &[(&Signature, u64)],
    (layout, options): (&Layout, &PlanOptions),
    are_known: bool,
) -> Result<Plan, CombineError> {
    let (mut planned, mut signatures, mut next) = (Files::default(), Signatures::new(), 0);
    for (signature, size) in files {
        let kind = planned.kind(&signature.storage_digest(), || signature.digest());
        let mut extent = extent(next, next + i64::try_from(*size).unwrap() - 1, None);
        extent.size = *size;
        next += i64::try_from(*size).unwrap();
        planned.push(kind, FileExtent(vec![extent].into()));
        signatures.insert(signature.storage_digest(), (*signature).clone());
    }
    let signatures = if are_known { signatures } else { Signatures::new() };
    let known = Known { signatures, url: &|row| format!("{row}.nc"), ..Known::nothing() };
    plan(planned, &known, layout, options)
}

fn split() -> PlanOptions {
    PlanOptions { on_mismatch: OnMismatch::Split, ..PlanOptions::default() }
}

/// The rows of each set.
fn sets(files: &[(&Signature, u64)], layout: &Layout) -> Vec<Vec<u64>> {
    let plan = planned(files, (layout, &split()), true).unwrap();
    plan.sets.iter().map(|set| set.blocks.iter().map(|block| block.row).collect()).collect()
}

/// Files that differ in storage alone, or in the types of numbers, are one set if one array can hold them.
#[test]
fn files_that_fit_together_are_one_set() {
    let own = signature;
    let filled = own().change(|array, _| array.fill_value = json!(7));
    let cases = [
        ("the same", own(), own(), true),
        ("codecs", own(), own().codec("zstd"), false),
        ("codecs, copied", own().read(), own().codec("zstd").read(), true),
        ("codecs, one copied", own().read(), own().codec("zstd"), false),
        ("chunks", own(), own().chunk(4), false),
        ("chunks, copied", own().read(), own().chunk(4).read(), true),
        ("chunks, plain", own().plain(), own().plain().chunk(4), true),
        ("chunks and codecs, plain", own().plain(), own().plain().chunk(4).codec("other"), false),
        ("another fill value", own(), filled.clone(), false),
        ("another fill value, copied", own().read(), filled.read(), false),
        ("another type", own(), own().change(|array, _| array.data_type = "int32".to_owned()), false),
        ("types of numbers", own().with_time("int32", false), own().with_time("int64", false), true),
        ("types, missing", own().with_time("int32", true), own().with_time("int64", false), false),
    ];
    for (what, one, other, are_one) in cases {
        let files = [(&one, 4), (&other, 4), (&one, 4), (&other, 4)];
        let expected = if are_one { vec![vec![0, 1, 2, 3]] } else { vec![vec![0, 2], vec![1, 3]] };
        assert_eq!(sets(&files, &layout()), expected, "{what}");
        // Of signatures that are not known, only equal ones agree.
        let blind = planned(&files, (&layout(), &split()), false).unwrap();
        assert_eq!(blind.sets.len(), 1 + usize::from(one.digest() != other.digest()), "{what}");
    }
}

/// Three kinds of which two fit together, in each order.
#[test]
fn sets_are_merged_by_twos_where_not_all_fit() {
    let (one, other, third) =
        (signature().read(), signature().codec("zstd").read(), signature().codec("lz4"));
    let of = |files: [&Signature; 3]| sets(&files.map(|signature| (signature, 4)), &layout());
    assert_eq!(of([&one, &other, &third]), [vec![0, 1], vec![2]]);
    assert_eq!(of([&one, &third, &other]), [vec![0, 2], vec![1]]);
    assert_eq!(of([&third, &one, &other]), [vec![0], vec![1, 2]]);
    // Along no dimension nothing is merged.
    let nothing = Layout::default();
    let options = PlanOptions { on_duplicate: OnDuplicate::First, ..split() };
    let found = planned(&[(&one, 4), (&other, 4)], (&nothing, &options), true).unwrap();
    assert_eq!(found.sets.len(), 2);
}

/// Kinds of one signature that differ in storage alone are one set already, and may be merged with another.
#[test]
fn an_era_may_have_several_kinds() {
    let one = signature().read();
    let same = one.clone().change(|_, stored| stored.chunks = Some(vec![None]));
    assert!(one.digest() == same.digest() && one.storage_digest() != same.storage_digest());
    let other = signature().codec("zstd").read();
    let files = [(&one, 4), (&same, 4), (&other, 4)];
    assert_eq!(sets(&files, &layout()), [vec![0, 1, 2]]);
    let plan = planned(&files, (&layout(), &split()), true).unwrap();
    assert_eq!(plan.sets[0].signature, one.digest());
    // Of roles that differ nothing is merged.
    let moved = one.clone().change(|_, stored| stored.roles = vec![DimRole::NewAxis]);
    assert_eq!(sets(&[(&one, 4), (&moved, 4), (&other, 4)], &layout()), [vec![0, 1], vec![2]]);
}

/// Values of up to 256 MiB are kept.
#[test]
fn only_so_much_is_copied() {
    let (one, other) = (signature().read(), signature().codec("zstd").read());
    // 2 bytes an element.
    let half = 64 << 20;
    assert_eq!(sets(&[(&one, half), (&other, half)], &layout()).len(), 1);
    assert_eq!(sets(&[(&one, half), (&other, half + 1)], &layout()).len(), 2);
}

#[test]
fn merging_is_tried_for_up_to_1024_sets() {
    for (count, expected) in [(1024, 1), (1025, 1025)] {
        let kinds: Vec<_> = (0..count).map(|n| signature().codec(&format!("codec {n}")).read()).collect();
        let files: Vec<_> = kinds.iter().map(|kind| (kind, 1)).collect();
        assert_eq!(sets(&files, &layout()).len(), expected);
    }
}

/// The set with the most files is kept; of several, the first.
#[test]
fn the_largest_era_is_kept() {
    let (one, other) = (signature(), signature().codec("zstd"));
    let options = PlanOptions { on_mismatch: OnMismatch::Skip, ..PlanOptions::default() };
    for (kinds, kept, out) in [
        ([&one, &other, &other, &one, &other], vec![1, 2, 4], vec![0, 3]),
        ([&one, &other, &one, &one, &other], vec![0, 2, 3], vec![1, 4]),
        ([&one, &other, &one, &other, &signature().codec("lz4")], vec![0, 2], vec![1, 3, 4]),
    ] {
        let plan = planned(&kinds.map(|kind| (kind, 4)), (&layout(), &options), true).unwrap();
        let [set] = plan.sets.as_slice() else { panic!("one set") };
        assert_eq!(set.blocks.iter().map(|block| block.row).collect::<Vec<_>>(), kept);
        assert_eq!(
            (set.group.as_str(), set.signature.clone()),
            ("", kinds[usize::try_from(kept[0]).unwrap()].digest())
        );
        let reason = "it is not compatible with the largest set".to_owned();
        let expected =
            out.iter().map(|row| Omitted { row: *row, url: format!("{row}.nc"), reason: reason.clone() });
        assert_eq!(plan.omitted, expected.collect::<Vec<_>>());
    }
}

/// Files of several kinds with one signature are of one set though nothing more is known of them.
#[test]
fn equal_signatures_are_one_set() {
    let mut files = Files::default();
    for (row, (storage, signature)) in
        [("a", "x"), ("b", "y"), ("c", "x"), ("b", "-")].into_iter().enumerate()
    {
        let kind = files.kind(storage, || signature.to_owned());
        let row = i64::try_from(row).unwrap();
        files.push(kind, FileExtent(brief(vec![extent(row, row, None)]).extents.into()));
    }
    let plan = plan(files, &Known::nothing(), &layout(), &split()).unwrap();
    let found: Vec<_> = plan.sets.iter().map(|set| (set.signature.as_str(), set.group.as_str())).collect();
    assert_eq!(found, [("x", "set_0"), ("y", "set_1")]);
    let rows: Vec<Vec<u64>> =
        plan.sets.iter().map(|set| set.blocks.iter().map(|block| block.row).collect()).collect();
    assert_eq!(rows, [[0, 2], [1, 3]]);
}
