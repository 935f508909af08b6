//! The structures of TIFF 6.0, BigTIFF and GeoTIFF, one per file. The parsers are pure functions of bytes.

mod byte_counts;
mod directory;
mod fields;
mod gdal_metadata;
mod geo;
mod geokeys;
mod geometry;
mod header;
mod ifd;
mod image;
mod lsm;
mod ome;
mod samples;
mod sidecar;
mod tables;
pub(crate) mod tag;
mod value;

pub(crate) use directory::{Directory, Entry};
pub(crate) use header::{Format, Header};
pub(crate) use ifd::{RawValue, build, pieces};
pub(crate) use lsm::unwrap as unwrap_lsm;
pub(crate) use tables::check_end;

pub use header::is_tiff;
pub use ome::{Ome, OmeImage, TiffData, parse as parse_ome};
pub use sidecar::{parse_arcgis_code, parse_pam, parse_world_file};
