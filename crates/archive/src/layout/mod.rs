//! How files are put together: along which dimensions, and where coordinates come from.

use std::collections::{BTreeMap, BTreeSet};

mod names;

pub use names::{NamePattern, catalogue_value, given};

/// A dimension along which files are put together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Along {
    /// An existing dimension: arrays that have it grow.
    Concat(String),
    /// A new dimension: data variables get it as their first.
    Stack(String),
}

/// How files are put together. Names of arrays below are names, paths, or `*` for all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The dimensions, outermost first; none for a scan that only groups files.
    pub along: Vec<Along>,
    /// Arrays that get the dimensions though the files' own do not have them: they may differ from file to file.
    pub concat_vars: BTreeSet<String>,
    /// Arrays without the dimensions that are taken from the first file, whatever the others have.
    pub assume_equal: BTreeSet<String>,
    /// Arrays that may be in some of the files only; the others' part reads as the fill value.
    pub optional: BTreeSet<String>,
    /// Global attribute that says the coordinate along a new dimension, by dimension.
    pub coordinate_attributes: BTreeMap<String, String>,
    /// Property of the catalogue's item that says the coordinate along a dimension, by dimension.
    pub coordinate_properties: BTreeMap<String, String>,
    /// Pattern of the files' names, whose parts are coordinates along the dimensions of those names.
    pub names: Option<NamePattern>,
    /// Whether chunk sizes may vary along the dimensions (Zarr v3 extension `rectilinear`).
    pub rectilinear: bool,
    /// Most bytes a file of an array that is copied into the references where its chunks do not fit those of its
    /// neighbours.
    pub inline_limit: u64,
}

impl Layout {
    /// The usual limit of [`Layout::inline_limit`]: 64 KiB.
    pub const INLINE_LIMIT: u64 = 64 << 10;

    /// The layout along some dimensions, all else as usual.
    pub fn along(along: Vec<Along>) -> Self {
        Self { along, ..Self::default() }
    }

    /// The layout along new dimensions, the outermost first, and along existing ones within them.
    pub fn of_dimensions(stacked: &[String], concatenated: &[String]) -> Self {
        let stacked = stacked.iter().cloned().map(Along::Stack);
        Self::along(stacked.chain(concatenated.iter().cloned().map(Along::Concat)).collect())
    }

    /// Whether a set of names has an array: by `*`, its path, or its name.
    pub fn has(names: &BTreeSet<String>, path: &str) -> bool {
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
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
    /// Name of the dimension.
    pub fn name(&self) -> &str {
        match self {
            Self::Concat(name) | Self::Stack(name) => name,
        }
    }
}
