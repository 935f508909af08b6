//! Merges the attributes of files.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    rc::Rc,
    sync::Arc,
};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use virtualize::zarr::{
    Array, NodePath,
    cf::{attributes::decides_values, conventions::Convention},
    node,
};

use super::{Result, metadata::Finish};
use crate::{
    Along, Layout,
    compat::{
        DimRole, is_copied,
        roles::{DESCRIBING, Levels, bounds_of, dimensions, has_time_units, roles, time_arrays},
        signature::{BY_BAND, MOVED, band_axis},
    },
    error::{Note, Problem},
    file::{Head, ParsedNode},
    layout::FILE_TEXTS,
    values::variable::{is_variable, value_bytes},
};

/// Attributes of arrays that refer to others, or place images whose grids agree: those of the first file are kept.
const OF_ARRAYS: [&str; 4] = ["bounds", "climatology", "coordinates", "GeoTransform"];

/// Returns whether an attribute repeats what the group of an array declares, and is rewritten for the whole.
pub(super) fn repeats_group(name: &str) -> bool {
    name == "_CRS" || name.starts_with("spatial:") || name.starts_with("proj:")
}

/// The same of groups.
const OF_GROUPS: [&str; 3] = ["multiscales", "spatial:bbox", "spatial:transform"];

/// Attributes that describe the extent of one image.
pub(super) const OF_EXTENT: [&str; 11] = [
    "GeoTransform",
    "proj:bbox",
    "proj:centroid",
    "proj:geometry",
    "proj:shape",
    "proj:transform",
    "spatial:bbox",
    "spatial:dimensions",
    "spatial:registration",
    "spatial:shape",
    "spatial:transform",
];

/// Maximum number of distinct values counted per attribute.
const MAX_VALUES: usize = 10_000;

/// Merged attributes of a group or array.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct MergedAttributes {
    /// Attributes of the first file that no other file contradicts.
    pub(super) kept: Map<String, Value>,
    /// All attributes of the first file.
    first: Map<String, Value>,
    /// Hashes of the values of attributes that differ between files.
    differing: BTreeMap<String, BTreeSet<u64>>,
}

impl MergedAttributes {
    pub(super) fn new(first: &Map<String, Value>) -> Self {
        Self { kept: first.clone(), first: first.clone(), differing: BTreeMap::new() }
    }

    /// Merges the attributes of another file. The signatures already cover attributes that determine what an array's
    /// values mean.
    pub(super) fn add(&mut self, other: &Map<String, Value>, of_array: bool) {
        if *other == self.first && self.differing.is_empty() {
            return;
        }
        let Self { kept, first, differing } = self;
        let added = other.keys().filter(|name| !first.contains_key(*name));
        for name in first.keys().chain(added) {
            let (left, right) = (first.get(name), other.get(name));
            if let ("zarr_conventions", Some(Value::Array(kept))) = (name.as_str(), kept.get_mut(name)) {
                let others = right.and_then(Value::as_array);
                kept.retain(|convention| others.is_some_and(|others| others.contains(convention)));
                continue;
            }
            if (left == right && !differing.contains_key(name))
                || (of_array && (decides_values(name) || repeats_group(name)))
            {
                continue;
            }
            let kept_names = if of_array { OF_ARRAYS.as_slice() } else { OF_GROUPS.as_slice() };
            if left.is_none() || !kept_names.contains(&name.as_str()) {
                kept.remove(name);
            }
            if !differing.contains_key(name) {
                differing.insert(name.clone(), [hash(left)].into());
            }
            let values = differing.get_mut(name).filter(|values| values.len() < MAX_VALUES);
            values.map(|values| values.insert(hash(right)));
        }
    }

    /// Returns the spatial dimensions in the first file.
    pub(super) fn dimensions(&self) -> Vec<String> {
        dimensions(&self.first).map(str::to_owned).collect()
    }

    /// Drops attributes that describe one of several files although they are equal in all. `is_moved` tells whether images are
    /// placed side by side. Returns the names of those that the first file has.
    pub(super) fn describe_whole(&mut self, is_moved: bool) -> Vec<String> {
        let starts = |name: &str, start: &str| name.starts_with(start);
        let differs = |start: &str| self.differing.keys().any(|name| starts(name, start));
        let has_coverage = ["time_coverage_start", "time_coverage_end"]
            .iter()
            .all(|name| self.kept.contains_key(*name) && !self.differing.contains_key(*name));
        let has_statistics = !differs("STATISTICS_");
        let of_one = |name: &String| {
            (is_moved && OF_EXTENT.contains(&name.as_str()))
                || (!has_statistics && starts(name, "STATISTICS_"))
                || (!has_coverage && name == "time_coverage_duration")
        };
        let dropped: Vec<String> = self.first.keys().filter(|name| of_one(name)).cloned().collect();
        for name in &dropped {
            self.kept.remove(name);
            self.differing.remove(name);
        }
        // `multiscales` is rewritten for the levels that are joined.
        self.differing.remove("multiscales");
        if is_moved && !dropped.is_empty() {
            Convention::Spatial.withdraw(&mut self.kept);
        }
        dropped
    }

