//! The seams to the readers, the mapping and the codecs: one function for each, whatever the format.

use virtualize_bytes::{Budget, Budgeted};
use virtualize_hdf5::model::File;
use virtualize_map::{MapOptions, Mapped};
use virtualize_store::Object;
use virtualize_zarr::Source;

use crate::{Error, Hdf5Reader, Options, others::Others, sniff::Kind};

/// What a file says, in the words of its own format.
#[derive(Debug)]
pub(crate) enum Model {
    /// HDF5.
    Hdf5(Box<virtualize_hdf5::model::File>),
    /// TIFF.
    Tiff(Box<virtualize_tiff::model::File>),
}

impl Model {
    /// Reads a file of a known format.
    pub(crate) async fn read(
        kind: Kind,
        object: &Object,
        options: &Options,
        budget: &Budget<'_>,
    ) -> Result<Self, Error> {
        let name = || object.name().to_owned();
        match kind {
            Kind::Hdf5 => match read_hdf5(object, options, budget).await {
                Ok(file) => Ok(Self::Hdf5(Box::new(file))),
                Err(source) => Err(Error::Hdf5 { name: name(), source }),
            },
            Kind::Tiff => {
                match virtualize_tiff::read(&Budgeted::new(object, budget), &options.limits).await {
                    Ok(file) => Ok(Self::Tiff(Box::new(file))),
                    Err(source) => Err(Error::Tiff { name: name(), source }),
                }
            }
        }
    }

    /// Gives virtual datasets the extent that their sources make.
    pub(crate) fn settle(
        &mut self,
        own: &str,
        others: &mut virtualize_map::hdf5::OtherFiles,
        budget: &Budget<'_>,
    ) {
        if let Self::Hdf5(file) = self {
            virtualize_map::hdf5::resolve_extents(file, own, others, budget);
        }
    }

    /// Maps it to Zarr, with the other files that it takes data from.
    pub(crate) fn map(
        &self,
        source: Source,
        others: &Others,
        options: &MapOptions,
        budget: &Budget<'_>,
    ) -> Mapped {
        match self {
            Self::Hdf5(file) => {
                virtualize_map::hdf5::map_file_among(file, source, &others.files, options, budget)
            }
            Self::Tiff(file) => virtualize_map::tiff::map_file_among(file, source, &others.tiffs, options),
        }
    }

    /// The format's name.
    pub(crate) fn format(&self) -> &'static str {
        match self {
            Self::Hdf5(_) => "HDF5",
            Self::Tiff(_) => "TIFF",
        }
    }
}

/// Reads an HDF5 file with the reader that the user chose.
async fn read_hdf5(
    object: &Object,
    options: &Options,
    budget: &Budget<'_>,
) -> Result<File, virtualize_hdf5::Error> {
    match options.hdf5_reader {
        Hdf5Reader::Native => virtualize_hdf5::read(&Budgeted::new(object, budget), &options.limits).await,
        #[cfg(feature = "libhdf5")]
        Hdf5Reader::Libhdf5 => match object.path() {
            Some(path) => virtualize_libhdf5::read(path),
            None => Err(virtualize_hdf5::Error::Unsupported {
                structure: "file",
                address: 0,
                problem: "libhdf5 reads local files only; the native reader reads remote ones".to_owned(),
            }),
        },
    }
}
