use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use virtualize::ArrayValues;
use virtualize::zarr::{Hierarchy, NodePath};

use crate::Item;

/// A file that was read.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    /// The file.
    pub item: Item,
    /// Its arrays, and where their chunks lie. In all groups but the root as well.
    pub hierarchy: Hierarchy,
    /// Decoded values of the arrays in [`Wanted::values`].
    pub values: BTreeMap<NodePath, ArrayValues>,
    /// SHA-256 of type, shape and decoded values, in hexadecimal, of the arrays in [`Wanted::digests`].
    pub digests: BTreeMap<NodePath, String>,
    /// Coordinates along new dimensions that names, paths or catalogues give, by dimension.
    pub given: BTreeMap<String, Value>,
}

/// Which arrays of a file must be read whole, since references to them are not enough.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Their values are needed: coordinates along the dimensions, and small arrays whose chunks do not fit.
    pub values: BTreeSet<NodePath>,
    /// They must be equal in all files: arrays without any of the dimensions.
    pub digests: BTreeSet<NodePath>,
}

/// A dimension along which files are put together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Along {
    /// An existing dimension: arrays that have it grow.
    Concat(String),
    /// A new dimension: data variables get it as their first.
    Stack(String),
}

/// How files are put together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Layout {
    /// The dimensions, outermost first; none for a scan that only groups files.
    pub along: Vec<Along>,
}

impl Along {
    /// Name of the dimension.
    pub fn name(&self) -> &str {
        match self {
            Self::Concat(name) | Self::Stack(name) => name,
        }
    }
}
