use virtualize::{OptionName, Remedy};
use virtualize_store::StoreError;

/// Why files could not be listed. Each is one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ListError {
    /// A store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A pattern cannot be read.
    #[error("pattern {pattern}: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Why.
        reason: String,
    },
    /// A line of a list cannot be read.
    #[error("{name}, line {line}: {reason}")]
    Line {
        /// The list.
        name: String,
        /// From 1 on.
        line: u64,
        /// Why.
        reason: String,
    },
    /// A catalogue says something that makes no sense.
    #[error("{name}: {reason}")]
    Catalogue {
        /// The document.
        name: String,
        /// What.
        reason: String,
    },
    /// An item of a catalogue has several assets that could be read.
    #[error("{name}: item {item}: it has several assets: {}", assets.join(", "))]
    Assets {
        /// The document.
        name: String,
        /// Id of the item.
        item: String,
        /// Keys of the assets.
        assets: Vec<String>,
    },
    /// Nothing is where files were looked for.
    #[error("{sought}: no file was found; {near}")]
    Nothing {
        /// The pattern or prefix.
        sought: String,
        /// What there is instead.
        near: String,
    },
    /// A list or catalogue names no files.
    #[error("{name}: it names no files")]
    Empty {
        /// The list or catalogue.
        name: String,
    },
    /// Files there are, but none is left.
    #[error(
        "no file is left: {filtered} do not pass the filter ({filter}), {without_asset} STAC items have no wanted asset"
    )]
    AllLeftOut {
        /// How many the filter left out.
        filtered: u64,
        /// How many STAC items have no asset that is wanted.
        without_asset: u64,
        /// What the filter wants.
        filter: String,
    },
}

impl ListError {
    /// What the user can do.
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
