use std::collections::BTreeMap;
use std::fmt;

use virtualize_remedy::{Code, Notation, Remedy};
use virtualize_zarr::{FillValue, NodePath};

use crate::SourceAttribute;

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

    /// Adds diagnostics of one node.
    pub(crate) fn extend(&mut self, path: &str, remarks: Vec<(Severity, Code, String)>) {
        let diagnostics = remarks
            .into_iter()
            .map(|(severity, code, message)| Diagnostic::new(severity, code, path, message));
        self.diagnostics.extend(diagnostics);
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
