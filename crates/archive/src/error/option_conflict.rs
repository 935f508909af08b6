use virtualize::{OptionName, Remedy};

/// Options of a run that exclude each other, or do not suffice.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OptionConflict {
    /// One output per file, and dimensions to join files along.
    #[error("an output of each file excludes dimensions along which files are put together")]
    EachWithDimensions,
    /// Neither one output per file nor a dimension.
    #[error("no dimension is given along which the files are put together")]
    NoDimension,
    /// One output per file in an Icechunk repository.
    #[error("an Icechunk repository holds one dataset, not one of each file")]
    EachInRepository,
    /// One output per file, read by several machines.
    #[error("per-file outputs cannot be divided into shards")]
    EachInShards,
    /// A journal in a store, in a run that writes an output.
    #[error("only the journal of a shard can be in a store")]
    RemoteJournal,
    /// A repository that has data, in a run that does not append.
    #[error("the repository has the files of the last run")]
    NotAppended,
    /// Two files whose outputs would have one name.
    #[error("{one} and {other} would have one output, {output}")]
    SameOutput {
        /// The first file.
        one: String,
        /// The second file.
        other: String,
        /// The output.
        output: String,
    },
}

impl OptionConflict {
    /// Returns whether the options are valid, but not for the files and outputs that are stored.
    pub(crate) fn is_of_stored(&self) -> bool {
        matches!(self, Self::NotAppended | Self::SameOutput { .. })
    }

    /// Returns what the user can do.
    pub fn remedy(&self) -> Option<Remedy> {
        use OptionName as O;
        let each = Remedy::turn_on(O::Each, "write an output of each file");
        Some(match self {
            Self::NoDimension => {
                Remedy::turn_on(O::ConcatDim, "join the files along a dimension that they have")
                    .or(Remedy::turn_on(O::StackDim, "add a new dimension"))
                    .or(each)
            }
            Self::NotAppended => Remedy::turn_on(O::Append, "add what is new"),
            Self::SameOutput { .. } => Remedy::advice("read them in separate runs, with different outputs"),
            Self::EachInShards => Remedy::advice("run a batch on each machine, for some of the files"),
            Self::RemoteJournal => Remedy::turn_on(O::Journal, "choose a local path"),
            Self::EachWithDimensions | Self::EachInRepository => return None,
        })
    }
}
