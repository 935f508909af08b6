//! The structures of the NetCDF Classic Format Specification, one per file. The parsers are pure functions of bytes.
//!
//! ```text
//! netcdf_file = header data
//! header      = magic numrecs dim_list gatt_list var_list
//! data        = non_recs recs
//! ```
//!
//! All numbers are big-endian. Counts and lengths have 4 bytes, in CDF-5 8.

mod attribute;
mod dimension;
mod header;
mod layout;
mod list;
mod name;
mod nc_type;
mod reader;
mod variable;

pub use header::is_netcdf3;
pub(crate) use header::parse;
pub(crate) use reader::Missing;
