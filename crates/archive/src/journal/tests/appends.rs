//! Runs that append.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use rusqlite::trace::{TraceEvent, TraceEventCodes};

use super::*;
use crate::journal::record::NodeRecord;

fn member() -> Outcome {
    let row = FileRecord { storage: "kind".to_owned(), extent: "{}".to_owned(), ..FileRecord::default() };
    done(Record::Member(Box::new(row)))
}

/// Returns a journal of three files in an output, with a tail.
fn appended(folder: &tempfile::TempDir) -> (Journal, i64) {
    let mut journal = Journal::open(&folder.path().join("j")).unwrap();
    list(&mut journal, &[item("a", "1"), item("b", "1"), item("c", "1")]);
    let mut journal = read_all(journal, |_| member());
    let rows: Vec<i64> = journal.rows_after(0).unwrap().iter().map(|row| row.id).collect();
    journal.begin_output("o", ("plan", "content"), rows.iter().copied(), false).unwrap();
    journal.finish_output("o", "receipt").unwrap();
    let through = *rows.last().unwrap();
    journal.set_tail("o", through, b"state").unwrap();
    (journal, through)
}

#[test]
fn a_tail_remains_while_files_are_added() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, through) = appended(&folder);
    append(&mut journal, &[item("e", "1"), item("d", "1"), item("a", "1")]);
    let mut journal = read_all(journal, |url| if url == "d" { failed("d") } else { member() });
    assert_eq!(journal.tail("o").unwrap(), Some((through, b"state".to_vec())));
    let new: Vec<i64> = journal.rows_after(through).unwrap().iter().map(|row| row.id).collect();
    let names: Vec<String> = new.iter().map(|id| journal.url(*id).unwrap()).collect();
    assert_eq!(names, ["e"]);
    // Another listing of the same files in the same order changes nothing.
    journal.begin_output("o", ("more", "content"), new, true).unwrap();
    journal.finish_output("o", "receipt").unwrap();
    stage(&mut journal, &["a", "b", "c", "e", "d", "f"].map(|url| item(url, "1")));
    assert_eq!(journal.unwritten(9).unwrap().count, 0, "d is listed");
    accept(&mut journal, Accept { retry_unavailable: true, ..Accept::default() });
    assert_eq!(urls(&journal), ["a", "b", "c", "e", "d", "f"]);
    assert!(journal.tail("o").unwrap().is_some());
    let counts = journal.counts().unwrap();
    assert_eq!((counts.pending, counts.done, counts.failed), (2, 4, 0));
}

#[test]
fn a_tail_goes_when_an_earlier_file_changes() {
    type Change = fn(&mut Journal);
    let changes: [(&str, Change); 7] = [
        ("replaced", |journal| append(journal, &[item("b", "2")])),
        ("dropped", |journal| list(journal, &[item("a", "1"), item("c", "1")]).files = 0),
        ("moved", |journal| list(journal, &[item("b", "1"), item("a", "1"), item("c", "1")]).files = 0),
        ("in between", |journal| {
            list(journal, &["a", "x", "b", "c"].map(|url| item(url, "1"))).files = 0;
        }),
        ("gone", |journal| {
            stage(journal, &[item("d", "1")]);
            journal.found(2, None).unwrap();
            accept(journal, Accept { append: true, ..Accept::default() });
        }),
        ("again", |journal| journal.again(1).unwrap()),
        ("restarted", |journal| {
            stage(journal, &["a", "b", "c"].map(|url| item(url, "1")));
            accept(journal, Accept { restart: true, ..Accept::default() });
        }),
    ];
    for (what, change) in changes {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = appended(&folder);
        change(&mut journal);
        assert_eq!(journal.tail("o").unwrap(), None, "{what}");
    }
    // A file that is read late may belong before others.
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = appended(&folder);
    append(&mut journal, &[item("late", "1"), item("d", "1")]);
    let mut journal = read_all(journal, |url| if url == "late" { failed("late") } else { member() });
    journal.set_tail("o", 5, b"state").unwrap();
    stage(&mut journal, &[]);
    accept(&mut journal, Accept { append: true, retry_failed: true, ..Accept::default() });
    assert!(journal.tail("o").unwrap().is_some(), "it is not read yet");
    let journal = read_all(journal, |_| member());
    assert_eq!(journal.tail("o").unwrap(), None);
}

#[test]
fn what_was_read_of_a_replaced_file_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(&folder.path().join("j")).unwrap();
    list(&mut journal, &[item("a", "1"), item("b", "1")]);
    let node =
        |path: &str| NodeRecord { path: path.to_owned(), document: "{}".into(), chunks: vec![1], count: 1 };
    let row = FileRecord { nodes: vec![node(""), node("x"), node("y")], ..FileRecord::default() };
    let mut journal = read_all(journal, |_| done(Record::Member(Box::new(row.clone()))));
    let count = |journal: &Journal, table: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        journal.connection.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!((count(&journal, "contents"), count(&journal, "chunks")), (2, 6));
    append(&mut journal, &[item("a", "2")]);
    assert_eq!((count(&journal, "contents"), count(&journal, "chunks")), (1, 3));
    list(&mut journal, &[item("c", "1")]);
    assert_eq!((count(&journal, "contents"), count(&journal, "chunks"), count(&journal, "files")), (0, 0, 1));
}

#[test]
fn the_newest_files_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = appended(&folder);
    stage(&mut journal, &[Item { url: "c".to_owned(), ..Item::default() }]);
    let urls = |files: Vec<ToCheck>| {
        let mut urls: Vec<String> = files.into_iter().map(|file| file.item.url).collect();
        urls.sort();
        urls
    };
    assert_eq!(urls(journal.to_check("", 9).unwrap()), ["c"]);
    assert_eq!(urls(journal.last_unlisted(1).unwrap()), ["b"]);
    assert_eq!(urls(journal.last_unlisted(9).unwrap()), ["a", "b"]);
}

/// A run that appends looks up the few files that it adds, and never goes through all.
#[test]
fn an_appending_run_scans_no_table_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = appended(&folder);
    drop(journal);
    let mut journal = Journal::open(&folder.path().join("j")).unwrap();
    let executed = Arc::new(Mutex::new(BTreeSet::new()));
    let record = {
        let executed = Arc::clone(&executed);
        move |event: TraceEvent<'_>| {
            if let TraceEvent::Stmt(statement, _) = event {
                executed.lock().unwrap().insert(statement.sql().into_owned());
            }
        }
    };
    journal.connection.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(record)).unwrap();
    journal.found(1, Some(&item("a", "2"))).unwrap();
    journal.found(2, None).unwrap();
    scale::append_one(&mut journal, 3);
    let executed = executed.lock().unwrap().clone();
    assert!(executed.len() > 30, "{executed:?}");
    for sql in executed {
        let Ok(mut statement) = journal.connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")) else {
            continue;
        };
        let values = vec![rusqlite::types::Null; statement.parameter_count()];
        let rows = statement.query_map(rusqlite::params_from_iter(values), |row| row.get::<_, String>(3));
        for step in rows.unwrap().map(Result::unwrap) {
            let table = step.strip_prefix("SCAN ").and_then(|step| step.split(' ').next());
            let scanned =
                table.is_some_and(|table| ["files", "contents", "chunks", "documents"].contains(&table));
            // The index of the files that are in no output, and the newest files first.
            let is_bounded = step.contains("INDEX open_files") || sql.contains("ORDER BY id DESC LIMIT");
            assert!(!scanned || is_bounded, "{sql}: {step}");
        }
    }
}
