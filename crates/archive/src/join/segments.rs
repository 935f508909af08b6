//! Makes groups segments of one dataset: packing, coordinates and times get the same form in all groups, and a description
//! says how their arrays are combined.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use serde_json::{Map, Value};
use virtualize::{
    segments::{Segment, Segments, Target, VERSION, common_type, is_kept},
    zarr::{
        Array, DataType, Hierarchy, Node, NodePath, ZarrFormat,
        cf::missing::{MISSING, Sentinels},
        node,
    },
};

use super::{
    Combined,
    attributes::{MergedAttributes, repeats_group},
    chunks::ArrayChunks,
    combine,
    regions::slice,
    values,
};
use crate::{
    Along, Error, Item, Layout,
    compat::{
        is_coordinate,
        roles::{bounds_of, text},
    },
    error::{CombineError, Note, Problem},
    file::{FileChunks, Head, HeadNode, Members, ParsedNode},
    plan::{Block, PlannedSet, Selection},
    values::{Packing, calendar::time_units, is_number},
};

/// Gives the arrays of several groups a form in which they are segments of one dataset along a dimension, and returns its
/// description.
///
/// # Errors
/// Arrays that cannot be combined.
pub(crate) fn form_dataset(
    groups: &mut [(NodePath, Combined<'_>)],
    segments: Vec<Segment>,
    dimension: &str,
    layout: &Layout,
    notes: &mut Vec<Note>,
) -> Result<Segments, Error> {
    unify_packing(groups, dimension)?;
    unify_coordinates(groups, dimension, layout)?;
    let mut arrays = BTreeMap::new();
    for path in paths(groups) {
        let target = target(groups, &path, dimension).map_err(|problem| CombineError::of(&path, problem))?;
        let lacks = |(_, group): &&(NodePath, Combined<'_>)| group.hierarchy.array(&path).is_none();
        let lacking: Vec<&str> = groups.iter().filter(lacks).map(|(group, _)| group.as_str()).collect();
        if !lacking.is_empty() {
            notes.push(Note::new(
                &path,
                format!("missing from the files of {}: reads as missing there", listed(&lacking)),
            ));
        }
        arrays.extend(target.map(|data_type| (path, Target::new(&data_type))));
    }
    unify_attributes(groups, notes);
    Ok(Segments { version: VERSION, dimension: dimension.to_owned(), segments, arrays })
}

/// Gives the groups equal attributes, and notes those that differ. Attributes on which decoding depends, or that place an image,
/// stay those of each group.
fn unify_attributes(groups: &mut [(NodePath, Combined<'_>)], notes: &mut Vec<Note>) {
    let is_own = |name: &String| {
        is_kept(name)
            || MISSING.contains(&name.as_str())
            || name.ends_with("_variable")
            || repeats_group(name)
    };
    let arrays = paths(groups);
    let parents = arrays.iter().flat_map(|path| node::ancestors(node::parent(path)).map(str::to_owned));
    let parents: BTreeSet<NodePath> = parents.collect();
    let nodes =
        parents.into_iter().map(|path| (path, false)).chain(arrays.into_iter().map(|path| (path, true)));
    for (path, is_array) in nodes {
        let mut merged: Option<MergedAttributes> = None;
        for attributes in
            groups.iter_mut().filter_map(|(_, group)| attributes_of(&mut group.hierarchy, &path, is_array))
        {
            let shared = attributes.iter().filter(|(name, _)| !is_own(name));
            let shared = shared.map(|(name, value)| (name.clone(), value.clone())).collect();
            match &mut merged {
                Some(merged) => merged.add(&shared, is_array),
                None => merged = Some(MergedAttributes::new(&shared)),
            }
        }
        let Some(merged) = merged else { continue };
        notes.extend(merged.notes(&path));
        for attributes in
            groups.iter_mut().filter_map(|(_, group)| attributes_of(&mut group.hierarchy, &path, is_array))
        {
            attributes.retain(|name, _| is_own(name) || merged.kept.contains_key(name));
            attributes.extend(merged.kept.clone());
        }
    }
}

/// Returns the attributes of an array or group.
fn attributes_of<'a>(
    hierarchy: &'a mut Hierarchy,
    path: &str,
    is_array: bool,
) -> Option<&'a mut Map<String, Value>> {
    if is_array {
        return hierarchy.array_mut(path).map(|array| &mut array.attributes);
    }
    hierarchy.root.group_mut(path).map(|group| &mut group.attributes)
}

/// Lists names, the first ones if there are many.
fn listed(names: &[&str]) -> String {
    match names {
        [first, second, third, _, ..] => format!("{first}, {second}, {third} and {} more", names.len() - 3),
        names => names.join(", "),
    }
}

/// Returns the paths of the arrays of all groups.
fn paths(groups: &[(NodePath, Combined<'_>)]) -> BTreeSet<NodePath> {
    groups.iter().flat_map(|(_, group)| group.hierarchy.arrays()).map(|(path, _)| path).collect()
}

fn axis_of(array: &Array, dimension: &str) -> Option<usize> {
    array.dimension_names.iter().position(|name| name.as_deref() == Some(dimension))
}

/// Returns the type that the elements of an array are converted to; `None` if they are not.
fn target(
    groups: &[(NodePath, Combined<'_>)],
    path: &str,
    dimension: &str,
) -> Result<Option<DataType>, Problem> {
    let arrays = groups.iter().map(|(_, group)| (group.hierarchy.array(path), group.hierarchy.format));
    let found: Vec<(&Array, ZarrFormat)> =
        arrays.filter_map(|(array, format)| Some((array?, format))).collect();
    let Some(((first, format), _)) = found.split_first() else { return Ok(None) };
    if axis_of(first, dimension).is_none() || !is_number(&first.data_type) {
        return Ok(None);
    }
    let types: Vec<DataType> = found.iter().map(|(array, _)| array.data_type.clone()).collect();
    let sentinels = |array: &Array, format: ZarrFormat| Sentinels::of(array, format).elements;
    let same_type = types.iter().all(|one| *one == first.data_type);
    let same_missing = found
        .iter()
        .all(|(array, format)| same_type && sentinels(array, *format) == sentinels(first, *format));
    let is_everywhere = found.len() == groups.len();
    let can_be_missing = first.data_type.is_float() || !sentinels(first, *format).is_empty();
    if same_missing && (is_everywhere || can_be_missing) {
        return Ok(None);
    }
    let has_sentinels = found.iter().any(|(array, format)| !sentinels(array, *format).is_empty());
    let target = common_type(&types, has_sentinels || !is_everywhere);
    let target =
        target.filter(|_| found.iter().all(|(array, _)| !array.attributes.contains_key("_Unsigned")));
    target.map(Some).ok_or_else(|| {
        let mut names: Vec<String> = types.iter().map(ToString::to_string).collect();
        names.dedup();
        let missing = if has_sentinels { " with missing values" } else { "" };
        Problem::new(format!("no type holds all numbers of {}{missing} exactly", names.join(" and ")))
            .with(crate::error::var("drop", "omit it"))
    })
}

/// Replaces packing that differs between groups by variables along the dimension, in all groups.
fn unify_packing(groups: &mut [(NodePath, Combined<'_>)], dimension: &str) -> Result<(), Error> {
    for path in paths(groups) {
        let arrays: Vec<Option<&Array>> =
            groups.iter().map(|(_, group)| group.hierarchy.array(&path)).collect();
        let is_packed = |array: &Array, attribute: &str| {
            array.attributes.contains_key(attribute)
                || array.attributes.contains_key(&format!("{attribute}_variable"))
        };
        let form = |array: &Array| {
            Packing::ATTRIBUTES.map(|(attribute, _)| {
                let variable = format!("{attribute}_variable");
                (array.attributes.get(attribute).cloned(), array.attributes.get(&variable).cloned())
            })
        };
        let mut present = arrays.iter().flatten();
        let Some(first) = present.next().filter(|first| axis_of(first, dimension).is_some()) else {
            continue;
        };
        if present.all(|array| form(array) == form(first)) || !is_number(&first.data_type) {
            continue;
        }
        let attributes = Packing::ATTRIBUTES.into_iter();
        let attributes: Vec<(&str, f64)> = attributes
            .filter(|(name, _)| arrays.iter().flatten().any(|array| is_packed(array, name)))
            .collect();
        for (attribute, neutral) in attributes {
            add_variables(groups, &path, dimension, attribute, neutral)
                .map_err(|problem| CombineError::of(&path, problem))?;
        }
    }
    Ok(())
}

/// Adds the variable that holds an attribute of packing to the groups that have the attribute, or lack it.
fn add_variables(
    groups: &mut [(NodePath, Combined<'_>)],
    path: &str,
    dimension: &str,
    attribute: &str,
    neutral: f64,
) -> Result<(), Problem> {
    for (_, Combined { hierarchy, chunks, .. }) in groups.iter_mut() {
        let format = hierarchy.format;
        let Some(array) = hierarchy.array_mut(path) else { continue };
        if array.attributes.contains_key(&format!("{attribute}_variable")) {
            continue;
        }
        let packing = Packing::of(&array.attributes)
            .ok_or_else(|| Problem::new(format!("{attribute} is not a finite number")))?;
        let length = axis_of(array, dimension).and_then(|axis| array.shape.get(axis).copied());
        let length = length.and_then(|length| usize::try_from(length).ok()).ok_or(Problem::TOO_LARGE)?;
        let along = (dimension, vec![packing.number(attribute).unwrap_or(neutral); length]);
        let (name, variable) = values::packing_variable(array, path, attribute, along, format)?;
        let Some(group) = hierarchy.root.make_group(node::parent(path)) else { continue };
        if group.children.contains_key(&name) {
            return Err(values::name_is_taken(&name));
        }
        let variable_path = node::join(node::parent(path), &name);
        chunks.insert(variable_path, ArrayChunks::Inline(variable.chunks.inline.clone()));
        group.children.insert(name, Node::Array(Box::new(variable)));
    }
    Ok(())
}

/// Gives coordinates and times one type and unit in all groups, by joining them as if groups were files.
fn unify_coordinates(
    groups: &mut [(NodePath, Combined<'_>)],
    dimension: &str,
    layout: &Layout,
) -> Result<(), Error> {
    let units = |array: &Array| {
        let calendar = text(&array.attributes, "calendar");
        text(&array.attributes, "units").and_then(|units| time_units(units, calendar))
    };
    let is_copied = |group: &Combined<'_>, path: &str| {
        group.hierarchy.array(path).is_some_and(|array| {
            array.chunks.references.is_empty()
                && !array.chunks.inline.is_empty()
                && is_number(&array.data_type)
                && axis_of(array, dimension).is_some()
        })
    };
    let differ_in_units = |path: &str| {
        let mut found = groups.iter().filter_map(|(_, group)| group.hierarchy.array(path)).map(units);
        let first = found.next();
        found.any(|other| Some(&other) != first.as_ref())
    };
    let mut wanted = BTreeSet::new();
    let mut differ = false;
    for path in paths(groups) {
        let Some(first) = groups.iter().find_map(|(_, group)| group.hierarchy.array(&path)) else { continue };
        if !is_coordinate(&path, first) && units(first).is_none() {
            continue;
        }
        let bounds: BTreeSet<NodePath> = groups
            .iter()
            .filter_map(|(_, group)| Some((group, group.hierarchy.array(&path)?)))
            .flat_map(|(group, array)| bounds_of(&group.hierarchy, &path, array))
            .collect();
        let (bounds, others): (Vec<NodePath>, Vec<_>) =
            bounds.into_iter().partition(|path| groups.iter().all(|(_, group)| is_copied(group, path)));
        let is_whole = groups.iter().all(|(_, group)| is_copied(group, &path));
        if differ_in_units(&path)
            && let Some(path) = others.first().or((!is_whole).then_some(&path))
        {
            let text = "its times are in different units, which are converted only if all files have the array \
                        and it is small enough to be copied";
            let problem = Problem::of(text).with(crate::error::var("drop", "omit it"));
            return Err(CombineError::of(path, problem).into());
        }
        if !is_whole {
            continue;
        }
        for path in std::iter::once(path).chain(bounds) {
            let form = |group: &Combined<'_>| {
                let array = group.hierarchy.array(&path);
                array.map(|array| {
                    (array.data_type.clone(), units(array), Sentinels::of(array, group.hierarchy.format))
                })
            };
            differ |= groups.windows(2).any(|pair| match pair {
                [(_, one), (_, other)] => form(one) != form(other),
                _ => false,
            });
            wanted.insert(path);
        }
    }
    if !differ {
        return Ok(());
    }
    let length = |group: &Combined<'_>, path: &NodePath| {
        let array = group.hierarchy.array(path)?;
        array.shape.get(axis_of(array, dimension)?).copied()
    };
    let sizes =
        groups.iter().map(|(_, group)| wanted.iter().find_map(|path| length(group, path)).unwrap_or(0));
    let sizes: Vec<u64> = sizes.collect();
    let blocks = (0..).zip(groups.iter());
    let blocks =
        blocks.map(|(n, _)| Block { row: u64::from(n), at: [n].into_iter().collect(), selection: None });
    let set = PlannedSet { sizes: vec![sizes], blocks: blocks.collect(), ..PlannedSet::default() };
    let layout = Layout {
        along: vec![Along::Concat(dimension.to_owned())],
        inline_limit: layout.inline_limit,
        ..Layout::default()
    };
    let mut members =
        Groups(groups.iter().map(|(path, group)| head(path, &group.hierarchy, &wanted)).collect());
    let joined = combine(&set, &layout, &mut members, &mut || Ok(()))?;
    for path in wanted {
        let Some(whole) = joined.hierarchy.array(&path) else { continue };
        let all = elements(whole);
        let Some(axis) = axis_of(whole, dimension) else { continue };
        let mut start = 0_u64;
        for (_, Combined { hierarchy, chunks, .. }) in groups.iter_mut() {
            let Some(array) = hierarchy.array_mut(&path) else { continue };
            let shape = array.shape.clone();
            let length = shape.get(axis).copied().unwrap_or(0);
            let end = start.saturating_add(length);
            let selection = Selection { start, end, of: whole.shape.get(axis).copied().unwrap_or(0) };
            let own = slice(whole, &all, axis, selection);
            start = end;
            *array = Array { shape, ..whole.clone() };
            own.and_then(|own| values::set_inline_values(array, own.to_vec()))
                .ok_or_else(|| CombineError::of(&path, Problem::TOO_LARGE))?;
            chunks.insert(path.clone(), ArrayChunks::Inline(array.chunks.inline.clone()));
        }
    }
    if let Some((_, first)) = groups.first_mut() {
        first.notes.extend(joined.notes.into_iter().filter(|note: &Note| !note.subject.is_empty()));
    }
    Ok(())
}

/// Returns the elements of an array whose values are inline, in chunks along its slowest axis.
fn elements(array: &Array) -> Bytes {
    let count = array.shape.iter().product::<u64>().saturating_mul(array.data_type.size().unwrap_or(0));
    let mut all: Vec<u8> = array.chunks.inline.values().flatten().copied().collect();
    all.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    all.into()
}

/// Groups as files, with some of their arrays.
struct Groups(Vec<Head>);

impl Members for Groups {
    fn head(&mut self, row: u64) -> Result<Head, Error> {
        let head = usize::try_from(row).ok().and_then(|row| self.0.get(row));
        head.cloned().ok_or_else(|| CombineError::Nothing.into())
    }

    fn chunks(&mut self, _: u64, _: &str) -> Result<FileChunks, Error> {
        Err(CombineError::Nothing.into())
    }
}

/// Returns a group as a file with some of its arrays.
fn head(path: &str, hierarchy: &Hierarchy, wanted: &BTreeSet<NodePath>) -> Head {
    let mut nodes = BTreeMap::new();
    let mut values = BTreeMap::new();
    for path in wanted {
        let Some(array) = hierarchy.array(path) else { continue };
        for group in node::ancestors(node::parent(path)) {
            nodes.insert(group.to_owned(), ParsedNode::Group(Map::new()));
        }
        let mut metadata = array.clone();
        metadata.chunks = virtualize::zarr::ChunkManifest::default();
        nodes.insert(path.clone(), ParsedNode::Array(Box::new(metadata)));
        values.insert(path.clone(), elements(array));
    }
    let nodes = nodes.into_iter();
    let nodes = nodes.map(|(path, node)| HeadNode { path: path.into(), node: Arc::new(node), count: 1 });
    Head {
        item: Item { url: format!("group {path}"), ..Item::default() },
        format: hierarchy.format,
        nodes: nodes.collect(),
        values,
        digests: BTreeMap::new(),
        given: BTreeMap::new(),
    }
}
