//! Damaged files: reading terminates and does not panic, whatever the bytes. The mutations are the same in every run.
//! `VIRTUALIZE_MUTATIONS=100000 cargo test --release -p virtualize-netcdf3 mutations` runs more of them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "../../fuzz/src/damage.rs"]
mod damage;

use std::path::Path;

use damage::damage;
use futures::executor::block_on;
use virtualize_bytes::{Limits, MemorySource};
use virtualize_netcdf3::read;

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
