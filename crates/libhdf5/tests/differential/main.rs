//! Compares the native reader with the HDF5 C library, model by model, for every file in fixtures/hdf5 and, if the
//! environment variable CORPUS names a folder, for every file in it.
//!
//! The library can crash or hang on damaged files, so each file is read in a separate process: this binary with the
//! test `one_file`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod allowances;
mod compare;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

use virtualize_bytes::{Limits, MemorySource};

use compare::Difference;

/// Limit on the time that both readers take for a file.
const PATIENCE: Duration = Duration::from_secs(60);
/// Passes the file to [`one_file`].
const FILE: &str = "DIFFERENTIAL_FILE";
/// Printed by the child process before each reader, and at the end.
const TURNS: [&str; 3] = ["turn: ours", "turn: libhdf5", "turn: done"];

#[test]
fn fixtures() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hdf5");
    assert_none_unexplained(&folder);
}

#[test]
fn corpus() {
    if let Some(folder) = std::env::var_os("CORPUS") {
        assert_none_unexplained(Path::new(&folder));
    }
}

/// Compares one file, in a process that the other tests start.
#[test]
#[ignore = "run by the other tests"]
fn one_file() {
    let path = PathBuf::from(std::env::var_os(FILE).expect("named by the parent"));
    println!("{}", TURNS[0]);
    let source = MemorySource(fs::read(&path).unwrap().into());
    let ours = futures::executor::block_on(virtualize_hdf5::read(&source, &Limits::default()));
    println!("{}", TURNS[1]);
    let theirs = virtualize_libhdf5::read(&path);
    println!("{}", TURNS[2]);
    for Difference { class, place, detail } in compare::files(&ours, &theirs) {
        println!("difference\t{class}\t{place}\t{}", detail.replace(['\n', '\t'], " "));
    }
}

fn assert_none_unexplained(folder: &Path) {
    let mut files = Vec::new();
    list(folder, &mut files);
    assert!(!files.is_empty(), "no files in {}", folder.display());
    let differences = compare_all(&files);
    let mut classes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut unexplained = 0;
    for (file, Difference { class, place, detail }) in differences {
        let name = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
        let allowed = allowances::reason(&name, class, &detail);
        unexplained += usize::from(allowed.is_none());
        let title = match allowed {
            Some(reason) => format!("allowed: {class}: {reason}"),
            None => format!("UNEXPLAINED: {class}"),
        };
        classes.entry(title).or_default().push(format!("{name}: {place}: {detail}"));
    }
    println!("{} files of {}", files.len(), folder.display());
    for (title, lines) in &classes {
        println!("{title} ({})", lines.len());
        let shown = if title.starts_with("allowed") { 2 } else { 40 };
        lines.iter().take(shown).for_each(|line| println!("    {line:.400}"));
    }
    assert_eq!(unexplained, 0, "differences without a reason");
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list(&path, files);
        } else if is_hdf5(&path) {
            files.push(path);
        }
    }
    files.sort();
}

/// Returns whether the file has an HDF5 signature.
fn is_hdf5(path: &Path) -> bool {
    let bytes = fs::read(path).unwrap_or_default();
    let places = std::iter::once(0).chain(std::iter::successors(Some(512), |place| Some(place * 2)));
    places
        .take_while(|place| *place < bytes.len())
        .any(|place| bytes[place..].starts_with(b"\x89HDF\r\n\x1a\n"))
}

fn compare_all(files: &[PathBuf]) -> Vec<(PathBuf, Difference)> {
    let (waiting, found) = (Mutex::new(files.iter()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let Some(file) = waiting.lock().unwrap().next() else { return };
            let differences = in_child(file);
            found
                .lock()
                .unwrap()
                .extend(differences.into_iter().map(|difference| (file.clone(), difference)));
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let mut found = found.into_inner().unwrap();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

/// Runs [`one_file`] in a process of its own.
fn in_child(file: &Path) -> Vec<Difference> {
    let output = tempfile::NamedTempFile::new().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "one_file", "--ignored", "--nocapture", "--test-threads=1"])
        .env(FILE, file)
        .stdin(Stdio::null())
        .stdout(output.reopen().unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if start.elapsed() > PATIENCE => {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let text = String::from_utf8_lossy(&fs::read(output.path()).unwrap()).into_owned();
    let mut differences: Vec<_> = text.lines().filter_map(parse).collect();
    let whose = TURNS.iter().rposition(|turn| text.contains(turn)).unwrap_or(0);
    let class = match (whose, status) {
        (2, Some(status)) if status.success() => return differences,
        (0, None) => "ours hangs",
        (0, Some(_)) => "ours crashes",
        (1, None) => "libhdf5 hangs",
        (1, Some(_)) => "libhdf5 crashes",
        _ => "comparison fails",
    };
    differences.push(Difference { class, place: String::new(), detail: format!("{status:?}") });
    differences
}

fn parse(line: &str) -> Option<Difference> {
    let mut parts = line.strip_prefix("difference\t")?.splitn(3, '\t');
    let (class, place, detail) = (parts.next()?, parts.next()?, parts.next()?);
    let class = compare::CLASSES.iter().find(|known| **known == class)?;
    Some(Difference { class, place: place.to_owned(), detail: detail.to_owned() })
}
