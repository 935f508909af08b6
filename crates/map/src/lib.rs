#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! Architecture invariants: this is the only place where source types meet Zarr types; it reads no bytes and knows no
//! `async`. Content that has to be fetched is described as an [`InlineTask`]; every decision that could surprise a user
//! is a [`Diagnostic`], and the fate of each fill value a [`FillDecision`].

mod budget;
mod cf;
mod convention;
mod diagnostic;
mod error;
pub mod hdf5;
mod json_numbers;
mod mapped;
pub mod netcdf3;
mod node_names;
mod options;
mod readable;
mod related;
mod report;
mod sample;
mod source_attribute;
mod split;
mod task;
pub mod tiff;
mod transform;
mod unpack;

pub use diagnostic::{Diagnostic, Severity};
pub use error::Error;
use error::Result;
use mapped::check_metadata;
pub use mapped::{LeftOut, Mapped};
pub use options::{ChunkGridChoice, ComplexIntegers, MapOptions};
pub use report::{ArrayReport, FillDecision, FillPolicy, FillSource, Outcome, Report};
pub use sample::{Finding, SampleLimits, image_codec, keeps_jpeg_colors, sample, settle};
pub use source_attribute::{NumpyField, NumpyType, SourceAttribute, SourceValue};
pub use task::{
    ChunkContent, ConvertedPart, ElementTransform, FloatFormat, InlineTask, LercLayout, PaddedString, Piece,
    PieceBytes, ReferenceText, StringEnd,
};
