//! Which arrays vary along which dimensions, and how.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use virtualize::zarr::{
    Array, ChunkGrid, Codec, Hierarchy, NodePath,
    node::{self, join},
};

use crate::{
    Along, Layout, Wanted,
    file::groups,
    values::{
        calendar::is_time,
        variable::{is_variable, value_bytes},
    },
};

/// How an array varies along one dimension of a layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum DimRole {
    /// Not at all: its values must be equal in all files.
    #[serde(rename = "Absent")]
    Invariant,
    /// It has the dimension as this axis, and grows.
    Axis(usize),
    /// It gets the dimension as a new axis, with one element per file.
    #[serde(rename = "Stacked")]
    NewAxis,
    /// It gets the dimension as a new axis, with its values repeated for each element of the file
    /// ([`Layout::concat_vars`]).
    #[serde(rename = "Repeated")]
    Broadcast,
    /// It is a file's coordinate along a new dimension: a single number that becomes an element of the axis.
    Coordinate,
}

/// Attributes that name arrays which describe others (CF conventions, sections 5 to 7).
pub(crate) const DESCRIBING: [&str; 11] = [
    "bounds",
    "cell_measures",
    "climatology",
    "coordinates",
    "formula_terms",
    "geometry",
    "grid_mapping",
    "interior_ring",
    "node_coordinates",
    "node_count",
    "part_node_count",
];

/// Returns how each array varies along each dimension of the layout, in the layout's order.
///
/// Along an existing dimension ([`Along::Concat`]) the arrays that have it grow, and overviews that have the same of theirs. Along a new one ([`Along::Stack`]) the data
/// variables get an axis; coordinates do not: arrays named like their only dimension, and arrays named by attributes such as
/// `coordinates`, `bounds` or `grid_mapping`. The bounds of the coordinate along a new dimension get an axis, too. All others
/// are invariant: they must be equal in all files.
pub(crate) fn roles(hierarchy: &Hierarchy, layout: &Layout) -> BTreeMap<NodePath, Vec<DimRole>> {
    let (coordinates, levels) = (coordinates(hierarchy), Levels::of(hierarchy));
    let bounds = |along: &Along| match along {
        Along::Stack(name) => hierarchy.array(name).map(|array| bounds_of(hierarchy, name, array)),
        Along::Concat(_) => None,
    };
    let bounds: Vec<_> = layout.along.iter().map(|along| bounds(along).unwrap_or_default()).collect();
    let role = |path: &NodePath, array: &Array, along: &Along, bounds: &Vec<NodePath>| {
        let is_along =
            |name: &Option<String>| name.as_deref().is_some_and(|it| levels.dimension(it) == along.name());
        let is_named = Layout::has(&layout.concat_vars, path);
        let is_assumed = || Layout::has(&layout.assume_equal, path);
        match along {
            Along::Concat(_) => match array.dimension_names.iter().position(is_along) {
                Some(axis) => DimRole::Axis(axis),
                None if is_named => DimRole::Broadcast,
                None => DimRole::Invariant,
            },
            Along::Stack(name) if path == name && array.shape.iter().all(|n| *n == 1) => DimRole::Coordinate,
            Along::Stack(_) if !is_assumed() && (is_named || !coordinates.contains(path)) => DimRole::NewAxis,
            Along::Stack(_) if bounds.contains(path) => DimRole::Broadcast,
            Along::Stack(_) => DimRole::Invariant,
        }
    };
    let roles = |path: &NodePath, array: &Array| {
        layout.along.iter().zip(&bounds).map(|(along, bounds)| role(path, array, along, bounds)).collect()
    };
    hierarchy.arrays().into_iter().map(|(path, array)| (path.clone(), roles(&path, array))).collect()
}

/// Returns whether an array is the coordinate of its own dimension: it has one axis, of its own name.
pub(crate) fn is_coordinate(path: &str, array: &Array) -> bool {
    let name = node::name(path);
    matches!(array.dimension_names.as_slice(), [Some(only)] if only == name)
}

