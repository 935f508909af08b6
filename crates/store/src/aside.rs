//! Temporary files and folders beside outputs, `.virtualize-XXXXXX.part`. Whoever makes one locks it as long as it lives,
//! so that what a killed process left can be told from what another one is writing.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::Path,
};

use crate::lock::is_at;

const PREFIX: &str = ".virtualize-";
const SUFFIX: &str = ".part";
/// The folder within a temporary one into which what was there before is moved while the new one takes its place.
pub(crate) const OLD: &str = "old";
/// The folder within a temporary one that is to take the place of the old one; a temporary folder itself is closed to other
/// users.
pub(crate) const INNER: &str = "whole";

/// Makes temporary files and folders.
pub(crate) type Aside = tempfile::Builder<'static, 'static>;

/// Makes something aside, and locks it. `make` gives it, and the file to lock.
pub(crate) fn create<T: AsRef<Path>>(
    mut make: impl FnMut(&mut Aside) -> io::Result<(T, File)>,
) -> io::Result<(T, File)> {
    loop {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).suffix(SUFFIX);
        let (made, file) = make(&mut builder)?;
        // A file system without locks has nothing that is taken away either.
        let lost = matches!(file.try_lock(), Err(TryLockError::WouldBlock)) || !is_at(&file, made.as_ref());
        if !lost {
            return Ok((made, file));
        }
    }
}

/// Takes away what processes left in a folder when they were killed, in the folders below it too where `deep`. The only
/// copy of an output that was being replaced stays.
pub fn remove_abandoned(folder: &Path, deep: bool) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        let Ok(kind) = entry.file_type() else { continue };
        if name.starts_with(PREFIX) && name.ends_with(SUFFIX) && (kind.is_file() || kind.is_dir()) {
            remove(&path, kind.is_dir());
        } else if deep && kind.is_dir() {
            remove_abandoned(&path, deep);
        }
    }
}

fn remove(path: &Path, is_folder: bool) {
    let Ok(file) = File::open(path) else { return };
    if file.try_lock().is_err() || !is_at(&file, path) {
        return;
    }
    if path.join(OLD).exists() && path.join(INNER).exists() {
        tracing::warn!(
            "{}: has an output that was being replaced when the process was killed",
            path.display()
        );
        return;
    }
    let removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Ok(()) => tracing::info!("{}: left by a process that was killed, removed", path.display()),
        Err(error) => tracing::warn!("{}: left by a process that was killed: {error}", path.display()),
    }
}
