//! Arguments of the commands.

use clap::{Args, Parser, Subcommand, ValueHint};
use serde::Deserialize;
use virtualize::{
    ReadOptions, Sample,
    options::{
        ArchiveOptions, ConnectionOptions, Given, IcechunkOptions, OutputFormat, SourceOptions, WriteOptions,
    },
    zarr::{Version, ZarrFormat},
};

#[cfg(feature = "full")]
pub(crate) use self::many::{Batch, OptionsOfBatch, OptionsOfScan, Scan, Serve};
use crate::{error::Usage, messages::FLAGS};

/// Write virtual Zarr references for HDF5, NetCDF and TIFF files
///
/// Copies no data: a reference locates each chunk in the original file, by URL, offset and length.
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
    #[cfg(feature = "full")]
    Batch(Box<Batch>),
    /// Report which of many files are compatible
    ///
    /// Reports what the files contain, which of them are compatible, and how the others differ. Writes nothing.
    #[cfg(feature = "full")]
    Scan(Box<Scan>),
    /// Show the progress and failures of a batch
    ///
    /// Prints what the journal of a batch records: files, failures, outputs, and the command to run next.
    #[cfg(feature = "full")]
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
    /// Prints cause and remedy. Without a code, lists all codes.
    Explain(Explain),
    /// List the rare options, for --option and --config
    Options(Options),
    /// Serve references and Zarr stores over HTTP
    #[cfg(feature = "full")]
    Serve(Box<Serve>),
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
    archive: ArchiveOptions,
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
    /// Path or URL of an HDF5, NetCDF or TIFF file, or of references
    ///
    /// References are kerchunk JSON or Parquet, a zarr3 folder, or an Icechunk repository. The scheme of a URL is file, http, https, s3, gs, az or abfs. The format is detected from the file's content.
    #[arg(value_name = "FILE", required = true, help_heading = None::<&'static str>, value_hint = ValueHint::AnyPath)]
    file: Option<String>,
}

/// Where references are written, for all commands that write one output.
#[derive(Args)]
pub(crate) struct Target {
    /// Output path or URL [default: standard output]
    ///
    /// For kerchunk-parquet, zarr3 and icechunk, OUT is a folder or prefix.
    #[arg(required_if_eq("format", "icechunk"))]
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
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) icechunk: IcechunkOptions,
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
        let options = checked(&self.options.source, self.options.format.unwrap_or_default().zarr_format())?;
        let archive = &self.options.archive;
        let version = archive.version().map_err(|error| Usage::new(error.to_string()))?;
        Ok(virtualize::Options { version, rewrite_url: archive.rewrite_url.clone(), ..options })
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
        return Err(Usage::new(
            "--unpack needs a Zarr v3 output, such as --format zarr3-json: Zarr v2 has no such codecs",
        ));
    }
    Ok(virtualize::Options { notation: FLAGS, ..source.options(format) })
}

/// Arguments of `convert`.
#[derive(Args)]
pub(crate) struct Translate {
    /// Path or URL of references: JSON, a kerchunk-parquet or zarr3 folder, or an Icechunk repository
    ///
    /// JSON is that of kerchunk, version 0 or 1, or has Zarr v3 keys.
    #[arg(value_name = "REFS", value_hint = ValueHint::AnyPath)]
    pub(crate) references: String,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) options: Given<TranslateOptions>,
    /// Print only errors
    #[arg(short, long, help_heading = GENERAL)]
    pub(crate) quiet: bool,
}

/// Options of `convert`.
#[derive(Args, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TranslateOptions {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) output: Output,
    /// Fail if anything is omitted or lost
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) strict: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) reading: Reading,
}

