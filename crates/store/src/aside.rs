//! Temporary files and folders beside outputs, named `.virtualize-XXXXXX.part`. The process that creates one keeps it
//! locked, so that leftovers of a killed process can be distinguished from files that are being written.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::Path,
};

use crate::lock::is_at;

const PREFIX: &str = ".virtualize-";
const SUFFIX: &str = ".part";
/// Folder within a temporary one that holds the previous output while the new one replaces it.
pub(crate) const OLD: &str = "old";
/// Folder within a temporary one that becomes the output. The temporary folder itself is inaccessible to other users.
pub(crate) const INNER: &str = "whole";

/// Builder of temporary files and folders.
pub(crate) type Aside = tempfile::Builder<'static, 'static>;

/// Creates a temporary file or folder, and locks it. `make` creates it, and returns it with the file to lock.
pub(crate) fn create<T: AsRef<Path>>(
    mut make: impl FnMut(&mut Aside) -> io::Result<(T, File)>,
) -> io::Result<(T, File)> {
    loop {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).suffix(SUFFIX);
        let (made, file) = make(&mut builder)?;
        // On a file system without locks, nothing is removed either, so that an unlocked file is safe.
        let lost = matches!(file.try_lock(), Err(TryLockError::WouldBlock)) || !is_at(&file, made.as_ref());
        if !lost {
            return Ok((made, file));
        }
    }
}

/// Returns whether a path or URL is that of a temporary file or folder, which a killed process may have left.
pub fn is_temporary(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// Removes temporary files that killed processes left in a folder, and with `deep` in its subfolders. Keeps the only
/// copy of an output that was being replaced.
pub fn remove_abandoned(folder: &Path, deep: bool) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        let Ok(kind) = entry.file_type() else { continue };
        if is_temporary(&name) && (kind.is_file() || kind.is_dir()) {
            remove(&path, kind.is_dir());
        } else if deep && kind.is_dir() {
            remove_abandoned(&path, deep);
        }
    }
}

/// Removes an abandoned file or folder, unless a living process holds its lock.
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
