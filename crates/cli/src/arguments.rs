//! Arguments of the commands.

#[cfg(feature = "archive")]
mod batch;
mod output;
mod references;
#[cfg(feature = "archive")]
mod scan;

use clap::{Args, Parser, Subcommand, ValueHint};
use virtualize::{
    Options,
    options::{ConnectionOptions, MappingOptions, OutputFormat},
    zarr::ZarrFormat,
};

#[cfg(feature = "archive")]
pub(crate) use batch::Batch;
pub(crate) use output::Output;
pub(crate) use references::{Compare, Translate, Validate};
#[cfg(feature = "archive")]
pub(crate) use scan::Scan;

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
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) input: Input,
    /// Print requests, bytes and seconds to standard error
    #[arg(long, help_heading = GENERAL)]
    pub(crate) stats: bool,
    /// Print only errors
    #[arg(short, long, help_heading = GENERAL)]
    pub(crate) quiet: bool,
}

#[derive(Args)]
pub(crate) struct Inspect {
    /// Print everything about the array at PATH, such as /group/temperature; may be repeated
    #[arg(id = "array", long, value_name = "PATH", help_heading = GENERAL)]
    pub(crate) arrays: Vec<String>,
    /// Print all groups, arrays and notes, however many they are
    ///
    /// By default, the first 2000 nodes and notes.
    #[arg(long, help_heading = GENERAL)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) input: Input,
    /// Print JSON
    #[arg(long, help_heading = GENERAL)]
    pub(crate) json: bool,
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

/// Which file is read, and how it is mapped.
#[derive(Args, Clone)]
pub(crate) struct Input {
    /// Path or URL of an HDF5, NetCDF or TIFF file
    ///
    /// The scheme of a URL is file, http, https, s3, gs, az or abfs. The format is detected from the file's content.
    #[arg(value_name = "FILE", required = true, help_heading = None::<&'static str>, value_hint = ValueHint::AnyPath)]
    file: Option<String>,
    /// Output format [default: kerchunk-json, or that of OUT's extension]
    ///
    /// The format also selects the Zarr version to map to.
    #[arg(short, long, value_enum, help_heading = OUTPUT, display_order = 1)]
    pub(crate) format: Option<OutputFormat>,
    #[command(flatten)]
    pub(crate) mapping: Mapping,
}

/// How files are mapped and reached.
#[derive(Args, Clone)]
pub(crate) struct Mapping {
    #[command(flatten)]
    mapping: MappingOptions,
    /// Map all images of a TIFF, which is the default
    #[arg(long, conflicts_with = "ifd", hide = true)]
    all: bool,
    #[command(flatten)]
    store: ConnectionOptions,
    #[command(flatten)]
    verbosity: Verbosity,
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

/// Arguments that cannot be carried out as given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Usage {
    #[error("{name}: neither a file nor a command{existing}")]
    NoCommand { name: String, existing: String },
    #[error(
        "{argument}: the argument is not UTF-8, but urls in references are: rename the file, or make a symbolic link to it"
    )]
    NotUtf8 { argument: String },
    #[error("expected one FILE (use `virtualize batch` for several files)")]
    SeveralFiles,
    #[error("--unpack needs a Zarr v3 output, such as --format zarr3-json: Zarr v2 has no such codecs")]
    UnpackToV2,
    #[cfg(feature = "archive")]
    #[error("{output}: {}: give --format", virtualize_archive::Target::unknown_extension(output))]
    UnknownFormat { output: String },
    #[cfg(feature = "archive")]
    #[error(
        "--shard needs --output or --format, as for the run that imports the part: they decide the Zarr version"
    )]
    NoFormat,
    #[cfg(feature = "icechunk")]
    #[error("--relative does not apply to Icechunk repositories, which store absolute URLs")]
    RelativeRepository,
    #[error("the format consists of several files: give a folder or prefix with --output")]
    NoFolder,
    #[error("--relative needs an output to be relative to: give --output")]
    RelativeToNothing,
    #[error("no code \"{code}\"{existing}")]
    UnknownCode { code: String, existing: String },
    #[error("{file}: {reason}")]
    Array { file: String, reason: crate::inspect::UnknownArray },
    #[cfg(feature = "serve")]
    #[error(transparent)]
    Service(#[from] virtualize_server::ConfigError),
}

impl Output {
    /// Returns the format: the one that is given, that of the output's extension, or the default one.
    pub(crate) fn format(&self, given: Option<OutputFormat>) -> OutputFormat {
        given.or_else(|| self.target.as_deref().and_then(OutputFormat::of_name)).unwrap_or_default()
    }
}

impl Inspect {
    pub(crate) fn format(&self) -> OutputFormat {
        self.input.format.unwrap_or_default()
    }
}

impl Convert {
    pub(crate) fn format(&self) -> OutputFormat {
        self.output.format(self.input.format)
    }
}

impl Input {
    /// Returns the path or URL, which clap requires.
    pub(crate) fn file(&self) -> &str {
        self.file.as_deref().unwrap_or_default()
    }
}

impl Mapping {
    pub(crate) fn verbose(&self) -> u8 {
        self.verbosity.verbose
    }

    /// Returns whether chunks of one array may differ in size.
    #[cfg(feature = "archive")]
    pub(crate) fn is_rectilinear(&self) -> bool {
        self.mapping.chunk_grid == virtualize::ChunkGridChoice::Rectilinear
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
