//! Replays files from fuzzing, in folders by expected outcome: `fuzz_cases/FORMAT/refused`, `…/omitted` (something is
//! omitted, with a warning), and `…/crashed` for files that once caused a panic, a hang or excessive memory use.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use virtualize::{Format, MapOptions, Options, open, write_to};

/// Time limit of one case.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, PartialEq)]
enum Outcome {
    Refused,
    Omitted,
    Whole,
}

fn outcome(path: &Path, format: Format) -> Outcome {
    let map = MapOptions { format: format.zarr_format(), ..MapOptions::default() };
    let options = Options { map, ..Options::default() };
    let Ok(store) = futures::executor::block_on(open(&path.to_string_lossy(), &options)) else {
        return Outcome::Refused;
    };
    match (write_to(&store, format, &mut std::io::sink()), store.warnings().next()) {
        (Err(_), _) => Outcome::Refused,
        (Ok(()), Some(_)) => Outcome::Omitted,
        (Ok(()), None) => Outcome::Whole,
    }
}

/// Returns the outcome for both formats. Panics if a case exceeds its time limit or panics.
fn outcomes(path: PathBuf) -> [Outcome; 2] {
    let (sender, receiver) = mpsc::channel();
    let name = path.display().to_string();
    thread::spawn(move || {
        sender.send([Format::KERCHUNK_JSON, Format::ZARR3_JSON].map(|format| outcome(&path, format)))
    });
    match receiver.recv_timeout(PATIENCE) {
        Ok(outcomes) => outcomes,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{name}: still running after {PATIENCE:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("{name}: panicked"),
    }
}

/// Returns the files of a class, of all formats.
fn cases(class: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz_cases");
    let formats = std::fs::read_dir(folder).unwrap().map(|format| format.unwrap().path().join(class));
    let files = formats.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn refused() {
    let cases = cases("refused");
    assert!(!cases.is_empty());
    for case in cases {
        let name = case.display().to_string();
        assert_eq!(outcomes(case), [Outcome::Refused, Outcome::Refused], "{name}");
    }
}

#[test]
fn omitted() {
    let cases = cases("omitted");
    assert!(!cases.is_empty());
    for case in cases {
        let name = case.display().to_string();
        assert!(!outcomes(case).contains(&Outcome::Whole), "{name}");
    }
}

#[test]
fn crashed() {
    for case in cases("crashed") {
        outcomes(case);
    }
}
