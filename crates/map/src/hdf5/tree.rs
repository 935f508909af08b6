//! Groups and links. An object is mapped at each path that leads to it.

use std::collections::BTreeSet;

use virtualize_bytes::Address;
use virtualize_hdf5::model::{Dataset, Group as SourceGroup, Link, LinkTarget, Object};
use virtualize_remedy::{Code, OptionName, Remedy};
use virtualize_zarr::node::join;
use virtualize_zarr::{Group, Node};

use super::attributes::Shown;
use super::dimensions::{
    AxisDimension, Counters, Dimensions, Lengths, NON_COORDINATE, axis_dimensions, is_dimension_only,
};
use super::heap::Flattened;
use super::links::ExternalLink;
use super::objects::has_parts;
use super::{LINK, Mapper, NODES, node_bytes};
use crate::mapped::{check_name, shown_name};
use crate::{Diagnostic, Error, InlineTask, Result};

/// Deepest nesting of groups. Walks of the hierarchy are recursive: 500 levels fit into the 2 MiB of a thread without optimization.
pub(super) const DEPTH: usize = 256;

/// Bytes of memory for a dimension and its indices.
const DIMENSION: u64 = 320;

/// Position of the walk.
pub(super) struct Place<'a> {
    /// Path of the group, without a leading slash.
    pub(super) path: &'a str,
    /// Addresses of the groups from the root to this one.
    ancestors: Vec<Address>,
    /// Dimensions of the groups from the root to this one.
    pub(super) scopes: Vec<Dimensions>,
    /// Numbers given to dimensions on the path from the root. Siblings do not count, as h5netcdf has not opened them.
    counters: Counters,
}

