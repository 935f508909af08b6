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
pub mod netcdf3;
mod options;
mod probe;
mod readable;
mod report;
mod source_attribute;
mod split;
mod task;
pub mod tiff;
mod transform;
mod unpack;

use crate::error::Result;
use crate::mapped::check_metadata;

pub use crate::error::Error;
pub use crate::mapped::LeftOut;
pub use crate::mapped::Mapped;
pub use crate::options::ChunkGridChoice;
pub use crate::options::ComplexIntegers;
pub use crate::options::MapOptions;
pub use crate::probe::Finding;
pub use crate::probe::SampleLimits;
pub use crate::probe::image_codec;
pub use crate::probe::keeps_jpeg_colors;
pub use crate::probe::sample;
pub use crate::probe::settle;
pub use crate::report::ArrayReport;
pub use crate::report::Diagnostic;
pub use crate::report::FillDecision;
pub use crate::report::FillPolicy;
pub use crate::report::FillSource;
pub use crate::report::Outcome;
pub use crate::report::Report;
pub use crate::report::Severity;
pub use crate::source_attribute::NumpyField;
pub use crate::source_attribute::NumpyType;
pub use crate::source_attribute::SourceAttribute;
pub use crate::source_attribute::SourceValue;
pub use crate::task::ChunkContent;
pub use crate::task::ConvertedPart;
pub use crate::task::ElementTransform;
pub use crate::task::FloatFormat;
pub use crate::task::InlineTask;
pub use crate::task::LercLayout;
pub use crate::task::PaddedString;
pub use crate::task::Piece;
pub use crate::task::PieceBytes;
pub use crate::task::ReferenceText;
pub use crate::task::StringEnd;
