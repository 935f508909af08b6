use std::fmt::Display;

use virtualize_remedy::{OptionName, Remedy};

/// Why a hierarchy was not committed. The branch is as it was.
#[derive(Clone, Debug, thiserror::Error)]
pub enum IcechunkError {
    /// The repository's place or its options make no sense.
    #[error("{location}: {reason}")]
    Location {
        /// As it was given.
        location: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The repository could not be read or written.
    #[error("{doing}: {reason}")]
    Repository {
        /// What was being done.
        doing: &'static str,
        /// What Icechunk says.
        reason: String,
    },
    /// Someone else has committed to the branch.
    #[error("branch {branch:?} has moved: {reason}")]
    Conflict {
        /// The branch.
        branch: String,
        /// What collides.
        reason: String,
    },
    /// There is no such branch.
    #[error("there is no branch {branch:?}; there are {known}")]
    NoBranch {
        /// As it was given.
        branch: String,
        /// Those that there are.
        known: String,
    },
    /// The branch does not have the snapshot that a commit builds on.
    #[error(
        "branch {branch:?} does not have snapshot {snapshot}, the last commit of this dataset: the branch was reset, or the repository was replaced or restored"
    )]
    History {
        /// The branch.
        branch: String,
        /// The snapshot.
        snapshot: String,
    },
    /// Others have changed what a commit builds on.
    #[error("/{path} is no longer as the last commit of this dataset left it: {reason}")]
    Foreign {
        /// The node.
        path: String,
        /// What they changed.
        reason: String,
    },
    /// A node that would be written is there already.
    #[error("/{path} is in the repository already")]
    Exists {
        /// The node.
        path: String,
    },
    /// What is to be appended does not fit what is there.
    #[error("/{path} cannot be appended: {reason}")]
    Append {
        /// The node.
        path: String,
        /// Why.
        reason: String,
    },
    /// An array or a chunk that Icechunk cannot hold.
    #[error("/{path}: {reason}")]
    Node {
        /// The node.
        path: String,
        /// Why.
        reason: String,
    },
    /// A file that Icechunk cannot refer to.
    #[error("{url}: {reason}")]
    Source {
        /// The file.
        url: String,
        /// Why.
        reason: String,
    },
}

impl IcechunkError {
    /// What the user can do.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Exists { .. } => {
                let replace = Remedy::turn_on(OptionName::Replace, "replace it");
                let append = Remedy::turn_on(OptionName::AppendDim, "append to it");
                Some(replace.or(append).or(Remedy::turn_on(OptionName::Group, "write elsewhere")))
            }
            Self::Conflict { .. } => Some(Remedy::advice("run the same command again")),
            Self::History { .. } | Self::Foreign { .. } => {
                let effect = "write this dataset again; nodes that others added beside it stay";
                Some(Remedy::turn_on(OptionName::Overwrite, effect))
            }
            _ => None,
        }
    }

    /// An error of Icechunk: its message with those that caused it, on one line and without its trace.
    pub(crate) fn of<K: Display>(doing: &'static str) -> impl Fn(K) -> Self {
        move |error| Self::Repository { doing, reason: one_line(&error) }
    }
}

/// The first line of a message that may go on with a trace, and its causes.
pub(crate) fn one_line(error: &impl Display) -> String {
    let text = error.to_string();
    let said: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("context:"))
        .filter(|line| !line.is_empty() && *line != "|")
        .map(|line| line.trim_start_matches(['x', '|', '`', '-', '>', '├', '╰', '─', '▶', ' ']))
        .filter(|line| !line.is_empty())
        .collect();
    said.join(": ")
}
