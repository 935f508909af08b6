//! Source formats. Each has a variant of [`SourceFormat`] and of [`SourceFile`], and a module with its signature, its
//! reader, and the resolution of the files that a file refers to.

mod hdf5;
mod netcdf3;
mod pointers;
mod tiff;
mod unknown;

use std::sync::Arc;

use virtualize_bytes::{Budget, ReadError, ReadRanges};
use virtualize_map::hdf5::{DatasetKey, HeapTask, HeapValues};
use virtualize_map::{MapOptions, Mapped};
use virtualize_store::Object;
use virtualize_zarr::Source;

use crate::error::Error;
use crate::options::Options;
use crate::sidecar;
use crate::sources::{Sources, head};

pub(crate) use pointers::{Pointed, Pointers, Unresolved};

/// A supported source format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SourceFormat {
    Hdf5,
    Netcdf3,
    Tiff,
}

/// Result of format detection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Detected {
    Known(SourceFormat),
    /// Description of the file's content, as a clause.
    Unknown(String),
}

/// Detects the format of a file from its content.
pub(crate) async fn detect(source: &dyn ReadRanges) -> Result<Detected, ReadError> {
    let head = head(source).await?;
    Ok(if tiff::has_signature(&head) {
        Detected::Known(SourceFormat::Tiff)
    } else if netcdf3::has_signature(&head) {
        Detected::Known(SourceFormat::Netcdf3)
    } else if hdf5::has_signature(source, &head).await? {
        Detected::Known(SourceFormat::Hdf5)
    } else {
        Detected::Unknown(unknown::describe(&head))
    })
}

/// Metadata of a file, and of the files that it refers to.
pub(crate) enum SourceFile {
    Hdf5(hdf5::Files),
    Netcdf3(netcdf3::Files),
    Tiff(tiff::Files),
}

impl SourceFormat {
    /// Reads the metadata of a file.
    pub(crate) async fn read(
        self,
        object: &Object,
        options: &Options,
        budget: &Budget<'_>,
    ) -> Result<SourceFile, Error> {
        let name = || object.name().to_owned();
        match self {
            Self::Hdf5 => match hdf5::Files::read(object, options, budget).await {
                Ok(files) => Ok(SourceFile::Hdf5(files)),
                Err(source) => Err(Error::Hdf5 { name: name(), source }),
            },
            Self::Netcdf3 => match netcdf3::Files::read(object, options, budget).await {
                Ok(files) => Ok(SourceFile::Netcdf3(files)),
                Err(source) => Err(Error::Netcdf3 { name: name(), source }),
            },
            Self::Tiff => match tiff::Files::read(object, options, budget).await {
                Ok(files) => Ok(SourceFile::Tiff(files)),
                Err(source) => Err(Error::Tiff { name: name(), source }),
            },
        }
    }
}

impl SourceFile {
    /// Reads the metadata of an HDF5 file from a sidecar: the given one, or the one beside it. The error is the reason why
    /// the file itself must be read, as a clause.
    pub(crate) async fn from_sidecar(
        object: &Object,
        sidecar: Option<&Arc<Object>>,
        sources: &Sources<'_>,
        options: &Options,
    ) -> Result<Self, String> {
        if !hdf5::starts_with_signature(object).await.map_err(|error| error.to_string())? {
            return Err("it has a user block, which sidecars do not count in all versions".to_owned());
        }
        let sidecar = match sidecar {
            Some(sidecar) => Arc::clone(sidecar),
            None => sidecar::open_beside(object, sources).await?,
        };
        let file = sidecar::read(&sidecar, object, sources, &options.limits).await?;
        Ok(Self::Hdf5(hdf5::Files::of(file)))
    }

    /// Reads the files that the file refers to. Runs before anything is mapped.
    pub(crate) async fn read_related(&mut self, sources: &Sources<'_>, options: &Options) {
        match self {
            Self::Hdf5(files) => files.read_related(sources, options).await,
            Self::Netcdf3(_) => {}
            Self::Tiff(files) => files.read_related(sources, options).await,
        }
    }

    /// Returns whether the file refers to others, found or not.
    pub(crate) fn has_related(&self) -> bool {
        match self {
            Self::Hdf5(files) => files.has_related(),
            Self::Netcdf3(_) => false,
            Self::Tiff(files) => files.has_related(),
        }
    }

    /// Lists the datasets whose values have to be read before the file is mapped.
    pub(crate) fn heap_tasks(
        &self,
        source: &Source,
        options: &MapOptions,
        budget: &Budget<'_>,
    ) -> Vec<(DatasetKey, Result<HeapTask, virtualize_map::Error>)> {
        match self {
            Self::Hdf5(files) => files.heap_tasks(source, options, budget),
            Self::Netcdf3(_) | Self::Tiff(_) => Vec::new(),
        }
    }

    /// Records the values of a dataset, or the reason why they cannot be read.
    pub(crate) fn flatten(
        &mut self,
        key: DatasetKey,
        task: Result<HeapTask, virtualize_map::Error>,
        values: Result<HeapValues, String>,
        budget: &Budget<'_>,
    ) {
        match self {
            Self::Hdf5(files) => files.flatten(key, task, values, budget),
            Self::Netcdf3(_) | Self::Tiff(_) => {}
        }
    }

    /// Maps the file to Zarr.
    pub(crate) fn map(&self, source: Source, options: &MapOptions, budget: &Budget<'_>) -> Mapped {
        match self {
            Self::Hdf5(files) => files.map(source, options, budget),
            Self::Netcdf3(files) => files.map(source, options, budget),
            Self::Tiff(files) => files.map(source, options, budget),
        }
    }

    /// Resolves stored pointers to elements of variable length.
    pub(crate) async fn resolve(&self, stored: Pointers<'_>) -> Result<Vec<Pointed>, Unresolved> {
        match self {
            Self::Hdf5(files) => files.resolve(stored).await,
            Self::Netcdf3(_) | Self::Tiff(_) => Err(Unresolved::NoPointers),
        }
    }

    /// Returns the format's name.
    pub(crate) fn format_name(&self) -> &'static str {
        match self {
            Self::Hdf5(_) => "HDF5",
            Self::Netcdf3(_) => "NetCDF-3",
            Self::Tiff(_) => "TIFF",
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::executor::block_on;
    use virtualize_bytes::MemorySource;

    use super::*;

    fn of(bytes: &[u8]) -> Detected {
        block_on(detect(&MemorySource(Bytes::copy_from_slice(bytes)))).unwrap()
    }

    #[test]
    fn signatures_are_found_behind_user_blocks() {
        let mut file = vec![0; 4096];
        file.extend_from_slice(b"\x89HDF\r\n\x1a\n");
        assert_eq!(of(&file), Detected::Known(SourceFormat::Hdf5));
        file.insert(0, 0);
        assert!(matches!(of(&file), Detected::Unknown(_)), "4097 is no power of two");
        assert_eq!(of(b"II*\0\x08\0\0\0"), Detected::Known(SourceFormat::Tiff));
        assert_eq!(of(b"MM\0\x2b\0\x08\0\0"), Detected::Known(SourceFormat::Tiff));
        assert_eq!(of(b"CDF\x05\0\0\0\0"), Detected::Known(SourceFormat::Netcdf3));
        assert_eq!(of(&[0, 1, 2]), Detected::Unknown("it starts with 00 01 02".to_owned()));
    }
}
