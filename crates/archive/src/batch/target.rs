use virtualize::Format;
use virtualize::zarr::ZarrFormat;

/// Output of a batch.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "icechunk", allow(clippy::large_enum_variant, reason = "a run has one"))]
pub enum Target {
    /// References.
    References(Format),
    /// A commit to an Icechunk repository.
    #[cfg(feature = "icechunk")]
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
        let (_, extension) = output.trim_end_matches('/').rsplit_once('.')?;
        let extension = extension.to_ascii_lowercase();
        #[cfg(feature = "icechunk")]
        if extension == "icechunk" {
            return Some(Self::Icechunk(virtualize::CommitOptions::default()));
        }
        Format::from_extension(&extension).map(Self::References)
    }

    /// Returns the Zarr format to map files to.
    pub fn zarr_format(&self) -> ZarrFormat {
        match self {
            Self::References(format) => format.zarr_format(),
            #[cfg(feature = "icechunk")]
            Self::Icechunk(_) => ZarrFormat::V3,
        }
    }

    /// Returns the extension of outputs.
    pub(super) fn extension(&self) -> &'static str {
        match self {
            Self::References(format) => format.suffix(),
            #[cfg(feature = "icechunk")]
            Self::Icechunk(_) => ".icechunk",
        }
    }
}
