mod batch;
mod files;
mod output;
mod references;
mod scan;

use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use virtualize::zarr::readers::Client;
use virtualize::{
    CarryOptions, ChunkGridChoice, Format, InvalidNodata, MapOptions, Options, Rewrite, StoreOptions,
    zarr::ZarrFormat,
};
#[cfg(feature = "icechunk")]
use virtualize::{CommitMode, CommitOptions};

pub(crate) use batch::Batch;
use files::Files;
pub(crate) use output::{Output, record_size};
pub(crate) use references::{Compare, Translate, Validate};
pub(crate) use scan::Scan;

/// Makes virtual Zarr references of HDF5, NetCDF-4 and TIFF files, wherever they lie.
///
/// Nothing is copied: each chunk of the Zarr view is (url, offset, length) in the file itself.
#[derive(Parser)]
#[command(name = "virtualize", version, disable_help_subcommand = true)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) convert: Convert,
}

const EXAMPLES: &str = "Examples:
  virtualize granule.nc -o granule.json
  virtualize s3://bucket/scene.tif --anonymous --format zarr3-json -o scene.json
  virtualize inspect granule.nc
  virtualize batch 's3://bucket/era5/**/*.nc' --each -o refs/

A file named like a command is reached as ./inspect. Exit status: 0 done, 1 refused or failed, 2 wrong usage.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Shows what a file holds and how it is mapped: types, chunks, codecs, fill values and where each came from
    Inspect(Inspect),
    /// Makes references of many files; killed or stopped, the same command goes on from where it was
    Batch(Box<Batch>),
    /// Says what many files hold, and which of them agree, before anything is written
    Scan(Box<Scan>),
    /// Writes references that are there already in another format
    Convert(Translate),
    /// Checks references against their sources; exit status 1 where something is wrong
    Validate(Validate),
    /// Says what differs between two reference sets, or files; exit status 1 where something does
    Diff(Compare),
    /// Answers over HTTP: references of any file that is allowed, and the file itself as a Zarr v3 store
    #[cfg(feature = "serve")]
    Serve(Box<virtualize_server::Settings>),
}

/// Writes references.
#[derive(Args)]
pub(crate) struct Convert {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Print requests, bytes and seconds to standard error
    #[arg(long)]
    pub(crate) stats: bool,
}

#[derive(Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which file, how it is reached and how it is mapped.
#[derive(Args, Clone)]
pub(crate) struct Input {
    /// Path or url (file, http, https, s3, gs, az, abfs) of an HDF5, NetCDF-4 or TIFF file
    #[arg(value_name = "FILE", required = true)]
    file: Option<String>,
    /// What is written, or mapped for
    #[arg(short, long, value_enum, default_value = "kerchunk-json")]
    pub(crate) format: OutputFormat,
    #[command(flatten)]
    pub(crate) mapping: Mapping,
}

