//! Overviews and masks of images: which groups are levels of the main image (Zarr convention `multiscales`), and which of their
//! dimensions are those of the main image (convention `spatial`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use virtualize::zarr::{Hierarchy, NodePath, node};

/// The overviews and masks of a file's main image.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Levels {
    /// The groups of levels, and of their masks, with the group of the level.
    groups: BTreeMap<NodePath, NodePath>,
    /// Dimensions of the main image, by those of a level or mask.
    dimensions: BTreeMap<String, String>,
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

    /// Returns whether the file has neither levels nor masks.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.dimensions.is_empty()
    }

    /// Adds the groups and dimensions to those of other files.
    pub(crate) fn add_to(
        &self,
        groups: &mut BTreeMap<NodePath, NodePath>,
        dimensions: &mut BTreeMap<String, String>,
    ) {
        for (from, to) in [(&self.groups, groups), (&self.dimensions, dimensions)] {
            to.extend(from.iter().map(|(name, main)| (name.clone(), main.clone())));
        }
    }

    /// Returns the groups of levels and of their masks, with the group of the level.
    pub(crate) fn groups(&self) -> &BTreeMap<NodePath, NodePath> {
        &self.groups
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