/// Returns the arrays that describe others: coordinates of their dimension, and what attributes such as `coordinates` name.
fn coordinates(hierarchy: &Hierarchy) -> BTreeSet<NodePath> {
    let arrays = hierarchy.arrays();
    let mut found: BTreeSet<NodePath> = arrays
        .iter()
        .filter(|(path, array)| is_coordinate(path, array))
        .map(|(path, _)| path.clone())
        .collect();
    for (path, array) in &arrays {
        let group = node::parent(path);
        found.extend(described(hierarchy, group, &array.attributes));
    }
    for (path, group) in groups(hierarchy) {
        found.extend(described(hierarchy, &path, &group.attributes));
    }
    found
}

fn described(hierarchy: &Hierarchy, group: &str, attributes: &Map<String, Value>) -> Vec<NodePath> {
    let texts = DESCRIBING.iter().filter_map(|name| attributes.get(*name)?.as_str());
    let words =
        texts.flat_map(|text| text.split([' ', ':', ',', '\n', '\t'])).filter(|word| !word.is_empty());
    words.filter_map(|word| find(hierarchy, group, word)).collect()
}

/// Returns the array that a name means in a group: the group's own, or that of the nearest group above.
pub(crate) fn find(hierarchy: &Hierarchy, group: &str, name: &str) -> Option<NodePath> {
    let mut group = group;
    loop {
        let path = join(group, name.trim_start_matches('/'));
        if hierarchy.array(&path).is_some() {
            return Some(path);
        }
        if group.is_empty() {
            return None;
        }
        group = node::parent(group);
    }
}

/// Returns the number of elements of a file along a dimension of the layout.
pub(crate) fn length_along(hierarchy: &Hierarchy, along: &Along) -> u64 {
    let Along::Concat(name) = along else { return 1 };
    let sizes = hierarchy.arrays().into_iter().filter_map(|(_, array)| {
        let axis = array.dimension_names.iter().position(|axis| axis.as_ref() == Some(name))?;
        array.shape.get(axis).copied()
    });
    sizes.max().unwrap_or(0)
}

/// Returns which arrays of a file must be read whole.
pub(crate) fn wanted(hierarchy: &Hierarchy, layout: &Layout) -> Wanted {
    let mut wanted = Wanted::default();
    if layout.along.is_empty() {
        return wanted;
    }
    let times = time_arrays(hierarchy, layout.inline_limit);
    for (path, roles) in roles(hierarchy, layout) {
        let Some(array) = hierarchy.array(&path) else { continue };
        let is_time = times.contains(&path);
        let may_be_needed = is_copied(&path, array, &roles, is_time) || may_be_copied(array, &roles, layout);
        if may_be_needed && value_bytes(array).is_some() {
            wanted.values.insert(path);
        } else if roles.contains(&DimRole::Invariant) && !Layout::has(&layout.assume_equal, &path) {
            wanted.digests.insert(path);
        }
    }
    wanted
}

/// Maximum size of the values, in bytes, that are kept of an array in all files, in case it has to be copied.
pub(crate) const MAX_KEPT: u64 = 256 << 20;

/// Maximum size of the values of a combined array, in bytes, that are copied into the references.
pub(crate) const MAX_COPIED: u64 = 1 << 30;

/// Arrays of single elements along the axes that grow are read up to this size of an element, in bytes.
pub(crate) const TINY: u64 = 1 << 10;

/// Returns whether an array's values are always copied into the references; `is_time` if it holds times, or their bounds.
pub(crate) fn is_copied(path: &str, array: &Array, roles: &[DimRole], is_time: bool) -> bool {
    let grows = roles.iter().any(|role| matches!(role, DimRole::Axis(_)));
    roles.iter().any(|role| matches!(role, DimRole::Broadcast | DimRole::Coordinate))
        || (grows && (is_time || is_coordinate(path, array)) && value_bytes(array).is_some())
}

