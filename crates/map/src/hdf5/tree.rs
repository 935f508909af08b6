//! Groups, links and references. An object is mapped at each path that leads to it.

use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use virtualize_bytes::{Address, Budget};
use virtualize_hdf5::model::{
    Dataset, Datatype, Element, File, Group as SourceGroup, Link, LinkTarget, Object, ReferenceKind,
    Selection,
};
use virtualize_remedy::{Code, OptionName, Remedy};
use virtualize_zarr::node::join;
use virtualize_zarr::{Array, Group, Node};

use super::chunks::item_type;
use super::dimensions::{
    AxisDimension, Counters, Dimensions, Lengths, NON_COORDINATE, axis_dimensions, is_dimension_only,
};
use super::heap::Flattened;
use super::links::ExternalLink;
use super::{LINK, Mapper, NODES, node_bytes};
use crate::mapped::{check_name, shown_name};
use crate::{ChunkContent, Diagnostic, Error, InlineTask, ReferenceText, Result};

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
        if self.options.source_attributes {
            let names: Vec<String> = match &self.own.file.classic {
                Some(classic) => classic
                    .dimensions
                    .iter()
                    .filter(|one| one.is_record)
                    .map(|one| one.name.clone())
                    .collect(),
                None => dimensions.unlimited().map(str::to_owned).collect(),
            };
            if !names.is_empty() {
                self.report.unlimited.insert(place.path.to_owned(), names);
            }
        }
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
                && let Datatype::Reference {
                    kind: ReferenceKind::Region | ReferenceKind::Standard(_), ..
                } = item_type(&dataset.datatype)
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
        let path = join(place.path, name);
        match self.own.file.objects.get(&address)? {
            Object::Group(_) if place.ancestors.contains(&address) => {
                let message = "the group is its own ancestor; link omitted";
                self.report.warn(Code::LinkCycle, &path, message);
                None
            }
            // The root is an ancestor, but not nested.
            Object::Group(_) if place.ancestors.len() > DEPTH => {
                self.omitted(&path, format!("groups are nested deeper than {DEPTH}"));
                None
            }
            Object::Group(source) => {
                let ancestors = [place.ancestors.as_slice(), &[address]].concat();
                let (scopes, counters) = (place.scopes.clone(), place.counters);
                Some(Node::Group(self.group(
                    Place { path: &path, ancestors, scopes, counters },
                    address,
                    source,
                )))
            }
            Object::Dataset(dataset) => {
                let array = match self.flattened(address) {
                    None => self.child_array(place, name, dataset, dimensions),
                    Some(Ok(Flattened::Structures(flat))) => {
                        let array = self.child_array(place, name, flat, dimensions)?;
                        let message =
                            "its chunks are inlined: variable-length text is stored in the global heap";
                        self.report.info(Code::ChunksInlined, &path, message);
                        self.describe_as(&path, dataset);
                        Some(array)
                    }
                    Some(Ok(Flattened::Ragged { .. })) => None,
                    Some(Err(error)) => {
                        self.array_omitted(&path, error);
                        self.describe_as(&path, dataset);
                        self.report.arrays.entry(path).or_default().omitted = Some(error.to_string());
                        None
                    }
                };
                array.map(|array| Node::Array(Box::new(array)))
            }
            Object::Unreadable(error) => {
                self.omitted(&path, error.to_string());
                None
            }
            Object::Datatype(_) => {
                let message = "committed datatype omitted with its attributes: Zarr has no such node";
                self.report.info(Code::DatatypeOmitted, &path, message);
                None
            }
        }
    }

    /// Returns the name of the variable that an object of this name represents.
    pub(super) fn variable_name<'n>(&self, name: &'n str) -> &'n str {
        let shown = name.strip_prefix(NON_COORDINATE).filter(|name| !name.is_empty());
        shown.filter(|_| self.own.file.classic.is_none()).unwrap_or(name)
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
        lengths.note(&axes, shape);
        axes
    }

    pub(super) fn child_array(
        &mut self,
        place: &Place<'_>,
        name: &str,
        dataset: &Dataset,
        (axes, lengths): (Vec<AxisDimension>, &mut Lengths),
    ) -> Option<Array> {
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
            let target = match &link.target {
                LinkTarget::Hard(address) => Ok(*address),
                LinkTarget::Soft(target) => {
                    let found = self.shared.lookup.find(self.own.file, address, target).ok().flatten();
                    let found = found.filter(|address| self.own.file.objects.contains_key(address));
                    let link = || Error::unresolved(format!("the soft link to \"{target}\""), "is dangling");
                    found.ok_or_else(link)
                }
                LinkTarget::External { file, path } if self.options.follow_external => {
                    self.links.push(ExternalLink { at: child, file: file.clone(), path: path.clone() });
                    continue;
                }
                LinkTarget::External { file, path } => {
                    let message = format!("the link to \"{path}\" in the file \"{file}\" is not followed");
                    let warning = Diagnostic::warning(Code::LinkOmitted, &child, message)
                        .with(Remedy::turn_on(OptionName::FollowExternal, "follow it"));
                    self.report.diagnostics.push(warning);
                    continue;
                }
                LinkTarget::UserDefined(class) => {
                    Err(Error::unsupported(format!("a link of class {class}"), "its meaning is not known"))
                }
                LinkTarget::Unreadable(error) => Err(error.clone().into()),
            };
            match target {
                Ok(target) => children.push((name.into_owned(), target)),
                Err(error) => self.report.warn(Code::LinkOmitted, &child, error.to_string()),
            }
        }
        children
    }

    fn omitted(&mut self, path: &str, why: String) {
        self.report.warn(Code::NodeOmitted, path, why);
    }
}

