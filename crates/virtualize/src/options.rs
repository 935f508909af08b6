use virtualize_bytes::Limits;
use virtualize_map::MapOptions;
use virtualize_store::StoreOptions;

/// Everything that a user can choose.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How files are reached.
    pub store: StoreOptions,
    /// How they are mapped; its Zarr format is to fit what will be written ([`crate::Format::zarr_format`]).
    pub map: MapOptions,
    /// How much a file may ask for.
    pub limits: Limits,
    /// Warnings are a failure.
    pub strict: bool,
}
