//! Damaged files: reading terminates and does not panic, whatever the bytes. The mutations are the same in every run.
//! `VIRTUALIZE_MUTATIONS=100000 cargo test --release -p virtualize-netcdf3 mutations` runs more of them.

use std::path::Path;

use futures::executor::block_on;
use virtualize_bytes::{Limits, MemorySource};

use crate::read;

/// Overwrites a few places with values that counts, sizes and offsets do not expect.
fn damage(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    for _ in 0..=random.usize(..3) {
        let at = random.usize(..bytes.len());
        let width = [1, 1, 2, 4, 8][random.usize(..5)].min(bytes.len() - at);
        let from = random.usize(..bytes.len() - width);
        match random.usize(..6) {
            0 => bytes[at..at + width].fill(0xff),
            1 => bytes[at..at + width].fill(0),
            2 => bytes[at] ^= 1 << random.usize(..8),
            3 => bytes[at] = bytes[at].wrapping_add(1),
            4 => bytes.copy_within(from..from + width, at),
            _ => bytes[at] = u8::try_from(random.usize(..256)).unwrap(),
        }
    }
    if random.usize(..20) == 0 {
        bytes.truncate(random.usize(..bytes.len()));
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
            damage(&mut bytes, &mut fastrand::Rng::with_seed(round));
            let source = MemorySource(bytes.into());
            drop(block_on(read(&source, &Limits::default())));
            read_any = true;
        }
    }
    assert!(read_any, "no files to damage");
}
