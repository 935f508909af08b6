//! Damaged files: reading terminates and does not panic, whatever the bytes. The mutations are the same in every run.
//! `VIRTUALIZE_MUTATIONS=100000 cargo test --release -p virtualize-netcdf3 mutations` runs more of them.

use std::path::Path;

use futures::executor::block_on;
use virtualize_bytes::{Limits, MemorySource};

use crate::read;

/// Deterministic pseudorandom numbers: a linear congruential generator with Knuth's constants.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % below.max(1)
    }
}

/// Overwrites a few places with values that counts, sizes and offsets do not expect.
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

#[test]
fn mutations_neither_panic_nor_hang() {
    let rounds = std::env::var("VIRTUALIZE_MUTATIONS").map_or(2000, |rounds| rounds.parse().unwrap());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/netcdf3");
    let mut read_any = false;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "nc") {
            continue;
        }
        let whole = std::fs::read(&path).unwrap();
        for round in 0..rounds {
            let mut bytes = whole.clone();
            damage(&mut bytes, &mut Numbers(round));
            let source = MemorySource(bytes.into());
            drop(block_on(read(&source, &Limits::default())));
            read_any = true;
        }
    }
    assert!(read_any, "no files to damage");
}
