use std::borrow::Cow;

use virtualize_bytes::ReadError;
use virtualize_remedy::{Code, OptionName, Remedy};
use virtualize_zarr::{CodecError, DataType, MetadataError, ZarrFormat};

/// Why a part of a file has no equivalent in the virtual hierarchy.
///
/// One line, without the path of the node: the diagnostic that carries the error names it.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    message: String,
    /// The diagnostic code if an image is omitted for this reason.
    image_code: Code,
    remedy: Option<Box<Remedy>>,
    /// Whether the message names the source of a virtual dataset.
    names_source: bool,
}

/// Result of a step of the mapping.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    fn new(image_code: Code, message: String) -> Self {
        Self { message, image_code, remedy: None, names_source: false }
    }

    fn or(self, remedy: Remedy) -> Self {
        Self { remedy: Some(Box::new(remedy)), ..self }
    }

    /// A structure that contradicts itself, or the structures that refer to it.
    pub(crate) fn malformed(structure: impl Into<Cow<'static, str>>, problem: impl Into<String>) -> Self {
        Self::new(Code::TiffMalformed, format!("{}: {}", structure.into(), problem.into()))
    }

    /// Stored bytes that end at `end`, past the end of the file of `size` bytes.
    pub(crate) fn truncated(structure: &str, end: u64, size: u64) -> Self {
        let message = format!("{structure}: ends at {end:#x}, past the end of the file ({size:#x})");
        Self::new(Code::TiffTruncated, message)
    }

    /// A valid feature of the source format that the mapping lacks, or a filter, compression or predictor for which no released
    /// Zarr reader has a codec.
    pub(crate) fn unsupported(
        feature: impl Into<Cow<'static, str>>,
        problem: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(Code::TiffUnsupported, format!("{}: {}", feature.into(), problem.into()))
    }

    /// A codec that the Zarr format has no name for; `in_v2` says that Zarr v2 has one.
    pub(crate) fn no_codec_name(error: &CodecError, in_v2: bool) -> Self {
        let hint = if in_v2 { " (Zarr v2 has one)" } else { "" };
        Self::new(Code::TiffUnsupported, format!("{error}{hint}"))
    }

    /// A type whose values no Zarr data type has.
    pub(crate) fn no_data_type(source_type: String) -> Self {
        Self::new(Code::TiffUnsupported, format!("Zarr has no data type for {source_type}"))
    }

    /// Zarr has no variable-length sequence type. `--ragged` maps them as contiguous ragged arrays.
    pub(crate) fn sequences(source_type: String) -> Self {
        Self::no_data_type(source_type)
            .or(Remedy::turn_on(OptionName::Ragged, "write it as a contiguous ragged array"))
    }

    /// A structure with an array member, which no reader opens.
    pub(crate) fn array_member(name: &str) -> Self {
        let message =
            format!("the compound member \"{name}\" is an array, which Zarr structures cannot hold");
        Self::new(Code::TiffUnsupported, message)
            .or(Remedy::turn_on(OptionName::Ragged, "map its items as fields named 0, 1, …"))
    }

    /// Values of variable length, on which the mapping of a dataset depends, that could not be read.
    pub fn heap_values(reason: &str) -> Self {
        let message = format!("its values of variable length cannot be read: {reason}");
        Self::new(Code::TiffUnsupported, message)
    }

    /// The same error, of a member of a compound type.
    pub(crate) fn of_member(self, name: &str) -> Self {
        Self { message: format!("member \"{name}\" of the compound: {self}"), ..self }
    }

    /// A value that cannot be converted to a data type without changing it.
    pub(crate) fn inexact(value: &str, data_type: &DataType) -> Self {
        Self::new(Code::TiffUnsupported, format!("{value} is not a value of type {data_type}"))
    }

    /// A value without a representation in JSON, and so in attributes.
    pub(crate) fn not_json(value: &str) -> Self {
        Self::new(Code::TiffUnsupported, format!("JSON has no representation of {value}"))
    }

    /// Missing chunks, whose elements read as no scalar of the array's type.
    pub(crate) fn no_fill_value(missing: u64, problem: &str) -> Self {
        Self::new(Code::TiffUnsupported, format!("{missing} chunks are missing, and {problem}"))
    }

    /// Content that has to be inlined, for a reason, and is larger than the inline limit in bytes.
    pub(crate) fn inline_limit(reason: &str, content: &str, limit: u64) -> Self {
        let message = format!("{reason}; inlining {content} exceeds the limit of {limit} bytes");
        Self::new(Code::InlineLimit, message).or(Remedy::turn_on(OptionName::InlineLimit, "raise the limit")
            .or(Remedy::turn_on(OptionName::CopyLimit, "raise that of a combined archive")))
    }

    /// Complex integers that Zarr v3 has to inline as complex floats of `bytes` bytes, more than the inline limit.
    pub(crate) fn complex_integers(bytes: u64, limit: u64) -> Self {
        let message = format!(
            "no reader converts complex integers to complex numbers in Zarr v3, and inlining {bytes} bytes exceeds the limit of {limit}"
        );
        let effect = "reference them as structures of integers";
        Self::new(Code::InlineLimit, message).or(Remedy::set(
            OptionName::ComplexIntegers,
            "structure",
            effect,
        ))
    }

    /// The last strip of an image, which has `rows` rows instead of those of a chunk and cannot be completed.
    pub(crate) fn short_strip(rows: u64, chunk_rows: u64, scheme: &str, format: ZarrFormat) -> Self {
        let message = format!(
            "its last strip has {rows} of {chunk_rows} rows, which no reader completes under {scheme}"
        );
        let effect = match format {
            ZarrFormat::V2 => "reference it as it is (in a Zarr v3 format)",
            ZarrFormat::V3 => "reference it as it is",
        };
        Self::new(Code::TiffUnsupported, message).or(Remedy::set(
            OptionName::ChunkGrid,
            "rectilinear",
            effect,
        ))
    }

    /// More of something, given in the plural, than the mapping allows.
    pub(crate) fn limit(what: &str, limit: u64) -> Self {
        Self::new(Code::TiffUnsupported, format!("more than {limit} {what}"))
    }

    /// A size or an extent that exceeds the integers of Zarr metadata or references.
    pub(crate) fn overflow(what: &str) -> Self {
        Self::new(Code::TiffMalformed, format!("{what} is too large to count"))
    }

    /// A name that a Zarr node cannot have.
    pub(crate) fn name(name: &str, problem: &str) -> Self {
        Self::new(Code::TiffUnsupported, format!("{name:?} {problem}"))
    }

    /// A link, reference or path that leads to no object of the file.
    pub(crate) fn unresolved(link: impl Into<Cow<'static, str>>, problem: &str) -> Self {
        Self::new(Code::TiffUnsupported, format!("{} {problem}", link.into()))
    }

    /// Another file, as named, that cannot be used.
    pub(crate) fn other_file(file: &str, problem: &str) -> Self {
        Self::new(Code::TiffUnsupported, format!("file \"{file}\": {problem}"))
    }

    /// The same error, of a source of a virtual dataset; the innermost source is named.
    #[must_use]
    pub(crate) fn of_source(self, dataset: &str, file: &str) -> Self {
        if self.names_source {
            return self;
        }
        Self { message: format!("source \"{dataset}\" in \"{file}\": {self}"), names_source: true, ..self }
    }

    /// An image that the TIFF reader could not read.
    pub(crate) fn image(error: &virtualize_tiff::Error) -> Self {
        Self::new(Code::TiffImage, error.to_string())
    }

    /// A tag that the TIFF reader could not read, and on which an image depends.
    pub(crate) fn tag(error: &virtualize_tiff::Error) -> Self {
        Self::new(Code::TiffMalformed, error.to_string())
    }

    /// Returns the diagnostic code for an image that is omitted for this reason.
    pub(crate) fn image_code(&self) -> Code {
        self.image_code
    }

    /// Returns what the user can do about the error.
    pub fn remedy(&self) -> Option<Remedy> {
        self.remedy.as_deref().cloned()
    }
}

impl From<virtualize_hdf5::Error> for Error {
    fn from(error: virtualize_hdf5::Error) -> Self {
        Self::new(Code::TiffUnsupported, error.to_string())
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        Self::new(Code::TooLarge, error.to_string())
    }
}

impl From<MetadataError> for Error {
    fn from(error: MetadataError) -> Self {
        Self::new(Code::TiffUnsupported, error.to_string())
    }
}

/// `1 chunk`, or `2 chunks`.
pub(crate) fn chunk_count(count: u64) -> String {
    format!("{count} chunk{}", if count == 1 { "" } else { "s" })
}
