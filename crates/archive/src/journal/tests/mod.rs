#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod appends;
mod members;
mod model;
mod scale;

use std::collections::BTreeMap;

use super::*;
use crate::Item;

fn item(url: &str, etag: &str) -> Item {
    Item { url: url.to_owned(), size: Some(10), etag: Some(etag.to_owned()), ..Item::default() }
}

fn stage(journal: &mut Journal, items: &[Item]) -> Listing {
    let mut listing = Listing::default();
    journal.stage(items, &mut listing).unwrap();
    listing
}

fn accept(journal: &mut Journal, how: Accept) {
    journal.accept(how, &BTreeMap::new(), None).unwrap();
}

fn list(journal: &mut Journal, items: &[Item]) -> Listing {
    let listing = stage(journal, items);
    accept(journal, Accept::default());
    listing
}

fn append(journal: &mut Journal, items: &[Item]) {
    stage(journal, items);
    accept(journal, Accept { append: true, ..Accept::default() });
}

/// Returns the URLs in the order of the journal.
fn urls(journal: &Journal) -> Vec<String> {
    journal.column("SELECT url FROM files ORDER BY position, id", []).unwrap()
}

fn done(record: Record) -> Outcome {
    Ok(Box::new(Done {
        opened: Item::default(),
        replaced: false,
        attempts: 1,
        seconds: 0.5,
        requests: 2,
        retries: 0,
        bytes: 3,
        warnings: vec!["a: b".to_owned()],
        related: BTreeMap::new(),
        record,
    }))
}

fn written(name: &str) -> Outcome {
    done(Record::Written { name: name.to_owned(), receipt: "r".to_owned() })
}

fn failed(error: &str) -> Outcome {
    Err(Failure { attempts: 3, class: virtualize::ErrorClass::Unavailable, error: error.to_owned() })
}

/// Reads as the engine does: each pending file ends with its `outcome`.
fn read_all(mut journal: Journal, outcome: impl Fn(&str) -> Outcome) -> Journal {
    let works = journal.works(journal.pending().unwrap()).unwrap();
    let ended = works.into_iter().map(|work| {
        let outcome = outcome(&work.item.url);
        (work, outcome)
    });
    journal.finish(ended.collect()).unwrap();
    journal
}

#[test]
fn runs_resume() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.journal");
    let mut journal = Journal::open(&path).unwrap();
    assert!(journal.is_new());
    let listing = list(&mut journal, &[item("a", "1"), item("b", "1"), item("a", "1"), item("c", "1")]);
    assert_eq!((listing.files, listing.pending), (3, 3));
    let journal = read_all(journal, |url| if url == "b" { failed("b: reset") } else { written(url) });
    assert_eq!(journal.failures(9).unwrap(), ["b: reset"]);
    drop(journal);

    let mut journal = Journal::open(&path).unwrap();
    assert!(!journal.is_new());
    let items = [item("d", "1"), item("a", "1"), item("b", "1"), item("c", "2")];
    let listing = list(&mut journal, &items);
    assert_eq!((listing.files, listing.pending), (4, 2), "d is new, c another");
    assert_eq!(listing.unread, [0..1, 3..4]);
    let counts = journal.counts().unwrap();
    assert_eq!((counts.pending, counts.done, counts.failed), (2, 1, 1));
    let journal = read_all(journal, written);
    assert_eq!(urls(&journal), ["d", "a", "b", "c"]);
    drop(journal);

    let mut journal = Journal::open(&path).unwrap();
    stage(&mut journal, &[item("a", "1"), item("b", "1")]);
    let vanished = journal.vanished(false, 1).unwrap();
    assert_eq!((vanished.count, vanished.first), (2, vec!["d".to_owned()]));
    accept(&mut journal, Accept { retry_failed: true, ..Accept::default() });
    assert_eq!(urls(&journal), ["a", "b"]);
    assert_eq!(journal.counts().unwrap().pending, 1);
}

