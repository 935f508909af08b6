//! Damaged Parquet files cause errors, without much memory. The tests need a process of their own, as they replace its
//! panic hook.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use virtualize_references::ParquetReferences;

static TOLD: AtomicUsize = AtomicUsize::new(0);

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/references")
}

/// Metadata, and Parquet files by their keys.
fn files(folder: &str) -> (Vec<u8>, Vec<(String, Vec<u8>)>) {
    let folder = fixtures().join(folder);
    let mut files = Vec::new();
    let mut arrays: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect();
    arrays.sort();
    for array in arrays {
        let name = array.file_name().unwrap().to_str().unwrap();
        if let Ok(file) = fs::read(array.join("refs.0.parq")) {
            files.push((format!("{name}/refs.0.parq"), file));
        }
    }
    (fs::read(folder.join(".zmetadata")).unwrap(), files)
}

fn add(metadata: &[u8], key: &str, file: Vec<u8>) -> Result<(), String> {
    let mut references = ParquetReferences::new(metadata).unwrap();
    references.add(key, file.into()).map_err(|error| error.to_string())
}

/// Returns the peak memory of the process in KiB, if the system reports it.
fn peak() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find(|line| line.starts_with("VmHWM"))?.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn every_bit_and_every_end() {
    std::panic::set_hook(Box::new(|_| {
        TOLD.fetch_add(1, Ordering::Relaxed);
    }));
    let (mut all, mut refused) = (0, 0);
    for folder in ["fastparquet.parquet", "categories.parquet", "pyarrow.parquet"] {
        let (metadata, files) = files(folder);
        assert!(!files.is_empty());
        for (key, file) in files {
            assert_eq!(add(&metadata, &key, file.clone()), Ok(()));
            for at in 0..file.len() {
                for bit in [at % 8, 7] {
                    let mut damaged = file.clone();
                    damaged[at] ^= 1 << bit;
                    all += 1;
                    refused += u32::from(add(&metadata, &key, damaged).is_err());
                }
                if at % 3 > 0 {
                    continue;
                }
                // The largest number of many bytes.
                let mut damaged = file.clone();
                let end = (at + 5).min(file.len());
                damaged[at..end].copy_from_slice(&[0xFE, 0xFF, 0xFF, 0xFF, 0x0F][..end - at]);
                let _ = add(&metadata, &key, damaged);
            }
            for end in 0..file.len() {
                assert!(add(&metadata, &key, file[..end].to_vec()).is_err(), "{key} cut at {end}");
            }
        }
    }
    assert!(refused > all / 10, "{refused} of {all}");
    if let Some(peak) = peak() {
        assert!(peak < 300 << 10, "{peak} KiB");
    }
}
