/// A version of a repository of hierarchies, such as those of Icechunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Version {
    /// The newest commit of a branch.
    Branch(String),
    /// A tag.
    Tag(String),
    /// The id of a snapshot.
    Snapshot(String),
    /// The name of a branch, else of a tag, else the id of a snapshot.
    Any(String),
}

impl Default for Version {
    fn default() -> Self {
        Self::Branch("main".to_owned())
    }
}
