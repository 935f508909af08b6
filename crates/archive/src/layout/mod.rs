//! The layout of a combined dataset: its dimensions, and the sources of coordinates.

use std::collections::{BTreeMap, BTreeSet};

use virtualize::zarr::{Group, Node, node};

mod names;

pub use names::{NamePattern, catalogue_value, given};

/// A dimension along which files are combined.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Along {
    /// An existing dimension: arrays that have it are concatenated along it.
    Concat(String),
    /// A new dimension: it becomes the first axis of data variables.
    Stack(String),
}

/// How files are combined. Arrays are given by name, by path, or as `*` for all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The dimensions, outermost first; empty for a scan that only groups files.
    pub along: Vec<Along>,
    /// Arrays that vary between files although they lack the dimensions: the combined arrays get them.
    pub concat_vars: BTreeSet<String>,
    /// Arrays without the dimensions that are taken from the first file, without comparison with the others.
    pub assume_equal: BTreeSet<String>,
    /// Arrays that may be missing from some files; their parts read as the fill value there.
    pub optional: BTreeSet<String>,
    /// Arrays that are left out.
    pub dropped: BTreeSet<String>,
    /// Global attribute that holds the coordinate along a new dimension, by dimension.
    pub coordinate_attributes: BTreeMap<String, String>,
    /// Property of the STAC item that holds the coordinate along a dimension, by dimension.
    pub coordinate_properties: BTreeMap<String, String>,
    /// Patterns of file names whose fields are coordinates along the dimensions of the same names.
    pub names: Vec<NamePattern>,
    /// Whether chunk sizes may vary along the dimensions (Zarr v3 extension `rectilinear`).
    pub rectilinear: bool,
    /// Maximum size in bytes of an array in a file for its values to be copied into the references when its chunks do
    /// not align with those of other files.
    pub inline_limit: u64,
}

impl Layout {
    /// Default of [`Layout::inline_limit`]: 64 KiB.
    pub const INLINE_LIMIT: u64 = 64 << 10;

    /// Returns the layout along these dimensions, with defaults for all else.
    pub fn along(along: Vec<Along>) -> Self {
        Self { along, ..Self::default() }
    }

    /// Returns the layout along new dimensions, outermost first, and along existing ones within them.
    pub fn of_dimensions(stacked: &[String], concatenated: &[String]) -> Self {
        let stacked = stacked.iter().cloned().map(Along::Stack);
        Self::along(stacked.chain(concatenated.iter().cloned().map(Along::Concat)).collect())
    }

    /// Returns whether a set of names includes an array: as `*`, by name, or by path, with or without a leading slash.
    pub fn has(names: &BTreeSet<String>, path: &str) -> bool {
        let name = node::name(path);
        ["*", path, name].iter().any(|known| names.contains(*known))
            || names.iter().any(|known| known.strip_prefix('/') == Some(path))
    }

    /// Removes the arrays that are left out from the root group of a file.
    pub(crate) fn drop_arrays(&self, root: &mut Group) {
        if !self.dropped.is_empty() {
            self.drop_from(root, "");
        }
    }

    fn drop_from(&self, group: &mut Group, path: &str) {
        group.children.retain(|name, node| {
            let path = node::join(path, name);
            match node {
                Node::Array(_) => !Self::has(&self.dropped, &path),
                Node::Group(group) => {
                    self.drop_from(group, &path);
                    true
                }
            }
        });
    }
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            along: Vec::new(),
            concat_vars: BTreeSet::new(),
            assume_equal: BTreeSet::new(),
            optional: BTreeSet::new(),
            dropped: BTreeSet::new(),
            coordinate_attributes: BTreeMap::new(),
            coordinate_properties: BTreeMap::new(),
            names: Vec::new(),
            rectilinear: false,
            inline_limit: Self::INLINE_LIMIT,
        }
    }
}

impl Along {
    /// Returns the name of the dimension.
    pub fn name(&self) -> &str {
        match self {
            Self::Concat(name) | Self::Stack(name) => name,
        }
    }
}
