use std::str::FromStr;

use serde::{Deserialize, Deserializer, de::Error as _};
use virtualize_map::{ChunkGridChoice, ComplexIntegers, MapOptions};
use virtualize_remedy::similar;
use virtualize_store::StoreOptions;
use virtualize_zarr::{
    ZarrFormat,
    readers::{Client, ClientError, Need, Reader},
};

use super::{
    InlineOptions, Options,
    value::{self, InvalidValue, parse_digits},
};

/// How files are mapped, as users choose it: flags of the command, parameters of a query, members of a JSON object.
///
/// Nothing here says how a file is reached or how much memory it may take, so that a service can accept all members
/// from strangers, within bounds of its own.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Mapping options"))]
pub struct MappingOptions {
    /// Fail on any warning
    #[cfg_attr(feature = "clap", arg(long))]
    #[serde(deserialize_with = "value::switch")]
    pub strict: bool,
    /// Write only arrays that these readers decode
    ///
    /// Comma-separated: zarr-python, zarr-python+numcodecs, zarr-python+imagecodecs, zarrs, zarrita, gdal, virtualize. An
    /// array that one of them cannot decode is encoded differently if that helps, inlined if it is small, and omitted
    /// otherwise. With virtualize alone, arrays may use codecs that only this project's Python package registers, so that no
    /// array is inlined because of its codecs.
    #[cfg_attr(feature = "clap", arg(long, value_name = "READERS", value_delimiter = ',', value_parser = parse_reader))]
    #[serde(deserialize_with = "readers")]
    pub readable_by: Vec<Client>,
    /// Unpack packed numbers to floats through codecs (Zarr v3 only)
    ///
    /// They replace the attributes.
    #[cfg_attr(feature = "clap", arg(long))]
    #[serde(deserialize_with = "value::switch")]
    pub unpack: bool,
    /// Declare each array's sentinel through the Zarr convention missing_value as well
    #[cfg_attr(feature = "clap", arg(long, hide = true))]
    #[serde(deserialize_with = "value::switch")]
    pub missing_value_convention: bool,
    /// Declare the position of grids of HDF5 and NetCDF files through the Zarr conventions spatial and proj as well
    ///
    /// rio-tiler and web maps read them. The position comes from coordinates with equal steps, the coordinate reference system
    /// from the grid mapping. The attributes are objects, which xarray cannot write to NetCDF files.
    #[cfg_attr(feature = "clap", arg(long, hide = true))]
    #[serde(deserialize_with = "value::switch")]
    pub spatial_conventions: bool,
    /// Chunk grid of arrays whose chunks differ in size: a short last strip of a TIFF, concatenated files
    #[cfg_attr(feature = "clap", arg(long, value_enum, default_value = "regular", value_name = "KIND"))]
    pub chunk_grid: ChunkGridChoice,
    /// Inline chunks smaller than SIZE and all chunks of coordinates, so that readers need fewer requests
    ///
    /// Coordinates are arrays named like their one dimension, and arrays listed in a `coordinates` attribute.
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", value_parser = value::parse_size))]
    #[serde(deserialize_with = "value::size")]
    pub inline: Option<u64>,
    /// Maximum decoded bytes per array to inline where references cannot express the data [default: 16M]
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "SIZE"))]
    #[serde(deserialize_with = "value::size")]
    pub inline_limit: Option<u64>,
    /// Maximum total bytes that --inline may inline [default: 256M]
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "SIZE"))]
    #[serde(deserialize_with = "value::size")]
    pub inline_total: Option<u64>,
    /// Split contiguous HDF5 and NetCDF-3 data along the slowest axis into chunks of at most SIZE bytes
    ///
    /// A chunk holds at least one slice. All chunks have one size: a divisor of the axis if one gives at least half of
    /// SIZE; otherwise the last chunk is padded and inlined, or, beyond the inline limit, the largest divisor is used.
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "SIZE", value_parser = value::parse_size))]
    #[serde(deserialize_with = "value::size")]
    pub split_contiguous: Option<u64>,
    /// Write variable-length sequences of HDF5 files as contiguous ragged arrays of the CF conventions
    ///
    /// The array NAME gets the items of all sequences, one sequence after the other. The array NAME_row_size has the
    /// number of items of each. Both are inlined. Array members of compounds become structures with fields 0, 1, ….
    /// Without this option, arrays with either are omitted.
    #[cfg_attr(feature = "clap", arg(long, hide = true))]
    #[serde(deserialize_with = "value::switch")]
    pub ragged: bool,
    /// Follow external links of HDF5 files to files in the same folder or below
    #[cfg_attr(feature = "clap", arg(long, hide = true))]
    #[serde(deserialize_with = "value::switch")]
    pub follow_external: bool,
    /// Read the DMR++ sidecar FILE.dmrpp instead of an HDF5 file, if it has all that references need
    ///
    /// Otherwise, or without a sidecar, the file itself is read. A sidecar can also be passed as the file.
    #[cfg_attr(feature = "clap", arg(long, hide = true))]
    #[serde(deserialize_with = "value::switch")]
    pub dmrpp: bool,
    /// Map only this image of a TIFF: 0, 1, …, or 0/1 for a SubIFD, as `inspect` numbers them; may be repeated
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "N"))]
    #[serde(deserialize_with = "value::list")]
    pub ifd: Vec<IfdPath>,
    /// Data type of complex integers in TIFF files: complex64 and complex128, or structures of r and i
    ///
    /// Structures are referenced in every output format. Complex numbers are referenced in Zarr v2; in Zarr v3 they are
    /// inlined if they are small.
    #[cfg_attr(
        feature = "clap",
        arg(long, hide = true, value_enum, default_value = "complex", value_name = "TYPE")
    )]
    pub complex_integers: ComplexIntegers,
    /// Stack TIFF pages of equal shape, data type, chunks and codecs into one array along a new axis
    #[cfg_attr(feature = "clap", arg(long, hide = true))]
    #[serde(deserialize_with = "value::switch")]
    pub stack_pages: bool,
    /// Arrange the images of a TIFF file as OME-Zarr (OME-NGFF 0.5), which napari and other viewers open
    ///
    /// The levels of one image are the arrays 0, 1, … of the root; of several images, those of the groups 0, 1, …. Axes are t,
    /// c, z, y and x; samples are channels. Sizes, units and names come from OME-XML. Needs Zarr v3.
    #[cfg_attr(feature = "clap", arg(long, hide = true))]
    #[serde(deserialize_with = "value::switch")]
    pub ome_zarr: bool,
    /// Request the sidecars of remote TIFF files that GDAL reads: .aux.xml, world files, and others
    ///
    /// They change nodata, scale, offset, position and coordinate reference system. Those of local files are always read.
    #[cfg_attr(feature = "clap", arg(long, hide = true))]
    #[serde(deserialize_with = "value::switch")]
    pub sidecars: bool,
}