/// Returns whether an array is read so that it can be copied if its chunks do not fit those of other files: an array of
/// up to [`Layout::inline_limit`] bytes in a file, unless its chunks are single elements along all axes that grow (which
/// always fit) and these elements are not tiny. Files of one group agree on the answer, but for their lengths.
pub(crate) fn may_be_copied(array: &Array, roles: &[DimRole], layout: &Layout) -> bool {
    let grows = |axis: &usize| roles.contains(&DimRole::Axis(*axis));
    if !(0..array.shape.len()).any(|axis| grows(&axis)) {
        return false;
    }
    let is_single = match &array.chunk_grid {
        ChunkGrid::Regular(chunk) => chunk.iter().enumerate().all(|(axis, n)| *n == 1 || !grows(&axis)),
        ChunkGrid::Rectilinear(_) => false,
    };
    let others = array.shape.iter().enumerate().filter(|(axis, _)| !grows(axis)).map(|(_, n)| *n);
    let is_tiny = || {
        let step = |size| others.clone().try_fold(size, |all: u64, n| all.checked_mul(n));
        is_variable(&array.data_type)
            || array.data_type.size().and_then(step).is_some_and(|step| step <= TINY)
    };
    value_bytes(array).is_some_and(|size| size <= layout.inline_limit) && (!is_single || is_tiny())
}

/// Returns whether chunks hold plain elements of a fixed size.
pub(crate) fn is_plain(array: &Array) -> bool {
    matches!(array.codecs.as_slice(), [Codec::Bytes { .. }]) && array.data_type.size().is_some()
}

/// The axes of a combined array.
#[derive(Debug)]
pub(crate) struct Geometry {
    /// Slowest first.
    pub(crate) axes: Vec<Axis>,
}

/// An axis of a combined array.
#[derive(Debug)]
pub(crate) struct Axis {
    /// Name of its dimension.
    pub(crate) name: Option<String>,
    /// Axis of the array in the files; `None` for a new one.
    pub(crate) own: Option<usize>,
    /// The dimension of the layout along which it grows.
    pub(crate) dimension: Option<usize>,
    /// First element of each place along that dimension; one place for axes that do not grow.
    pub(crate) starts: Vec<u64>,
    /// Number of elements of each place.
    pub(crate) sizes: Vec<u64>,
    /// Number of elements of the combined array.
    pub(crate) total: u64,
}

impl Geometry {
    /// Returns the axes of a combined array from its roles, and its shape and dimension names in the files. `sizes` are the
    /// elements of each place along each dimension of the layout in the array's group. Returns `None` on overflow.
    pub(crate) fn new(
        roles: &[DimRole],
        shape: &[u64],
        dimensions: &[Option<String>],
        names: &[String],
        sizes: &[&[u64]],
    ) -> Option<Self> {
        let mut axes = Vec::new();
        let mut coordinate = false;
        for (n, (role, name)) in roles.iter().zip(names).enumerate() {
            let own = sizes.get(n)?;
            coordinate |= *role == DimRole::Coordinate;
            let sizes = match role {
                DimRole::Invariant | DimRole::Axis(_) => continue,
                DimRole::NewAxis | DimRole::Coordinate => vec![1; own.len()],
                DimRole::Broadcast => own.to_vec(),
            };
            axes.push(Axis::new(Some(name.clone()), None, Some(n), sizes)?);
        }
        let own_axes = if coordinate { &[] } else { shape };
        for (axis, n) in own_axes.iter().enumerate() {
            let name = dimensions.get(axis).cloned().flatten();
            let dimension = roles.iter().position(|role| *role == DimRole::Axis(axis));
            let along = match dimension {
                Some(dimension) => sizes.get(dimension)?.to_vec(),
                None => vec![*n],
            };
            axes.push(Axis::new(name, Some(axis), dimension, along)?);
        }
        Some(Self { axes })
    }

    pub(crate) fn shape(&self) -> Vec<u64> {
        self.axes.iter().map(|axis| axis.total).collect()
    }

    /// Returns, along each axis, the first element and the number of elements of the part at a place.
    pub(crate) fn part(&self, key: &[u32]) -> Option<(Vec<u64>, Vec<u64>)> {
        self.axes.iter().map(|axis| axis.part(key)).collect()
    }
}

impl Axis {
    fn new(
        name: Option<String>,
        own: Option<usize>,
        dimension: Option<usize>,
        sizes: Vec<u64>,
    ) -> Option<Self> {
        let mut total = 0_u64;
        let mut starts = Vec::with_capacity(sizes.len());
        for size in &sizes {
            starts.push(total);
            total = total.checked_add(*size)?;
        }
        Some(Self { name, own, dimension, starts, sizes, total })
    }

    /// Returns the place of a part along this axis.
    pub(crate) fn place(&self, key: &[u32]) -> usize {
        let n = self.dimension.and_then(|dimension| key.get(dimension));
        n.and_then(|n| usize::try_from(*n).ok()).unwrap_or(0)
    }

