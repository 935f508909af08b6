//! Attributes that describe values: those of the CF conventions, of NetCDF, and of images.

pub mod attributes;
pub mod conventions;
pub mod fill_value_attribute;
pub mod missing;
