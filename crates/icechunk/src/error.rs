use std::{collections::BTreeSet, fmt::Display, sync::Arc};

use icechunk::format::{Path, snapshot::NodeSnapshot};
use serde_json::Value;
use virtualize_remedy::{OptionName, Remedy, alternatives};
use virtualize_store::StoreError;
use virtualize_zarr::ChunkReadError;

/// A result whose error is [`IcechunkError`].
pub type Result<T, E = IcechunkError> = std::result::Result<T, E>;

/// Error of a commit or of reading a repository. A failed commit leaves the branch unchanged.
#[derive(Clone, Debug, thiserror::Error)]
pub enum IcechunkError {
    /// The location or the options of the repository are invalid.
    #[error("{location}: {reason}")]
    Location {
        /// The location as given.
        location: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The options do not describe a store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The repository could not be read or written.
    #[error("{doing}: {reason}")]
    Repository {
        /// The failed operation, as a present participle: "opening the branch".
        doing: &'static str,
        /// The message of the `icechunk` crate, on one line.
        reason: String,
    },
    /// Another writer committed to the branch.
    #[error("branch {branch:?} has moved: {reason}")]
    Conflict {
        /// Name of the branch.
        branch: String,
        /// The conflict.
        reason: String,
    },
    /// The repository has no such branch, tag or snapshot.
    #[error("{what} {name:?} does not exist{}", alternatives(plural(what), name, known.iter().map(String::as_str)))]
    NoVersion {
        /// "branch", "tag" or "snapshot".
        what: &'static str,
        /// The name as given.
        name: String,
        /// Names of the existing ones.
        known: BTreeSet<String>,
    },
    /// The history of the branch does not contain the snapshot of the earlier commit.
    #[error(
        "branch {branch:?} does not contain snapshot {snapshot}, the last commit of this dataset: the branch was reset, or the repository was replaced or restored"
    )]
    History {
        /// Name of the branch.
        branch: String,
        /// Id of the snapshot.
        snapshot: String,
    },
    /// Another writer changed a node of the earlier commit.
    #[error("/{path} differs from the last commit of this dataset: {reason}")]
    Foreign {
        /// Path of the node, without a leading slash.
        path: String,
        /// The change.
        reason: String,
    },
    /// A node to be written exists.
    #[error("/{path} already exists in the repository")]
    Exists {
        /// Path of the node, without a leading slash.
        path: String,
    },
    /// Icechunk cannot represent an array or a chunk.
    #[error("/{path}: {reason}")]
    Node {
        /// Path of the node, without a leading slash.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The chunks to commit could not be read.
    #[error("{source}")]
    Chunks {
        /// The error of the reader of the chunks.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// Icechunk cannot reference a file.
    #[error("{url}: {reason}")]
    Source {
        /// Url of the file.
        url: String,
        /// The reason.
        reason: String,
    },
}

impl IcechunkError {
    /// Returns what the user can do.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Exists { .. } => {
                let replace = Remedy::turn_on(OptionName::ReplaceGroup, "replace it");
                Some(replace.or(Remedy::turn_on(OptionName::Group, "write elsewhere")))
            }
            Self::Conflict { .. } => Some(Remedy::advice("run the same command again")),
            Self::History { .. } | Self::Foreign { .. } => {
                let effect = "write this dataset again; nodes added by others stay";
                Some(Remedy::turn_on(OptionName::Overwrite, effect))
            }
            _ => None,
        }
    }

    pub(crate) fn of_chunks(error: ChunkReadError) -> Self {
        Self::Chunks { source: error.into() }
    }

    /// Returns a conversion from errors of the `icechunk` crate that occur during the operation `doing`.
    pub(crate) fn of<K: Display>(doing: &'static str) -> impl Fn(K) -> Self {
        move |error| Self::Repository { doing, reason: one_line(&error) }
    }
}

/// Returns the message of an error and its causes on one line, without the span trace that Icechunk appends.
pub(crate) fn one_line(error: &impl Display) -> String {
    let text = error.to_string();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("context:"))
        .filter(|line| !line.is_empty() && *line != "|")
        .map(|line| line.trim_start_matches(['x', '|', '`', '-', '>', '├', '╰', '─', '▶', ' ']))
        .filter(|line| !line.is_empty())
        .collect();
    lines.join(": ")
}

fn plural(what: &str) -> &'static str {
    match what {
        "branch" => "branches",
        "tag" => "tags",
        _ => "snapshots",
    }
}

/// Parses the document of a node.
pub(crate) fn document_of(path: &str, node: &NodeSnapshot) -> Result<Value> {
    serde_json::from_slice(&node.user_data)
        .map_err(|error| node_error(path, format!("invalid metadata in the repository: {error}")))
}

pub(crate) fn node_error(path: &str, reason: impl Into<String>) -> IcechunkError {
    IcechunkError::Node { path: path.to_owned(), reason: reason.into() }
}

/// Converts a path to that of Icechunk, which rejects empty names and names of dots only.
pub(crate) fn node_path(path: &str) -> Result<Path> {
    Path::new(&format!("/{path}")).map_err(|error| node_error(path, error.to_string()))
}
