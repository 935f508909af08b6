//! Options: the library's own, and those that users write, which the command, the service and Python share.

#[cfg(feature = "clap")]
pub mod given;
mod output;
pub mod value;

use std::{collections::BTreeMap, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use virtualize_bytes::{Gate, Limits};
use virtualize_map::{ChunkGridChoice, ComplexIntegers, MapOptions, tiff::DeclaredBand};
use virtualize_remedy::{Notation, similar};
use virtualize_store::{Access, StoreOptions, Stores};
use virtualize_zarr::{
    Version, ZarrFormat,
    readers::{Client, ClientError, Need, Reader},
};

use crate::relocate::Rewrite;

#[cfg(feature = "clap")]
pub use given::{Given, InvalidOption};
pub use output::{IcechunkOptions, OutputFormat, WriteOptions};
use value::{InvalidValue, parse_digits};

/// Options for opening and mapping a file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Access to files: credentials, endpoints, concurrency, cache.
    pub store: StoreOptions,
    /// Mapping. Its Zarr format must match the output ([`crate::Format::zarr_format`]).
    pub map: MapOptions,
    /// Upper bounds on counts and sizes in untrusted input.
    pub limits: Limits,
    /// Selection of chunks to inline although references could express them.
    pub inline: InlineOptions,
    /// Whether a DMR++ sidecar next to an HDF5 file is read instead of the file, if it suffices.
    pub dmrpp: bool,
    /// Whether the images of a TIFF file are arranged as OME-Zarr, once they are mapped.
    pub ome_zarr: bool,
    /// Whether sidecars of remote TIFF files are requested. Those of local files are always read.
    pub sidecars: bool,
    /// What a catalogue declares of the bands of a TIFF file.
    pub declared_bands: Vec<DeclaredBand>,
    /// Whether any warning is an error.
    pub strict: bool,
    /// Readers that must be able to decode every array. An array that one of them cannot decode gets other metadata if
    /// that suffices, is re-encoded and inlined if it is small, and is omitted otherwise.
    pub readable_by: Vec<Client>,
    /// Reader of HDF5 files.
    pub hdf5_reader: Hdf5Reader,
    /// Gate that decides repeatedly, while a file is opened, whether to continue.
    pub gate: Option<Arc<dyn Gate>>,
    /// Notation of options in remedies, for errors that become text in a journal or an event.
    pub notation: Notation,
    /// Version of an Icechunk repository.
    pub version: Version,
    /// Prefixes that replace those of the urls in references, for archives whose files have moved. The longest matching
    /// prefix applies.
    pub rewrite_url: Vec<Rewrite>,
}

impl Options {
    /// Returns how references are read.
    pub(crate) fn reading(&self) -> ReadOptions {
        ReadOptions {
            store: self.store.clone(),
            relative_to: None,
            version: self.version.clone(),
            rewrite_url: self.rewrite_url.clone(),
            limits: self.limits,
        }
    }

    /// Returns the options for one of many files, with a separate gate if the gate provides one.
    #[must_use]
    pub fn for_file(&self) -> Self {
        let gate = self.gate.as_ref().map(|gate| gate.for_file().unwrap_or_else(|| Arc::clone(gate)));
        Self { gate, ..self.clone() }
    }
}

/// Options for reading a reference set.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Access to the reference set and its sources.
    pub store: StoreOptions,
    /// Folder or prefix against which relative urls are resolved; by default that of the references.
    pub relative_to: Option<String>,
    /// Version of an Icechunk repository.
    pub version: Version,
    /// Prefixes that replace those of the sources' urls. The longest matching prefix applies.
    pub rewrite_url: Vec<Rewrite>,
    /// Upper bounds. A reference counts 40 bytes of metadata.
    pub limits: Limits,
}

/// Selection of chunks to inline although references could express them, so that readers need fewer requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InlineOptions {
    /// Inline chunks stored in fewer bytes than this; 0 for none.
    pub below: u64,
    /// Inline all chunks of coordinates: arrays that have the name of their only dimension, and those listed in an
    /// attribute `coordinates`.
    pub coordinates: bool,
    /// Limit in bytes of all these chunks together; each counts 128 bytes more than its length. The chunks of an array
    /// that would exceed the limit remain references, with a warning.
    pub total: u64,
}

impl Default for InlineOptions {
    fn default() -> Self {
        Self { below: 0, coordinates: false, total: 256 << 20 }
    }
}

