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
}

impl Default for MapOptions {
    fn default() -> Self {
        Self {
            format: ZarrFormat::V2,
            invalid_nodata: InvalidNodata::Error,
            inline_limit: 16 << 20,
            constant_chunk_limit: 10_000,
        }
    }
}

/// What to do with a nodata value that the array's type cannot hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidNodata {
    /// Refuse the array.
    Error,
    /// Drop the value with a warning.
    Warn,
}
