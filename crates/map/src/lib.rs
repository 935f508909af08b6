#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! Architecture invariants: this is the only place where source types meet Zarr types; it reads no bytes and knows no
//! `async`. Content that has to be fetched is described as an [`InlineTask`]; every decision that could surprise a user
//! is a [`Diagnostic`], and the fate of each fill value a [`FillDecision`].

mod cf;
mod error;
pub mod hdf5;
mod mapped;
mod options;
mod probe;
mod readable;
mod report;
mod source_attribute;
mod task;
pub mod tiff;

use crate::error::Result;
use crate::mapped::check_metadata;

pub use crate::cf::{Axis, describe_grids, grid_axes, netcdf_default_fill, regular_axis};
pub use crate::error::Error;
pub use crate::mapped::{Mapped, Omitted};
pub use crate::options::{ChunkGridChoice, ComplexIntegers, MapOptions};
pub use crate::probe::{Finding, SampleLimits, image_codec, keeps_jpeg_colors, sample, settle};
pub use crate::report::{
    ArrayReport, Diagnostic, FillDecision, FillPolicy, FillSource, Outcome, Report, Severity,
};
pub use crate::source_attribute::{NumpyField, NumpyType, SourceAttribute, SourceValue};
pub use crate::task::{
    ChunkContent, ElementPart, ElementTransform, InlineTask, LercLayout, Piece, PieceBytes, ReferenceText,
    StoredChange,
};
