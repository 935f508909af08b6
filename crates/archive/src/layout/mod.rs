//! How files are put together: along which dimensions, and where coordinates come from.

use std::collections::{BTreeMap, BTreeSet};

use virtualize::zarr::node;

mod names;

pub use names::{NamePattern, catalogue_value, given};

/// A dimension along which files are joined.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Along {
    /// An existing dimension: arrays that have it grow.
    Concat(String),
    /// A new dimension: data variables get it as their first axis.
    Stack(String),
}

/// How files are put together. Arrays are given by name, by path, or as `*` for all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The dimensions, outermost first; none for a scan that only groups files.
    pub along: Vec<Along>,
    /// Arrays that get the dimensions though they lack them in the files, so that they may differ between files.
    pub concat_vars: BTreeSet<String>,
    /// Arrays without the dimensions that come from the first file, without comparison with the others.
    pub assume_equal: BTreeSet<String>,
    /// Arrays that only some of the files need to have; the part of the others reads as the fill value.
    pub optional: BTreeSet<String>,
    /// Global attribute that holds the coordinate along a new dimension, by dimension.
    pub coordinate_attributes: BTreeMap<String, String>,
    /// Property of the catalogue's item that holds the coordinate along a dimension, by dimension.
    pub coordinate_properties: BTreeMap<String, String>,
    /// Pattern of file names, whose parts are coordinates along the dimensions of the same names.
    pub names: Option<NamePattern>,
    /// Whether chunk sizes may vary along the dimensions (Zarr v3 extension `rectilinear`).
    pub rectilinear: bool,
    /// Maximum size of an array in a file, in bytes, up to which its values are copied into the references if its chunks do
    /// not fit those of other files.
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

    /// Returns whether a set of names includes an array: as `*`, by path or by name.
    pub fn has(names: &BTreeSet<String>, path: &str) -> bool {
        let name = node::name(path);
        ["*", path, name].iter().any(|known| names.contains(*known))
    }
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            along: Vec::new(),
            concat_vars: BTreeSet::new(),
            assume_equal: BTreeSet::new(),
            optional: BTreeSet::new(),
            coordinate_attributes: BTreeMap::new(),
            coordinate_properties: BTreeMap::new(),
            names: None,
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
