#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::json;
use virtualize::{
    ErrorClass, StoreOptions,
    zarr::{Source, ZarrFormat},
};

use super::*;
use crate::{
    Item,
    journal::{Content, Done, Failed, MemberRow, NodeRow, Outcome},
};

fn random_text(most: usize) -> String {
    (0..fastrand::usize(..=most)).map(|_| fastrand::char(..)).collect()
}

fn maybe<T>(make: impl FnOnce() -> T) -> Option<T> {
    fastrand::bool().then(make)
}

fn random_item(number: u64) -> Item {
    let mut item = Item {
        url: format!("s3://bucket/{number}/{}", random_text(5)),
        size: maybe(|| fastrand::u64(..1 << 63)),
        etag: maybe(|| random_text(20)),
        modified: maybe(|| fastrand::i64(..)),
        ..Item::default()
    };
    if fastrand::u8(..4) == 0 {
        let properties = json!({"a": random_text(9), "b": [1, null, fastrand::f64()]});
        item.properties = properties.as_object().unwrap().clone();
    }
    item
}

fn random_member(opened: &Item) -> MemberRow {
    let node = |number: usize| NodeRow {
        path: if number == 0 { String::new() } else { format!("a{number}") },
        document: ["{}", "{\"zarr_format\":3}"][fastrand::usize(..2)].into(),
        chunks: (0..fastrand::usize(..40)).map(|_| fastrand::u8(..)).collect(),
        count: fastrand::u64(..1 << 63),
    };
    let own = Source {
        url: opened.url.clone(),
        etag: opened.etag.clone(),
        size: opened.size.unwrap_or(7),
        modified: opened.modified,
    };
    let other = Source { url: random_text(9), size: fastrand::u64(..), ..Source::default() };
    let text = |_| (random_text(3), random_text(9));
    MemberRow {
        storage: random_text(9),
        signature: random_text(9).into(),
        extent: random_text(99),
        format: [ZarrFormat::V2, ZarrFormat::V3][fastrand::usize(..2)],
        nodes: (0..fastrand::usize(..5)).map(node).collect(),
        sources: [vec![own.clone()], vec![], vec![own, other]][fastrand::usize(..3)].clone(),
        values: (0..fastrand::usize(..3)).map(|_| (random_text(3), random_text(50).into())).collect(),
        digests: (0..fastrand::usize(..3)).map(text).collect(),
        given: (0..fastrand::usize(..3)).map(|_| (random_text(3), json!(fastrand::f64()))).collect(),
    }
}

fn random_row(position: u64) -> PartRow {
    let item = random_item(position);
    let attempts = fastrand::u32(1..9);
    if fastrand::u8(..5) == 0 {
        let class = [ErrorClass::File, ErrorClass::Unavailable, ErrorClass::NotFound][fastrand::usize(..3)];
        let outcome = Outcome::Failed(Failed { attempts, class, error: random_text(40) });
        return PartRow { position, item, outcome };
    }
    let is_as_listed = fastrand::bool();
    let opened = if is_as_listed { item.clone() } else { Item { url: item.url.clone(), ..random_item(0) } };
    let opened = Item { properties: item.properties.clone(), ..opened };
    let record = Content::Member(Box::new(random_member(&opened)));
    let done = Done {
        opened,
        replaced: fastrand::bool(),
        attempts,
        seconds: f64::from(fastrand::u16(..)) / 8.0,
        requests: fastrand::u64(..9),
        retries: fastrand::u64(..9),
        bytes: fastrand::u64(..1 << 63),
        warnings: (0..fastrand::usize(..3)).map(|_| random_text(9)).collect(),
        record,
    };
    PartRow { position, item, outcome: Outcome::Done(Box::new(done)) }
}

fn random_part(files: u64, shard: ShardNumber) -> (Expected, Vec<PartRow>, Bytes) {
    let listing = ListingId { files, sha256: "ab".repeat(32) };
    let options = BTreeMap::from([("stack".to_owned(), "true".to_owned())]);
    let expected = Expected { options, listing };
    let rows: Vec<PartRow> = shard.range(files).map(random_row).collect();
    let (bytes, header, _) = encode("part", expected.clone(), shard, Spent::default(), &rows).unwrap();
    assert_eq!(header.failed, rows.iter().filter(|row| row.failure().is_some()).count() as u64);
    (expected, rows, bytes)
}

fn read(bytes: Bytes) -> Result<Vec<PartRow>, PartsError> {
    let part = PartFile::of_bytes("part", bytes)?;
    Ok(part.rows().collect::<Result<Vec<_>, _>>()?.concat())
}

#[test]
fn parts_come_back_as_they_were() {
    for _ in 0..50 {
        let shard = ShardNumber { number: 2, of: 3 };
        let (expected, rows, bytes) = random_part(fastrand::u64(..200), shard);
        let back = read(bytes.clone()).unwrap();
        assert_eq!(back.len(), rows.len());
        back.iter().zip(&rows).for_each(|(back, row)| assert_eq!(back, row));
        let part = PartFile::of_bytes("part", bytes).unwrap();
        part.check(&expected).unwrap();
        let other = Expected { options: BTreeMap::new(), ..expected.clone() };
        let error = part.check(&other).unwrap_err().to_string();
        assert!(error.ends_with("part read with other options: stack was true, is none"), "{error}");
        let listing = ListingId { files: expected.listing.files + 1, ..expected.listing.clone() };
        let error = part.check(&Expected { listing, ..expected }).unwrap_err();
        assert!(matches!(error, PartsError::OtherListing { .. }), "{error}");
    }
}

