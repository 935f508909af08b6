//! Local folders whose files are on the disk before a commit refers to them.
//!
//! Icechunk's own storage for folders leaves the writing to the system. After a loss of power, the file that names all
//! commits may then be empty, and the repository unreadable.

use std::{
    fmt::{self, Display},
    fs, io,
    num::{NonZeroU16, NonZeroU64},
    path::{Path, PathBuf},
    sync::Arc,
};

use icechunk::storage::{
    ConcurrencySettings, ObjectStorage, ObjectStoreBackend, RetriesSettings, Role, Settings, StorageError,
    StorageErrorKind, StorageInfo,
};
use object_store::{ObjectStore, local::LocalFileSystem};
use serde::{Deserialize, Serialize};
use virtualize_store::sync_folder;

use crate::IcechunkError;

/// Returns the storage of a repository in a folder.
pub(crate) fn storage(path: &Path) -> Result<ObjectStorage, IcechunkError> {
    // The only public way from a backend to a storage.
    let backend: &dyn ObjectStoreBackend = &DurableFolder { path: path.to_owned() };
    let stored = serde_json::json!({ "backend": backend });
    serde_json::from_value(stored).map_err(IcechunkError::of("connecting to the repository"))
}

/// Creates a folder and its missing parents, durably.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().unwrap_or(Path::new(""));
    create_folder(parent)?;
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made.and_then(|()| sync_folder(parent)),
    }
}

/// A folder to which each file is written with `fsync`, and then its name.
#[derive(Debug, Serialize, Deserialize)]
struct DurableFolder {
    path: PathBuf,
}

impl Display for DurableFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

#[typetag::serde(name = "virtualize_durable_folder")]
impl ObjectStoreBackend for DurableFolder {
    fn storage_info(&self) -> StorageInfo {
        StorageInfo { backend_type: "local folder", fields: vec![("path", self.path.display().to_string())] }
    }

    fn mk_object_store(&self, _: &Settings, _: Role) -> Result<Arc<dyn ObjectStore>, StorageError> {
        let path = fs::canonicalize(&self.path).map_err(storage_error)?;
        let folder = LocalFileSystem::new_with_prefix(path);
        let folder =
            folder.map_err(|error| StorageError::capture(StorageErrorKind::ObjectStore(Box::new(error))))?;
        Ok(Arc::new(folder.with_fsync(true)))
    }

    fn prefix(&self) -> String {
        String::new()
    }

    fn artificially_sort_refs_in_mem(&self) -> bool {
        true
    }

    fn supports_storage_class(&self) -> bool {
        false
    }

    fn default_settings(&self) -> Settings {
        Settings {
            concurrency: Some(ConcurrencySettings {
                max_concurrent_requests_for_object: NonZeroU16::new(5),
                ideal_concurrent_request_size: NonZeroU64::new(4096),
            }),
            // A folder has neither.
            unsafe_use_conditional_update: Some(false),
            unsafe_use_metadata: Some(false),
            retries: Some(RetriesSettings {
                max_tries: NonZeroU16::new(1),
                initial_backoff_ms: Some(0),
                max_backoff_ms: Some(0),
            }),
            ..Settings::default()
        }
    }

    fn create_location_if_needed(&self) -> Result<(), StorageError> {
        create_folder(&self.path).map_err(storage_error)
    }
}

fn storage_error(error: io::Error) -> StorageError {
    StorageError::capture(match error.kind() {
        io::ErrorKind::NotFound => StorageErrorKind::ObjectNotFound,
        _ => StorageErrorKind::IOError(error),
    })
}
