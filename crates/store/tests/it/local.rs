//! Local files: rejected files, detection of changes, and replacement of outputs.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{fs, io::Write};

use crate::common::{options, run};
use virtualize_bytes::{ByteRange, ReadErrorKind, ReadRanges};
use virtualize_store::{SideFile, StoreError, open};

#[test]
fn paths_other_than_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("file"), "x").unwrap();
    let error = |location: &str| run(open(location, &options())).unwrap_err();
    assert!(matches!(error(&at("none")), StoreError::NotFound { .. }));
    assert!(matches!(error(&at("file/none")), StoreError::NotFound { .. }));
    assert!(matches!(error(&at(".")), StoreError::NotAFile { .. }));
    #[cfg(unix)]
    assert!(matches!(error("/dev/null"), StoreError::NotAFile { .. }));
    assert_eq!(error("").kind(), ReadErrorKind::Invalid);
}

#[test]
fn a_change_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let read = |change: &dyn Fn()| {
        fs::write(&path, "0123456789").unwrap();
        run(async {
            let object = open(path.to_str().unwrap(), &options()).await.unwrap();
            change();
            (
                object.read_ranges(&[ByteRange::new(2, 2)]).await.map_err(|error| error.kind),
                object.verify().is_ok(),
            )
        })
    };
    assert!(matches!(read(&|| ()), (Ok(_), true)));
    assert!(matches!(read(&|| fs::write(&path, "shorter").unwrap()), (Err(ReadErrorKind::Changed), false)));
    let replaced = read(&|| {
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another file").unwrap();
    });
    assert!(matches!(replaced, (_, false)), "the path leads to another file");
}

#[test]
fn output_appears_only_when_it_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out.json");
    fs::write(&target, "{old").unwrap();
    let mut side = SideFile::create(&target).unwrap();
    side.write_all(b"half").unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"{old");
    drop(side);
    assert_eq!(fs::read(&target).unwrap(), b"{old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    let mut side = SideFile::create(&target).unwrap();
    side.write_all(b"new").unwrap();
    side.finish().unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"new");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn modes_and_links_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("out.json"), folder.path().join("link.json"));
    fs::write(&target, "{old").unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o664)).unwrap();
    symlink(&target, &link).unwrap();
    let mut side = SideFile::create(&link).unwrap();
    side.write_all(b"new").unwrap();
    side.finish().unwrap();
    assert!(link.is_symlink());
    assert_eq!(fs::read(&target).unwrap(), b"new");
    assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o664);
    let fresh = folder.path().join("fresh.json");
    SideFile::create(&fresh).unwrap().finish().unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, "").unwrap();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(fresh), mode(plain), "as any new file, umask and all");
}

#[test]
fn a_folder_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(SideFile::create(&folder.path().join("no/out.json")), Err(StoreError::NotFound { .. })));
    assert!(matches!(SideFile::create(folder.path()), Err(StoreError::NotAFile { .. })));
}

#[test]
fn an_output_in_a_missing_folder_names_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let error = SideFile::create(&folder.path().join("refs/out.json")).unwrap_err().to_string();
    assert!(error.contains("out.json: the folder") && error.ends_with("refs: not found"), "{error}");
}
