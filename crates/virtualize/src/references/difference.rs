use std::{borrow::Cow, fmt};

use serde_json::Value;

use super::pairs::key;

/// Longest value that is shown in full, in characters.
const SHOWN: usize = 100;

/// Differences between two hierarchies, in order of path.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Difference {
    /// Differences; empty if the hierarchies are equal.
    pub nodes: Vec<NodeDifference>,
}

/// One difference.
#[derive(Clone, PartialEq, Debug)]
pub enum NodeDifference {
    /// A node that exists in one hierarchy only.
    OnlyIn {
        /// Path of the node, without a leading slash.
        path: String,
        /// Whether the first hierarchy contains it.
        first: bool,
    },
    /// An array of one hierarchy that could not be compared.
    Unread {
        /// Path of the array.
        path: String,
        /// Whether it belongs to the first hierarchy.
        first: bool,
        /// Reason why it could not be compared.
        reason: String,
    },
    /// A node that is a group in one hierarchy and an array in the other.
    Kind {
        /// Path of the node.
        path: String,
    },
    /// A member of a metadata document, or an attribute, with different values.
    Member {
        /// Path of the node.
        path: String,
        /// Name of the member, such as `shape` or `attribute units`.
        member: String,
        /// Value in the first, if it has the member.
        first: Option<Value>,
        /// Value in the second.
        second: Option<Value>,
    },
    /// Chunks that are stored in different places, or exist in one hierarchy only.
    Chunks {
        /// Path of the array.
        path: String,
        /// Number of these chunks.
        count: u64,
        /// The first few of these chunks.
        examples: Vec<ChunkDifference>,
    },
}

/// A chunk that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChunkDifference {
    /// Indices in the chunk grid, slowest axis first.
    pub indices: Vec<u64>,
    /// Its place in the first hierarchy.
    pub first: String,
    /// Its place in the second hierarchy.
    pub second: String,
}

impl Difference {
    /// Replaces the differences of chunks that one side inlines because its format cannot refer to them.
    pub(super) fn remade(&mut self, path: &str, first: bool) {
        let is_of = |node: &NodeDifference| matches!(node, NodeDifference::Chunks { path: known, .. } if known == path);
        if self.nodes.iter().any(is_of) {
            self.nodes.retain(|node| !is_of(node));
            let reason = "Zarr v3 cannot refer to its chunks; they would be made anew and inlined".to_owned();
            self.nodes.push(NodeDifference::Unread { path: path.to_owned(), first, reason });
        }
    }

    /// Reports an array that could not be read from one side as unread instead of missing.
    pub(super) fn unread(&mut self, path: &str, first: bool, reason: &str) {
        let is_only = |node: &NodeDifference| matches!(node, NodeDifference::OnlyIn { path: known, .. } if known == path);
        self.nodes.retain(|node| !is_only(node));
        self.nodes.push(NodeDifference::Unread { path: path.to_owned(), first, reason: reason.to_owned() });
    }

    /// Returns whether the hierarchies are equal.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// Formats path, member and both sides on one line.
impl fmt::Display for NodeDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnlyIn { path, first: true } => write!(f, "/{path}: only in the first"),
            Self::OnlyIn { path, first: false } => write!(f, "/{path}: only in the second"),
            Self::Unread { path, first, reason } => {
                let which = if *first { "first" } else { "second" };
                write!(f, "/{path}: cannot be compared, in the {which}: {reason}")
            }
            Self::Kind { path } => write!(f, "/{path}: a group in one, an array in the other"),
            Self::Member { path, member, first, second } => {
                write!(f, "/{path}: {member}: {} | {}", shown(first.as_ref()), shown(second.as_ref()))
            }
            Self::Chunks { path, count, examples } => {
                write!(f, "/{path}: {count} chunk{}", if *count == 1 { "" } else { "s" })?;
                for example in examples {
                    write!(f, "; {}: {} | {}", key(&example.indices), example.first, example.second)?;
                }
                let more = usize::try_from(*count).is_ok_and(|count| count > examples.len());
                f.write_str(if more { "; …" } else { "" })
            }
        }
    }
}

fn shown(value: Option<&Value>) -> Cow<'static, str> {
    let Some(value) = value else { return "nothing".into() };
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()).into(),
        None => text.into(),
    }
}
