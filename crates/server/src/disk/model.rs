//! Random uses of a cache folder by two services, with crashes and damage (`PROPTEST_CASES=10000`):
//!
//! - a lookup finds what was stored under the key, or nothing
//! - what was stored and neither damaged nor evicted is found
//! - a record changes only if it is still the one that was expected; a crash leaves the old one or the new one
//! - the folder does not outgrow its size

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::{collection::vec, prelude::*};

use super::*;

const MOST: u64 = 4096;
const KEYS: usize = 8;

#[derive(Clone, Debug)]
enum Step {
    Get(usize, usize),
    Put(usize, usize),
    /// Replaces a record, with the expected content taken from the record of the other service if `true`.
    Replace(usize, usize, bool),
    /// The service is killed while it stores an entry: some bytes of the temporary file are left.
    Torn(usize, usize, usize),
    /// The power fails after an entry was stored: only a part of the content, or zeros, reached the disk.
    Lost(usize, usize, bool),
    /// A byte of an entry changes.
    Flip(usize, usize),
    Remove(usize),
    Restart(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (service, key, at) = (0..2_usize, 0..KEYS, 0..1200_usize);
    let step = prop_oneof![
        6 => (service.clone(), key.clone()).prop_map(|(service, key)| Step::Get(service, key)),
        6 => (service.clone(), key.clone()).prop_map(|(service, key)| Step::Put(service, key)),
        3 => (service.clone(), key.clone(), any::<bool>()).prop_map(|(service, key, other)| Step::Replace(service, key, other)),
        2 => (service.clone(), key.clone(), at.clone()).prop_map(|(service, key, at)| Step::Torn(service, key, at)),
        2 => (key.clone(), at.clone(), any::<bool>()).prop_map(|(key, at, zeros)| Step::Lost(key, at, zeros)),
        2 => (key.clone(), at).prop_map(|(key, at)| Step::Flip(key, at)),
        1 => key.prop_map(Step::Remove),
        1 => service.prop_map(Step::Restart),
    ];
    vec(step, 1..60)
}

/// What is stored under a key.
fn content(key: usize) -> Vec<u8> {
    format!("references {key} ").repeat(key * key).into_bytes()
}

fn found(disk: &Disk, key: usize) -> Option<Vec<u8>> {
    let found = disk.get(&key.to_string())?;
    let mut bytes = Vec::new();
    found.file.take(found.bytes).read_to_end(&mut bytes).unwrap();
    Some(bytes)
}

/// Changes a file in place. Time passes, so that the change is visible in the times of the file.
fn change(path: &Path, clock: &mut u64, change: impl FnOnce(&mut Vec<u8>)) {
    let Ok(mut bytes) = fs::read(path) else { return };
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
    *clock += 1;
    let time = SystemTime::now() - Duration::from_secs(30) + Duration::from_millis(*clock);
    File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
}

fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let is_entry = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().ends_with(END);
    entries.filter(is_entry).map(|entry| entry.metadata().unwrap().len()).sum()
}

proptest! {
    #[test]
    fn lookups_are_right_or_find_nothing(steps in steps()) {
        let folder = tempfile::tempdir().unwrap();
        let open = || Disk::open(folder.path(), MOST, Budget::new(MOST)).unwrap();
        let mut services = [open(), open()];
        let (mut whole, mut records, mut clock) = (BTreeSet::new(), BTreeMap::<usize, Vec<u8>>::new(), 0);
        for (number, step) in steps.into_iter().enumerate() {
            let path = |key: usize| folder.path().join(format!("{key}{END}"));
            match step {
                Step::Get(service, key) => {
                    let there = path(key).exists();
                    let found = found(&services[service], key);
                    prop_assert!(found.is_none() || found == Some(content(key)), "another content of {}", key);
                    prop_assert!(!whole.contains(&key) || found.is_some() == there, "{} was not found", key);
                }
                Step::Put(service, key) => {
                    services[service].put(&key.to_string(), &mut io::Cursor::new(content(key))).unwrap();
                    whole.insert(key);
                }
                Step::Replace(service, key, other) => {
                    let expected = records.get(&if other { (key + 1) % KEYS } else { key }).cloned();
                    let fits = expected == records.get(&key).cloned();
                    let record = format!("record {number}").into_bytes();
                    let replaced = services[service].replace_record(&key.to_string(), expected.as_deref(), &record);
                    prop_assert_eq!(replaced.unwrap(), fits);
                    if fits {
                        records.insert(key, record);
                    }
                }
                Step::Torn(service, key, at) => {
                    let bytes = content(key);
                    let name = format!("{ASIDE}torn{service}{at}");
                    fs::write(folder.path().join(name), &bytes[..at.min(bytes.len())]).unwrap();
                }
                Step::Lost(key, at, zeros) => {
                    whole.remove(&key);
                    change(&path(key), &mut clock, |bytes| {
                        let at = at.min(bytes.len());
                        match zeros {
                            true => bytes[at..].fill(0),
                            false => bytes.truncate(at),
                        }
                    });
                }
                Step::Flip(key, at) => {
                    whole.remove(&key);
                    change(&path(key), &mut clock, |bytes| {
                        let at = at % bytes.len().max(1);
                        bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1);
                    });
                }
                Step::Remove(key) => drop(fs::remove_file(path(key))),
                Step::Restart(service) => services[service] = open(),
            }
            for (key, record) in &records {
                for service in &services {
                    let found = service.record(&key.to_string()).unwrap();
                    prop_assert_eq!(found.as_ref(), Some(record));
                }
            }
            // Each service may write a 64th, and one entry, before it looks again.
            let slack = 2 * (MOST / PART + content(KEYS - 1).len() as u64 + DIGEST);
            prop_assert!(size(folder.path()) <= MOST + slack, "{}", size(folder.path()));
        }
    }
}