/// Arguments of `diff`.
#[derive(Args)]
pub(crate) struct Compare {
    /// Path or URL of references, or of an HDF5, NetCDF or TIFF file
    #[arg(value_name = "A", value_hint = ValueHint::AnyPath)]
    pub(crate) first: String,
    /// What to compare A with
    #[arg(value_name = "B", value_hint = ValueHint::AnyPath)]
    pub(crate) second: String,
    /// Treat chunks at equal offsets as equal, whichever file they are in (implied for two files)
    #[arg(long, help_heading = "Comparison options")]
    pub(crate) ignore_urls: bool,
    #[command(flatten)]
    pub(crate) options: Given<Reading>,
}

/// Arguments of `validate`.
#[derive(Args)]
pub(crate) struct Validate {
    /// Path or URL of references: JSON, a kerchunk-parquet or zarr3 folder, or an Icechunk repository
    #[arg(value_name = "REFS", value_hint = ValueHint::AnyPath)]
    pub(crate) references: String,
    /// Number of chunks per array and source to decode and compare with a direct read
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Comparison options")]
    sample: u64,
    /// Decode all chunks
    #[arg(long, conflicts_with = "sample", help_heading = "Comparison options")]
    full: bool,
    #[command(flatten)]
    pub(crate) options: Given<Reading>,
    /// Print JSON
    #[arg(long, help_heading = GENERAL)]
    pub(crate) json: bool,
}

impl Validate {
    /// Returns which chunks are decoded.
    pub(crate) fn sample(&self) -> Sample {
        if self.full { Sample::Full } else { Sample::Chunks(self.sample) }
    }
}

/// How references are read.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Reference options")]
pub struct Reading {
    /// Folder or prefix to resolve relative URLs against [default: that of the references]
    #[arg(long, value_name = "FOLDER")]
    relative_to: Option<String>,
    /// Branch, tag or snapshot of the Icechunk repository to read [default: main]
    #[arg(long, value_name = "NAME")]
    version_of: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    store: ConnectionOptions,
}

impl Reading {
    /// Returns the library's options.
    pub fn options(&self) -> ReadOptions {
        let defaults = ReadOptions::default();
        ReadOptions {
            store: self.store.options(),
            relative_to: self.relative_to.clone(),
            version: self.version_of.clone().map_or_else(Version::default, Version::Any),
            ..defaults
        }
    }
}

/// Arguments of the commands for many files, and of the service.
#[cfg(feature = "full")]
mod many {
    use clap::{Args, ValueHint};
    use serde::Deserialize;
    use tokio_util::sync::CancellationToken;
    use virtualize::{
        ChunkGridChoice, Options,
        options::{Given, SourceOptions, value::parse_count},
        zarr::ZarrFormat,
    };
    use virtualize_archive::{BatchOptions, FileOptions, LayoutOptions, ScanOptions, Target, list::Input};
    use virtualize_server::Settings;

    use super::{GENERAL, OUTPUT};
    use crate::{error::Usage, messages::FLAGS};

    /// Arguments of `batch`.
    #[derive(Args)]
    pub(crate) struct Batch {
        /// Output path or URL
        #[arg(display_order = 0, short, long, value_name = "OUT", required_unless_present = "shard", help_heading = OUTPUT, value_hint = ValueHint::AnyPath)]
        output: Option<String>,
        #[command(flatten)]
        pub(crate) options: Given<OptionsOfBatch>,
        /// Print only errors
        #[arg(short, long, help_heading = GENERAL)]
        pub(crate) quiet: bool,
        /// Write events as JSON lines to a file, or to standard output (-)
        #[arg(long, value_name = "FILE", help_heading = GENERAL, value_hint = ValueHint::FilePath)]
        pub(crate) json_log: Option<String>,
        /// All arguments without secrets, the name of the program first.
        #[arg(skip)]
        pub(crate) command: Vec<String>,
    }

    /// Options of `batch` that `--option` and `--config` accept.
    #[derive(Args, Clone, Default, Deserialize)]
    #[serde(default)]
    pub(crate) struct OptionsOfBatch {
        #[command(flatten)]
        #[serde(flatten)]
        pub(crate) batch: BatchOptions,
        #[command(flatten)]
        #[serde(flatten)]
        pub(crate) source: SourceOptions,
    }

