//! Reports of a mapping: diagnostics, decisions on fill values, attributes as the source file declares them, and errors.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Number, Value};
use virtualize_bytes::ReadError;
use virtualize_remedy::{Code, Notation, OptionName, Remedy};
use virtualize_zarr::{DataType, Endian, FillValue, MetadataError, NodePath, ZarrFormat};

/// Decisions and diagnostics of mapping a file.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// Diagnostics, in the order in which they were raised.
    pub diagnostics: Vec<Diagnostic>,
    /// Facts about each array that was mapped or omitted, by path.
    pub arrays: BTreeMap<NodePath, ArrayReport>,
    /// Attributes of each group and array of an HDF5 or NetCDF-3 file with their types, without those that h5netcdf hides, if
    /// [`MapOptions::source_attributes`](crate::MapOptions::source_attributes) is set.
    pub attributes: BTreeMap<NodePath, Vec<SourceAttribute>>,
    /// Names of the unlimited dimensions that each group of an HDF5 or NetCDF-3 file defines, with the same option.
    pub unlimited: BTreeMap<NodePath, Vec<String>>,
}

impl Report {
    /// Adds a diagnostic. `path` has no leading slash; it is empty for the whole file.
    pub(crate) fn info(&mut self, code: Code, path: &str, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::info(code, path, message));
    }

    /// Adds a warning.
    pub(crate) fn warn(&mut self, code: Code, path: &str, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::warning(code, path, message));
    }
}

/// Facts about one array.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ArrayReport {
    /// Data type in the terms of the source format, such as "big-endian 16-bit integer".
    pub source_type: String,
    /// Whether elements are text of variable length that the file declares as ASCII.
    pub is_ascii: bool,
    /// Storage layout in the terms of the source format, such as "chunked, version-1 B-tree".
    pub source_layout: String,
    /// Filters or compression in the terms of the source format, in the order of encoding.
    pub source_filters: Vec<String>,
    /// Decision on the fill value; `None` where the array was omitted before it.
    pub fill: Option<FillDecision>,
    /// Reason for leaving the array out.
    pub omitted: Option<String>,
}

/// Decision on the fill value and the sentinel of an array.
#[derive(Clone, PartialEq, Debug)]
pub struct FillDecision {
    /// Policy of the source format.
    pub policy: FillPolicy,
    /// All fill values of the file, in order of priority.
    pub sources: Vec<FillSource>,
    /// Zarr's `fill_value`, which missing chunks read as. `None` is v2's null.
    pub fill_value: Option<FillValue>,
    /// Value that means "no data".
    pub sentinel: Option<FillValue>,
}

/// Stable name of the policy by which a source format's fill values are decided, such as "tiff-nodata".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FillPolicy(pub &'static str);

/// One place of the file that declares a fill value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FillSource {
    /// Place of the declaration, such as "fill value message, version 3, user-defined" or "tag GDAL_NODATA (42113)".
    pub origin: String,
    /// Declared value, as text.
    pub text: String,
    /// Whether it was used.
    pub outcome: Outcome,
}

/// Whether a declared fill value was used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was used.
    Used,
    /// It agrees with the used value, or concerns another concept, and is kept.
    Kept,
    /// It was dropped, for this reason.
    Dropped(String),
}

/// A decision of the mapping that could surprise a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Severity.
    pub severity: Severity,
    /// Stable code, such as `fill-value-dropped`.
    pub code: Code,
    /// Absolute path of the node concerned; "/" for the whole file.
    pub path: String,
    /// What happened and why, in one line.
    pub message: String,
    /// What the user can do.
    pub remedy: Option<Remedy>,
}

/// Severity of a diagnostic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Nothing was lost.
    Info,
    /// Something was omitted. A failure in strict mode.
    Warning,
    /// The file is refused.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

impl Diagnostic {
    /// `path` has no leading slash; it is empty for the whole file.
    pub(crate) fn new(severity: Severity, code: Code, path: &str, message: impl Into<String>) -> Self {
        Self { severity, code, path: format!("/{path}"), message: message.into(), remedy: None }
    }

    /// Nothing was lost.
    pub(crate) fn info(code: Code, path: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Info, code, path, message)
    }

    /// Something was omitted or dropped.
    pub(crate) fn warning(code: Code, path: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, path, message)
    }

    /// The file is refused.
    pub(crate) fn error(code: Code, path: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, path, message)
    }

    /// Adds what the user can do.
    pub(crate) fn with(self, remedy: impl Into<Option<Remedy>>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }

    /// Renders the diagnostic as one line, `path: message (remedy) [code]`.
    pub fn render(&self, notation: Notation) -> String {
        let Self { path, message, code, .. } = self;
        format!("{path}: {}", notation.line(message, self.remedy.as_ref(), *code))
    }
}

