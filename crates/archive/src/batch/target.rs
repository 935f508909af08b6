//! What a batch writes.

use virtualize::{Format, options::OutputFormat, zarr::ZarrFormat};
use virtualize_remedy::similar;

/// Extensions of outputs that select a target.
const EXTENSIONS: [&str; 5] = ["json", "parquet", "parq", "zarr", "icechunk"];

/// Output of a batch.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a run has one")]
pub enum Target {
    /// References.
    References(Format),
    /// A commit to an Icechunk repository.
    Icechunk(virtualize::CommitOptions),
}

impl Default for Target {
    fn default() -> Self {
        Self::References(Format::KERCHUNK_JSON)
    }
}

impl Target {
    /// Returns the target for the extension of an output: `.json`, `.parquet`, `.parq`, `.zarr`, `.icechunk`.
    pub fn of_name(output: &str) -> Option<Self> {
        Some(match OutputFormat::of_name(output)? {
            OutputFormat::References(format) => Self::References(format),
            OutputFormat::Icechunk => Self::Icechunk(virtualize::CommitOptions::default()),
        })
    }

    /// Describes why the extension of `output` selects no target.
    pub fn unknown_extension(output: &str) -> String {
        let (stem, extension) = output.trim_end_matches('/').rsplit_once('.').unwrap_or((output, ""));
        let meant = similar(extension, EXTENSIONS).map(|meant| format!("did you mean \"{stem}.{meant}\"? "));
        let [others @ .., last] = EXTENSIONS;
        let meant = meant.unwrap_or_default();
        format!("the extension selects no format ({meant}.{} and .{last} do)", others.join(", ."))
    }

    /// Returns the Zarr format to map files to.
    pub fn zarr_format(&self) -> ZarrFormat {
        match self {
            Self::References(format) => format.zarr_format(),
            Self::Icechunk(_) => ZarrFormat::V3,
        }
    }

    /// Returns the extension of outputs.
    pub(super) fn extension(&self) -> &'static str {
        match self {
            Self::References(format) => format.suffix(),
            Self::Icechunk(_) => ".icechunk",
        }
    }
}
