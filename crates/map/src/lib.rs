#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! Architecture invariants: this is the only place where source types meet Zarr types; it reads no bytes and knows no
//! `async`. Content that has to be fetched is described as an [`InlineTask`]; every decision that could surprise a user
//! is a [`Diagnostic`], and the fate of each fill value a [`FillDecision`].

mod cf;
pub mod hdf5;
mod mapped;
mod probe;
mod report;
mod task;
pub mod tiff;

use serde::{Deserialize, Serialize};
use virtualize_zarr::ZarrFormat;

use crate::mapped::check_metadata;
use crate::report::Result;

pub use crate::cf::{Axis, describe_grids, grid_axes, netcdf_default_fill, regular_axis};
pub use crate::mapped::{Mapped, Omitted};
pub use crate::probe::{Finding, SampleLimits, image_codec, keeps_jpeg_colors, sample, settle};
pub use crate::report::{
    ArrayReport, Diagnostic, Error, FillDecision, FillPolicy, FillSource, NumpyField, NumpyType, Outcome,
    Report, Severity, SourceAttribute, SourceValue,
};
pub use crate::task::{
    ChunkContent, ElementPart, ElementTransform, InlineTask, LercLayout, Piece, PieceBytes, ReferenceText,
    StoredChange,
};

/// Options of mapping a file.
#[derive(Clone, Debug)]
pub struct MapOptions {
    /// Zarr format of the hierarchy.
    pub format: ZarrFormat,
    /// Use the codecs that only the Python package `virtualize` registers ([`Codec::Own`](virtualize_zarr::Codec::Own)),
    /// instead of inlining or dropping what released clients cannot decode.
    pub own_codecs: bool,
    /// Data type of complex integers in TIFF files.
    pub complex_integers: ComplexIntegers,
    /// Maximum number of decoded bytes of one array that are inlined because no reference can express them.
    pub inline_limit: u64,
    /// Maximum number of constant chunks written for an array whose missing chunks need them in Zarr v2.
    pub constant_chunk_limit: u64,
    /// Images of a TIFF to map, by their place: `[2]` is the third of the main chain, `[0, 1]` the second SubIFD of the
    /// first. Empty for all.
    pub ifds: Vec<Vec<usize>>,
    /// Chunk grid of TIFF images whose last strip is shorter than the others.
    pub chunk_grid: ChunkGridChoice,
    /// Join pages of a TIFF that have equal shape, type, chunks and codecs into one array along a new axis.
    pub stack_pages: bool,
    /// Split contiguous HDF5 and NetCDF-3 data along their slowest axis into chunks of at most this many bytes (at least one slice). All
    /// chunks have one size: a divisor of the axis that is at least half the wanted size; else the wanted size, with the
    /// last chunk padded and inlined; else (above `inline_limit`) the largest divisor. Data that would make more than a
    /// million chunks stay whole.
    pub split_contiguous: Option<u64>,
    /// Unpack packed numbers to floats, by codecs of Zarr v3; see docs/semantics.md.
    pub unpack: bool,
    /// Declare sentinels by the Zarr convention `missing_value` as well.
    pub missing_value_convention: bool,
    /// Declare the position of grids of HDF5 and NetCDF files by the Zarr conventions `spatial` and `proj` as well.
    pub spatial_conventions: bool,
    /// Map sequences of variable length as contiguous ragged arrays: their items, and the number of items of each.
    pub ragged: bool,
    /// Follow external links of HDF5 files.
    pub follow_external: bool,
    /// Keep the attributes of HDF5 and NetCDF-3 files with their types, in [`Report::attributes`](crate::Report::attributes).
    pub source_attributes: bool,
}

impl Default for MapOptions {
    fn default() -> Self {
        Self {
            format: ZarrFormat::V2,
            own_codecs: false,
            complex_integers: ComplexIntegers::Complex,
            inline_limit: 16 << 20,
            constant_chunk_limit: 10_000,
            ifds: Vec::new(),
            chunk_grid: ChunkGridChoice::Regular,
            stack_pages: false,
            split_contiguous: None,
            unpack: false,
            missing_value_convention: false,
            spatial_conventions: false,
            ragged: false,
            follow_external: false,
            source_attributes: false,
        }
    }
}

/// Data type of complex integers, for which neither Zarr nor NumPy has a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum ComplexIntegers {
    /// Complex numbers of twice the size, which hold them exactly. Zarr v2 references their chunks; in Zarr v3 they are
    /// inlined, unless readers have the codecs of the Python package.
    #[default]
    Complex,
    /// Structures of two integers, `r` and `i`, by reference in both formats.
    Structure,
}

/// Chunk grid of images whose last strip is shorter than the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum ChunkGridChoice {
    /// Inline a re-encoded last strip of full height, which every reader supports
    #[default]
    Regular,
    /// Reference a shorter last chunk (Zarr v3 extension)
    Rectilinear,
}
