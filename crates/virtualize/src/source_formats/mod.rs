//! Source formats. Each has a variant of [`SourceFormat`] and of [`SourceFile`], and a module with its signature, its
//! reader, and the resolution of the files that a file refers to.

pub(crate) mod hdf5;
mod tiff;

use virtualize_bytes::{Budget, Budgeted, ReadError, ReadRanges};
use virtualize_hdf5::model::File;
use virtualize_map::{
    MapOptions, Mapped,
    hdf5::{OtherFiles, map_file_among},
};
use virtualize_store::Object;
use virtualize_zarr::Source;

use crate::{
    error::Error,
    options::Options,
    sources::{Sources, head},
};

/// A supported source format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SourceFormat {
    Hdf5,
    Netcdf3,
    Tiff,
}

/// Detects the format of a file from its content. The inner error describes the content of another format, as a clause.
pub(crate) async fn detect(source: &dyn ReadRanges) -> Result<Result<SourceFormat, String>, ReadError> {
    let head = head(source).await?;
    Ok(if virtualize_tiff::is_tiff(&head) {
        Ok(SourceFormat::Tiff)
    } else if virtualize_netcdf3::is_netcdf3(&head) {
        Ok(SourceFormat::Netcdf3)
    } else if hdf5::has_signature(source, &head).await? {
        Ok(SourceFormat::Hdf5)
    } else {
        Err(describe(&head))
    })
}

/// Metadata of a file, and of the files that it refers to.
pub(crate) enum SourceFile {
    Hdf5(hdf5::Files),
    Netcdf3(Box<File>),
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
        let name = object.name();
        Ok(match self {
            Self::Hdf5 => {
                let file = hdf5::read(object, options, budget).await;
                SourceFile::Hdf5(hdf5::Files::of(file.map_err(|error| Error::of_hdf5(name, error))?))
            }
            Self::Netcdf3 => {
                let source = Budgeted::new(object, budget);
                let file = virtualize_netcdf3::read(&source, &options.limits).await;
                SourceFile::Netcdf3(Box::new(file.map_err(|error| Error::of_netcdf3(name, error))?))
            }
            Self::Tiff => {
                let files = tiff::Files::read(object, options, budget).await;
                SourceFile::Tiff(files.map_err(|error| Error::of_tiff(name, error))?)
            }
        })
    }
}

impl SourceFile {
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

    /// Maps the file to Zarr.
    pub(crate) fn map(&self, source: Source, options: &MapOptions, budget: &Budget<'_>) -> Mapped {
        match self {
            Self::Hdf5(files) => files.map(source, options, budget),
            Self::Netcdf3(file) => map_file_among(file, source, &OtherFiles::default(), options, budget),
            Self::Tiff(files) => files.map(source, options, budget),
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

/// Describes the apparent content of a file, as a clause.
fn describe(head: &[u8]) -> String {
    const SIGNATURES: &[(&[u8], &str)] = &[
        (b"GRIB", "GRIB"),
        (b"BUFR", "BUFR"),
        (b"\x0e\x03\x13\x01", "HDF4"),
        (b"\x89PNG", "PNG"),
        (b"\xff\xd8\xff", "JPEG"),
        (b"\0\0\0\x0cjP  ", "JPEG 2000"),
        (b"\x1f\x8b", "gzip"),
        (b"BZh", "bzip2"),
        (b"\x28\xb5\x2f\xfd", "Zstandard"),
        (b"\xfd7zXZ", "xz"),
        (b"PK\x03\x04", "zip archive"),
        (b"PAR1", "Parquet"),
        (b"\x93NUMPY", "NumPy array"),
        (b"SIMPLE  =", "FITS"),
        (b"%PDF", "PDF"),
        (b"version https://git-lfs", "Git LFS pointer"),
    ];
    if head.is_empty() {
        return "the file is empty".to_owned();
    }
    if let Some((_, name)) = SIGNATURES.iter().find(|(signature, _)| head.starts_with(signature)) {
        return format!("looks like {name}");
    }
    if head.get(257..262) == Some(b"ustar") {
        return "looks like a tar archive".to_owned();
    }
    text_like(head).unwrap_or_else(|| {
        let bytes: Vec<_> = head.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("it starts with {}", bytes.join(" "))
    })
}

/// Describes a text file; `None` for any other.
fn text_like(head: &[u8]) -> Option<String> {
    let start = head.get(..head.len().min(512))?.to_ascii_lowercase();
    let start = start.trim_ascii_start();
    let contains = |text: &[u8]| start.windows(text.len()).any(|window| window == text);
    let name = if start.starts_with(b"<!doctype html") || start.starts_with(b"<html") {
        "an HTML page"
    } else if start.starts_with(b"<") {
        "XML"
    } else if start.starts_with(b"{") && (contains(b"zarr_format") || contains(b"\"refs\"")) {
        "Zarr metadata"
    } else if start.starts_with(b"{") {
        "JSON"
    } else if start.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
        "text"
    } else {
        return None;
    };
    Some(format!("looks like {name}"))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::executor::block_on;
    use virtualize_bytes::MemorySource;

    use super::*;

    fn of(bytes: &[u8]) -> Result<SourceFormat, String> {
        block_on(detect(&MemorySource(Bytes::copy_from_slice(bytes)))).unwrap()
    }

    #[test]
    fn signatures_are_found_behind_user_blocks() {
        let mut file = vec![0; 4096];
        file.extend_from_slice(b"\x89HDF\r\n\x1a\n");
        assert_eq!(of(&file), Ok(SourceFormat::Hdf5));
        file.insert(0, 0);
        assert!(of(&file).is_err(), "4097 is not a power of two");
        assert_eq!(of(b"II*\0\x08\0\0\0"), Ok(SourceFormat::Tiff));
        assert_eq!(of(b"MM\0\x2b\0\x08\0\0"), Ok(SourceFormat::Tiff));
        assert_eq!(of(b"CDF\x05\0\0\0\0"), Ok(SourceFormat::Netcdf3));
        assert_eq!(of(&[0, 1, 2]), Err("it starts with 00 01 02".to_owned()));
    }

    #[test]
    fn other_formats_are_named() {
        for (head, expected) in [
            (&b"GRIB\0\0\0\x02"[..], "looks like GRIB"),
            (b"\n<!DOCTYPE HTML><html>", "looks like an HTML page"),
            (b"{\"zarr_format\": 2}", "looks like Zarr metadata"),
            (b"", "the file is empty"),
            (&[0, 1, 2], "it starts with 00 01 02"),
        ] {
            assert_eq!(describe(head), expected);
        }
    }
}
