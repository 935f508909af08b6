//! Outputs of several files on a local disk are written completely or not at all.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{fs, io::Write, path::Path};

use crate::common::{OUTPUTS, options, run};
use virtualize_store::{SideFolder, StoreError};

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
    let mut folder = SideFolder::create(&format!("{}/", target.display()), false, OUTPUTS).unwrap();
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
    put(&mut SideFolder::create(target.to_str().unwrap(), false, OUTPUTS).unwrap(), "a");
    assert!(names(root.path()).is_empty());
}

#[test]
fn outputs_are_replaced_with_overwrite_and_other_folders_never() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("store");
    let path = target.to_str().unwrap();
    let write = |overwrite: bool, key: &str| {
        let mut folder = SideFolder::create(path, overwrite, OUTPUTS)?;
        put(&mut folder, key);
        put(&mut folder, "root");
        run(folder.finish(&options()))
    };
    fs::create_dir(&target).unwrap();
    write(false, "ours.first").unwrap();
    write(true, "ours.second").unwrap();
    assert_eq!(names(&target), ["ours.second", "root"]);
    assert!(matches!(write(false, "ours.third"), Err(StoreError::Occupied { foreign: None, .. })));
    let foreign = |key: &str| {
        let found = write(true, "ours.third").unwrap_err();
        assert!(
            matches!(&found, StoreError::Occupied { foreign: Some(foreign), .. } if foreign == key),
            "{found}"
        );
        assert_eq!(fs::read_to_string(target.join("ours.second")).unwrap(), "ours.second");
    };
    for key in ["thesis.txt", ".hidden", "ours.d/thesis.txt"] {
        let file = target.join(key);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "x").unwrap();
        foreign(key);
        fs::remove_file(&file).unwrap();
    }
    fs::remove_dir(target.join("ours.d")).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(root.path(), target.join("ours.link")).unwrap();
        foreign("ours.link (not a regular file)");
        fs::remove_file(target.join("ours.link")).unwrap();
    }
    fs::remove_file(target.join("root")).unwrap();
    foreign("ours.second");
    let file = root.path().join("file");
    fs::write(&file, "x").unwrap();
    for overwrite in [false, true] {
        assert!(SideFolder::create(file.to_str().unwrap(), overwrite, OUTPUTS).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "x");
    }
    assert_eq!(names(root.path()), ["file", "store"]);
}

#[test]
fn files_that_are_added_meanwhile_are_not_replaced() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("store");
    for overwrite in [false, true] {
        let mut folder = SideFolder::create(target.to_str().unwrap(), overwrite, OUTPUTS).unwrap();
        put(&mut folder, "root");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("mine"), "x").unwrap();
        run(folder.finish(&options())).unwrap_err();
        assert_eq!(names(&target), ["mine"]);
        fs::remove_dir_all(&target).unwrap();
    }
}

#[test]
fn keys_stay_within_and_come_once() {
    let root = tempfile::tempdir().unwrap();
    let mut folder = SideFolder::create(root.path().join("store").to_str().unwrap(), false, OUTPUTS).unwrap();
    for key in ["", "..", "a/../b", "/a", "a//b", "a/", "./a", "a\\b", "a\0"] {
        assert!(folder.file(key).is_err(), "{key:?}");
    }
    put(&mut folder, "a");
    for key in ["a", "a/b"] {
        assert!(folder.file(key).is_err(), "{key:?}");
    }
}
