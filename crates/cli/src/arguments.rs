//! Arguments of the commands.

mod batch;
mod output;
mod references;
mod scan;

use clap::{Args, Parser, Subcommand};
use virtualize::{
    ChunkGridChoice, Options,
    options::{ConnectionOptions, MappingOptions, OutputFormat},
    zarr::ZarrFormat,
};

pub(crate) use batch::{Batch, DryRun};
pub(crate) use output::Output;
pub(crate) use references::{Compare, Translate, Validate};
pub(crate) use scan::Scan;

/// Write virtual Zarr references for HDF5, NetCDF-4 and TIFF files, wherever they are stored.
///
/// No data are copied: each chunk of the Zarr view is a (URL, offset, length) in the original file.
#[derive(Parser)]
#[command(name = "virtualize", bin_name = "virtualize", version, disable_help_subcommand = true)]
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

To read a file that is named like a command, write ./inspect. Exit status: 0 success, 1 failure, 2 wrong usage.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show what a file contains and how it maps to Zarr: types, chunks, codecs, fill values and their sources
    Inspect(Inspect),
    /// Write references for many files; rerun the same command to resume after a crash or Ctrl-C
    Batch(Box<Batch>),
    /// Report what a set of files contains and which of them are compatible, without writing anything
    Scan(Box<Scan>),
    /// Show what the journal of a batch records: files, failures, outputs, and the command to run next
    Journal(Journal),
    /// Rewrite existing references in another format
    Convert(Translate),
    /// Check references against their source files; exit with status 1 on any problem
    Validate(Validate),
    /// Compare two reference sets or files; exit with status 1 if they differ
    Diff(Compare),
    /// Serve allowed files over HTTP, as references and as Zarr v3 stores
    #[cfg(feature = "serve")]
    Serve(Box<virtualize_server::Settings>),
}

/// Writes references of one file.
#[derive(Args)]
pub(crate) struct Convert {
    /// Print requests, bytes and seconds to standard error
    #[arg(long)]
    pub(crate) stats: bool,
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args)]
pub(crate) struct Inspect {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) input: Input,
}

#[derive(Args)]
pub(crate) struct Journal {
    /// Path of the journal
    #[arg(value_name = "FILE")]
    pub(crate) path: std::path::PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which file is read, and how it is mapped.
#[derive(Args, Clone)]
pub(crate) struct Input {
    /// Path or URL (file, http, https, s3, gs, az, abfs) of an HDF5, NetCDF-4 or TIFF file
    #[arg(value_name = "FILE", required = true)]
    file: Option<String>,
    /// Output format, which also decides the Zarr version to map to
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
    #[command(flatten)]
    pub(crate) mapping: Mapping,
}

/// How files are mapped and reached.
#[derive(Args, Clone)]
pub(crate) struct Mapping {
    #[command(flatten)]
    verbosity: Verbosity,
    #[command(flatten)]
    mapping: MappingOptions,
    /// Map all images of a TIFF (the default)
    #[arg(long, conflicts_with = "ifd")]
    all: bool,
    #[command(flatten)]
    store: ConnectionOptions,
}

#[derive(Args, Clone)]
pub(crate) struct Verbosity {
    /// Log to standard error: -v informs, -vv debugs, -vvv traces; RUST_LOG takes precedence
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// Arguments that cannot be carried out as given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Usage {
    #[error("--unpack needs a Zarr v3 output, such as --format zarr3-json: Zarr v2 has no such codecs")]
    UnpackToV2,
    #[error(
        "{output}: the extension selects no format (.json, .parquet, .parq, .zarr, .icechunk): give --format"
    )]
    UnknownFormat { output: String },
    #[error(
        "--shard needs --output or --format, as for the run that imports the part: they decide the Zarr version"
    )]
    NoFormat,
    #[cfg(feature = "icechunk")]
    #[error("--relative does not apply to Icechunk repositories, which store absolute URLs")]
    RelativeRepository,
    #[error("the format consists of several files: give a folder or prefix with --output")]
    SeveralFiles,
    #[error("--relative needs an output to be relative to: give --output")]
    RelativeToNothing,
    #[error("{path}: {error}")]
    File { path: String, error: std::io::Error },
    #[cfg(feature = "serve")]
    #[error(transparent)]
    Service(#[from] virtualize_server::ConfigError),
}

impl Input {
    /// Returns the path or URL, which clap requires.
    pub(crate) fn file(&self) -> &str {
        self.file.as_deref().unwrap_or_default()
    }

    /// Checks that the options can be combined.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        self.mapping.check(self.format.zarr_format())
    }

    /// Returns the library's options.
    pub(crate) fn options(&self) -> Options {
        self.mapping.options(self.format.zarr_format())
    }
}

impl Mapping {
    pub(crate) fn verbose(&self) -> u8 {
        self.verbosity.verbose
    }

    /// Returns whether chunks of one array may differ in size.
    pub(crate) fn is_rectilinear(&self) -> bool {
        self.mapping.chunk_grid == ChunkGridChoice::Rectilinear
    }

    /// Checks that the options can be combined.
    pub(crate) fn check(&self, format: ZarrFormat) -> Result<(), Usage> {
        match self.mapping.unpack && format == ZarrFormat::V2 {
            true => Err(Usage::UnpackToV2),
            false => Ok(()),
        }
    }

    /// Returns the library's options.
    pub(crate) fn options(&self, format: ZarrFormat) -> Options {
        let options = self.mapping.options(self.store.options(), format);
        Options { notation: crate::messages::FLAGS, ..options }
    }
}