/// How files are reached and how they are mapped.
#[derive(Args, Clone)]
pub(crate) struct Mapping {
    /// Fail when there is any warning
    #[arg(long)]
    pub(crate) strict: bool,
    /// What to do with a nodata value that its array's type cannot hold
    #[arg(long, value_enum, default_value = "error", value_name = "WHAT")]
    invalid_nodata: InvalidNodataChoice,
    /// Map this image of a TIFF only, by its number as in `inspect` (0, 1, …, or 0/1 for a SubIFD); may be repeated
    #[arg(long = "ifd", value_name = "N", value_parser = ifd_path)]
    ifds: Vec<IfdPath>,
    /// Map all images of a TIFF (the default)
    #[arg(long, conflicts_with = "ifds")]
    all: bool,
    /// Put pages of a TIFF that have equal shape, type, chunks and codecs into one array along a new axis
    #[arg(long)]
    stack: bool,
    /// Chunks that are not all of one size: the last strip of a TIFF, files of several sizes that are put together
    #[arg(long, value_enum, default_value = "regular", value_name = "KIND")]
    chunk_grid: ChunkGridKind,
    /// Most bytes (decoded) that an array may inline where references cannot say it
    #[arg(long, value_name = "BYTES", default_value_t = MapOptions::default().inline_limit)]
    inline_limit: u64,
    /// Carry chunks inline that are stored in less than SIZE bytes, so that readers need fewer requests
    #[arg(long, value_name = "SIZE", value_parser = byte_size)]
    inline_below: Option<u64>,
    /// Carry coordinates inline: arrays named like their one dimension, and those that attributes `coordinates` name
    #[arg(long)]
    inline_coordinates: bool,
    /// Most bytes that --inline-below and --inline-coordinates may carry in all
    #[arg(long, value_name = "SIZE", value_parser = byte_size, default_value = "256M")]
    inline_total: u64,
    /// Cut contiguous HDF5 data along the slowest axis into chunks of at most SIZE bytes (K, M, G stand for KiB, MiB,
    /// GiB), one slice at least. Chunks are of one size: a divisor of the axis where one is at least half of SIZE; else
    /// the last chunk is filled up and inlined; else, past the inline limit, the largest divisor
    #[arg(long, value_name = "SIZE", value_parser = byte_size)]
    split_contiguous: Option<u64>,
    /// Packed numbers become the floats that they stand for, by codecs: scale, offset and sentinel (Zarr v3 only)
    #[arg(long)]
    unpack: bool,
    /// Say the sentinel of each array by the Zarr convention missing_value as well
    #[arg(long)]
    missing_value_convention: bool,
    /// Follow external links of HDF5 files to files in the same folder or below
    #[arg(long)]
    follow_external: bool,
    /// Arrays that one of these readers would not decode are spelled otherwise, made anew inline where they are small, or
    /// left out: zarr-python, zarr-python+numcodecs, zarr-python+imagecodecs, zarrs, zarrita, gdal; with a comma between
    #[arg(long, value_name = "READERS", value_delimiter = ',')]
    readable_by: Vec<Client>,
    /// Say more on standard error; twice for debugging, three times for all (RUST_LOG goes before it)
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Who reads HDF5 files; the C library reads local files only
    #[cfg(feature = "libhdf5")]
    #[arg(long, value_enum, default_value = "native", value_name = "READER")]
    hdf5_reader: Hdf5ReaderChoice,
    #[command(flatten)]
    store: Store,
}

/// How files are reached. What is not given comes from the environment (AWS_*, GOOGLE_*, AZURE_*).
#[derive(Args, Clone)]
#[command(next_help_heading = "Store options")]
struct Store {
    /// A setting of the store, such as aws_region=eu-west-1 or timeout=30s; may be repeated
    #[arg(long = "store-option", value_name = "KEY=VALUE", value_parser = key_value)]
    store_options: Vec<(String, String)>,
    /// Do not sign requests: for public buckets
    #[arg(long)]
    anonymous: bool,
    /// Url of the service, where it is not the usual one
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Token for HTTPS servers
    #[arg(long, value_name = "TOKEN", env = "VIRTUALIZE_BEARER_TOKEN", hide_env_values = true)]
    bearer_token: Option<String>,
    /// Most requests under way at once
    #[arg(long, value_name = "N", default_value_t = StoreOptions::default().concurrency, value_parser = at_least_one)]
    concurrency: usize,
    /// How often a failed request is tried again
    #[arg(long, value_name = "N", default_value_t = StoreOptions::default().retries)]
    retries: usize,
    /// Seconds that all tries of a request may take together
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    retry_timeout: u64,
}

/// What a commit to an Icechunk repository says and where it goes.
#[cfg(feature = "icechunk")]
#[derive(Args, Clone)]
#[command(next_help_heading = "Icechunk options")]
pub(crate) struct Icechunk {
    /// Branch that is committed to
    #[arg(long, default_value = "main", value_name = "NAME")]
    branch: String,
    /// Message of the commit; names the file when left out
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Author of the commit
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
    /// Further property of the commit; may be repeated
    #[arg(long = "commit-property", value_name = "KEY=VALUE", value_parser = key_value)]
    properties: Vec<(String, String)>,
    /// Group of the repository that the file's root becomes
    #[arg(long, default_value = "", hide_default_value = true, value_name = "PATH")]
    group: String,
    /// Remove the group, and all below it, first
    #[arg(long, conflicts_with = "append_dim")]
    replace: bool,
    /// Make arrays that are there longer along this dimension; all else must be equal
    #[arg(long, value_name = "DIMENSION")]
    append_dim: Option<String>,
}

