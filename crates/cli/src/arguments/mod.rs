//! Arguments of the commands.

#[cfg(feature = "archive")]
mod batch;
mod references;
#[cfg(feature = "archive")]
mod scan;

use clap::{Args, Parser, Subcommand, ValueHint};
use serde::Deserialize;
#[cfg(feature = "icechunk")]
use virtualize::options::IcechunkOptions;
use virtualize::{
    options::{Given, OutputFormat, SourceOptions, WriteOptions},
    zarr::ZarrFormat,
};

use crate::{error::Usage, messages::FLAGS};

#[cfg(feature = "archive")]
pub(crate) use batch::{Batch, OptionsOfBatch};
pub(crate) use references::{Compare, Reading, Translate, TranslateOptions, Validate};
#[cfg(feature = "archive")]
pub(crate) use scan::{OptionsOfScan, Scan};

/// Write virtual Zarr references for HDF5, NetCDF and TIFF files
///
/// No data are copied: each chunk of the Zarr view is a (URL, offset, length) in the original file, wherever it is stored.
#[derive(Parser)]
#[command(name = "virtualize", bin_name = "virtualize", version)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) convert: Convert,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show what a file contains and how it maps to Zarr
    ///
    /// Prints data types, chunks, codecs, fill values and their sources, and attributes. Writes nothing.
    Inspect(Inspect),
    /// Write references for many files, combined or one by one
    ///
    /// Combines many files into one dataset, or writes one output per file with --each. Rerun the same command to resume
    /// after a crash or Ctrl-C.
    #[cfg(feature = "archive")]
    Batch(Box<Batch>),
    /// Report which files of a set are compatible
    ///
    /// Reports what a set of files contains, which of them are compatible, and how the others differ. Writes nothing.
    #[cfg(feature = "archive")]
    Scan(Box<Scan>),
    /// Show the progress and failures of a batch
    ///
    /// Prints what the journal of a batch records: files, failures, outputs, and the command to run next.
    #[cfg(feature = "archive")]
    Journal(Journal),
    /// Rewrite existing references in another format
    Convert(Translate),
    /// Check references against their source files
    ///
    /// Exits with status 1 if there is any problem.
    Validate(Validate),
    /// Compare two reference sets or files
    ///
    /// Exits with status 1 if they differ.
    Diff(Compare),
    /// Explain the code of a warning or error
    ///
    /// Prints cause and cure. Without a code, lists all codes.
    Explain(Explain),
    /// List the rare options, for --option and --config
    Options(Options),
    /// Serve references and Zarr stores over HTTP
    #[cfg(feature = "serve")]
    Serve(Box<crate::serve::Serve>),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Write the manual pages to a folder
    #[command(hide = true)]
    Man(Man),
}

#[derive(Args)]
pub(crate) struct Completions {
    /// Shell to complete commands in
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args)]
pub(crate) struct Options {
    /// Print all options of all commands as JSON
    #[arg(long, help_heading = GENERAL)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Man {
    /// Folder to write to; it is created if it does not exist
    #[arg(value_name = "DIR")]
    pub(crate) folder: std::path::PathBuf,
}

#[derive(Args)]
pub(crate) struct Explain {
    /// Code at the end of a message, such as fill-value-dropped
    #[arg(value_name = "CODE")]
    pub(crate) code: Option<String>,
}

/// Writes references of one file.
#[derive(Args)]
pub(crate) struct Convert {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) options: Given<ConvertOptions>,
    /// Print requests, bytes and seconds to standard error
    #[arg(long, help_heading = GENERAL)]
    pub(crate) stats: bool,
    /// Print only errors
    #[arg(short, long, help_heading = GENERAL)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

/// Options of `virtualize FILE`.
#[derive(Args, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ConvertOptions {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) source: SourceOptions,
}

#[derive(Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Print everything about the array at PATH, such as /group/temperature; may be repeated
    #[arg(id = "array", long, value_name = "PATH", help_heading = GENERAL)]
    pub(crate) arrays: Vec<String>,
    /// Print all groups, arrays and notes, however many they are
    ///
    /// By default, the first 2000 nodes and notes.
    #[arg(long, help_heading = GENERAL)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) options: Given<InspectOptions>,
    /// Print JSON
    #[arg(long, help_heading = GENERAL)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

