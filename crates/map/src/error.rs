use std::borrow::Cow;

use virtualize_bytes::ReadError;
use virtualize_remedy::{OptionName, Remedy};
use virtualize_zarr::{CodecError, DataType, MetadataError, ZarrFormat};

/// Why a part of a file has no equivalent in the virtual hierarchy.
///
/// One line each, without the path of the node: the diagnostic that carries the error names it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A structure contradicts itself, or the structures that refer to it.
    #[error("{structure}: {problem}")]
    Malformed {
        /// Name of the structure, as in the specification of the source format.
        structure: Cow<'static, str>,
        /// What was found and what was expected.
        problem: String,
    },
    /// Stored bytes end past the end of the file.
    #[error("{structure}: ends at {end:#x}, past the end of the file ({size:#x})")]
    Truncated {
        /// What is stored there.
        structure: Cow<'static, str>,
        /// End of the stored bytes, exclusive, in bytes from the start of the file.
        end: u64,
        /// Size of the file in bytes.
        size: u64,
    },
    /// A valid feature of the source format that the mapping, or every released Zarr reader, lacks.
    #[error("{feature}: {problem}")]
    Unsupported {
        /// The feature, in the words of the source format.
        feature: Cow<'static, str>,
        /// Why it cannot be mapped.
        problem: Cow<'static, str>,
    },
    /// No Zarr data type has the values of a type of the source format.
    #[error("Zarr has no data type for {0}")]
    NoDataType(String),
    /// Zarr has no sequences of variable length. As contiguous ragged arrays they would be mapped.
    #[error("Zarr has no data type for {0}")]
    Sequences(String),
    /// No reader opens structures with array members.
    #[error("the compound member \"{0}\" is an array, which Zarr structures cannot hold")]
    ArrayMember(String),
    /// The values of a dataset that the mapping depends on could not be read.
    #[error("its values of variable length cannot be read: {0}")]
    HeapValues(String),
    /// The member of a compound type cannot become the field of a structure.
    #[error("member \"{member}\" of the compound: {error}")]
    Member {
        /// Name of the member.
        member: String,
        /// What is wrong with its type.
        error: Box<Error>,
    },
    /// No codec that released readers of the Zarr format have undoes a filter or a compression.
    #[error("{scheme}: {problem}")]
    Undecodable {
        /// The filter, compression or predictor, in the words of the source format.
        scheme: Cow<'static, str>,
        /// Why it cannot be decoded.
        problem: Cow<'static, str>,
    },
    /// A value cannot be converted to a data type without changing it.
    #[error("{value} is no value of type {data_type}")]
    Inexact {
        /// The value as text.
        value: String,
        /// The data type of the array.
        data_type: DataType,
    },
    /// A value has no representation in JSON, and so in attributes.
    #[error("JSON has no representation of {0}")]
    NotJson(String),
    /// Chunks are missing, and no scalar equals what their elements read as.
    #[error("{missing} chunks are missing, and {problem}")]
    NoFillValue {
        /// Number of missing chunks.
        missing: u64,
        /// Why the fill value is no scalar of the array's type.
        problem: &'static str,
    },
    /// Content that has to be inlined is larger than the inline limit.
    #[error("{reason}; inlining {content} exceeds the limit of {limit} bytes")]
    InlineLimit {
        /// Why the content has to be inlined.
        reason: Cow<'static, str>,
        /// Amount of the content, as text.
        content: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// Complex integers that Zarr v3 has to inline as complex numbers are larger than the inline limit.
    #[error(
        "no reader makes complex numbers of complex integers in Zarr v3, and inlining {bytes} bytes exceeds the limit of {limit}"
    )]
    ComplexIntegers {
        /// Size of the complex numbers.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The last strip of an image is shorter than a chunk, and nothing completes it.
    #[error("its last strip has {rows} of {chunk_rows} rows, which no reader completes under {scheme}")]
    ShortStrip {
        /// Rows of the strip.
        rows: u64,
        /// Rows of a chunk.
        chunk_rows: u64,
        /// Compression and predictor, in the words of the TIFF specification.
        scheme: String,
        /// The Zarr format that the image is mapped for.
        format: ZarrFormat,
    },
    /// A file asks for more of something than the mapping allows.
    #[error("more than {limit} {what}")]
    Limit {
        /// What is counted, in the plural.
        what: &'static str,
        /// The largest number that is allowed.
        limit: u64,
    },
    /// A size or an extent exceeds the integers that Zarr metadata or references hold.
    #[error("{0} is too large to count")]
    Overflow(&'static str),
    /// A name cannot be that of a Zarr node.
    #[error("{name:?} {problem}")]
    Name {
        /// The name.
        name: String,
        /// Why it cannot be used.
        problem: &'static str,
    },
    /// A link, a reference or a path leads to no object of the file.
    #[error("{link} {problem}")]
    Unresolved {
        /// The link, reference or path.
        link: Cow<'static, str>,
        /// Where it leads instead.
        problem: Cow<'static, str>,
    },
    /// Another file that this one names cannot be used.
    #[error("file \"{file}\": {problem}")]
    OtherFile {
        /// The file as named, or its url.
        file: String,
        /// Why it cannot be used.
        problem: Cow<'static, str>,
    },
    /// The source of a virtual dataset cannot be used.
    #[error("source \"{dataset}\" in \"{file}\": {error}")]
    Source {
        /// Path of the source dataset.
        dataset: String,
        /// The file that holds it, as named; "." for the same file.
        file: String,
        /// What is wrong with it.
        error: Box<Error>,
    },
    /// The HDF5 reader could not read a structure.
    #[error(transparent)]
    Hdf5(#[from] virtualize_hdf5::Error),
    /// The TIFF reader could not read an image.
    #[error(transparent)]
    Image(virtualize_tiff::Error),
    /// The TIFF reader could not read a tag that an image depends on.
    #[error(transparent)]
    Tag(virtualize_tiff::Error),
    /// The memory that the file may take is spent.
    #[error(transparent)]
    Budget(#[from] ReadError),
    /// The Zarr format has no name for a codec.
    #[error("{error}{}", if *in_v2 { " (Zarr v2 has a name for it)" } else { "" })]
    Codec {
        /// The codec.
        error: CodecError,
        /// Zarr v2 has a name for it.
        in_v2: bool,
    },
    /// The Zarr format cannot express the metadata of an array.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
}

/// Result of a step of the mapping.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A structure that contradicts itself or another.
    pub(crate) fn malformed(structure: impl Into<Cow<'static, str>>, problem: impl Into<String>) -> Self {
        Self::Malformed { structure: structure.into(), problem: problem.into() }
    }

    /// A feature that the mapping lacks.
    pub(crate) fn unsupported(
        feature: impl Into<Cow<'static, str>>,
        problem: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Unsupported { feature: feature.into(), problem: problem.into() }
    }

    /// A filter or a compression without a codec.
    pub(crate) fn undecodable(
        scheme: impl Into<Cow<'static, str>>,
        problem: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Undecodable { scheme: scheme.into(), problem: problem.into() }
    }

    /// A link or a path that leads to no object.
    pub(crate) fn unresolved(
        link: impl Into<Cow<'static, str>>,
        problem: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Unresolved { link: link.into(), problem: problem.into() }
    }

    /// The same error, of a source of a virtual dataset; the innermost source is named.
    #[must_use]
    pub(crate) fn of_source(self, dataset: &str, file: &str) -> Self {
        match self {
            Self::Source { .. } => self,
            error => {
                Self::Source { dataset: dataset.to_owned(), file: file.to_owned(), error: Box::new(error) }
            }
        }
    }

    /// Returns what the user can do about the error.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::InlineLimit { .. } => Some(
                Remedy::turn_on(OptionName::InlineLimit, "raise the limit")
                    .or(Remedy::turn_on(OptionName::CopyLimit, "raise that of a combined archive")),
            ),
            Self::Sequences(_) => {
                Some(Remedy::turn_on(OptionName::Ragged, "write it as a contiguous ragged array"))
            }
            Self::ArrayMember(_) => {
                Some(Remedy::turn_on(OptionName::Ragged, "map its items as fields named 0, 1, …"))
            }
            Self::ComplexIntegers { .. } => {
                let name = OptionName::ComplexIntegers;
                Some(Remedy::set(name, "structure", "reference them as structures of integers"))
            }
            Self::ShortStrip { format, .. } => {
                let effect = match format {
                    ZarrFormat::V2 => "reference it as it is (in a Zarr v3 format)",
                    ZarrFormat::V3 => "reference it as it is",
                };
                Some(Remedy::set(OptionName::ChunkGrid, "rectilinear", effect))
            }
            Self::Source { error, .. } | Self::Member { error, .. } => error.remedy(),
            _ => None,
        }
    }

    /// Another file that cannot be used.
    pub(crate) fn other_file(file: &str, problem: impl Into<Cow<'static, str>>) -> Self {
        Self::OtherFile { file: file.to_owned(), problem: problem.into() }
    }
}
