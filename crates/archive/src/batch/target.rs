use virtualize::Format;
use virtualize::zarr::ZarrFormat;

/// What is written.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "icechunk", allow(clippy::large_enum_variant, reason = "a run has one"))]
pub enum Target {
    /// References.
    References(Format),
    /// A commit to an Icechunk repository.
    #[cfg(feature = "icechunk")]
    Icechunk(virtualize::CommitOptions),
}

impl Target {
    /// What the name of an output says: `.json`, `.parquet`, `.parq`, `.zarr`, `.icechunk`.
    pub fn of_name(output: &str) -> Option<Self> {
        let (_, extension) = output.trim_end_matches('/').rsplit_once('.')?;
        match extension.to_ascii_lowercase().as_str() {
            "json" => Some(Self::References(Format::KerchunkJson)),
            "parquet" | "parq" => {
                Some(Self::References(Format::KerchunkParquet { record_size: Format::RECORD_SIZE }))
            }
            "zarr" => Some(Self::References(Format::Zarr3)),
            #[cfg(feature = "icechunk")]
            "icechunk" => Some(Self::Icechunk(virtualize::CommitOptions::default())),
            _ => None,
        }
    }

    /// The Zarr format that files are mapped for.
    pub fn zarr_format(&self) -> ZarrFormat {
        match self {
            Self::References(format) => format.zarr_format(),
            #[cfg(feature = "icechunk")]
            Self::Icechunk(_) => ZarrFormat::V3,
        }
    }

    /// What names of outputs end in.
    pub(super) fn extension(&self) -> &'static str {
        match self {
            Self::References(Format::KerchunkJson | Format::Zarr3Json) => ".json",
            Self::References(Format::Zarr3) => ".zarr",
            Self::References(Format::KerchunkParquet { .. }) => ".parq",
            #[cfg(feature = "icechunk")]
            Self::Icechunk(_) => ".icechunk",
        }
    }
}
