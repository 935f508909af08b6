//! The readers whose compatibility is known ([`crate::readers`]).

use std::fmt;

/// A released reader of Zarr.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reader {
    /// zarr-python, over fsspec's reference filesystem.
    ZarrPython,
    /// The Rust crate zarrs, with its codecs for blosc, bz2, fletcher32, gzip, transpose, zlib and zstd.
    Zarrs,
    /// zarrita.js, over its reference store.
    Zarrita,
    /// GDAL's Zarr driver, as raster: numbers of one dimension and more.
    Gdal,
    /// zarr-python with this project's Python package, which brings numcodecs and registers codecs of its own.
    Virtualize,
}

/// A package or setting that a reader needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Need {
    /// numcodecs' codecs for Zarr v3, which zarr-python depends on.
    Numcodecs,
    /// The package `imagecodecs`, with its codecs registered.
    Imagecodecs,
    /// The package `cast-value-rs`.
    CastValueRs,
    /// zarr-python's setting `array.rectilinear_chunks`.
    RectilinearChunks,
    /// A JavaScript engine with `Float16Array`.
    Float16Array,
}

impl Reader {
    /// All readers.
    pub const ALL: [Self; 5] = [Self::ZarrPython, Self::Zarrs, Self::Zarrita, Self::Gdal, Self::Virtualize];

    /// Returns the usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZarrPython => "zarr-python",
            Self::Zarrs => "zarrs",
            Self::Zarrita => "zarrita",
            Self::Gdal => "gdal",
            Self::Virtualize => "virtualize",
        }
    }
}

impl fmt::Display for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Need {
    /// All packages and settings.
    pub const ALL: [Self; 5] =
        [Self::Numcodecs, Self::Imagecodecs, Self::CastValueRs, Self::RectilinearChunks, Self::Float16Array];

    /// Returns the name of the package or setting.
    pub fn name(self) -> &'static str {
        match self {
            Self::Numcodecs => "numcodecs",
            Self::Imagecodecs => "imagecodecs",
            Self::CastValueRs => "cast-value-rs",
            Self::RectilinearChunks => "array.rectilinear_chunks",
            Self::Float16Array => "Float16Array",
        }
    }
}
