use std::path::{Path, PathBuf};

use crate::{StoreError, location::Location};

/// Location of an output, with which its sources are compared.
#[derive(Clone, Debug)]
pub struct OutputPlace {
    location: Location,
    /// Whether the output is a folder or a prefix.
    several_files: bool,
    /// Real path of a local output that exists.
    real: Option<PathBuf>,
}

impl OutputPlace {
    /// Returns the location of an output, which is a folder or a prefix if it consists of several files.
    pub fn new(target: &str, several_files: bool) -> Result<Self, StoreError> {
        let target = if several_files { target.trim_end_matches('/') } else { target };
        let location = Location::parse(target)?;
        let real = match &location {
            Location::Local(path) => path.canonicalize().ok(),
            _ => None,
        };
        Ok(Self { location, several_files, real })
    }

    /// Returns whether a path or URL leads to the output, or to a file in it.
    pub fn contains(&self, url: &str) -> bool {
        match (Location::parse(url), &self.location) {
            (Ok(Location::Local(path)), Location::Local(output)) => {
                self.is_in(&path, output)
                    || self
                        .real
                        .as_ref()
                        .is_some_and(|real| path.canonicalize().is_ok_and(|path| self.is_in(&path, real)))
            }
            (Ok(other), output) if other == *output => true,
            (Ok(other), output) if self.several_files => {
                other.url().strip_prefix(&output.url()).is_some_and(|rest| rest.starts_with('/'))
            }
            _ => false,
        }
    }

    fn is_in(&self, path: &Path, output: &Path) -> bool {
        path == output || self.several_files && path.starts_with(output)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_in_a_folder_are_known() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().canonicalize().unwrap().join("store");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a.nc"), "x").unwrap();
        let place = OutputPlace::new(folder.to_str().unwrap(), true).unwrap();
        assert!(place.contains(&format!("file://{}/a.nc", folder.display())));
        assert!(!place.contains(&format!("file://{}2/a.nc", folder.display())));
        let file = OutputPlace::new(folder.join("a.nc").to_str().unwrap(), false).unwrap();
        assert!(file.contains(&format!("file://{}/a.nc", folder.display())));
        #[cfg(unix)]
        {
            let link = root.path().join("link");
            std::os::unix::fs::symlink(&folder, &link).unwrap();
            assert!(place.contains(&format!("file://{}/a.nc", link.display())));
            assert!(file.contains(link.join("a.nc").to_str().unwrap()));
        }
    }

    #[test]
    fn objects_below_a_prefix_are_known() {
        let place = OutputPlace::new("s3://bucket/store.zarr/", true).unwrap();
        assert!(place.contains("s3://bucket/store.zarr/a.nc") && place.contains("s3://bucket/store.zarr"));
        assert!(!place.contains("s3://bucket/store.zarr2/a.nc") && !place.contains("/store.zarr/a.nc"));
        let object = OutputPlace::new("s3://bucket/a.json", false).unwrap();
        assert!(object.contains("s3://bucket/a.json") && !object.contains("s3://bucket/a.json/b"));
    }
}