    /// Adapts attributes with an item for each of `bands` bands to files with these numbers of bands, or drops them. Returns the
    /// names of those that are dropped.
    pub(super) fn describe_bands(&mut self, bands: u64, sizes: &[u64]) -> Vec<String> {
        let mut dropped = Vec::new();
        let is_number = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
        let files = sizes.len();
        let bands_of_all = usize::try_from(sizes.iter().sum::<u64>()).unwrap_or(usize::MAX);
        let are_alike = sizes.iter().all(|size| *size == bands);
        self.kept.retain(|name, value| {
            let is_kept = match value {
                Value::Object(members) => members.is_empty() || !members.keys().all(is_number),
                Value::Array(_) if name == "extra_samples" => false,
                Value::Array(items) if BY_BAND.contains(&name.as_str()) && items.len() as u64 == bands => {
                    let is_same = items.iter().all(|item| Some(item) == items.first());
                    match items.first().cloned().filter(|_| is_same) {
                        Some(text @ Value::String(_)) => *value = text,
                        Some(number) => *items = vec![number; bands_of_all],
                        None => *items = vec![items.as_slice(); files].concat(),
                    }
                    is_same || are_alike
                }
                _ => true,
            };
            if !is_kept {
                dropped.push(name.clone());
            }
            is_kept
        });
        dropped
    }

    /// Returns notes on the attributes that were dropped.
    pub(super) fn notes(&self, path: &str) -> Vec<Note> {
        let subject = if path.is_empty() { "/" } else { path };
        let note = |(name, values): (&String, &BTreeSet<u64>)| {
            let many = if values.len() < MAX_VALUES { "" } else { "at least " };
            let done = if self.kept.contains_key(name) { "the first file's is kept" } else { "dropped" };
            let text = format!("attribute {name} has {many}{} different values: {done}", values.len());
            Note::new(subject, text)
        };
        self.differing.iter().map(note).collect()
    }
}

fn hash(value: Option<&Value>) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.map(Value::to_string).hash(&mut hasher);
    hasher.finish()
}

/// Maximum number of kinds that are remembered.
const MAX_REMEMBERED: usize = 4096;

/// Whether the size of an array's values is known, and small enough to be copied.
pub(super) type SizeClass = Option<bool>;

/// Returns a hash of what a node contributes to the roles of a file's arrays: its path, the properties of its array, and
/// attributes that name arrays, levels and their dimensions.
pub(super) fn contribution(path: &str, node: &ParsedNode, size: SizeClass) -> u64 {
    let mut hasher = DefaultHasher::new();
    let attributes = match node {
        ParsedNode::Group(attributes) => attributes,
        ParsedNode::Array(array) => {
            let is_single = array.shape.iter().all(|n| *n == 1);
            (&array.dimension_names, is_single, size, has_time_units(array)).hash(&mut hasher);
            &array.attributes
        }
    };
    path.hash(&mut hasher);
    for name in DESCRIBING.into_iter().chain(["mask_of", "multiscales", "spatial:dimensions"]) {
        attributes.get(name).map(Value::to_string).hash(&mut hasher);
    }
    hasher.finish()
}

/// Files of one kind.
pub(super) struct Kind {
    /// The arrays, in order of path.
    pub(super) arrays: Vec<KindArray>,
    /// Bounds that share the units of each array of times, by the path of that array.
    pub(super) followers: BTreeMap<NodePath, Vec<NodePath>>,
    /// The overviews.
    pub(super) levels: Levels,
}

/// An array in files of one kind.
pub(super) struct KindArray {
    /// Index among the file's nodes.
    pub(super) node: usize,
    pub(super) roles: Vec<DimRole>,
    /// The group of the level that it belongs to, if it is part of an overview.
    pub(super) level: Option<NodePath>,
    /// Whether its values are copied in any case.
    pub(super) is_copied: bool,
    /// Whether it holds times, or bounds of times.
    pub(super) are_times: bool,
    /// Why its dimensions do not suit the layout.
    pub(super) problem: Option<Problem>,
}

/// The kinds of files that were added so far, by the contributions of their nodes.
#[derive(Default)]
pub(super) struct Kinds(HashMap<Vec<u64>, Rc<Kind>>);

impl Kinds {
    /// Returns the kind of a file from the contributions of its nodes.
    pub(super) fn kind(&mut self, contributions: Vec<u64>, head: &Head, layout: &Layout) -> Rc<Kind> {
        if self.0.len() > MAX_REMEMBERED {
            self.0.clear();
        }
        Rc::clone(self.0.entry(contributions).or_insert_with(|| Rc::new(Kind::of(head, layout))))
    }
}

