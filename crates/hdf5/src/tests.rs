//! Damaged files: reading terminates soon and does not panic, whatever the bytes. The mutations are the same in every
//! run. `VIRTUALIZE_MUTATIONS=100000 cargo test --release -p virtualize-hdf5 mutations` runs more of them.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use damage::damage;
use virtualize_bytes::{Limits, MemorySource};

use crate::{cursor::IGNORED, read, testing::ready};

#[path = "../../fuzz/src/damage.rs"]
mod damage;

const LIMITS: Limits = Limits {
    objects: 10_000,
    depth: 64,
    chunks: 1_000_000,
    structure_bytes: 1 << 24,
    metadata_bytes: 1 << 28,
    attributes: 10_000,
};

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hdf5");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_file = |path: &PathBuf| path.extension().is_some_and(|end| end == "h5" || end == "nc");
    let mut paths: Vec<_> = paths.filter(is_file).collect();
    paths.sort();
    paths
}

#[test]
fn mutations_neither_panic_nor_hang() {
    let rounds = std::env::var("VIRTUALIZE_MUTATIONS").map_or(40, |rounds| rounds.parse().unwrap());
    IGNORED.set(true);
    for path in fixtures() {
        let whole = std::fs::read(&path).unwrap();
        for round in 0..rounds {
            let mut bytes = whole.clone();
            damage(&mut bytes, &mut fastrand::Rng::with_seed(round));
            let (source, start) = (MemorySource(bytes.into()), Instant::now());
            let result = std::panic::catch_unwind(|| drop(ready(read(&source, &LIMITS))));
            assert!(result.is_ok(), "{}, round {round}: panic", path.display());
            let took = start.elapsed();
            assert!(took < Duration::from_secs(5), "{}, round {round}: {took:?}", path.display());
        }
    }
}
