use serde::Deserialize;
use virtualize_zarr::ZarrFormat;

/// Choices of the user.
#[derive(Clone, Debug)]
pub struct MapOptions {
    /// The Zarr format to map for.
    pub format: ZarrFormat,
    /// What to do with a nodata value that the array's type cannot hold.
    pub invalid_nodata: InvalidNodata,
    /// Most bytes (decoded) that one array may inline where no reference can say what the file holds.
    pub inline_limit: u64,
    /// Most constant chunks written for an array whose missing chunks Zarr v2 could not express otherwise.
    pub constant_chunk_limit: u64,
    /// The images of a TIFF that are mapped, each by its place: `[2]` is the third of the main chain, `[0, 1]` the second
    /// SubIFD of the first. All where there is none.
    pub ifds: Vec<Vec<usize>>,
    /// How the strips of a TIFF become chunks where the last one is shorter.
    pub chunk_grid: ChunkGridChoice,
    /// Pages of a TIFF that have equal shape, type, chunks and codecs become one array along a new axis.
    pub stack: bool,
    /// Most bytes of a chunk that contiguous HDF5 data are cut into along their slowest axis (one slice at least).
    /// Chunks are of one size: a divisor of the axis where one is at least half of what is wanted, else what is wanted
    /// with the last chunk filled up and inlined, else (past `inline_limit`) the largest divisor. Data that this would
    /// cut into more than a million chunks stay whole.
    pub split_contiguous: Option<u64>,
    /// Packed numbers become the floats that they stand for, by codecs of Zarr v3; see docs/semantics.md.
    pub unpack: bool,
    /// Arrays with a sentinel say it by the Zarr convention `missing_value` as well.
    pub missing_value_convention: bool,
    /// External links of HDF5 files are followed.
    pub follow_external: bool,
}

impl Default for MapOptions {
    fn default() -> Self {
        Self {
            format: ZarrFormat::V2,
            invalid_nodata: InvalidNodata::Error,
            inline_limit: 16 << 20,
            constant_chunk_limit: 10_000,
            ifds: Vec::new(),
            chunk_grid: ChunkGridChoice::Regular,
            stack: false,
            split_contiguous: None,
            unpack: false,
            missing_value_convention: false,
            follow_external: false,
        }
    }
}

/// What to do with a nodata value that the array's type cannot hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum InvalidNodata {
    /// Refuse the array.
    #[default]
    Error,
    /// Drop the value with a warning.
    Warn,
}

/// The chunk grids of images whose last strip is shorter than the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum ChunkGridChoice {
    /// Encode the last strip again at full height, and inline it: every reader supports this.
    #[default]
    Regular,
    /// Reference the last strip as a shorter chunk (Zarr v3 extension `rectilinear`).
    Rectilinear,
}
