//! Where references are written, for all commands that write one output.

use clap::Args;
#[cfg(feature = "icechunk")]
use virtualize::options::IcechunkOptions;
use virtualize::options::WriteOptions;

/// Where and how references are written.
#[derive(Args)]
#[command(next_help_heading = "Output options")]
pub(crate) struct Output {
    /// Path or URL to write to; a folder or prefix for formats of several files [default: standard output]
    #[cfg_attr(feature = "icechunk", arg(required_if_eq("format", "icechunk")))]
    #[arg(short = 'o', long = "output", value_name = "OUT", id = "output")]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) options: WriteOptions,
    #[cfg(feature = "icechunk")]
    #[command(flatten)]
    pub(crate) icechunk: IcechunkOptions,
}