#[cfg(feature = "icechunk")]
impl Icechunk {
    /// The library's options, for a commit of this file.
    pub(crate) fn options(&self, name: &str) -> CommitOptions {
        let author = self.author.iter().map(|author| ("author".to_owned(), author.clone()));
        CommitOptions {
            branch: self.branch.clone(),
            message: self.message.clone().unwrap_or_else(|| format!("virtual references of {name}")),
            properties: author.chain(self.properties.iter().cloned()).collect(),
            group: self.group.clone(),
            mode: match &self.append_dim {
                Some(dimension) => CommitMode::Append(dimension.clone()),
                None if self.replace => CommitMode::Replace,
                None => CommitMode::Add,
            },
            ..CommitOptions::default()
        }
    }
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    /// kerchunk JSON, version 1 (Zarr v2 keys)
    KerchunkJson,
    /// The same JSON with Zarr v3 keys
    #[value(name = "zarr3-json")]
    Zarr3Json,
    /// A folder or prefix: metadata and inline chunks as Zarr v3 has them, and references.json beside them
    #[value(name = "zarr3")]
    Zarr3,
    /// kerchunk's Parquet layout, a folder or prefix (Zarr v2 keys): for millions of references
    KerchunkParquet,
    /// A commit to an Icechunk repository (-o names its folder or prefix)
    #[cfg(feature = "icechunk")]
    Icechunk,
}

#[derive(ValueEnum, Clone, Copy)]
enum InvalidNodataChoice {
    /// Refuse the array
    Error,
    /// Drop the value with a warning
    Warn,
}

#[cfg(feature = "libhdf5")]
#[derive(ValueEnum, Clone, Copy)]
enum Hdf5ReaderChoice {
    /// Our own
    Native,
    /// The HDF5 C library
    Libhdf5,
}

#[derive(ValueEnum, Clone, Copy)]
enum ChunkGridKind {
    /// The last strip is encoded again at full height, and carried inline
    Regular,
    /// The last strip is a shorter chunk (Zarr v3 extension `rectilinear`)
    Rectilinear,
}

/// Place of an image in a TIFF: its number in the main chain, then those of SubIFDs.
#[derive(Clone)]
struct IfdPath(Vec<usize>);

fn ifd_path(text: &str) -> Result<IfdPath, String> {
    let numbers: Result<Vec<usize>, _> = text.split('/').map(str::parse).collect();
    numbers
        .map(IfdPath)
        .map_err(|_| format!("expected a number such as 2, or numbers such as 0/1, found {text:?}"))
}

impl From<OutputFormat> for Format {
    fn from(format: OutputFormat) -> Self {
        match format {
            OutputFormat::KerchunkJson => Self::KerchunkJson,
            OutputFormat::Zarr3Json => Self::Zarr3Json,
            OutputFormat::Zarr3 => Self::Zarr3,
            OutputFormat::KerchunkParquet => Self::KerchunkParquet { record_size: Self::RECORD_SIZE },
            // What the hierarchy is mapped for is the same.
            #[cfg(feature = "icechunk")]
            OutputFormat::Icechunk => Self::Zarr3Json,
        }
    }
}

impl Input {
    /// The path or url; clap sees to it that there is one.
    pub(crate) fn file(&self) -> &str {
        self.file.as_deref().unwrap_or_default()
    }

    /// What is wrong with the options together.
    pub(crate) fn conflict(&self) -> Option<&'static str> {
        self.mapping.conflict(Format::from(self.format).zarr_format())
    }

    /// The library's options.
    pub(crate) fn options(&self) -> Options {
        self.mapping.options(Format::from(self.format).zarr_format())
    }
}