#[test]
fn a_listing_that_is_not_accepted_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j");
    let mut journal = Journal::open(&path).unwrap();
    list(&mut journal, &[item("a", "1"), item("b", "1")]);
    drop(read_all(journal, written));
    let mut journal = Journal::open(&path).unwrap();
    stage(&mut journal, &[item("x", "1"), item("a", "2")]);
    drop(journal);
    let mut journal = Journal::open(&path).unwrap();
    append(&mut journal, &[item("c", "1"), item("a", "1")]);
    assert_eq!(
        urls(&journal),
        ["a", "b", "c"],
        "new ones behind all that are there, each in a place of its own"
    );
    assert_eq!(journal.counts().unwrap().pending, 1);
}

#[test]
fn files_in_no_output_can_be_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(&folder.path().join("j")).unwrap();
    list(&mut journal, &[item("a", "1"), item("b", "1")]);
    let mut journal = read_all(journal, |_| done(Record::Member(Box::default())));
    let rows: Vec<i64> = journal.rows_after(0).unwrap().iter().map(|row| row.id).collect();
    journal.begin_output("o", ("plan", "content"), rows, false).unwrap();
    assert_eq!(journal.unwritten(9).unwrap().count, 2);
    journal.finish_output("o", "receipt").unwrap();
    let known = journal.output("o").unwrap().unwrap();
    assert_eq!((known.plan.as_deref(), known.receipt.as_deref()), (Some("plan"), Some("receipt")));
    assert_eq!(journal.unwritten(9).unwrap().count, 0);
    append(&mut journal, &[item("bad", "1")]);
    let mut journal = read_all(journal, failed);
    stage(&mut journal, &[item("c", "1")]);
    assert_eq!(journal.unwritten(9).unwrap().first, ["bad"]);
    accept(&mut journal, Accept { append: true, drop_unwritten: true, ..Accept::default() });
    assert_eq!(urls(&journal), ["a", "b", "c"]);
    stage(&mut journal, &[item("b", "1"), item("c", "1")]);
    accept(&mut journal, Accept::default());
    assert_eq!(urls(&journal), ["b", "c"]);
}

#[test]
fn changes_of_files_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(&folder.path().join("j")).unwrap();
    list(&mut journal, &["a", "b", "c"].map(|url| Item { url: url.to_owned(), ..Item::default() }));
    let mut journal = read_all(journal, |url| {
        let Ok(mut done) = written(url) else { return failed("never") };
        done.opened = Item { size: Some(11), modified: Some(7), ..Item::default() };
        Ok(done)
    });
    stage(&mut journal, &[item("d", "1")]);
    let mut untold = journal.last_unlisted(9).unwrap();
    assert_eq!(untold.len(), 3);
    let as_opened = |file: &ToCheck| file.item.size == Some(11) && file.item.modified == Some(7);
    assert!(untold.iter().all(as_opened), "as opened");
    untold.sort_by(|one, other| one.item.url.cmp(&other.item.url));
    let row = |at: usize| untold.get(at).unwrap().id;
    journal.found(row(0), None).unwrap();
    journal.found(row(1), Some(&item("b", "2"))).unwrap();
    assert_eq!(journal.vanished(true, 9).unwrap().first, ["a"]);
    assert_eq!(journal.replaced(9).unwrap().first, ["b"]);
    accept(&mut journal, Accept { append: true, ..Accept::default() });
    assert_eq!(urls(&journal), ["b", "c", "d"]);
    assert_eq!(journal.counts().unwrap().pending, 2);
}

