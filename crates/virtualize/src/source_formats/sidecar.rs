//! DMR++ sidecars: where they are, and whether they describe the file as it is now. A sidecar replaces reading the metadata of
//! an HDF5 file only if it tells all that the file would; otherwise the file is read.

use std::sync::Arc;

use virtualize_bytes::{Budgeted, Limits, ReadError, ReadErrorKind};
use virtualize_dmrpp::DataFile;
use virtualize_hdf5::model::File;
use virtualize_map::{Diagnostic, Severity};
use virtualize_remedy::Code;
use virtualize_store::{Object, StoreOptions};

use crate::error::Error;
use crate::sources::{Sources, head};

/// What the name of a sidecar appends to that of its data file.
const SUFFIX: &str = ".dmrpp";

/// Returns whether a file is a sidecar.
pub(crate) async fn is_sidecar(file: &Budgeted<'_>) -> Result<bool, ReadError> {
    Ok(virtualize_dmrpp::is_dmrpp(&head(file).await?))
}

/// Opens the data file of a sidecar, which is next to it.
pub(crate) async fn open_data_file(sidecar: &Object, options: &StoreOptions) -> Result<Arc<Object>, Error> {
    let url = sidecar.url().strip_suffix(SUFFIX).ok_or_else(|| {
        let problem = format!(
            "{}: a DMR++ sidecar must have the name of its data file and {SUFFIX}, without a query",
            sidecar.name()
        );
        ReadError::new(ReadErrorKind::Invalid, problem)
    })?;
    Ok(virtualize_store::open(url, options).await?)
}

/// Opens the sidecar next to a data file. The error is the reason why not, as a clause.
pub(crate) async fn open_next_to(object: &Object, sources: &Sources<'_>) -> Result<Arc<Object>, String> {
    sources.open(&format!("{}{SUFFIX}", object.url())).await.map_err(|unopened| unopened.to_string())
}

/// Reads a sidecar of `object`. The error is the reason why the data file must be read, as a clause.
pub(crate) async fn read(
    sidecar: &Object,
    object: &Object,
    sources: &Sources<'_>,
    limits: &Limits,
) -> Result<File, String> {
    if let (Some(written), Some(changed)) = (sidecar.modified(), object.modified())
        && written < changed
    {
        return Err(format!("{} is older than the file", sidecar.name()));
    }
    let name = object.name().rsplit('/').next().unwrap_or_default();
    let data = DataFile { name, size: object.bytes() };
    let file = virtualize_dmrpp::read(&Budgeted::new(sidecar, sources.budget()), data, limits).await;
    let file = file.map_err(|error| format!("{}: {error}", sidecar.name()))?;
    sidecar.verify().map(|()| file).map_err(|error| error.to_string())
}

/// Reports that a sidecar was not used.
pub(crate) fn not_used(reason: &str) -> Diagnostic {
    Diagnostic {
        severity: Severity::Info,
        code: Code::SidecarNotUsed,
        path: "/".to_owned(),
        message: format!("the file was read without a DMR++ sidecar: {reason}"),
        remedy: None,
    }
}
