use std::collections::BTreeMap;

use virtualize_zarr::{FillValue, NodePath};

use crate::Diagnostic;

/// How a file was mapped, for people and for `inspect`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// Everything worth saying, in the order in which it came up.
    pub diagnostics: Vec<Diagnostic>,
    /// What is known of each array that was mapped, or left out.
    pub arrays: BTreeMap<NodePath, ArrayReport>,
}

/// What is known of one array.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ArrayReport {
    /// The type in the source's own words, such as "big-endian 16-bit integer".
    pub source_type: String,
    /// The storage in the source's own words, such as "chunked, version-1 B-tree".
    pub source_layout: String,
    /// Filters or compression in the source's own words, in the order of encoding.
    pub source_filters: Vec<String>,
    /// How the fill value was decided; `None` where the array was left out before that.
    pub fill: Option<FillDecision>,
    /// Why the array was left out, where it was.
    pub left_out: Option<String>,
}

/// How the fill value and the sentinel of an array were decided.
#[derive(Clone, PartialEq, Debug)]
pub struct FillDecision {
    /// The policy that was applied.
    pub policy: FillPolicy,
    /// All sources found, in order of priority.
    pub sources: Vec<FillSource>,
    /// Zarr's `fill_value`: what a missing chunk reads as. `None` is v2's null.
    pub fill_value: Option<FillValue>,
    /// The value that means "no data", where there is one.
    pub sentinel: Option<FillValue>,
}

/// The two policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FillPolicy {
    /// HDF5: the header's fill value is authoritative.
    Hdf5Header,
    /// TIFF: nodata becomes the fill value.
    TiffNodata,
}

/// One place of the file that speaks of a fill value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FillSource {
    /// Where it was found, such as "fill value message, version 3, user-defined" or "tag GDAL_NODATA (42113)".
    pub origin: String,
    /// What stands there, as text.
    pub text: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a fill value source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It won.
    Used,
    /// It says the same as the winner, or speaks of another concept and is kept as it is.
    Kept,
    /// It was dropped; the reason.
    Dropped(String),
}
