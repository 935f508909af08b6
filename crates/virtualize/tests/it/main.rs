//! Integration tests, in one binary.

mod diagnostics;
mod gate;
mod keys;
mod mapping;
mod mapping_tiff;
mod netcdf3;
mod oracle;
mod replay;
mod selections;
mod source_attributes;
mod validate;
mod values;
