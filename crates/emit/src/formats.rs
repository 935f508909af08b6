//! The list of output formats.

use crate::{Format, folder, parquet_folder, references};

impl Format {
    /// kerchunk JSON, version 1, with Zarr v2 keys: `.zarray`, `x/0.1`.
    pub const KERCHUNK_JSON: Self = Self::new(&references::KERCHUNK_JSON);
    /// The same JSON with Zarr v3 keys: `zarr.json`, `x/c/0/1`.
    pub const ZARR3_JSON: Self = Self::new(&references::ZARR3_JSON);
    /// A folder or prefix that holds Zarr v3 metadata and inline chunks as files, and `references.json`.
    pub const ZARR3: Self = Self::new(&folder::ZARR3);
    /// kerchunk's Parquet layout (Zarr v2): a folder or prefix that holds `.zmetadata` and `NAME/refs.N.parq`.
    pub const KERCHUNK_PARQUET: Self = Self::new(&parquet_folder::KERCHUNK_PARQUET);

    /// Every format, the default first.
    pub const ALL: [Self; 4] = [Self::KERCHUNK_JSON, Self::ZARR3_JSON, Self::ZARR3, Self::KERCHUNK_PARQUET];

    /// Returns the format of this name, such as `kerchunk-json`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Returns the format that an output's extension selects, such as `parq`.
    pub fn from_extension(extension: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.extensions().contains(&extension))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_extensions_select_one_format() {
        for format in Format::ALL {
            assert_eq!(Format::from_name(format.name()), Some(format));
            for extension in format.extensions() {
                assert_eq!(Format::from_extension(extension), Some(format));
            }
        }
        assert_eq!(Format::from_name("json"), None);
        assert_eq!(Format::KERCHUNK_PARQUET.download_name(), "references.parquet.zip");
    }
}