#[test]
fn changed_files_are_recognized() {
    let base = Item { size: Some(1), etag: Some("x".to_owned()), modified: Some(5), ..item("a", "x") };
    let none = Item { size: None, etag: None, modified: None, ..base.clone() };
    let no_etag = |modified| Item { etag: None, modified: Some(modified), ..base.clone() };
    let cases = [
        (base.clone(), base.clone(), false),
        (base.clone(), none.clone(), false),
        (base.clone(), Item { modified: Some(6), ..base.clone() }, false),
        (base.clone(), Item { etag: Some("y".to_owned()), ..base.clone() }, true),
        (base.clone(), Item { size: Some(2), ..base.clone() }, true),
        (base.clone(), no_etag(7), true),
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
    assert!(error.kind == JournalErrorKind::Locked, "{error}");
    assert_eq!(Journal::remove_unusable(&path).unwrap_err().kind, JournalErrorKind::Locked);
    drop(journal);
    Journal::open(&path).unwrap();
    Journal::remove_unusable(&path).unwrap();
    assert!(path.exists(), "it can be used");
}

#[test]
fn other_options_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(&folder.path().join("j")).unwrap();
    let options = |stack: &str| {
        let pairs = [("strict", "false"), ("stack", stack)];
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    assert!(journal.other_options(&options("false")).unwrap().is_empty(), "none yet");
    journal.accept(Accept::default(), &options("false"), None).unwrap();
    assert!(journal.other_options(&options("false")).unwrap().is_empty());
    let path = journal.path().to_owned();
    let differences = journal.other_options(&options("true")).unwrap();
    let error = JournalError::other_options(&path, &differences).to_string();
    assert!(error.ends_with("begun with other options: stack was false, is true"), "{error}");
    assert!(!journal.is_used().unwrap());
    let how = Accept { restart: true, ..Accept::default() };
    journal.accept(how, &options("true"), Some(("root", "r"))).unwrap();
    assert!(journal.other_options(&options("true")).unwrap().is_empty());
    assert_eq!(journal.fact("root").unwrap().as_deref(), Some("r"));
}

#[test]
fn only_damaged_journals_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.json.journal");
    let mut journal = Journal::open(&path).unwrap();
    list(&mut journal, &[item("a", "1")]);
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    let damaged = [
        whole.get(..50).unwrap().to_vec(),
        whole.get(..5000).unwrap().to_vec(),
        [whole.get(..100).unwrap(), &[0xa5; 30_000]].concat(),
    ];
    for bytes in damaged {
        std::fs::write(&path, &bytes).unwrap();
        let beside = ["-journal", "-wal"].map(|end| folder.path().join(format!("out.json.journal{end}")));
        for file in &beside {
            std::fs::write(file, "x").unwrap();
        }
        let opened = Journal::open(&path).is_ok();
        Journal::remove_unusable(&path).unwrap();
        assert_eq!(path.exists(), opened);
        assert!(opened || !beside.iter().any(|file| file.exists()));
        drop(Journal::open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
    }
    let other = folder.path().join("other.journal");
    let database = Connection::open(&other).unwrap();
    database.execute_batch("CREATE TABLE t (x); PRAGMA application_id = 7").unwrap();
    drop(database);
    let mut bytes = std::fs::read(&other).unwrap();
    bytes.truncate(5000);
    std::fs::write(&other, bytes).unwrap();
    assert!(Journal::remove_unusable(&other).is_err() && other.exists());
}

#[test]
fn other_files_than_journals_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "a file of another user, longer than the header of a database is".repeat(20))
        .unwrap();
    for error in [Journal::open(&path).unwrap_err(), Journal::remove_unusable(&path).unwrap_err()] {
        assert!(error.kind == JournalErrorKind::NotAJournal, "{error}");
    }
    let other = folder.path().join("other.sqlite");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    assert_eq!(Journal::open(&other).unwrap_err().kind, JournalErrorKind::NotAJournal);
    assert!(other.exists() && path.exists());
}

#[test]
fn journals_are_next_to_local_outputs() {
    for (output, journal) in [
        ("out/refs.json", "out/refs.json.journal"),
        ("out/refs/", "out/refs.journal"),
        ("file:///a/refs.icechunk", "/a/refs.icechunk.journal"),
        ("s3://bucket/a/refs.icechunk/", "refs.icechunk.journal"),
    ] {
        assert_eq!(journal_next_to(output), PathBuf::from(journal));
    }
}