/// Options of `inspect`.
#[derive(Args, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct InspectOptions {
    /// Output format to map for [default: kerchunk-json]
    #[arg(short, long, value_enum, help_heading = OUTPUT)]
    format: Option<OutputFormat>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) source: SourceOptions,
}

#[derive(Args)]
pub(crate) struct Journal {
    /// Path of the journal, such as out.json.journal
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) path: std::path::PathBuf,
    /// Print JSON
    #[arg(long, help_heading = GENERAL)]
    pub(crate) json: bool,
}

/// Which file is read.
#[derive(Args)]
pub(crate) struct Input {
    /// Path or URL of an HDF5, NetCDF or TIFF file
    ///
    /// The scheme of a URL is file, http, https, s3, gs, az or abfs. The format is detected from the file's content.
    #[arg(value_name = "FILE", required = true, help_heading = None::<&'static str>, value_hint = ValueHint::AnyPath)]
    file: Option<String>,
}

/// Where references are written, for all commands that write one output.
#[derive(Args)]
pub(crate) struct Target {
    /// Output path or URL [default: standard output]
    ///
    /// For kerchunk-parquet, zarr3 and icechunk, OUT is a folder or prefix.
    #[cfg_attr(feature = "icechunk", arg(required_if_eq("format", "icechunk")))]
    #[arg(short = 'o', long = "output", value_name = "OUT", id = "output", help_heading = OUTPUT, value_hint = ValueHint::AnyPath)]
    path: Option<String>,
}

/// How references are written, for all commands that write one output.
#[derive(Args, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Output {
    /// Output format [default: kerchunk-json, or that of OUT's extension]
    ///
    /// The format also selects the Zarr version to map to.
    #[arg(short, long, value_enum, help_heading = OUTPUT)]
    format: Option<OutputFormat>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) write: WriteOptions,
    #[cfg(feature = "icechunk")]
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) icechunk: IcechunkOptions,
}

#[derive(Args, Clone)]
pub(crate) struct Verbosity {
    /// Log to standard error; -vv and -vvv log more
    ///
    /// -v logs at the level info, -vv at debug, -vvv at trace. The environment variable RUST_LOG takes precedence.
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = GENERAL)]
    pub(crate) verbose: u8,
}

/// Heading of the options that say where references are written.
pub(crate) const OUTPUT: &str = "Output options";
/// Heading of the options that say what is printed.
pub(crate) const GENERAL: &str = "General options";

impl Target {
    /// Returns the path or URL; `None` for standard output.
    pub(crate) fn path(&self) -> Option<&str> {
        self.path.as_deref().filter(|path| *path != "-")
    }
}

impl Output {
    /// Returns the format: the one that is given, that of the output's extension, or the default one.
    pub(crate) fn format(&self, target: &Target) -> OutputFormat {
        self.format.or_else(|| target.path().and_then(OutputFormat::of_name)).unwrap_or_default()
    }
}

impl Inspect {
    /// Returns the library's options.
    pub(crate) fn options(&self) -> Result<virtualize::Options, Usage> {
        checked(&self.options.source, self.options.format.unwrap_or_default().zarr_format())
    }
}

impl Convert {
    pub(crate) fn format(&self) -> OutputFormat {
        self.options.output.format(&self.target)
    }

    /// Returns the library's options.
    pub(crate) fn options(&self) -> Result<virtualize::Options, Usage> {
        checked(&self.options.source, self.format().zarr_format())
    }
}

impl Input {
    /// Returns the path or URL, which clap requires.
    pub(crate) fn file(&self) -> &str {
        self.file.as_deref().unwrap_or_default()
    }
}

/// Returns the library's options for an output of `format`, which must be able to express them.
pub(crate) fn checked(source: &SourceOptions, format: ZarrFormat) -> Result<virtualize::Options, Usage> {
    if source.mapping.unpack && format == ZarrFormat::V2 {
        return Err(Usage::UnpackToV2);
    }
    Ok(virtualize::Options { notation: FLAGS, ..source.options(format) })
}