/// Reader of HDF5 files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Hdf5Reader {
    /// The reader in Rust: any store, concurrent requests, safe on untrusted files.
    #[default]
    Native,
    /// The HDF5 C library: local files, one at a time in a process, and trusted ones only: damaged files can crash it.
    #[cfg(feature = "libhdf5")]
    Libhdf5,
}

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
                // The codecs of the Python package `virtualize`.
                own_codecs: !self.readable_by.is_empty()
                    && self.readable_by.iter().all(|client| client.reader == Reader::Virtualize),
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

/// How a file is mapped and reached: what all commands that map files have in common, and what a configuration file
/// contains.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct SourceOptions {
    /// How the file is mapped.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub mapping: MappingOptions,
    /// How the file is reached.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub store: ConnectionOptions,
    /// Library that reads HDF5 files; the C library reads local files only
    #[cfg(feature = "libhdf5")]
    #[cfg_attr(
        feature = "clap",
        arg(long, hide = true, value_enum, default_value = "native", value_name = "READER")
    )]
    pub hdf5_reader: Hdf5Reader,
}

impl SourceOptions {
    /// Returns the library's options for an output of `format`.
    pub fn options(&self, format: ZarrFormat) -> Options {
        Options {
            #[cfg(feature = "libhdf5")]
            hdf5_reader: self.hdf5_reader,
            ..self.mapping.options(self.store.options(), format)
        }
    }
}

/// Which version of an archive is opened, and where its files are.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Reference options"))]
pub struct ArchiveOptions {
    /// Branch of the Icechunk repository [default: main]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", conflicts_with_all = ["tag", "snapshot"]))]
    pub branch: Option<String>,
    /// Tag of the Icechunk repository
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", conflicts_with = "snapshot"))]
    pub tag: Option<String>,
    /// Snapshot of the Icechunk repository
    #[cfg_attr(feature = "clap", arg(long, value_name = "ID"))]
    pub snapshot: Option<String>,
    /// Read the files of references at other URLs: replace the prefix FROM with TO; may be repeated
    #[cfg_attr(feature = "clap", arg(long, value_name = "FROM=TO", value_parser = Rewrite::parse))]
    #[serde(deserialize_with = "output::rewrites")]
    pub rewrite_url: Vec<Rewrite>,
}

impl ArchiveOptions {
    /// Returns the version.
    ///
    /// # Errors
    /// More than one of branch, tag and snapshot is given.
    pub fn version(&self) -> Result<Version, InvalidValue> {
        let given = [
            self.branch.clone().map(Version::Branch),
            self.tag.clone().map(Version::Tag),
            self.snapshot.clone().map(Version::Snapshot),
        ];
        let mut given = given.into_iter().flatten();
        match (given.next(), given.next()) {
            (version, None) => Ok(version.unwrap_or_default()),
            _ => Err(InvalidValue::expected("only one of branch, tag and snapshot")),
        }
    }
}

/// How the files below a prefix are accessed: as whom, and through which service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Store options"))]
pub struct AccessOptions {
    /// Store setting, such as aws_region=eu-west-1 or timeout=30s; may be repeated
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "KEY=VALUE", value_parser = value::parse_pair, hide_env_values = true)
    )]
    #[serde(deserialize_with = "value::pairs")]
    pub store_option: Vec<(String, String)>,
    /// Do not sign requests: for public buckets
    #[cfg_attr(feature = "clap", arg(long))]
    pub anonymous: bool,
    /// URL of an S3-compatible, Google Cloud Storage or Azure service other than the default one
    #[cfg_attr(feature = "clap", arg(long, value_name = "URL"))]
    pub endpoint: Option<String>,
    /// Bearer token for HTTPS servers [default: that in VIRTUALIZE_BEARER_TOKEN]
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "TOKEN", hide_env_values = true))]
    pub bearer_token: Option<String>,
    /// File with the bearer token for HTTPS servers, which is read again for each request
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "FILE"))]
    pub bearer_token_file: Option<PathBuf>,
    /// AWS profile, whose credentials the AWS CLI (version 2) provides [default: that in AWS_PROFILE]
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "NAME"))]
    pub profile: Option<String>,
    /// URL that returns temporary credentials for S3, such as `https://…/s3credentials` of a NASA data centre
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "URL"))]
    pub s3_credentials: Option<String>,
    /// URL that returns a SAS for Azure, such as `https://…/api/sas/v1/token/{account}/{container}`
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "URL"))]
    pub sas_tokens: Option<String>,
    /// URL of the Earthdata Login service [default: `https://urs.earthdata.nasa.gov`]
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "URL"))]
    pub earthdata_login: Option<String>,
}