/// `path: message [code]`, one line without the remedy.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [{}]", self.path, self.message, self.code)
    }
}

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

    /// Something that the mapping does not support, for the reason in the message.
    pub(crate) fn refused(message: String) -> Self {
        Self::new(Code::TiffUnsupported, message)
    }

    /// Adds what the user can do.
    pub(crate) fn or(self, remedy: Remedy) -> Self {
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
        Self::refused(format!("{}: {}", feature.into(), problem.into()))
    }

    /// A type whose values no Zarr data type has.
    pub(crate) fn no_data_type(source_type: String) -> Self {
        Self::refused(format!("Zarr has no data type for {source_type}"))
    }

    /// Values of variable length, on which the mapping of a dataset depends, that could not be read.
    pub fn heap_values(reason: &str) -> Self {
        Self::refused(format!("its values of variable length cannot be read: {reason}"))
    }

    /// A value that cannot be converted to a data type without changing it.
    pub(crate) fn inexact(value: &str, data_type: &DataType) -> Self {
        Self::refused(format!("{value} is not a value of type {data_type}"))
    }

    /// A value without a representation in JSON, and so in attributes.
    pub(crate) fn not_json(value: &str) -> Self {
        Self::refused(format!("JSON has no representation of {value}"))
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
        Self::refused(message).or(Remedy::set(OptionName::ChunkGrid, "rectilinear", effect))
    }

    /// More of something, given in the plural, than the mapping allows.
    pub(crate) fn limit(what: &str, limit: u64) -> Self {
        Self::refused(format!("more than {limit} {what}"))
    }

    /// A size or an extent that exceeds the integers of Zarr metadata or references.
    pub(crate) fn overflow(what: &str) -> Self {
        Self::new(Code::TiffMalformed, format!("{what} is too large to count"))
    }

    /// A name that a Zarr node cannot have.
    pub(crate) fn name(name: &str, problem: &str) -> Self {
        Self::refused(format!("{name:?} {problem}"))
    }

    /// A link, reference or path that leads to no object of the file.
    pub(crate) fn unresolved(link: impl Into<Cow<'static, str>>, problem: &str) -> Self {
        Self::refused(format!("{} {problem}", link.into()))
    }

    /// Another file, as named, that cannot be used.
    pub(crate) fn other_file(file: &str, problem: &str) -> Self {
        Self::refused(format!("file \"{file}\": {problem}"))
    }

    /// The same error, of a source of a virtual dataset; the innermost source is named.
    #[must_use]
    pub(crate) fn of_source(self, dataset: &str, file: &str) -> Self {
        if self.names_source {
            return self;
        }
        Self { names_source: true, ..self.within(&format!("source \"{dataset}\" in \"{file}\"")) }
    }

    /// The same error, of a part of a structure.
    #[must_use]
    pub(crate) fn within(self, part: &str) -> Self {
        Self { message: format!("{part}: {self}"), ..self }
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
        Self::refused(error.to_string())
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        Self::new(Code::TooLarge, error.to_string())
    }
}

impl From<MetadataError> for Error {
    fn from(error: MetadataError) -> Self {
        Self::refused(error.to_string())
    }
}

/// `1 chunk`, or `2 chunks`.
pub(crate) fn chunk_count(count: u64) -> String {
    format!("{count} chunk{}", if count == 1 { "" } else { "s" })
}

// Attributes as the source file declares them. JSON does not keep their types.

/// An attribute of the source file.
#[derive(Clone, PartialEq, Debug)]
pub struct SourceAttribute {
    /// Name.
    pub name: String,
    /// Type, shape and elements.
    pub value: SourceValue,
}

/// Bytes of memory for an attribute, without its name and elements.
const ATTRIBUTE: u64 = 128;

/// Bytes of memory for an element of variable length, without its content.
const ELEMENT: u64 = 32;

impl SourceAttribute {
    /// Estimates the memory of the attribute in bytes. JSON counts as none, as its creation is charged elsewhere.
    pub(crate) fn weight(&self) -> u64 {
        let elements = match &self.value {
            SourceValue::Fixed { bytes, .. } => bytes.len() as u64,
            SourceValue::Text { elements, .. } | SourceValue::Sequences { elements, .. } => {
                elements.iter().map(|element| (element.len() as u64).saturating_add(ELEMENT)).sum()
            }
            SourceValue::Json(_) => 0,
        };
        ATTRIBUTE.saturating_add(self.name.len() as u64).saturating_add(elements)
    }
}

