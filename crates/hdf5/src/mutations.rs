//! Damaged files: reading terminates soon and does not panic, whatever the bytes. The mutations are the same in every
//! run. `VIRTUALIZE_MUTATIONS=100000 cargo test --release -p virtualize-hdf5 mutations` runs more of them.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use virtualize_bytes::{Limits, MemorySource};

use crate::{read, spec::checksum::IGNORED, walk::ready::ready};

const LIMITS: Limits = Limits {
    objects: 10_000,
    depth: 64,
    chunks: 1_000_000,
    structure_bytes: 1 << 24,
    metadata_bytes: 1 << 28,
    attributes: 10_000,
};

/// Deterministic pseudorandom numbers: a linear congruential generator with Knuth's constants.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % below.max(1)
    }
}

/// Overwrites a few places with values that counts, sizes and addresses do not expect.
fn damage(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..=numbers.next(3) {
        let at = numbers.next(bytes.len());
        let width = [1, 1, 2, 4, 8][numbers.next(5)].min(bytes.len() - at);
        let from = numbers.next(bytes.len() - width);
        match numbers.next(6) {
            0 => bytes[at..at + width].fill(0xff),
            1 => bytes[at..at + width].fill(0),
            2 => bytes[at] ^= 1 << numbers.next(8),
            3 => bytes[at] = bytes[at].wrapping_add(1),
            4 => bytes.copy_within(from..from + width, at),
            _ => bytes[at] = u8::try_from(numbers.next(256)).unwrap(),
        }
    }
    if numbers.next(20) == 0 {
        bytes.truncate(numbers.next(bytes.len()));
    }
}

fn read_all(bytes: Vec<u8>) {
    let source = MemorySource(bytes.into());
    drop(ready(read(&source, &LIMITS)));
}

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
            damage(&mut bytes, &mut Numbers(round));
            let start = Instant::now();
            let result = std::panic::catch_unwind(|| read_all(bytes));
            assert!(result.is_ok(), "{}, round {round}: panic", path.display());
            let took = start.elapsed();
            assert!(took < Duration::from_secs(5), "{}, round {round}: {took:?}", path.display());
        }
    }
}
