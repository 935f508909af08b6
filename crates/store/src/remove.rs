//! Deletes files and objects that this program wrote.

use std::{fs, io, path::Path};

use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;

use crate::{StoreError, StoreOptions, clients::Purpose, connect::connect, location::Location, region};

/// Number of objects that are deleted at once.
const AT_ONCE: usize = 16;

/// Deletes files and objects. Those that are not there are no error. A folder is deleted with its last file.
pub async fn remove<T: AsRef<str>>(
    locations: impl IntoIterator<Item = T>,
    options: &StoreOptions,
) -> Result<(), StoreError> {
    let each =
        locations.into_iter().map(|location| async move { remove_one(location.as_ref(), options).await });
    stream::iter(each).buffer_unordered(AT_ONCE).try_collect().await
}

async fn remove_one(location: &str, options: &StoreOptions) -> Result<(), StoreError> {
    let location = Location::parse(location)?;
    let name = location.name();
    if let Location::Local(path) = &location {
        return remove_file(path).map_err(|error| StoreError::io(&name, &error));
    }
    region::settle(&location, options).await?;
    let (store, key) = connect(&location, Purpose::Writing, options)?;
    match store.delete(&key).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(StoreError::remote(&name, &error)),
    }
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        removed => removed?,
    }
    if let Some(folder) = path.parent() {
        // It stays while there are others in it.
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_are_removed_and_then_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let parts = folder.path().join("parts");
        fs::create_dir(&parts).unwrap();
        let paths = ["a", "b", "kept"].map(|name| parts.join(name).display().to_string());
        paths.iter().for_each(|path| fs::write(path, "").unwrap());
        let [a, b, kept] = &paths;
        let options = StoreOptions::default();
        remove([a, b, a], &options).await.unwrap();
        assert!(Path::new(kept).is_file() && !Path::new(a).exists() && !Path::new(b).exists());
        remove([kept], &options).await.unwrap();
        assert!(!parts.exists() && folder.path().is_dir());
    }
}