/// Maximum number of soft links on one path.
const SOFT_LINKS: u32 = 32;

/// Bytes of the budget for one step of a path.
const STEP: u64 = 16;

/// Looks up paths. The links of each group are sorted by name once, so that hostile files cannot make it quadratic.
#[derive(Debug)]
pub(super) struct Lookup<'a> {
    /// Memory and work that the file may take.
    pub(super) budget: &'a Budget<'a>,
    /// For each group, the indices of its links in order of name; links of one name in stored order.
    sorted: RefCell<BTreeMap<*const SourceGroup, Rc<[usize]>>>,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(budget: &'a Budget<'a>) -> Self {
        Self { budget, sorted: RefCell::default() }
    }

    /// Takes bytes from the budget for `what`.
    ///
    /// # Errors
    /// The budget is spent.
    pub(super) fn take(&self, what: &str, bytes: u64) -> Result<()> {
        Ok(self.budget.take(what, bytes)?)
    }

    /// Finds the object that a path leads to. Relative paths start at the group `from`, absolute ones at the root. Returns
    /// `None` if there is no such object.
    ///
    /// # Errors
    /// The path leads through a link that cannot be resolved in this file.
    pub(super) fn find(&self, file: &File, from: Address, path: &str) -> Result<Option<Address>> {
        self.find_within(file, from, path, &mut 0)
    }

    fn find_within(
        &self,
        file: &File,
        from: Address,
        path: &str,
        soft_links: &mut u32,
    ) -> Result<Option<Address>> {
        let mut at = if path.starts_with('/') { file.root } else { from };
        for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
            self.take("paths of soft links and virtual sources", STEP.saturating_add(name.len() as u64))?;
            if let Some(Object::Unreadable(error)) = file.objects.get(&at) {
                return Err(error.clone().into());
            }
            let Some(link) = group(file, at).and_then(|group| self.link(group, name)) else {
                return Ok(None);
            };
            let next = match &link.target {
                LinkTarget::Hard(address) => Some(*address),
                LinkTarget::Soft(target) => {
                    *soft_links = soft_links.saturating_add(1);
                    if *soft_links > SOFT_LINKS {
                        return Err(Error::limit("soft links on one path", SOFT_LINKS.into()));
                    }
                    self.find_within(file, at, target, soft_links)?
                }
                LinkTarget::External { .. } => {
                    return Err(Error::unresolved(path.to_owned(), "leads through an external link"));
                }
                LinkTarget::UserDefined(_) => {
                    return Err(Error::unresolved(path.to_owned(), "leads through a user-defined link"));
                }
                LinkTarget::Unreadable(error) => return Err(error.clone().into()),
            };
            let Some(next) = next else { return Ok(None) };
            at = next;
        }
        Ok(Some(at))
    }

    /// Returns the first link of a name.
    fn link<'f>(&self, group: &'f SourceGroup, name: &str) -> Option<&'f Link> {
        let mut sorted = self.sorted.borrow_mut();
        let order = sorted.entry(std::ptr::from_ref(group)).or_insert_with(|| {
            let mut order: Vec<usize> = (0..group.links.len()).collect();
            order.sort_by_key(|at| group.links.get(*at).map(|link| link.name.as_str()));
            order.into()
        });
        let known = |at: &usize| group.links.get(*at).map(|link| link.name.as_str());
        let first = order.partition_point(|at| known(at) < Some(name));
        order.get(first).and_then(|at| group.links.get(*at)).filter(|link| link.name == name)
    }
}

/// The path of each object in the hierarchy: the first one in breadth-first order of hard links.
#[derive(Clone, Debug, Default)]
pub struct ObjectNames {
    root: Option<Address>,
    /// Parent group and name of each object. Whole paths could take memory that is quadratic in the depth.
    places: BTreeMap<Address, (Address, String)>,
    /// Whether an external link leads to the file, so that its paths are not those of the hierarchy.
    is_linked: bool,
}