#[test]
fn a_part_has_row_groups_of_bounded_size() {
    let listing = ListingId { files: 25_000, sha256: String::new() };
    let expected = Expected { options: BTreeMap::new(), listing };
    let rows: Vec<PartRow> = (0..25_000).map(random_row).collect();
    let shard = ShardNumber { number: 1, of: 1 };
    let (bytes, ..) = encode("part", expected, shard, Spent::default(), &rows).unwrap();
    let part = PartFile::of_bytes("part", bytes).unwrap();
    let groups: Vec<usize> = part.rows().map(|rows| rows.unwrap().len()).collect();
    assert_eq!(groups, [10_000, 10_000, 5_000]);
}

/// Damages a file in each of many ways, and checks that each is found.
fn damage(file: &Bytes, is_good: impl Fn(Bytes) -> bool) {
    let step = (file.len() / 2000).max(1);
    let ends = (0..64).chain(file.len() - file.len().min(1500)..file.len());
    for at in (0..file.len()).step_by(step).chain(ends) {
        let mut flipped = file.to_vec();
        flipped[at] ^= 1 << fastrand::u8(..8);
        assert!(!is_good(flipped.into()), "byte {at} of {}", file.len());
    }
    for length in (0..file.len()).step_by(step) {
        assert!(!is_good(file.slice(..length)), "{length} of {} bytes", file.len());
        assert!(!is_good(file.slice(file.len() - length..)), "the last {length} of {} bytes", file.len());
    }
    let longer = [file.as_ref(), &[0]].concat();
    assert!(!is_good(longer.into()));
}

#[test]
fn any_damaged_byte_of_a_part_is_found() {
    let (_, _, bytes) = random_part(60, ShardNumber { number: 1, of: 2 });
    damage(&bytes, |bytes| {
        let read = read(bytes);
        let text = read.as_ref().err().map(ToString::to_string).unwrap_or_default();
        assert!(!text.contains('\n'), "{text}");
        read.is_ok()
    });
}

/// Reads all files of a plan in memory.
fn plan_of(bytes: Bytes) -> Result<Vec<Item>, PartsError> {
    let object = virtualize::Object::in_memory("plan", bytes);
    futures::executor::block_on(async {
        let plan = PlanFile::of_object(object).await?;
        let items = plan.range(0..plan.listing.files).await?;
        let mut digest = ListingDigest::default();
        items.iter().for_each(|item| digest.add(item));
        plan.check_listing(&digest.finish())?;
        Ok(items)
    })
}

fn write_items(items: &[Item]) -> (Bytes, ListingId) {
    let mut writer = PlanWriter::new("plan").unwrap();
    items.iter().for_each(|item| writer.add(item.clone(), "plan").unwrap());
    writer.finish("plan").unwrap()
}

#[test]
fn plans_come_back_as_they_were_whole_and_in_ranges() {
    for files in [0, 1, 100, 4096, 4097, 9000] {
        let items: Vec<Item> = (0..files).map(random_item).collect();
        let (bytes, listing) = write_items(&items);
        assert_eq!((listing.files, write_items(&items).0), (files, bytes.clone()));
        assert_eq!(plan_of(bytes.clone()).unwrap(), items);
        let object = virtualize::Object::in_memory("plan", bytes);
        futures::executor::block_on(async {
            let plan = PlanFile::of_object(object).await.unwrap();
            for _ in 0..5 {
                let end = fastrand::u64(..=files);
                let range = fastrand::u64(..=end)..end;
                let expected = &items[usize::try_from(range.start).unwrap()..usize::try_from(end).unwrap()];
                assert_eq!(plan.range(range).await.unwrap(), expected);
            }
        });
    }
}

#[test]
fn damage_of_a_plan_is_found() {
    let items: Vec<Item> = (0..50).map(random_item).collect();
    let (bytes, _) = write_items(&items);
    // A worker that reads a range does not see the magic number at the start.
    damage(&bytes, |damaged| {
        let is_same = damaged.len() == bytes.len() && damaged[4..] == bytes[4..];
        let read = plan_of(damaged);
        read.is_ok() && !is_same
    });
}

#[test]
fn plans_and_parts_are_told_apart() {
    let (_, _, part) = random_part(5, ShardNumber { number: 1, of: 1 });
    let (plan, _) = write_items(&[random_item(0)]);
    assert!(plan_of(part).unwrap_err().to_string().contains("not a plan of virtualize"));
    assert!(read(plan).unwrap_err().to_string().contains("a plan, expected a part"));
}

#[tokio::test]
async fn another_plan_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("new/plan").to_str().unwrap().to_owned();
    let options = StoreOptions::default();
    let items: Vec<Item> = (0..5).map(random_item).collect();
    for _ in 0..2 {
        write_plan(&place, write_items(&items), false, &options).await.unwrap();
    }
    let other = write_items(&items[1..]);
    let error = write_plan(&place, other.clone(), false, &options).await.unwrap_err();
    assert!(matches!(error, PartsError::OtherPlan { found: 5, expected: 4, .. }), "{error}");
    write_plan(&place, other, true, &options).await.unwrap();
    assert_eq!(PlanFile::open(&place, &options).await.unwrap().listing.files, 4);
}