impl Mapper<'_> {
    /// Maps the whole tree.
    pub(super) fn root(&mut self) -> Group {
        let address = self.own.file.root;
        let place =
            Place { path: "", ancestors: vec![address], scopes: Vec::new(), counters: Counters::default() };
        match self.own.file.objects.get(&address) {
            Some(Object::Group(source)) => self.group(place, address, source),
            other => {
                let why = match other {
                    Some(Object::Unreadable(error)) => error.to_string(),
                    _ => "it is not a group".to_owned(),
                };
                let error = Diagnostic::error(Code::RootUnreadable, "", format!("the root group: {why}"));
                self.report.diagnostics.push(error);
                Group::default()
            }
        }
    }

    fn group(&mut self, mut place: Place<'_>, address: Address, source: &SourceGroup) -> Group {
        let mut mapped = Group {
            attributes: self.attributes(place.path, &source.attributes, &source.unreadable_attributes, false),
            ..Group::default()
        };
        let children = self.children(place.path, address, source);
        let dimensions = Dimensions::new(self.own.file, &children, &self.scale_lengths, &mut place.counters);
        if self.take("dimensions", (dimensions.len() as u64).saturating_mul(DIMENSION)).is_err() {
            return mapped;
        }
        self.keep_unlimited(place.path, &dimensions);
        place.scopes.push(dimensions);
        let mut taken: Option<BTreeSet<&str>> = None;
        let mut lengths = Lengths::new(children.iter().map(|(name, _)| name.clone()));
        let axes: Vec<_> =
            children.iter().map(|(name, child)| self.axes(&place, name, *child, &mut lengths)).collect();
        for ((name, child), axes) in children.iter().zip(axes) {
            self.nodes += 1;
            if self.nodes > NODES {
                let message = format!("more than {NODES} groups and arrays; the rest are omitted");
                let error = Diagnostic::error(Code::TooManyNodes, place.path, message);
                self.report.diagnostics.push(error);
                break;
            }
            if self.take("groups and arrays", node_bytes(place.path, name)).is_err() {
                break;
            }
            let file = self.own.file;
            let tasks = self.tasks.len();
            let node = match self.flattened(*child) {
                Some(Ok(Flattened::Ragged { values, row_sizes })) => {
                    let parts = (values.as_ref(), row_sizes.as_ref());
                    self.ragged(&mut mapped, &place, (name, *child), parts, (axes, &mut lengths))
                }
                _ => self.child(&place, name, *child, (axes, &mut lengths)),
            };
            let name = self.variable_name(name);
            if let (Some(Node::Array(array)), Some(Object::Dataset(dataset))) =
                (&node, file.objects.get(child))
                && has_parts(&dataset.datatype)
            {
                let taken =
                    taken.get_or_insert_with(|| children.iter().map(|(name, _)| name.as_str()).collect());
                self.add_parts(&mut mapped, place.path, name, array, taken);
            }
            if let Some(node) = node
                && mapped.children.insert(name.to_owned(), node).is_some()
            {
                let path = &join(place.path, name);
                let is_replaced = |task: &InlineTask| {
                    task.array.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                let mut at = 0..;
                self.tasks.retain(|task| at.next().is_none_or(|at| at >= tasks) || !is_replaced(task));
                let message = "two objects have this name; the last one is mapped";
                self.report.warn(Code::NameCollision, path, message);
            }
        }
        self.place_grid(&place, &mut mapped);
        mapped
    }

    fn child(
        &mut self,
        place: &Place<'_>,
        name: &str,
        address: Address,
        dimensions: (Vec<AxisDimension>, &mut Lengths),
    ) -> Option<Node> {
        match self.own.file.objects.get(&address)? {
            Object::Group(source) => self.child_group(place, name, address, source).map(Node::Group),
            Object::Dataset(dataset) => {
                let array = match self.flattened(address) {
                    Some(flattened) => self.flattened_array(place, name, dataset, flattened, dimensions),
                    None => self.child_array(place, name, dataset, dimensions),
                };
                array.map(|array| Node::Array(Box::new(array)))
            }
            Object::Unreadable(error) => {
                self.omitted(&join(place.path, name), error.to_string());
                None
            }
            Object::Datatype(_) => {
                let message = "committed datatype omitted with its attributes: Zarr has no such node";
                self.report.info(Code::DatatypeOmitted, &join(place.path, name), message.to_owned());
                None
            }
        }
    }

    /// Returns the name of the variable that an object of this name represents.
    pub(super) fn variable_name<'n>(&self, name: &'n str) -> &'n str {
        let shown = name.strip_prefix(NON_COORDINATE).filter(|name| !name.is_empty());
        shown.filter(|_| self.own.file.classic.is_none()).unwrap_or(name)
    }

    /// Returns the context for the conversion of attributes.
    pub(super) fn shown(&self) -> Shown<'_> {
        Shown { names: &self.names, shared: self.shared.lookup }
    }

    fn child_group(
        &mut self,
        place: &Place<'_>,
        name: &str,
        address: Address,
        source: &SourceGroup,
    ) -> Option<Group> {
        let path = join(place.path, name);
        if place.ancestors.contains(&address) {
            let message = "the group is its own ancestor; link omitted";
            self.report.warn(Code::LinkCycle, &path, message);
            return None;
        }
        // The root is an ancestor, but not nested.
        if place.ancestors.len() > DEPTH {
            self.omitted(&path, format!("groups are nested deeper than {DEPTH}"));
            return None;
        }
        let mut ancestors = place.ancestors.clone();
        ancestors.push(address);
        Some(self.group(
            Place { path: &path, ancestors, scopes: place.scopes.clone(), counters: place.counters },
            address,
            source,
        ))
    }

    /// Returns the dimensions of a dataset's axes and records their lengths; none for other objects.
    fn axes(
        &self,
        place: &Place<'_>,
        name: &str,
        address: Address,
        lengths: &mut Lengths,
    ) -> Vec<AxisDimension> {
        let Some(Object::Dataset(dataset)) = self.own.file.objects.get(&address) else { return Vec::new() };
        if is_dimension_only(dataset) {
            return Vec::new();
        }
        let shape = dataset.dataspace.shape().unwrap_or_default();
        // A dimension is looked up in each group on the path.
        if self.take("dimensions", (place.scopes.len() as u64).saturating_mul(shape.len() as u64)).is_err() {
            return Vec::new();
        }
        let fields = self.fields.of(place.path, name, shape);
        let others = (self.own.file, &*self.names, &self.scale_lengths);
        let axes = axis_dimensions(name, dataset, &place.scopes, others, fields);
        lengths.note(&axes, dataset);
        axes
    }

    pub(super) fn child_array(
        &mut self,
        place: &Place<'_>,
        name: &str,
        dataset: &Dataset,
        (axes, lengths): (Vec<AxisDimension>, &mut Lengths),
    ) -> Option<virtualize_zarr::Array> {
        if is_dimension_only(dataset) {
            return None;
        }
        let path = join(place.path, self.variable_name(name));
        let mut array = self.array(&path, dataset, axes)?;
        self.rename_dimensions(&path, &mut array, lengths, &place.scopes);
        Some(array)
    }

    /// Resolves the links of a group. External links are collected, unusable ones reported.
    fn children(&mut self, path: &str, address: Address, source: &SourceGroup) -> Vec<(String, Address)> {
        let mut children = Vec::with_capacity(source.links.len());
        for link in &source.links {
            let name = shown_name(&link.name);
            if self
                .take("links", LINK.saturating_add(2 * name.len() as u64).saturating_add(path.len() as u64))
                .is_err()
            {
                break;
            }
            let child = join(path, &name);
            if name != link.name {
                let message = format!(
                    "zarr-python treats a backslash as a slash: {:?} is renamed to {name:?}",
                    link.name
                );
                self.report.warn(Code::NameChanged, &child, message);
            }
            if name.contains(char::REPLACEMENT_CHARACTER) {
                let message = "its name contains U+FFFD, which replaces bytes that are not UTF-8";
                self.report.warn(Code::NameChanged, &child, message);
            }
            if let Err(error) = check_name(&name) {
                self.omitted(&child, error.to_string());
                continue;
            }
            if let LinkTarget::External { file, path } = &link.target {
                if self.options.follow_external {
                    self.links.push(ExternalLink { at: child, file: file.clone(), path: path.clone() });
                } else {
                    let message = format!("the link to \"{path}\" in the file \"{file}\" is not followed");
                    let warning = Diagnostic::warning(Code::LinkOmitted, &child, message)
                        .with(Remedy::turn_on(OptionName::FollowExternal, "follow it"));
                    self.report.diagnostics.push(warning);
                }
                continue;
            }
            match self.target(address, link) {
                Ok(target) => children.push((name.into_owned(), target)),
                Err(error) => self.report.warn(Code::LinkOmitted, &child, error.to_string()),
            }
        }
        children
    }

    fn target(&self, from: Address, link: &Link) -> Result<Address> {
        match &link.target {
            LinkTarget::Hard(address) => Ok(*address),
            LinkTarget::Soft(target) => self
                .shared
                .lookup
                .find(self.own.file, from, target)
                .ok()
                .flatten()
                .filter(|address| self.own.file.objects.contains_key(address))
                .ok_or_else(|| Error::unresolved(format!("the soft link to \"{target}\""), "is dangling")),
            LinkTarget::External { path, .. } => {
                Err(Error::unresolved(path.clone(), "leads to another file"))
            }
            LinkTarget::UserDefined(class) => {
                Err(Error::unsupported(format!("a link of class {class}"), "its meaning is not known"))
            }
            LinkTarget::Unreadable(error) => Err(error.clone().into()),
        }
    }

    fn omitted(&mut self, path: &str, why: String) {
        self.report.warn(Code::NodeOmitted, path, why);
    }
}