/// What following the pointers of a [`crate::ChunkContent::Variable`] needs.
#[derive(Clone, Debug)]
pub struct HeapPointers {
    /// Type of an element.
    pub datatype: Datatype,
    /// Paths of the objects that references point to.
    pub objects: Arc<ObjectNames>,
}

impl ObjectNames {
    pub(super) fn new(file: &File) -> Self {
        let mut names = Self { root: Some(file.root), ..Self::default() };
        let mut queue = VecDeque::from([file.root]);
        while let Some(address) = queue.pop_front() {
            let Some(group) = group(file, address) else { continue };
            for link in &group.links {
                if let LinkTarget::Hard(target) = link.target
                    && target != file.root
                    && let Entry::Vacant(place) = names.places.entry(target)
                {
                    place.insert((address, shown_name(&link.name).into_owned()));
                    queue.push_back(target);
                }
            }
        }
        names
    }

    /// Marks the paths as those of a linked file.
    pub(super) fn linked(self) -> Self {
        Self { is_linked: true, ..self }
    }

    /// Whether the paths are those of a linked file.
    pub(super) fn is_linked(&self) -> bool {
        self.is_linked
    }

    /// Returns the path of an object without a leading slash; `None` if no hard link leads to it.
    pub fn path(&self, address: Address) -> Option<String> {
        let (mut names, mut at) = (Vec::new(), address);
        while Some(at) != self.root {
            let (parent, name) = self.places.get(&at)?;
            names.push(name.as_str());
            at = *parent;
        }
        names.reverse();
        Some(names.join("/"))
    }
}

/// Returns the group at an address.
pub(super) fn group(file: &File, address: Address) -> Option<&SourceGroup> {
    match file.objects.get(&address) {
        Some(Object::Group(group)) => Some(group),
        _ => None,
    }
}

/// Suffix of the array with the parts that references select.
const PART: &str = "_part";

/// Returns the path of the object that an element refers to; empty for a null reference.
///
/// # Errors
/// The object has no path, or only one in a linked file.
pub fn reference_path(element: &Element, names: &ObjectNames) -> Result<String> {
    let address = match element {
        Element::Object(None) => return Ok(String::new()),
        Element::Object(Some(address)) | Element::Region(address, _) | Element::Attribute(address, _) => {
            *address
        }
        Element::Unknown(what) => return Err(Error::unresolved(*what, "has no path")),
        _ => return Err(Error::unresolved("an element", "is not a reference")),
    };
    if names.is_linked() {
        return Err(Error::unresolved("a reference", "leads to an object of another file"));
    }
    let path = names.path(address).map(|path| format!("/{path}"));
    path.ok_or_else(|| {
        Error::unresolved("a reference", &format!("leads to the object at {address}, which has no path"))
    })
}

/// Returns the part of an object that an element refers to, as a JSON object; `None` for the whole object.
pub fn reference_part(element: &Element) -> Option<Map<String, Value>> {
    let part = match element {
        Element::Attribute(_, name) => json!({"attribute": name}),
        Element::Region(_, selection) => match selection {
            Selection::None => json!({"selection": "none"}),
            Selection::All => json!({"selection": "all"}),
            // References have no clipped ones.
            Selection::Regular(slabs) | Selection::Clipped { slabs, .. } => {
                let start: Vec<_> = slabs.iter().map(|slab| slab.start).collect();
                let stride: Vec<_> = slabs.iter().map(|slab| slab.stride).collect();
                let count: Vec<_> = slabs.iter().map(|slab| slab.count).collect();
                let block: Vec<_> = slabs.iter().map(|slab| slab.block).collect();
                json!({
                    "selection": "hyperslab", "start": start, "stride": stride, "count": count, "block": block,
                })
            }
            Selection::Blocks(blocks) => json!({"selection": "blocks", "blocks": blocks}),
            Selection::Points(points) => json!({"selection": "points", "points": points}),
        },
        _ => return None,
    };
    match part {
        Value::Object(part) => Some(part),
        _ => None,
    }
}

impl Mapper<'_> {
    /// Adds the array with the parts that references select, next to the array of their paths, which was mapped last.
    pub(super) fn add_parts(
        &mut self,
        group: &mut Group,
        place: &str,
        name: &str,
        array: &Array,
        taken: &BTreeSet<&str>,
    ) {
        let path = join(place, name);
        let mut part_name = format!("{name}{PART}");
        while taken.contains(part_name.as_str()) || group.children.contains_key(&part_name) {
            part_name.push('_');
        }
        let part_path = join(place, &part_name);
        let tasks: Vec<_> = self.tasks.iter().rev().take_while(|task| task.array == path).cloned().collect();
        for mut task in tasks.into_iter().rev() {
            task.array.clone_from(&part_path);
            if let ChunkContent::Variable { references, .. } = &mut task.content {
                *references = Some(ReferenceText::Part);
            }
            self.tasks.push(task);
        }
        let report = self.report.arrays.get(&path).cloned().unwrap_or_default();
        self.report.arrays.insert(part_path, report);
        let message =
            format!("\"{part_name}\" holds the part of its target that each reference selects, as JSON");
        self.report.info(Code::ReferencePart, &path, message);
        let part = Array { attributes: Map::new(), ..array.clone() };
        group.children.insert(part_name, Node::Array(Box::new(part)));
    }
}

