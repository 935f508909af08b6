//! The structures of TIFF 6.0, BigTIFF and GeoTIFF, one per file. The parsers are pure functions of bytes.

mod directory;
mod gdal;
mod geo;
mod header;
mod ifd;
mod image;
mod lsm;
mod ome;
pub(crate) mod tag;

pub(crate) use directory::{Directory, Entry};
pub(crate) use header::{Format, Header};
pub(crate) use ifd::{RawValue, build, pieces};
pub(crate) use image::check_end;
pub(crate) use lsm::unwrap as unwrap_lsm;

pub use gdal::{parse_arcgis_code, parse_pam, parse_world_file};
pub use header::is_tiff;
pub use ome::{Ome, OmeImage, TiffData, parse as parse_ome};
