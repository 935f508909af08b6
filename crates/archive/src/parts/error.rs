use virtualize::{OptionName, Remedy, StoreError};

use crate::journal::OptionDifference;

/// Errors of plans and parts. Each message is one line that names the object.
#[derive(Debug, thiserror::Error)]
pub enum PartsError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The object is not a plan or part, or its bytes are not those that were written.
    #[error("{name}: not a {kind} of virtualize, or damaged: {reason}")]
    Damaged {
        /// The object.
        name: String,
        /// `plan` or `part`.
        kind: &'static str,
        /// Reason.
        reason: String,
    },
    /// A plan is in the place of a part.
    #[error("{name}: a plan, expected a part")]
    Plan {
        /// The plan.
        name: String,
    },
    /// Another version of the program wrote the object.
    #[error("{name}: {kind} of version {found}, expected {expected}")]
    Version {
        /// The object.
        name: String,
        /// `plan` or `part`.
        kind: &'static str,
        /// Version found.
        found: String,
        /// Version of this program.
        expected: String,
    },
    /// The part was read with other options.
    #[error("{name}: part read with other options: {}", some(differences))]
    OtherOptions {
        /// The part.
        name: String,
        /// The options that differ, with their values in the part (before) and in this run (now).
        differences: Vec<OptionDifference>,
    },
    /// The part belongs to another list of files.
    #[error("{name}: part of another listing, of {found} files ({digest}), expected {expected} files ({of})")]
    OtherListing {
        /// The part.
        name: String,
        /// Number of files of its listing.
        found: u64,
        /// Start of the SHA-256 of its listing.
        digest: String,
        /// Number of files of this run's listing.
        expected: u64,
        /// Start of the SHA-256 of this run's listing.
        of: String,
    },
    /// The place of a plan has another plan.
    #[error("{name}: there is another plan already, of {found} files; the inputs now have {expected}")]
    OtherPlan {
        /// The plan.
        name: String,
        /// Number of its files.
        found: u64,
        /// Number of files that were listed.
        expected: u64,
    },
    /// Files of the listing are in no part.
    #[error(
        "no part has {count} of {files} files: {ranges}; missing {} {shards}",
        if *one { "shard" } else { "shards" }
    )]
    Missing {
        /// Number of files that are in no part.
        count: u64,
        /// Number of all files.
        files: u64,
        /// Their positions in the listing, such as `files 1001 to 2000`.
        ranges: String,
        /// Shards that have them, such as `3/10, 5/10`.
        shards: String,
        /// The first of these.
        first: String,
        /// Whether it is the only one.
        one: bool,
    },
    /// A shard that does not exist.
    #[error("shard {number}/{of}: expected a number from 1 to the number of shards")]
    Shard {
        /// Number of the shard.
        number: u64,
        /// Number of shards.
        of: u64,
    },
    /// A plan or part could not be encoded.
    #[error("{name}: {reason}")]
    Encoding {
        /// The object.
        name: String,
        /// Reason.
        reason: String,
    },
}

impl PartsError {
    /// Returns the remedy to suggest to the user, if any.
    pub fn remedy(&self) -> Option<Remedy> {
        Some(match self {
            Self::Store(error) => return error.remedy(),
            Self::Damaged { kind: "plan", .. } | Self::Version { kind: "plan", .. } => {
                Remedy::turn_on(OptionName::Overwrite, "write the plan again")
            }
            Self::Damaged { .. } | Self::Version { .. } | Self::OtherListing { .. } => {
                Remedy::advice("if it is a part, delete it and read its shard again")
            }
            Self::OtherOptions { .. } => Remedy::advice("give the same options to all shards"),
            Self::OtherPlan { .. } => Remedy::turn_on(OptionName::Overwrite, "replace it")
                .or(Remedy::advice("choose another place for the plan")),
            Self::Missing { first, one, .. } => Remedy::set(
                OptionName::Shard,
                first.clone(),
                if *one { "read it on any machine" } else { "read the first, and likewise the others" },
            ),
            Self::Plan { .. } | Self::Shard { .. } | Self::Encoding { .. } => return None,
        })
    }
}

fn some(differences: &[OptionDifference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
