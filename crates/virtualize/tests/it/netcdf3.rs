//! Damaged NetCDF classic files: opening and writing them ends, and does not panic, whatever the bytes. The mutations are the
//! same in every run. `VIRTUALIZE_MUTATIONS=10000 cargo test --release -p virtualize --test it netcdf3` runs more of them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::Path;

use futures::executor::block_on;
use virtualize::{Format, MapOptions, Options, open_object, write_to};

/// Overwrites a few bytes, most of them in the header.
fn damage(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    for _ in 0..random.usize(1..4) {
        let at = random.usize(4..bytes.len().min(400));
        match random.u8(..5) {
            0 => bytes[at] ^= 1 << random.u8(..8),
            1 => bytes[at] = random.u8(..),
            2 => bytes[at..].iter_mut().take(4).for_each(|byte| *byte = 0xff),
            3 => bytes[at..].iter_mut().take(4).for_each(|byte| *byte = 0),
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
    }
    if random.u8(..10) == 0 {
        bytes.truncate(random.usize(..bytes.len()));
    }
}

fn open_and_write(bytes: Vec<u8>) -> bool {
    let formats = [Format::KERCHUNK_JSON, Format::ZARR3_JSON];
    let read = formats.map(|format| {
        let map = MapOptions {
            format: format.zarr_format(),
            inline_limit: 1 << 16,
            split_contiguous: Some(8),
            unpack: format == Format::ZARR3_JSON,
            source_attributes: true,
            ..MapOptions::default()
        };
        let object = virtualize_store::Object::in_memory("memory:///damaged.nc", bytes.clone());
        let opened = block_on(open_object(object, &Options { map, ..Options::default() }));
        opened.is_ok_and(|store| write_to(&store, format, &mut std::io::sink()).is_ok())
    });
    read.contains(&true)
}

#[test]
fn damaged_files_neither_panic_nor_hang() {
    let rounds = std::env::var("VIRTUALIZE_MUTATIONS").map_or(100, |rounds| rounds.parse().unwrap());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/netcdf3");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (mut read, mut all) = (0, 0);
    for path in files.filter(|path| path.extension().is_some_and(|end| end == "nc")) {
        let whole = std::fs::read(&path).unwrap();
        for round in 0..rounds {
            let mut bytes = whole.clone();
            damage(&mut bytes, &mut fastrand::Rng::with_seed(round));
            read += u32::from(open_and_write(bytes));
            all += 1;
        }
    }
    assert!(read > all / 20 && read < all, "{read} of {all} files are read");
}
