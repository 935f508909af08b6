//! Outputs of several files on a local disk are written completely or not at all.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::{fs, io::Write, path::Path};

use common::{options, run};
use virtualize_store::{ExistingFolder, SideFolder, StoreError};

fn names(folder: &Path) -> Vec<String> {
    let all = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn put(folder: &mut SideFolder, key: &str) {
    folder.file(key).unwrap().write_all(key.as_bytes()).unwrap();
}

#[test]
fn nothing_is_there_until_all_is() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("store.zarr");
    let mut folder = SideFolder::create(&format!("{}/", target.display()), false).unwrap();
    put(&mut folder, "a/b c/zarr.json");
    put(&mut folder, "zarr.json");
    assert!(!target.exists());
    run(folder.finish(&options())).unwrap();
    assert_eq!(fs::read_to_string(target.join("a/b c/zarr.json")).unwrap(), "a/b c/zarr.json");
    assert_eq!(names(root.path()), ["store.zarr"]);
    #[cfg(unix)]
    {
        let mode =
            |path: &Path| std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
        fs::create_dir(root.path().join("usual")).unwrap();
        assert_eq!(mode(&target), mode(&root.path().join("usual")));
    }
}

#[test]
fn what_was_dropped_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("store");
    put(&mut SideFolder::create(target.to_str().unwrap(), false).unwrap(), "a");
    assert!(names(root.path()).is_empty());
}

#[test]
fn what_is_there_is_replaced_only_when_asked_for() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("store");
    let path = target.to_str().unwrap();
    fs::create_dir(&target).unwrap();
    for (overwrite, key) in [(false, "first"), (true, "second")] {
        let mut folder = SideFolder::create(path, overwrite).unwrap();
        put(&mut folder, key);
        run(folder.finish(&options())).unwrap();
        assert_eq!(names(&target), [key]);
    }
    assert!(matches!(SideFolder::create(path, false), Err(StoreError::Occupied { .. })));
    let file = root.path().join("file");
    fs::write(&file, "x").unwrap();
    for overwrite in [false, true] {
        let done = SideFolder::create(file.to_str().unwrap(), overwrite)
            .and_then(|folder| run(folder.finish(&options())));
        assert!(done.is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "x");
    }
    assert_eq!(names(root.path()), ["file", "store"]);
}

#[test]
fn what_came_meanwhile_is_not_replaced() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("store");
    let mut folder = SideFolder::create(target.to_str().unwrap(), false).unwrap();
    put(&mut folder, "a");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("mine"), "x").unwrap();
    run(folder.finish(&options())).unwrap_err();
    assert_eq!(names(&target), ["mine"]);
}

#[test]
fn keys_stay_within_and_come_once() {
    let root = tempfile::tempdir().unwrap();
    let mut folder = SideFolder::create(root.path().join("store").to_str().unwrap(), false).unwrap();
    for key in ["", "..", "a/../b", "/a", "a//b", "a/", "./a", "a\\b", "a\0"] {
        assert!(folder.file(key).is_err(), "{key:?}");
    }
    put(&mut folder, "a");
    for key in ["a", "a/b"] {
        assert!(folder.file(key).is_err(), "{key:?}");
    }
}

#[test]
fn an_extension_keeps_files_and_replaces_the_folder_at_once() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("store");
    let path = target.to_str().unwrap();
    let mut folder = SideFolder::create(path, false).unwrap();
    for key in ["a/0", "a/1", "b"] {
        put(&mut folder, key);
    }
    let receipt = run(folder.finish(&options())).unwrap();
    let existing = ExistingFolder::find(path, &options()).unwrap().unwrap();
    assert_eq!(existing.receipt(), receipt);
    let opened = fs::File::open(target.join("a/1")).unwrap();
    let mut folder = SideFolder::extend(path, &existing).unwrap();
    folder.keep("a/0").unwrap();
    folder.file("a/1").unwrap().write_all(b"new").unwrap();
    assert!(folder.keep("a/1").is_err() && folder.keep("missing").is_err() && folder.keep("../x").is_err());
    let extended = run(folder.finish(&options())).unwrap();
    assert_eq!(ExistingFolder::find(path, &options()).unwrap().unwrap().receipt(), extended);
    assert_eq!(names(&target), ["a"]);
    assert_eq!(names(&target.join("a")), ["0", "1"]);
    assert_eq!(fs::read_to_string(target.join("a/1")).unwrap(), "new");
    assert_eq!(names(root.path()), ["store"]);
    // A reader that has opened a file goes on reading the earlier output.
    assert_eq!(std::io::read_to_string(opened).unwrap(), "a/1");
}
