//! Where references are written, for all commands that write one output.

use clap::{Args, ValueHint};
#[cfg(feature = "icechunk")]
use virtualize::options::IcechunkOptions;
use virtualize::options::WriteOptions;

use super::OUTPUT;

/// Where and how references are written.
#[derive(Args)]
#[command(next_help_heading = OUTPUT)]
pub(crate) struct Output {
    /// Output path or URL [default: standard output]
    ///
    /// For kerchunk-parquet, zarr3 and icechunk, OUT is a folder or prefix.
    #[cfg_attr(feature = "icechunk", arg(required_if_eq("format", "icechunk")))]
    #[arg(short = 'o', long = "output", value_name = "OUT", id = "output", display_order = 0, value_hint = ValueHint::AnyPath)]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) options: WriteOptions,
    #[cfg(feature = "icechunk")]
    #[command(flatten)]
    pub(crate) icechunk: IcechunkOptions,
}
