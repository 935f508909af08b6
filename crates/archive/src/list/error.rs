use virtualize::{OptionName, Remedy};
use virtualize_store::StoreError;

/// Errors of a listing. Each message is one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ListError {
    /// A request to a store failed or was denied.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A pattern is invalid.
    #[error("pattern {pattern}: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Reason.
        reason: String,
    },
    /// A line of a list is invalid.
    #[error("{name}, line {line}: {reason}")]
    Line {
        /// The list.
        name: String,
        /// Line number, from 1.
        line: u64,
        /// Reason.
        reason: String,
    },
    /// A catalogue is invalid.
    #[error("{name}: {reason}")]
    Catalogue {
        /// The document.
        name: String,
        /// Reason.
        reason: String,
    },
    /// An item of a catalogue has several readable assets.
    #[error("{name}: item {item}: it has several assets: {}", assets.join(", "))]
    Assets {
        /// The document.
        name: String,
        /// ID of the item.
        item: String,
        /// Keys of the assets.
        assets: Vec<String>,
    },
    /// No file matches a pattern, or exists at or below a path or prefix.
    #[error("{sought}: no file was found; {near}")]
    Nothing {
        /// The pattern or prefix.
        sought: String,
        /// Names that exist nearby.
        near: String,
    },
    /// A list or catalogue names no files.
    #[error("{name}: it names no files")]
    Empty {
        /// The list or catalogue.
        name: String,
    },
    /// The inputs name files, but none remains after selection.
    #[error(
        "no file is left: {filtered} do not pass the filter ({filter}), {without_asset} STAC items have no wanted asset"
    )]
    AllLeftOut {
        /// Number of files that the filter excluded.
        filtered: u64,
        /// Number of STAC items without a selected asset.
        without_asset: u64,
        /// Description of the filter.
        filter: String,
    },
}

impl ListError {
    /// Returns the remedy to suggest to the user, if any.
    pub fn remedy(&self) -> Option<Remedy> {
        Some(match self {
            Self::Store(error) => return error.remedy(),
            Self::Pattern { .. } => {
                Remedy::advice("write patterns with * ? [a-z] {a,b} and **; [*] matches the character itself")
            }
            Self::Line { .. } => {
                Remedy::advice("write a path, a url, or a JSON object with \"url\" on each line")
            }
            Self::Assets { .. } => Remedy::turn_on(OptionName::Asset, "choose those to read"),
            Self::Nothing { .. } => Remedy::advice("check the pattern; * does not match a slash, ** does"),
            Self::AllLeftOut { without_asset: 1.., .. } => {
                Remedy::turn_on(OptionName::Asset, "name assets").or(Remedy::advice("widen the filter"))
            }
            Self::Catalogue { .. } | Self::Empty { .. } | Self::AllLeftOut { .. } => return None,
        })
    }
}
