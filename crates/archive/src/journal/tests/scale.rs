//! Time and space of a journal of many files: `FILES=1000000 cargo test -p virtualize-archive scale -- --ignored
//! --nocapture`, best with `--release`.
#![allow(clippy::print_stderr, reason = "measurements are for people")]

use std::{sync::Arc, time::Instant};

use super::*;
use crate::journal::{record::NodeRecord, unsigned};

fn documents(history: bool, n: u64) -> Vec<(&'static str, String)> {
    let array = |name: &str, shape: &str, more: &str| {
        format!(
            "{{\"attributes\":{{\"standard_name\":\"{name}\",\"long_name\":\"a long name of {name}\",\"units\":\"K\"{more}}},\
            \"chunk_grid\":{{\"configuration\":{{\"chunk_shape\":{shape}}},\"name\":\"regular\"}},\
            \"chunk_key_encoding\":{{\"configuration\":{{\"separator\":\"/\"}},\"name\":\"default\"}},\
            \"codecs\":[{{\"name\":\"bytes\",\"configuration\":{{\"endian\":\"little\"}}}}],\
            \"data_type\":\"float64\",\"dimension_names\":[\"time\"],\"fill_value\":0.0,\"node_type\":\"array\",\
            \"shape\":{shape},\"storage_transformers\":[],\"zarr_format\":3}}"
        )
    };
    let history = match history {
        true => format!(",\"history\":\"Mon Nov 23 {n} 2026: ncks -d time,{n} in.nc out_{n}.nc\""),
        false => String::new(),
    };
    let root = format!(
        "{{\"attributes\":{{\"Conventions\":\"CF-1.8\",\"title\":\"reanalysis of everything\"{history}}},\
        \"node_type\":\"group\",\"zarr_format\":3}}"
    );
    vec![
        ("", root),
        ("lat", array("lat", "[20]", "")),
        ("lon", array("lon", "[30]", "")),
        ("t2m", array("t2m", "[240]", ",\"scale_factor\":0.5")),
        ("time", array("time", "[1]", "")),
    ]
}

/// Returns the record of a file; equal documents share their text.
fn member(n: u64, item: &Item, chunks: u64, texts: &[(&str, Arc<str>)]) -> FileRecord {
    let mut rng = fastrand::Rng::with_seed(n);
    let table = |count: u64, rng: &mut fastrand::Rng| {
        let lengths: Vec<u32> = (0..count).map(|_| rng.u32(40_000..45_000)).collect();
        let mut offset = 8000 + rng.u64(..500);
        let offsets: Vec<_> = lengths.iter().map(|length| (offset, offset += u64::from(*length)).0).collect();
        let (offsets, lengths) = (offsets.into(), virtualize::zarr::Lengths::Each(lengths.into()));
        let source = virtualize::zarr::SourceId(0);
        let column = virtualize::zarr::References { source, positions: None, offsets, lengths };
        codec::encode_chunks(&virtualize::zarr::ChunkManifest::of(column), |id| id.0)
    };
    let node = |(path, document): &(&str, Arc<str>)| {
        let count = match *path {
            "" => 0,
            "t2m" => chunks,
            _ => 1,
        };
        let chunks = if count > 0 { table(count, &mut rng) } else { Vec::new() };
        NodeRecord { path: (*path).to_owned(), document: Arc::clone(document), chunks, count }
    };
    let source = virtualize::zarr::Source {
        url: item.url.clone(),
        etag: item.etag.clone(),
        size: item.size.unwrap_or_default(),
        modified: item.modified,
    };
    FileRecord {
        storage: "0123456789abcdef".repeat(4),
        signature: "{\"a signature\":1}".into(),
        extent: format!(
            "{{\"extents\":[{{\"size\":1,\"range\":{{\"first\":{{\"Int\":{n}}},\"last\":{{\"Int\":{n}}},\"direction\":\
            \"Single\",\"digest\":{},\"units\":\"hours since 1970-01-01\",\"calendar\":\"standard\"}}}}]}}",
            n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ),
        nodes: texts.iter().map(node).collect(),
        sources: vec![source],
        values: [("time".to_owned(), bytes::Bytes::copy_from_slice(&n.to_le_bytes()))].into(),
        digests: ["lat", "lon"].map(|path| (path.to_owned(), "ab01".repeat(16))).into(),
        ..FileRecord::default()
    }
}