/// Returns the size class of a node's values. The size of elements of variable length is known if they were read.
pub(super) fn size_class(node: &ParsedNode, values: Option<&Bytes>, limit: u64) -> SizeClass {
    let ParsedNode::Array(array) = node else { return None };
    let size = if is_variable(&array.data_type) {
        values.map(|values| values.len() as u64)
    } else {
        value_bytes(array)
    };
    size.map(|size| size <= limit)
}

impl Kind {
    fn of(head: &Head, layout: &Layout) -> Self {
        let hierarchy = head.hierarchy();
        let related = time_arrays(&hierarchy, layout.inline_limit);
        let (mut roles, levels) = (roles(&hierarchy, layout), Levels::of(&hierarchy));
        let mut arrays = Vec::new();
        for (n, node) in head.nodes.iter().enumerate() {
            let Some((array, roles)) = hierarchy.array(&node.path).zip(roles.remove(&*node.path)) else {
                continue;
            };
            let are_times = related.contains(&*node.path);
            arrays.push(KindArray {
                node: n,
                is_copied: is_copied(&node.path, array, &roles, are_times),
                are_times,
                level: levels.level(&node.path).cloned(),
                problem: check_axes(array, &roles, layout).err(),
                roles,
            });
        }
        let path = |array: &KindArray| head.nodes.get(array.node).map(|node| Arc::clone(&node.path));
        arrays.sort_by_key(path);
        let times = hierarchy.arrays().into_iter().filter(|(_, array)| has_time_units(array));
        let followers = times.map(|(path, array)| {
            let bounds = bounds_of(&hierarchy, &path, array);
            (path, bounds)
        });
        Self { arrays, followers: followers.collect(), levels }
    }
}

/// Rejects an array that has a dimension twice, or already has one that it is to gain.
fn check_axes(array: &Array, roles: &[DimRole], layout: &Layout) -> Result<()> {
    for (along, place) in layout.along.iter().zip(roles) {
        let name = along.name();
        let times = array.dimension_names.iter().filter(|own| own.as_deref() == Some(name)).count();
        match place {
            DimRole::Axis(_) if times > 1 => {
                return Err(Problem::new(format!("dimension {name} occurs twice")));
            }
            DimRole::NewAxis | DimRole::Broadcast if times > 0 => {
                return Err(Problem::dimension_exists(name));
            }
            _ => {}
        }
    }
    Ok(())
}

impl Finish<'_, '_> {
    /// Drops attributes that describe one of several files, and reports arrays that do.
    pub(super) fn describe_whole(&mut self) {
        let has_texts = self.arrays.keys().any(|path| node::parent(path) == FILE_TEXTS);
        if self.groups.contains_key(FILE_TEXTS) && !has_texts {
            let text = "the texts that describe a single file are dropped";
            self.joiner.notes.insert(Note::new(FILE_TEXTS, text));
        }
        if self.joiner.set.blocks.len() < 2 {
            return;
        }
        // The existing dimensions along which several files follow each other.
        let along = self.joiner.layout.along.iter().zip(&self.joiner.set.sizes);
        let grown: BTreeSet<&str> = along
            .filter(|(along, sizes)| matches!(along, Along::Concat(_)) && sizes.len() > 1)
            .map(|(along, _)| along.name())
            .collect();
        let of_group = |merged: &MergedAttributes| {
            let names = merged.dimensions();
            if names.is_empty() {
                return MOVED.into_iter().any(|name| grown.contains(name));
            }
            names.iter().any(|name| grown.contains(self.joiner.levels.dimension(name)))
        };
        let moved: BTreeMap<NodePath, bool> =
            self.groups.iter().map(|(path, merged)| (path.clone(), of_group(merged))).collect();
        let is_moved = |group: &str| moved.get(group).copied().unwrap_or_default();
        for (path, merged) in &mut self.groups {
            let dropped = merged.describe_whole(is_moved(path));
            if is_moved(path) && dropped.iter().any(|name| OF_EXTENT.contains(&name.as_str())) {
                self.moved.insert(path.clone(), dropped);
            } else {
                self.joiner.notes.extend(note(path, dropped));
            }
        }
        for (path, growing) in &mut self.arrays {
            let mut dropped = growing.attributes.describe_whole(is_moved(node::parent(path)));
            let axis = band_axis(&growing.first);
            let dimension = growing.roles.iter().position(|role| axis.map(DimRole::Axis) == Some(*role));
            let sizes = dimension.and_then(|dimension| self.joiner.set.sizes.get(dimension));
            if let (Some(sizes), Some(bands)) = (sizes, axis.and_then(|axis| growing.first.shape.get(axis)))
                && sizes.len() > 1
            {
                dropped.extend(growing.attributes.describe_bands(*bands, sizes));
            }
            self.joiner.notes.extend(note(path, dropped));
        }
    }