impl AccessOptions {
    /// Returns the library's options.
    pub fn access(&self) -> Access {
        Access {
            values: self.store_option.clone(),
            anonymous: self.anonymous,
            endpoint: self.endpoint.clone(),
            bearer_token: self.bearer_token.clone().filter(|token| !token.is_empty()),
            bearer_token_file: self.bearer_token_file.clone(),
            profile: self.profile.clone(),
            s3_credentials: self.s3_credentials.clone(),
            sas_tokens: self.sas_tokens.clone(),
            earthdata_login: self.earthdata_login.clone(),
        }
    }
}

/// Access options by prefix of URLs.
#[derive(Clone, Debug, Default)]
pub struct StoresOption(pub Stores);

#[cfg(feature = "clap")]
impl FromStr for StoresOption {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |error: serde_json::Error| InvalidValue::expected(error.to_string());
        serde_json::from_str(text).map_err(invalid)
    }
}

impl<'de> Deserialize<'de> for StoresOption {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let tables = BTreeMap::<String, serde_json::Value>::deserialize(from)?;
        let stores = tables.into_iter().map(|(prefix, options)| {
            let options = match options {
                serde_json::Value::Object(members) => access_options(members),
                _ => return Err(D::Error::custom(format!("expected a table of options for {prefix:?}"))),
            };
            let options = options.map_err(|error| D::Error::custom(format!("{prefix}: {error}")))?;
            Ok((prefix, options.access()))
        });
        let stores = stores.collect::<Result<Vec<_>, D::Error>>()?;
        Stores::new(stores).map(Self).map_err(D::Error::custom)
    }
}

#[cfg(feature = "clap")]
fn access_options(members: given::Members) -> Result<AccessOptions, InvalidOption> {
    given::parse(members)
}

#[cfg(not(feature = "clap"))]
fn access_options(
    members: serde_json::Map<String, serde_json::Value>,
) -> Result<AccessOptions, serde_json::Error> {
    AccessOptions::deserialize(serde_json::Value::Object(members))
}

/// How files are reached. Settings that are not given come from the environment (AWS_*, GOOGLE_*, AZURE_*, EARTHDATA_*).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Store options"))]
pub struct ConnectionOptions {
    /// Access to files below none of the prefixes of `stores`.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub access: AccessOptions,
    /// Access by prefix, and how requests are sent.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub requests: RequestOptions,
}

/// Access by prefix, and how requests are sent.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Store options"))]
pub struct RequestOptions {
    /// Access options by prefix of URLs, such as `[store."s3://bucket/"]`; the longest prefix applies, instead of the options above
    #[cfg_attr(
        feature = "clap",
        arg(long = "store", hide = true, value_name = "TABLE", hide_env_values = true)
    )]
    pub stores: Option<StoresOption>,
    /// Maximum concurrent requests
    #[cfg_attr(
        feature = "clap",
        arg(long, hide = true, value_name = "N", default_value_t = Self::default().concurrency, value_parser = value::parse_count)
    )]
    #[serde(deserialize_with = "value::count")]
    pub concurrency: usize,
    /// Retries of a failed request
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "N", default_value_t = Self::default().retries))]
    pub retries: usize,
    /// Maximum seconds for all attempts of a request together
    #[cfg_attr(
        feature = "clap",
        arg(long, hide = true, value_name = "SECONDS", default_value_t = Self::default().retry_timeout)
    )]
    pub retry_timeout: u64,
}

impl Default for RequestOptions {
    fn default() -> Self {
        let StoreOptions { concurrency, retries, retry_timeout, .. } = StoreOptions::default();
        Self { stores: None, concurrency, retries, retry_timeout: retry_timeout.as_secs() }
    }
}

impl ConnectionOptions {
    /// Returns the library's options. Without a bearer token, the environment may contain one.
    pub fn options(&self) -> StoreOptions {
        let Self { access, requests } = self;
        let mut access = access.access();
        if access.bearer_token_file.is_none() {
            let ambient = || std::env::var("VIRTUALIZE_BEARER_TOKEN").ok().filter(|token| !token.is_empty());
            access.bearer_token = access.bearer_token.or_else(ambient);
        }
        StoreOptions {
            access,
            stores: requests.stores.clone().unwrap_or_default().0,
            concurrency: requests.concurrency,
            retries: requests.retries,
            retry_timeout: Duration::from_secs(requests.retry_timeout),
            ..StoreOptions::default()
        }
    }
}