    impl Batch {
        /// Returns where the output is written; empty if this machine writes none.
        pub(crate) fn output(&self) -> &str {
            self.output.as_deref().unwrap_or_default()
        }

        /// Returns what is written.
        pub(crate) fn target(&self) -> Result<Target, Usage> {
            match (self.options.batch.target(self.output()), &self.output) {
                (Some(target), _) => {
                    let is_icechunk = matches!(target, Target::Icechunk(_));
                    self.options.batch.icechunk.check(is_icechunk).map_err(Usage::new)?;
                    Ok(target)
                }
                (None, Some(output)) => {
                    let reason = Target::unknown_extension(output);
                    Err(Usage::new(format!("{output}: {reason}: give --format")))
                }
                (None, None) => Err(Usage::new(
                    "--shard needs --output or --format, as for the run that imports the part: they decide the Zarr version",
                )),
            }
        }
    }

    /// Arguments of `scan`.
    #[derive(Args)]
    pub(crate) struct Scan {
        #[command(flatten)]
        options: Given<OptionsOfScan>,
        /// Exit with status 1 if files are not compatible
        #[arg(long, help_heading = "Run options")]
        pub(crate) fail_on_mismatch: bool,
        /// Read only N of the listed files, evenly spread
        #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "Run options")]
        sample: Option<usize>,
        /// Attempts per file when a store fails or the file changes
        #[arg(long, hide = true, value_name = "N", default_value = "3", value_parser = parse_count)]
        attempts: usize,
        /// Also write the JSON to a file
        #[arg(short, long, value_name = "OUT", help_heading = OUTPUT, value_hint = ValueHint::FilePath)]
        pub(crate) output: Option<std::path::PathBuf>,
        /// Print only the report and errors
        #[arg(short, long, help_heading = GENERAL)]
        pub(crate) quiet: bool,
        /// Print JSON
        #[arg(long, help_heading = GENERAL)]
        pub(crate) json: bool,
        /// Write events as JSON lines to a file
        #[arg(long, value_name = "FILE", help_heading = GENERAL, value_hint = ValueHint::FilePath)]
        pub(crate) json_log: Option<String>,
        /// All arguments without secrets, the name of the program first.
        #[arg(skip)]
        pub(crate) command: Vec<String>,
    }

    /// Options of `scan` that `--option` and `--config` accept.
    #[derive(Args, Clone, Default, Deserialize)]
    #[serde(default)]
    pub(crate) struct OptionsOfScan {
        #[command(flatten)]
        #[serde(flatten)]
        files: FileOptions,
        #[command(flatten)]
        #[serde(flatten)]
        layout: LayoutOptions,
        #[command(flatten)]
        #[serde(flatten)]
        source: SourceOptions,
    }

    impl Scan {
        /// Returns what names the files.
        pub(crate) fn inputs(&self) -> Vec<Input> {
            self.options.files.inputs()
        }

        /// Returns the library's options.
        pub(crate) fn options(&self, cancel: CancellationToken) -> ScanOptions {
            let source = &self.options.source;
            ScanOptions {
                layout: self.options.layout.layout(source.mapping.chunk_grid == ChunkGridChoice::Rectilinear),
                open: Options { notation: FLAGS, ..source.options(ZarrFormat::V3) },
                filter: self.options.files.filter(),
                assets: self.options.files.assets(),
                sample: self.sample,
                attempts: u32::try_from(self.attempts).unwrap_or(u32::MAX),
                cancel,
                ..ScanOptions::default()
            }
        }
    }

    /// Serves until the process is stopped.
    #[derive(Args)]
    pub(crate) struct Serve {
        #[command(flatten)]
        pub(crate) settings: Given<Settings>,
        /// Check that the running service responds; exit with status 1 if not
        ///
        /// A health check for containers, with the settings of the service.
        #[arg(long, help_heading = GENERAL)]
        pub(crate) check_health: bool,
    }
}