fn items(files: std::ops::Range<u64>) -> Vec<Item> {
    files
        .map(|n| Item {
            url: format!("s3://an-archive-of-era5/reanalysis/{}/t2m_{n:08}.nc", 1940 + n / 10_000),
            size: Some(12_706 + n % 100),
            etag: Some(format!("\"{:032x}\"", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
            modified: Some(1_700_000_000_000),
            ..Item::default()
        })
        .collect()
}

/// Imports files as a merge does, a thousand at a time.
fn import(journal: &mut Journal, files: std::ops::Range<u64>, chunks: u64, history: bool) {
    let shared =
        |n| documents(history, n).into_iter().map(|(path, text)| (path, Arc::from(text))).collect::<Vec<_>>();
    let mut texts: Vec<(&str, Arc<str>)> = shared(0);
    let mut files = files.peekable();
    while files.peek().is_some() {
        let batch: Vec<(String, Outcome)> = files
            .by_ref()
            .take(1000)
            .map(|n| {
                let item = items(n..n + 1).remove(0);
                if history {
                    texts[0] = shared(n).swap_remove(0);
                }
                let row = member(n, &item, chunks, &texts);
                (item.url.clone(), done(Record::Member(Box::new(row))))
            })
            .collect();
        IMPORTED.with(|time| {
            let start = cpu();
            journal.import(&batch, false).unwrap();
            time.set(time.get() + cpu() - start);
        });
    }
}

thread_local! {
    /// Seconds spent importing, without the making of the rows.
    static IMPORTED: std::cell::Cell<f64> = const { std::cell::Cell::new(0.0) };
}

/// Returns the seconds of CPU time of this thread.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|time| time.parse::<f64>().ok()).unwrap_or_default() / 1e9
}

fn measure<T>(what: &str, files: u64, run: impl FnOnce() -> T) -> T {
    let (start, wall) = (cpu(), Instant::now());
    let result = run();
    let each = (cpu() - start) * 1e6 / files as f64;
    eprintln!("{what:>16}: {each:6.2} us of CPU a file, {:.1} s", wall.elapsed().as_secs_f64());
    result
}

#[test]
#[ignore = "measures"]
fn scale() {
    let number = |name: &str, otherwise| std::env::var(name).map_or(otherwise, |it| it.parse().unwrap());
    let (files, chunks) = (number("FILES", 100_000), number("CHUNKS", 1));
    let history = number("HISTORY", 0) == 1;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j");
    let mut journal = Journal::open(&path).unwrap();
    let mut listing = Listing::default();
    let pages: Vec<Vec<Item>> =
        (0..files).step_by(1000).map(|start| items(start..files.min(start + 1000))).collect();
    measure("stage", files, || {
        pages.iter().for_each(|items| journal.stage(items, &mut listing).unwrap());
    });
    drop(pages);
    measure("accept", files, || accept(&mut journal, Accept::default()));
    measure("import (all)", files, || import(&mut journal, 0..files, chunks, history));
    eprintln!("          import: {:6.2} us of CPU a file", IMPORTED.get() * 1e6 / files as f64);
    let rows: Vec<i64> =
        measure("plan", files, || journal.rows_after(0).unwrap().iter().map(|row| row.id).collect());
    measure("begin", files, || {
        journal.begin_output("o", ("plan", "content"), rows.iter().copied(), false).unwrap();
    });
    measure("finish", files, || journal.finish_output("o", "receipt").unwrap());
    drop(journal);
    let size = std::fs::metadata(&path).unwrap().len();
    eprintln!("{:>16}: {} bytes a file", "journal", size / files);
    eprintln!("{}", tables(&path, files));
    let mut journal = Journal::open(&path).unwrap();
    let all = || rows.iter().map(|id| u64::try_from(*id).unwrap());
    measure("heads, a transaction each", files, || all().for_each(|row| drop(journal.head(row).unwrap())));
    journal.connection.execute_batch("BEGIN").unwrap();
    measure("heads", files, || all().for_each(|row| drop(journal.head(row).unwrap())));
    measure("chunks of t2m", files, || all().for_each(|row| drop(journal.chunks(row, "t2m").unwrap())));
    journal.connection.execute_batch("COMMIT").unwrap();
    journal.set_tail("o", *rows.last().unwrap(), b"state").unwrap();
    measure("append one", 1, || {
        append_one(&mut journal, files);
    });
}

/// Does what a run does that appends a file to `files` others.
pub(super) fn append_one(journal: &mut Journal, files: u64) {
    let n = files;
    stage(journal, &items(n..n + 1));
    assert_eq!(journal.to_check("", 1000).unwrap().len(), 0);
    assert!(journal.last_unlisted(1000).unwrap().len() <= 1000);
    let changed = journal.vanished(true, 9).unwrap().count + journal.replaced(9).unwrap().count;
    assert_eq!(journal.unwritten(9).unwrap().count, 0);
    accept(journal, Accept { append: true, ..Accept::default() });
    import(journal, n..n + 1, 1, false);
    journal.pending().unwrap();
    journal.failures(9).unwrap();
    let done = journal.counts().unwrap().done;
    let (through, state) = journal.tail("o").unwrap().unwrap_or_default();
    let new: Vec<i64> = journal.rows_after(through).unwrap().iter().map(|row| row.id).collect();
    if changed == 0 {
        assert_eq!((done, new.len()), (n + 1, 1));
    }
    journal.begin_output("o", ("plan", "content"), new.iter().copied(), true).unwrap();
    journal.finish_output("o", "receipt").unwrap();
    journal.set_tail("o", *new.last().unwrap(), &state).unwrap();
}

/// Returns the bytes a file of each table and index.
fn tables(path: &Path, files: u64) -> String {
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT name, sum(pgsize), sum(unused) FROM dbstat GROUP BY name ORDER BY 2 DESC LIMIT 6";
    let mut statement = connection.prepare(sql).unwrap();
    let row = |row: &rusqlite::Row<'_>| {
        let (name, size, unused): (String, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(format!("{:>40}: {} ({} unused)", name, unsigned(size) / files, unsigned(unused) / files))
    };
    statement.query_map([], row).unwrap().collect::<Result<Vec<_>, _>>().unwrap().join("\n")
}