impl Mapping {
    /// Whether chunks of several sizes are wanted where there are such.
    pub(crate) fn is_rectilinear(&self) -> bool {
        matches!(self.chunk_grid, ChunkGridKind::Rectilinear)
    }

    /// What is wrong with the options together.
    pub(crate) fn conflict(&self, format: ZarrFormat) -> Option<&'static str> {
        let is_v2 = format == ZarrFormat::V2;
        (self.unpack && is_v2).then_some(
            "--unpack needs a Zarr v3 output, such as --format zarr3-json: Zarr v2 has no such codecs",
        )
    }

    /// The library's options.
    pub(crate) fn options(&self, format: ZarrFormat) -> Options {
        let map = MapOptions {
            format,
            invalid_nodata: match self.invalid_nodata {
                InvalidNodataChoice::Error => InvalidNodata::Error,
                InvalidNodataChoice::Warn => InvalidNodata::Warn,
            },
            inline_limit: self.inline_limit,
            ifds: self.ifds.iter().map(|path| path.0.clone()).collect(),
            stack: self.stack,
            chunk_grid: match self.chunk_grid {
                ChunkGridKind::Regular => ChunkGridChoice::Regular,
                ChunkGridKind::Rectilinear => ChunkGridChoice::Rectilinear,
            },
            split_contiguous: self.split_contiguous,
            follow_external: self.follow_external,
            unpack: self.unpack,
            missing_value_convention: self.missing_value_convention,
            ..MapOptions::default()
        };
        Options {
            store: self.store.options(),
            map,
            carry: CarryOptions {
                below: self.inline_below.unwrap_or(0),
                coordinates: self.inline_coordinates,
                total: self.inline_total,
            },
            strict: self.strict,
            readable_by: self.readable_by.clone(),
            #[cfg(feature = "libhdf5")]
            hdf5_reader: match self.hdf5_reader {
                Hdf5ReaderChoice::Native => virtualize::Hdf5Reader::Native,
                Hdf5ReaderChoice::Libhdf5 => virtualize::Hdf5Reader::Libhdf5,
            },
            notation: crate::messages::FLAGS,
            ..Options::default()
        }
    }
}

impl Store {
    fn options(&self) -> StoreOptions {
        StoreOptions {
            values: self.store_options.clone(),
            anonymous: self.anonymous,
            endpoint: self.endpoint.clone(),
            bearer_token: self.bearer_token.clone().filter(|token| !token.is_empty()),
            concurrency: self.concurrency,
            retries: self.retries,
            retry_timeout: Duration::from_secs(self.retry_timeout),
            ..StoreOptions::default()
        }
    }
}

fn rewrite(text: &str) -> Result<Rewrite, String> {
    Rewrite::parse(text).map_err(|error| error.to_string())
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// A number of bytes from 1 on, such as 1000 or 64M.
/// A number of bytes, or 0.
fn byte_limit(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { byte_size(text) }
}

fn byte_size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (text.get(..at), 1 << 10),
        Some((at, 'm' | 'M')) => (text.get(..at), 1 << 20),
        Some((at, 'g' | 'G')) => (text.get(..at), 1 << 30),
        _ => (Some(text), 1),
    };
    let count = digits.and_then(|digits| digits.parse::<u64>().ok());
    count
        .and_then(|count| count.checked_mul(unit))
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "expected a number of bytes from 1 on, such as 1000 or 64M".to_owned())
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "expected a number from 1 on".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(byte_size("1000"), Ok(1000));
        assert_eq!(byte_size("64M"), Ok(64 << 20));
        assert_eq!(byte_size("2k"), Ok(2048));
        assert_eq!(byte_size("1G"), Ok(1 << 30));
        for text in ["", "0", "M", "-1", "1.5M", "99999999999G"] {
            assert!(byte_size(text).is_err(), "{text}");
        }
    }
}
