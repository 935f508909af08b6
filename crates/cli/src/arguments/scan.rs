//! Arguments of `scan`.

use clap::Args;
use tokio_util::sync::CancellationToken;
use virtualize::{options::value::parse_count, zarr::ZarrFormat};
use virtualize_archive::{FileOptions, LayoutOptions, ScanOptions, list::Input};

use super::Mapping;

/// Arguments of `scan`.
#[derive(Args)]
pub(crate) struct Scan {
    /// Exit with status 1 if files are not compatible
    #[arg(long)]
    pub(crate) fail_on_mismatch: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write the JSON to a file
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<std::path::PathBuf>,
    /// Attempts per file when a store fails or the file changes
    #[arg(long, value_name = "N", default_value = "3", value_parser = parse_count)]
    attempts: usize,
    /// Write events as JSON lines to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) json_log: Option<String>,
    /// Print nothing but the report and errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    files: FileOptions,
    #[command(flatten)]
    layout: LayoutOptions,
    #[command(flatten)]
    pub(crate) mapping: Mapping,
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
            attempts: u32::try_from(self.attempts).unwrap_or(u32::MAX),
            cancel,
            ..ScanOptions::default()
        }
    }
}
