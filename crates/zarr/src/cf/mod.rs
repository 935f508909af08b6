//! What attributes say of values: the CF conventions, NetCDF, and what images have beside them.

pub mod attributes;
pub mod fill_value_attribute;
