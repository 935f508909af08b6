//! NetCDF classic files.

use virtualize_bytes::{Budget, Budgeted};
use virtualize_map::netcdf3::map_file_within;
use virtualize_map::{MapOptions, Mapped};
use virtualize_netcdf3::model::File;
use virtualize_store::Object;
use virtualize_zarr::Source;

use crate::options::Options;

/// A NetCDF classic file, which refers to no others.
pub(crate) struct Files(File);

/// Returns whether a file starts with the signature of CDF-1, CDF-2 or CDF-5.
pub(super) fn has_signature(head: &[u8]) -> bool {
    virtualize_netcdf3::is_netcdf3(head)
}

impl Files {
    pub(super) async fn read(
        object: &Object,
        options: &Options,
        budget: &Budget<'_>,
    ) -> Result<Self, virtualize_netcdf3::Error> {
        virtualize_netcdf3::read(&Budgeted::new(object, budget), &options.limits).await.map(Self)
    }

    pub(super) fn map(&self, source: Source, options: &MapOptions, budget: &Budget<'_>) -> Mapped {
        map_file_within(&self.0, source, options, budget)
    }
}