/// Type, shape and elements of an attribute. Shapes are in elements, slowest axis first: empty for a scalar, and `None`
/// for an attribute that declares a type but no elements (HDF5's null dataspace). Elements are in row-major order.
#[derive(Clone, PartialEq, Debug)]
pub enum SourceValue {
    /// Elements of fixed size.
    Fixed {
        /// Type of an element.
        data_type: NumpyType,
        /// Shape.
        shape: Option<Vec<u64>>,
        /// Elements in the byte order of their type.
        bytes: Vec<u8>,
    },
    /// Text.
    Text {
        /// Size of an element in bytes; `None` for variable length.
        length: Option<u32>,
        /// Whether the file declares UTF-8, not ASCII.
        is_utf8: bool,
        /// Shape.
        shape: Option<Vec<u64>>,
        /// Each element as stored, without its padding.
        elements: Vec<Vec<u8>>,
    },
    /// Sequences of variable length.
    Sequences {
        /// Type of an item.
        data_type: NumpyType,
        /// Shape.
        shape: Option<Vec<u64>>,
        /// The items of each element in the byte order of their type.
        elements: Vec<Vec<u8>>,
    },
    /// Any other value, in the form that it has in JSON: references and compounds that contain text of variable length.
    Json(Value),
}

/// A NumPy data type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NumpyType {
    /// A type string, such as `<f4`.
    Plain(String),
    /// A structured type.
    Struct {
        /// Size in bytes, with padding.
        size: u32,
        /// Fields.
        fields: Vec<NumpyField>,
    },
}

/// A field of a structured NumPy data type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NumpyField {
    /// Name.
    pub name: String,
    /// Offset in bytes.
    pub offset: u32,
    /// Type of an element.
    pub data_type: NumpyType,
    /// Shape of an array in the field, slowest axis first; empty for a single value.
    pub shape: Vec<u64>,
}

/// Returns a data type in NumPy's notation, such as `>u2` or `|u1`.
pub(crate) fn numpy_name(data_type: &DataType, endian: Endian) -> String {
    let size = data_type.size().unwrap_or(1);
    let order = match endian {
        _ if data_type.number_size() == 1 => '|',
        Endian::Little => '<',
        Endian::Big => '>',
    };
    let kind = match data_type {
        number if number.is_signed_integer() => 'i',
        number if number.is_integer() => 'u',
        number if number.is_float() => 'f',
        _ => 'c',
    };
    format!("{order}{kind}{size}")
}

/// Returns a number as JSON: integers exact to 64 bits, floats as [`float_json`], booleans as such, complex numbers as a list
/// of two. `None` for other types, and if the bytes are not one element.
pub(crate) fn number_json(data_type: &DataType, value: &FillValue) -> Option<Value> {
    let is_number = data_type.is_integer()
        || data_type.is_float()
        || data_type.is_complex()
        || *data_type == DataType::Bool;
    value.to_json(data_type, ZarrFormat::V2).ok().filter(|_| is_number)
}

/// Returns a float as a JSON number, or as one of the strings "NaN", "Infinity" and "-Infinity".
pub(crate) fn float_json(value: f64) -> Value {
    match Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => "NaN".into(),
        None if value > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// Returns an integer as JSON; past 64 bits as the nearest float.
pub(crate) fn integer_json(value: i128) -> Value {
    match (i64::try_from(value), u64::try_from(value)) {
        (Ok(signed), _) => signed.into(),
        (_, Ok(unsigned)) => unsigned.into(),
        _ => float_json(value as f64),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_keep_their_value_to_the_last_bit() {
        let number = |data_type, bytes: &[u8]| {
            number_json(&data_type, &FillValue::Fixed(bytes::Bytes::copy_from_slice(bytes)))
        };
        assert_eq!(number(DataType::Float32, &0.1f32.to_le_bytes()), Some(json!(0.10000000149011612)));
        assert_eq!(number(DataType::Float64, &f64::NEG_INFINITY.to_le_bytes()), Some(json!("-Infinity")));
        assert_eq!(number(DataType::Int64, &i64::MIN.to_le_bytes()), Some(json!(i64::MIN)));
        assert_eq!(number(DataType::UInt8, &[0xff, 0]), None);
        let single = [1.5f32.to_le_bytes(), f32::NAN.to_le_bytes()].concat();
        assert_eq!(number(DataType::Complex64, &single), Some(json!([1.5, "NaN"])));
        assert_eq!(number(DataType::Bool, &[1]), Some(json!(true)));
        assert_eq!(number(DataType::FixedBytes(1), &[7]), None);
    }
}
