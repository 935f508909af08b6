//! Output formats and their properties.

use std::{fmt, io, num::NonZeroU32};

use virtualize_zarr::{ChunkReader, Hierarchy, ZarrFormat};

use super::{EmitError, Sink, folder, json};

/// An output format with its options.
///
/// To add one, declare its `Entry` next to its writer and list it in [`Format::ALL`].
#[derive(Clone, Copy)]
pub struct Format {
    entry: &'static Entry,
    record_size: NonZeroU32,
}

/// Properties and writer of a format.
pub(crate) struct Entry {
    /// Name in options and queries.
    pub(crate) name: &'static str,
    /// One line for users.
    pub(crate) summary: &'static str,
    pub(crate) zarr_format: ZarrFormat,
    /// Extensions, without the dot, of output names that select this format. Empty if another format claims its
    /// suffix.
    pub(crate) extensions: &'static [&'static str],
    /// Suffix of outputs that are named after their sources.
    pub(crate) suffix: &'static str,
    /// Returns Python code that opens an output, from its path or URL and further arguments of `open_dataset`.
    pub(crate) python: fn(&str, &str) -> String,
    pub(crate) writer: Writer,
}

pub(crate) enum Writer {
    File(fn(&Hierarchy, &mut dyn ChunkReader, &mut dyn io::Write) -> Result<(), EmitError>),
    Folder(FolderWriter),
}

/// Writes the metadata of a hierarchy, and the chunks of a reader, to a sink.
pub(crate) type FolderWriter =
    fn(&Hierarchy, &mut dyn ChunkReader, Format, &mut dyn Sink) -> Result<(), EmitError>;

impl Format {
    /// Default number of rows per Parquet file, which is also kerchunk's.
    pub const RECORD_SIZE: NonZeroU32 = NonZeroU32::new(100_000).unwrap();

    pub(crate) const fn new(entry: &'static Entry) -> Self {
        Self { entry, record_size: Self::RECORD_SIZE }
    }

    /// Sets the number of rows per Parquet file, at most [`crate::MAX_RECORDS`]. Other formats ignore it.
    #[must_use]
    pub fn with_record_size(self, record_size: NonZeroU32) -> Self {
        Self { record_size, ..self }
    }

    /// Returns the number of rows per Parquet file.
    pub fn record_size(self) -> NonZeroU32 {
        self.record_size
    }

    /// Returns the name that options and queries use, such as `kerchunk-json`.
    pub fn name(self) -> &'static str {
        self.entry.name
    }

    /// Describes the format in one line for users.
    pub fn summary(self) -> &'static str {
        self.entry.summary
    }

    /// Returns the Zarr format that a hierarchy must be mapped for.
    pub fn zarr_format(self) -> ZarrFormat {
        self.entry.zarr_format
    }

    /// Returns whether an output is several files, in a folder or below a prefix.
    pub fn is_several_files(self) -> bool {
        matches!(self.entry.writer, Writer::Folder(_))
    }

    /// Returns the suffix of outputs that are named after their sources, such as `.json`.
    pub fn suffix(self) -> &'static str {
        self.entry.suffix
    }

    /// Returns the extensions, without the dot, of output names that select this format.
    pub fn extensions(self) -> &'static [&'static str] {
        self.entry.extensions
    }

    /// Returns Python code that opens `output` with xarray. `arguments` are appended to those of `open_dataset`, such as
    /// `, group="a"`.
    pub fn python(self, output: &str, arguments: &str) -> String {
        (self.entry.python)(output, arguments)
    }

    pub(crate) fn writer(self) -> &'static Writer {
        &self.entry.writer
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.record_size == other.record_size
    }
}

impl Eq for Format {}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (record size {})", self.name(), self.record_size)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns Python code for formats that xarray's engine `kerchunk` opens.
pub(crate) fn kerchunk_python(output: &str, arguments: &str) -> String {
    format!("import xarray as xr\nds = xr.open_dataset({output:?}, engine=\"kerchunk\"{arguments})")
}

/// Returns Python code for references with Zarr v3 keys, which fsspec resolves.
pub(crate) fn fsspec_python(references: &str, arguments: &str) -> String {
    format!(
        "import fsspec, xarray as xr, zarr.storage\n\
         fs = fsspec.filesystem(\"reference\", fo={references:?}, asynchronous=True)\n\
         store = zarr.storage.FsspecStore(fs, read_only=True, path=\"\")\n\
         ds = xr.open_dataset(store, engine=\"zarr\", consolidated=False{arguments})"
    )
}

/// Largest number of rows per Parquet file, which bounds memory use.
pub const MAX_RECORDS: u32 = 1_000_000;
/// Name of the document that holds all metadata of kerchunk's Parquet layout.
pub(crate) const ZMETADATA: &str = ".zmetadata";

const KERCHUNK_PARQUET: Entry = Entry {
    name: "kerchunk-parquet",
    summary: "kerchunk's Parquet layout, a folder or prefix (Zarr v2 keys): for millions of references",
    zarr_format: ZarrFormat::V2,
    extensions: &["parquet", "parq"],
    suffix: ".parq",
    python: kerchunk_python,
    #[cfg(feature = "parquet")]
    writer: Writer::Folder(super::parquet::write),
    #[cfg(not(feature = "parquet"))]
    writer: Writer::Folder(|_, _, _, _| {
        Err(EmitError::Invalid("kerchunk-parquet needs a build with the cargo feature `full`".to_owned()))
    }),
};

impl Format {
    /// kerchunk JSON, version 1, with Zarr v2 keys: `.zarray`, `x/0.1`.
    pub const KERCHUNK_JSON: Self = Self::new(&json::KERCHUNK_JSON);
    /// The same JSON with Zarr v3 keys: `zarr.json`, `x/c/0/1`.
    pub const ZARR3_JSON: Self = Self::new(&json::ZARR3_JSON);
    /// A folder or prefix that holds Zarr v3 metadata and inline chunks as files, and `references.json`.
    pub const ZARR3: Self = Self::new(&folder::ZARR3);
    /// kerchunk's Parquet layout (Zarr v2): a folder or prefix that holds `.zmetadata` and `NAME/refs.N.parq`.
    pub const KERCHUNK_PARQUET: Self = Self::new(&KERCHUNK_PARQUET);

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
    }
}