    fn part(&self, key: &[u32]) -> Option<(u64, u64)> {
        let place = self.place(key);
        Some((*self.starts.get(place)?, *self.sizes.get(place)?))
    }
}

/// Returns the arrays of times that are read whole: coordinates, arrays of up to `limit` bytes with units of time, and the
/// bounds of both.
pub(crate) fn time_arrays(hierarchy: &Hierarchy, limit: u64) -> BTreeSet<NodePath> {
    let mut found = BTreeSet::new();
    for (path, array) in hierarchy.arrays() {
        let is_small = value_bytes(array).is_some_and(|size| size <= limit);
        if !has_time_units(array) || !(is_small || is_coordinate(&path, array)) {
            continue;
        }
        found.extend(bounds_of(hierarchy, &path, array));
        found.insert(path);
    }
    found
}

/// Returns whether an array counts from a reference time.
pub(crate) fn has_time_units(array: &Array) -> bool {
    text(&array.attributes, "units").is_some_and(is_time)
}

/// Returns the arrays that hold the bounds of an array's cells.
pub(crate) fn bounds_of(hierarchy: &Hierarchy, path: &str, array: &Array) -> Vec<NodePath> {
    let group = node::parent(path);
    let names = ["bounds", "climatology"].into_iter().filter_map(|name| text(&array.attributes, name));
    names.filter_map(|name| find(hierarchy, group, name.trim())).filter(|found| found != path).collect()
}

/// Returns an attribute that is text.
pub(crate) fn text<'a>(attributes: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    attributes.get(name)?.as_str()
}

/// The overviews and masks of a file's main image.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Levels {
    /// The groups of levels, and of their masks, with the group of the level.
    pub(crate) groups: BTreeMap<NodePath, NodePath>,
    /// Dimensions of the main image, by those of a level or mask.
    pub(crate) dimensions: BTreeMap<String, String>,
}

impl Levels {
    /// Finds the levels of a file.
    pub(crate) fn of(hierarchy: &Hierarchy) -> Self {
        let root = &hierarchy.root.attributes;
        let assets: Vec<&str> = assets(root).collect();
        let mut levels = Self::default();
        let Some((main, overviews)) = assets.split_first() else { return levels };
        for path in overviews.iter().copied().filter(|path| !node::parent(path).is_empty()) {
            let group = node::parent(path).to_owned();
            levels.groups.insert(group.clone(), group);
        }
        let mut masks = Vec::new();
        for (path, array) in hierarchy.arrays() {
            let masked = array.attributes.get("mask_of").and_then(Value::as_str);
            let Some(masked) = masked else { continue };
            masks.extend((masked == *main).then(|| node::parent(&path).to_owned()));
            if let Some(level) = levels.groups.get(node::parent(masked)).cloned() {
                levels.groups.insert(node::parent(&path).to_owned(), level);
            }
        }
        for group in levels.groups.keys().chain(&masks).filter(|group| !group.is_empty()) {
            let Some(group) = hierarchy.group(group) else { continue };
            let pairs = dimensions(&group.attributes).zip(dimensions(root));
            levels.dimensions.extend(pairs.map(|(own, main)| (own.to_owned(), main.to_owned())));
        }
        levels
    }

    /// Returns the group of the level that an array belongs to.
    pub(crate) fn level(&self, path: &str) -> Option<&NodePath> {
        self.groups.get(node::parent(path))
    }

    /// Adds the levels of another file.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.groups.extend(other.groups.clone());
        self.dimensions.extend(other.dimensions.clone());
    }

    /// Returns the dimension of the main image that a dimension of a level is; that of other arrays is itself.
    pub(crate) fn dimension<'a>(&'a self, name: &'a str) -> &'a str {
        self.dimensions.get(name).map_or(name, String::as_str)
    }
}

/// Returns the paths of the levels from the attributes of the root, the main image first.
fn assets(root: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let layout = root.get("multiscales").and_then(|it| it.get("layout")?.as_array());
    layout.into_iter().flatten().filter_map(|level| level.get("asset")?.as_str())
}

/// Returns the spatial dimensions of a group.
pub(crate) fn dimensions(attributes: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let names = attributes.get("spatial:dimensions").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}
