//! Arguments of `scan`.

use clap::Args;
use tokio_util::sync::CancellationToken;
use virtualize::zarr::ZarrFormat;
use virtualize_archive::{Layout, ScanOptions, combine::NamePattern, list::Input};

use super::{Files, Mapping, at_least_one, byte_limit, key_value};

/// Says what many files hold, and which of them agree.
#[derive(Args)]
pub(crate) struct Scan {
    #[command(flatten)]
    files: Files,
    /// The dimension along which the files are to be put together, which they have; may be repeated. Without one, and
    /// without --stack-dim, the first file's dimension of time
    #[arg(long = "concat-dim", value_name = "DIMENSION")]
    concat_dims: Vec<String>,
    /// The new dimension along which the files are to be put together; may be repeated, outermost first
    #[arg(long = "stack-dim", value_name = "DIMENSION")]
    stack_dims: Vec<String>,
    /// This array gets the dimensions too, so that it may differ from file to file; may be repeated
    #[arg(long = "concat-var", value_name = "ARRAY")]
    concat_vars: Vec<String>,
    /// This array is taken from the first file, whatever the others have; may be repeated
    #[arg(long, value_name = "ARRAY")]
    assume_equal: Vec<String>,
    /// This array may be in some of the files only; may be repeated
    #[arg(long = "optional-var", visible_alias = "optional", value_name = "ARRAY")]
    optional: Vec<String>,
    /// Take the coordinate along a dimension from a property of the catalogue's item; may be repeated
    #[arg(long = "coord-from-property", value_name = "DIMENSION=PROPERTY", value_parser = key_value)]
    coordinate_properties: Vec<(String, String)>,
    /// Take coordinates from the files' names, as batch does
    #[arg(long = "coord-from-name", value_name = "PATTERN")]
    names: Option<NamePattern>,
    /// Most bytes a file of an array whose values may be copied, so that its chunks need not agree
    #[arg(long, value_name = "SIZE", value_parser = byte_limit, default_value = "64K")]
    copy_limit: u64,
    /// Exit status 1 where files disagree
    #[arg(long)]
    pub(crate) fail_on_mismatch: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the JSON to a file as well
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<std::path::PathBuf>,
    /// How often a file is tried where a store fails, or the file changes
    #[arg(long, value_name = "N", default_value = "3", value_parser = at_least_one)]
    attempts: usize,
    /// Write what happens as lines of JSON to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) json_log: Option<String>,
    /// Say nothing but what was found, and errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) mapping: Mapping,
}

impl Scan {
    /// Which files.
    pub(crate) fn inputs(&self) -> Vec<Input> {
        self.files.inputs()
    }

    /// The library's options.
    pub(crate) fn options(&self, cancel: CancellationToken) -> ScanOptions {
        let set = |names: &[String]| names.iter().cloned().collect();
        let layout = Layout {
            concat_vars: set(&self.concat_vars),
            assume_equal: set(&self.assume_equal),
            optional: set(&self.optional),
            coordinate_properties: self.coordinate_properties.iter().cloned().collect(),
            names: self.names.clone(),
            rectilinear: self.mapping.is_rectilinear(),
            inline_limit: self.copy_limit,
            ..Layout::of_dimensions(&self.stack_dims, &self.concat_dims)
        };
        ScanOptions {
            layout,
            open: self.mapping.options(ZarrFormat::V3),
            filter: self.files.filter(),
            assets: self.files.assets(),
            attempts: u32::try_from(self.attempts).unwrap_or(u32::MAX),
            cancel,
            ..ScanOptions::default()
        }
    }
}
