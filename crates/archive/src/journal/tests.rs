#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use crate::Item;

fn item(url: &str, etag: &str) -> Item {
    Item { url: url.to_owned(), size: Some(10), etag: Some(etag.to_owned()), ..Item::default() }
}

fn list(journal: &mut Journal, items: &[Item]) -> Listing {
    let mut listing = Listing::default();
    journal.list(items, &mut listing).unwrap();
    listing
}

fn done(content: Content) -> Outcome {
    Outcome::Done(Box::new(Done {
        changed: None,
        attempts: 1,
        seconds: 0.5,
        requests: 2,
        bytes: 3,
        warnings: vec!["a: b".to_owned()],
        content,
    }))
}

fn written(name: &str) -> Outcome {
    done(Content::Written { name: name.to_owned(), bytes: None })
}

fn failed(error: &str) -> Outcome {
    Outcome::Failed(Failed {
        attempts: 3,
        class: virtualize::ErrorClass::Unavailable,
        error: error.to_owned(),
    })
}

/// Runs the writer as the engine does: all pending files end as `outcome` says.
fn read_all(journal: Journal, outcome: impl Fn(&str) -> Outcome) -> Journal {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (writer, pending) = Writer::start(journal).unwrap();
    runtime.block_on(async {
        let taken = writer.ask(usize::MAX).await.unwrap().await.unwrap();
        assert_eq!(taken.len() as u64, pending);
        for work in taken {
            writer.finished(work.id, outcome(&work.item.url)).await.unwrap();
        }
    });
    writer.finish().unwrap()
}

#[test]
fn a_run_goes_on_where_the_last_one_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.journal");
    let mut journal = Journal::open(&path).unwrap();
    assert!(journal.is_new());
    let listing = list(&mut journal, &[item("a", "1"), item("b", "1"), item("a", "1"), item("c", "1")]);
    assert_eq!(listing, Listing { files: 3, pending: 3 });
    let journal = read_all(journal, |url| if url == "b" { failed("b: reset") } else { written(url) });
    assert_eq!(journal.failures(9).unwrap(), ["b: reset"]);
    drop(journal);

    let mut journal = Journal::open(&path).unwrap();
    assert!(!journal.is_new());
    let items = [item("d", "1"), item("a", "1"), item("b", "1"), item("c", "2")];
    assert_eq!(list(&mut journal, &items), Listing { files: 4, pending: 2 }, "d is new, c another");
    let counts = journal.counts().unwrap();
    assert_eq!((counts.pending, counts.done, counts.failed), (2, 1, 1));
    let journal = read_all(journal, written);
    assert_eq!(journal.listed().unwrap(), ["d", "a", "b", "c"]);
    drop(journal);

    let mut journal = Journal::open(&path).unwrap();
    journal.retry_failed().unwrap();
    assert_eq!(list(&mut journal, &[item("a", "1"), item("b", "1")]), Listing { files: 2, pending: 1 });
    assert_eq!(journal.vanished(1).unwrap(), (2, vec!["d".to_owned()]));
    journal.drop_vanished().unwrap();
    assert_eq!(journal.vanished(1).unwrap(), (0, Vec::new()));
}

#[test]
fn what_tells_that_a_file_is_another() {
    let base = Item { size: Some(1), etag: Some("x".to_owned()), modified: Some(5), ..item("a", "x") };
    let none = Item { size: None, etag: None, modified: None, ..base.clone() };
    let no_etag = |modified| Item { etag: None, modified: Some(modified), ..base.clone() };
    let cases = [
        (base.clone(), base.clone(), false),
        (base.clone(), none.clone(), false),
        (base.clone(), Item { modified: Some(6), ..base.clone() }, false),
        (base.clone(), Item { etag: Some("y".to_owned()), ..base.clone() }, true),
        (base.clone(), Item { size: Some(2), ..base.clone() }, true),
        (base.clone(), no_etag(6), true),
        (no_etag(5), no_etag(5), false),
        (none, base.clone(), false),
    ];
    for (before, now, another) in cases {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let mut journal = Journal::open(&path).unwrap();
        list(&mut journal, std::slice::from_ref(&before));
        drop(read_all(journal, written));
        let pending = list(&mut Journal::open(&path).unwrap(), std::slice::from_ref(&now)).pending;
        assert_eq!(pending == 1, another, "{before:?} {now:?}");
    }
}

#[test]
fn one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j");
    let journal = Journal::open(&path).unwrap();
    let error = Journal::open(&path).unwrap_err();
    assert!(matches!(error, JournalError::Locked { .. }), "{error}");
    assert!(matches!(Journal::remove(&path), Err(JournalError::Locked { .. })));
    drop(journal);
    Journal::open(&path).unwrap();
    Journal::remove(&path).unwrap();
    assert!(!path.exists());
}

#[test]
fn other_options_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(&folder.path().join("j")).unwrap();
    let options = |stack: &str| {
        let pairs = [("strict", "false"), ("stack", stack)];
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    journal.settle_options(&options("false")).unwrap();
    journal.settle_options(&options("false")).unwrap();
    let error = journal.settle_options(&options("true")).unwrap_err().to_string();
    assert!(error.ends_with("begun with other options: stack was false, is true"), "{error}");
}

#[test]
fn what_is_no_journal_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "a file of somebody's, longer than the header of a database is".repeat(20))
        .unwrap();
    for error in [Journal::open(&path).unwrap_err(), Journal::remove(&path).unwrap_err()] {
        assert!(matches!(error, JournalError::NotAJournal { .. }), "{error}");
    }
    let other = folder.path().join("other.sqlite");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    assert!(matches!(Journal::open(&other), Err(JournalError::NotAJournal { .. })));
    assert!(other.exists() && path.exists());
}

#[test]
fn a_member_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(&folder.path().join("j")).unwrap();
    list(&mut journal, &[item("a", "1")]);
    let source =
        virtualize::zarr::Source { url: "u".to_owned(), etag: None, size: u64::MAX, modified: Some(-1) };
    let member = MemberRow {
        era: "e".to_owned(),
        signature: "{}".to_owned(),
        brief: "{\"row\":0}".to_owned(),
        hierarchy: vec![1, 2],
        sources: vec![source],
        values: vec![3],
        digests: [("x".to_owned(), "d".to_owned())].into(),
        given: [("t".to_owned(), serde_json::json!(1.5))].into(),
    };
    let journal = read_all(journal, |_| done(Content::Member(Box::new(member.clone()))));
    let planned = journal.planned().unwrap();
    assert_eq!(planned.first().map(|row| row.brief.as_str()), Some("{\"row\":0}"));
    assert_eq!(journal.signature("e").unwrap(), "{}");
    let (found, row) = journal.member(planned.first().unwrap().id).unwrap();
    assert_eq!(found, item("a", "1"));
    let kept = MemberRow { era: String::new(), signature: String::new(), brief: String::new(), ..member };
    assert_eq!(row, kept);
}

#[test]
fn journals_lie_beside_local_outputs() {
    for (output, journal) in [
        ("out/refs.json", "out/refs.json.journal"),
        ("out/refs/", "out/refs.journal"),
        ("file:///a/refs.icechunk", "/a/refs.icechunk.journal"),
        ("s3://bucket/a/refs.icechunk/", "refs.icechunk.journal"),
    ] {
        assert_eq!(journal_beside(output), PathBuf::from(journal));
    }
}