    /// Removes the levels that cannot be joined, and lists the others.
    pub(super) fn list_levels(&mut self) {
        let groups = self.joiner.levels.groups.clone();
        for (group, level) in groups.iter().filter(|(group, level)| group == level) {
            if let Err(problem) = self.check_factor(group) {
                self.joiner.drop_level(level, problem);
            }
        }
        let dropped = self.joiner.dropped.clone();
        for (group, _) in groups.iter().filter(|(_, level)| dropped.contains_key(*level)) {
            let (parent, name) = node::split(group);
            if let Some(parent) = self.joiner.whole.root.group_mut(parent) {
                parent.children.remove(name);
            }
            self.chunks.retain(|path, _| node::parent(path) != group);
            let prefix = format!("{group}/");
            self.joiner.notes.retain(|note| note.subject != *group && !note.subject.starts_with(&prefix));
        }
        for (level, problem) in dropped {
            self.joiner.notes.insert(Note::new(level, format!("overview omitted: {problem}")));
        }
        self.update_multiscales();
    }

    /// Checks that the pixels of a level cover whole pixels of each file: all files but the last are a multiple of its factor.
    fn check_factor(&self, group: &str) -> Result<(), Problem> {
        let Some(own) = self.joiner.sizes.get(group) else { return Ok(()) };
        for (n, (name, (own, main))) in
            self.names.iter().zip(own.iter().zip(&self.joiner.set.sizes)).enumerate()
        {
            let is_existing = matches!(self.joiner.layout.along.get(n), Some(Along::Concat(_)));
            let sizes: Vec<(u64, u64)> =
                own.iter().zip(main).filter_map(|(own, main)| Some(((*own)?, *main))).collect();
            let Some(((first_own, first), (last_own, last))) =
                sizes.first().copied().zip(sizes.last().copied()).filter(|_| is_existing && sizes.len() > 1)
            else {
                continue;
            };
            let factor = first.checked_div(first_own).unwrap_or(0);
            let others = sizes.split_last().map(|(_, others)| others).unwrap_or_default();
            let fits = others.iter().all(|(own, main)| own.checked_mul(factor) == Some(*main))
                && factor > 0
                && last.div_ceil(factor) == last_own;
            if !fits {
                let text = format!("the sizes of the files along {name} are not multiples of its pixels");
                return Err(Problem::new(text));
            }
        }
        Ok(())
    }

    /// Lists the main image and the levels in the attributes of the root, with the scales of the whole.
    fn update_multiscales(&mut self) {
        let whole = &self.joiner.whole;
        let layout = whole.root.attributes.get("multiscales").and_then(|it| it.get("layout")?.as_array());
        let Some(mut layout) = layout.cloned() else { return };
        let asset = |level: &Value| Some(whole.array(level.get("asset")?.as_str()?)?.shape.clone());
        layout.retain(|level| asset(level).is_some());
        let main = layout.first().and_then(asset).unwrap_or_default();
        let names = layout
            .first()
            .and_then(|it| Some(whole.array(it.get("asset")?.as_str()?)?.dimension_names.clone()));
        let axes: Vec<usize> = self
            .dimensions
            .iter()
            .filter_map(|name| names.as_ref()?.iter().position(|own| own.as_deref() == Some(name)))
            .collect();
        for level in layout.iter_mut().skip(1) {
            let Some(shape) = asset(level) else { continue };
            #[expect(clippy::cast_precision_loss, reason = "sizes of images")]
            let scale = |axis: &usize| Some(*main.get(*axis)? as f64 / *shape.get(*axis)? as f64);
            let scales: Option<Vec<f64>> = axes.iter().map(scale).collect();
            if let (Some(scales), Some(old)) =
                (scales.filter(|all| !all.is_empty()), level.pointer_mut("/transform/scale"))
            {
                *old = json!(scales);
            }
        }
        let attributes = &mut self.joiner.whole.root.attributes;
        if layout.len() > 1 {
            attributes.insert("multiscales".into(), json!({ "layout": layout }));
            return;
        }
        Convention::Multiscales.withdraw(attributes);
    }
}

/// Returns a note on attributes that were dropped; of those that place images, the ones of the root stand for all.
pub(crate) fn note(path: &str, mut dropped: Vec<String>) -> Option<Note> {
    let subject = if path.is_empty() { "/" } else { path };
    dropped.retain(|name| path.is_empty() || !OF_EXTENT.contains(&name.as_str()));
    let text = format!("attributes that describe a single file are dropped: {}", dropped.join(", "));
    (!dropped.is_empty()).then(|| Note::new(subject, text))
}