#[cfg(test)]
mod lookup_tests {
    use virtualize_bytes::Limits;

    use super::*;

    fn file(links: Vec<(String, LinkTarget)>) -> File {
        let links = links.into_iter().map(|(name, target)| Link { name, target }).collect();
        let root = Object::Group(SourceGroup { links, ..SourceGroup::default() });
        File { objects: BTreeMap::from([(Address(0), root)]), ..crate::hdf5::tests::file(Vec::new()) }
    }

    fn soft(path: &str) -> LinkTarget {
        LinkTarget::Soft(path.to_owned())
    }

    #[test]
    fn the_first_link_of_a_name_counts() {
        let hard = |name: &str, at| (name.to_owned(), LinkTarget::Hard(Address(at)));
        let file = file(vec![hard("b", 1), hard("a", 2), hard("b", 3), ("s".to_owned(), soft("./b"))]);
        let budget = Budget::of_file(&Limits::default(), 0);
        let lookup = Lookup::new(&budget);
        let find = |path| lookup.find(&file, Address(0), path);
        let found = ["b", "/s", "c"].map(|path| find(path).unwrap());
        assert_eq!(found, [Some(Address(1)), Some(Address(1)), None]);
    }

    /// Finding all soft links of a group takes as many steps as there are links, not their square, and a path that is
    /// followed again and again ends with the budget.
    #[test]
    fn steps_are_counted() {
        for count in [1_000_u64, 2_000, 4_000] {
            let name = |n: u64| format!("s{n:05}");
            let mut links: Vec<_> = (1..count).map(|n| (name(n), soft(&name(0)))).collect();
            links.push((name(0), LinkTarget::Hard(Address(0))));
            let file = file(links);
            let budget = Budget::of_file(&Limits::default(), 0);
            let (before, lookup) = (budget.left(), Lookup::new(&budget));
            for n in 0..count {
                assert_eq!(lookup.find(&file, Address(0), &name(n)).unwrap(), Some(Address(0)));
            }
            assert_eq!(before - budget.left(), (2 * count - 1) * (STEP + 6));
        }
        let long = "x/".repeat(30_000);
        let file = file(vec![("x".to_owned(), LinkTarget::Hard(Address(0))), ("s".to_owned(), soft(&long))]);
        let budget = Budget::of_file(&Limits::default(), 0);
        let lookup = Lookup::new(&budget);
        let error = (0..1_000_000).find_map(|_| lookup.find(&file, Address(0), "s").err());
        assert!(error.is_some_and(|error| error.to_string().contains("the limit for 0 bytes of files")));
    }
}

#[cfg(test)]
mod references_tests {
    use virtualize_bytes::Address;
    use virtualize_hdf5::model::Slab;

    use super::*;

    fn part(element: &Element) -> String {
        Value::Object(reference_part(element).unwrap()).to_string()
    }

    #[test]
    fn parts_of_objects() {
        let slab = Slab { start: 1, stride: 2, count: Some(3), block: None };
        let region = |selection| part(&Element::Region(Address(8), selection));
        assert_eq!(
            region(Selection::Regular(vec![slab])),
            r#"{"block":[null],"count":[3],"selection":"hyperslab","start":[1],"stride":[2]}"#
        );
        assert_eq!(
            region(Selection::Blocks(vec![(vec![0, 2], vec![3, 5])])),
            r#"{"blocks":[[[0,2],[3,5]]],"selection":"blocks"}"#
        );
        assert_eq!(region(Selection::Points(vec![vec![7]])), r#"{"points":[[7]],"selection":"points"}"#);
        assert_eq!(region(Selection::All), r#"{"selection":"all"}"#);
        assert_eq!(part(&Element::Attribute(Address(8), "a".to_owned())), r#"{"attribute":"a"}"#);
        assert_eq!(reference_part(&Element::Object(None)), None);
    }

    #[test]
    fn what_has_no_path_is_an_error() {
        let names = ObjectNames::default();
        assert_eq!(reference_path(&Element::Object(None), &names).unwrap(), "");
        assert!(reference_path(&Element::Object(Some(Address(7))), &names).is_err());
        assert!(reference_path(&Element::Unknown("reference into another file"), &names).is_err());
    }
}
