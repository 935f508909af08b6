//! The endpoints of the API.

pub(crate) mod folder;
pub(crate) mod health;
pub(crate) mod inspect;
pub(crate) mod references;
pub(crate) mod values;
pub(crate) mod zarr;
