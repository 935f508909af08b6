//! An output has one writer at a time.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;

use crate::common::{options, run};
use virtualize_store::{OutputLock, StoreError};

#[test]
fn a_local_output_has_one_writer() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("out.json");
    let path = target.to_str().unwrap();
    let first = run(OutputLock::acquire(path, &options())).unwrap();
    run(first.check()).unwrap();
    for name in [path, &format!("file://{path}"), &format!("{path}/")] {
        assert!(
            matches!(run(OutputLock::acquire(name, &options())), Err(StoreError::Locked { .. })),
            "{name}"
        );
    }
    run(OutputLock::acquire(root.path().join("other").to_str().unwrap(), &options())).unwrap();
    drop(first);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "nothing is left");
    run(run(OutputLock::acquire(path, &options())).unwrap().release());
}

#[cfg(unix)]
#[test]
fn a_link_and_what_it_leads_to_are_one_output() {
    let root = tempfile::tempdir().unwrap();
    let (target, link) = (root.path().join("out"), root.path().join("link"));
    fs::create_dir(&target).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let _first = run(OutputLock::acquire(target.to_str().unwrap(), &options())).unwrap();
    let second = run(OutputLock::acquire(link.to_str().unwrap(), &options()));
    assert!(matches!(second, Err(StoreError::Locked { .. })));
}

#[cfg(unix)]
#[test]
fn a_device_is_not_locked() {
    run(OutputLock::acquire("/dev/null", &options())).unwrap();
}

#[test]
fn remains_of_a_killed_process_are_not_a_lock() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join(".virtualize-out.json.lock"), "").unwrap();
    run(OutputLock::acquire(root.path().join("out.json").to_str().unwrap(), &options())).unwrap();
    let long = "x".repeat(255);
    run(OutputLock::acquire(root.path().join(long).to_str().unwrap(), &options())).unwrap();
    assert!(run(OutputLock::acquire(root.path().join("no/out.json").to_str().unwrap(), &options())).is_err());
}