impl MappingOptions {
    /// Returns the library's options for an output of `format`.
    pub fn options(&self, store: StoreOptions, format: ZarrFormat) -> Options {
        let defaults = Options::default();
        Options {
            store,
            map: MapOptions {
                format,
                own_codecs: has_own_codecs(&self.readable_by),
                complex_integers: self.complex_integers,
                inline_limit: self.inline_limit.unwrap_or(defaults.map.inline_limit),
                ifds: self.ifd.iter().map(|path| path.0.clone()).collect(),
                stack_pages: self.stack_pages,
                chunk_grid: self.chunk_grid,
                split_contiguous: self.split_contiguous,
                ragged: self.ragged,
                follow_external: self.follow_external,
                unpack: self.unpack,
                missing_value_convention: self.missing_value_convention,
                spatial_conventions: self.spatial_conventions,
                ..defaults.map
            },
            inline: InlineOptions {
                below: self.inline.unwrap_or(0),
                coordinates: self.inline.is_some(),
                total: self.inline_total.unwrap_or(defaults.inline.total),
            },
            dmrpp: self.dmrpp,
            ome_zarr: self.ome_zarr,
            sidecars: self.sidecars,
            strict: self.strict,
            readable_by: self.readable_by.clone(),
            ..defaults
        }
    }
}

/// Parses a reader with what it has, such as `zarr-python+imagecodecs`.
fn parse_reader(text: &str) -> Result<Client, InvalidValue> {
    let readers = || Reader::ALL.iter().map(|reader| reader.name());
    let needs = || Need::ALL.iter().map(|need| need.name());
    text.parse().map_err(|error: ClientError| {
        let (reader, rest) = text.split_once('+').unwrap_or((text, ""));
        let meant = match readers().any(|name| name.eq_ignore_ascii_case(reader.trim())) {
            false => similar(reader, readers()),
            true => rest.split('+').find_map(|need| similar(need, needs()).filter(|name| *name != need)),
        };
        let meant = meant.map(|name| format!("; did you mean \"{name}\"?")).unwrap_or_default();
        InvalidValue::expected(format!("{}{meant}", error.expected()))
    })
}

/// Deserializes readers from a list, or from comma-separated text, and ignores empty ones.
fn readers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Client>, D::Error> {
    let texts = value::separated(from)?;
    let texts = texts.iter().filter(|text| !text.is_empty());
    texts.map(|text| parse_reader(text).map_err(D::Error::custom)).collect()
}

/// Whether all readers know the codecs of the Python package `virtualize`.
fn has_own_codecs(readers: &[Client]) -> bool {
    !readers.is_empty() && readers.iter().all(|client| client.reader == Reader::Virtualize)
}

/// Position of an image in a TIFF: its number in the main chain, then those of SubIFDs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IfdPath(pub Vec<usize>);

impl FromStr for IfdPath {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let numbers: Option<_> = text.split('/').map(parse_digits).collect();
        numbers.map(Self).ok_or(InvalidValue::expected("a number such as 2, or numbers such as 0/1"))
    }
}
