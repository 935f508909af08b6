//! Arguments of `scan`.

use clap::{Args, ValueHint};
use tokio_util::sync::CancellationToken;
use virtualize::{options::value::parse_count, zarr::ZarrFormat};
use virtualize_archive::{FileOptions, LayoutOptions, ScanOptions, list::Input};

use super::{GENERAL, Mapping, OUTPUT};

/// Arguments of `scan`.
#[derive(Args)]
pub(crate) struct Scan {
    #[command(flatten)]
    files: FileOptions,
    #[command(flatten)]
    layout: LayoutOptions,
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
    #[command(flatten)]
    pub(crate) mapping: Mapping,
    /// Print only the report and errors
    #[arg(short, long, help_heading = GENERAL)]
    pub(crate) quiet: bool,
    /// Print JSON
    #[arg(long, help_heading = GENERAL)]
    pub(crate) json: bool,
    /// Write events as JSON lines to a file
    #[arg(long, value_name = "FILE", help_heading = GENERAL, value_hint = ValueHint::FilePath)]
    pub(crate) json_log: Option<String>,
}

impl Scan {
    /// Returns what names the files.
    pub(crate) fn inputs(&self) -> Vec<Input> {
        self.files.inputs()
    }

    /// Returns the library's options.
    pub(crate) fn options(&self, cancel: CancellationToken) -> ScanOptions {
        ScanOptions {
            layout: self.layout.layout(self.mapping.is_rectilinear()),
            open: self.mapping.options(ZarrFormat::V3),
            filter: self.files.filter(),
            assets: self.files.assets(),
            sample: self.sample,
            attempts: u32::try_from(self.attempts).unwrap_or(u32::MAX),
            cancel,
            ..ScanOptions::default()
        }
    }
}
