//! Commits to Icechunk repositories: an appended dataset is combined with the existing one, as files are with each
//! other.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use smallvec::smallvec;
use virtualize::zarr::{
    Array, ChunkEntry, Group, Hierarchy, Node, Source,
    cf::attributes::{decides_values, names_quantity},
};
use virtualize::{
    CommitMode, CommitOptions, Committed, Error as FileError, IcechunkError, StoreOptions, Update,
    VirtualStore,
};
use virtualize_remedy::alternatives;

use crate::{
    Along, Error, Item, Layout, Member,
    compat::{Signature, differences, wanted},
    error::CombineError,
    join::{Combined, JoinedChunks, MemoryMembers, collect, combine},
    plan::{Block, Direction, FileExtent, Files, Known, PlanOptions, PlannedEra, Range, coordinates, plan},
    values::dates::date_of,
};

/// Commits a dataset to a repository with [`virtualize::commit`]. With [`CommitMode::Append`], combines it with the
/// existing dataset first.
///
/// # Errors
/// [`Error::File`]; the branch is then unchanged.
pub async fn commit_or_append(
    store: &VirtualStore,
    target: &str,
    options: &CommitOptions,
    store_options: &StoreOptions,
) -> Result<Committed, Error> {
    let CommitMode::Append(dimension) = &options.mode else {
        return Ok(virtualize::commit(store, target, options, store_options).await?);
    };
    let place = AppendTarget { target, options, dimension };
    let (whole, update) = place.join(store, store_options).await?;
    let commit = CommitOptions { mode: CommitMode::Update(update), ..options.clone() };
    let done = virtualize::commit(&whole, target, &commit, store_options).await;
    done.map_err(|error| match error {
        // The repository was read a moment ago.
        FileError::Icechunk {
            name,
            source: source @ (IcechunkError::Foreign { .. } | IcechunkError::History { .. }),
        } => {
            let source =
                IcechunkError::Conflict { branch: options.branch.clone(), reason: source.to_string() };
            FileError::Icechunk { name, source }.into()
        }
        other => other.into(),
    })
}

/// The dataset that another one is appended to.
struct AppendTarget<'a> {
    target: &'a str,
    options: &'a CommitOptions,
    dimension: &'a str,
}

impl AppendTarget<'_> {
    fn refuse(&self, path: &str, reason: impl Into<String>) -> Error {
        let source = IcechunkError::Append { path: path.to_owned(), reason: reason.into() };
        Error::File(FileError::Icechunk { name: self.target.to_owned(), source })
    }

    /// Returns the existing dataset with the new one appended.
    async fn join(
        &self,
        store: &VirtualStore,
        store_options: &StoreOptions,
    ) -> Result<(VirtualStore, Update), Error> {
        let new: BTreeSet<String> = store.hierarchy.arrays().into_iter().map(|(path, _)| path).collect();
        let is_wanted = |path: &str, document: &Value| {
            let names = document.get("dimension_names").and_then(Value::as_array);
            new.contains(path)
                || names.into_iter().flatten().any(|name| name.as_str() == Some(self.dimension))
        };
        let CommitOptions { branch, group, .. } = self.options;
        let read = virtualize::read_branch(self.target, (branch, group), &is_wanted, store_options).await?;
        let Some((there, update)) = read else {
            return Err(self.refuse(group.trim_matches('/'), "there is no repository"));
        };
        self.compare_nodes(&there.hierarchy, &store.hierarchy)?;
        let layout = Layout::along(vec![Along::Concat(self.dimension.to_owned())]);
        let known = member(&there, self.target, &layout, store_options).await?;
        let more = member(store, store.name(), &layout, store_options).await?;
        let era = self.era(&[&known, &more], &layout)?;
        let mut whole = self.combined(&era, &layout, [known, more])?;
        keep_attributes(&mut whole.root, &there.hierarchy.root);
        let whole = VirtualStore::of(whole, store.name());
        let committed = virtualize::documents_of(&whole, group)?;
        let documents =
            update.documents.into_iter().filter(|(path, _)| committed.contains_key(path)).collect();
        Ok((whole, Update { documents, grows: None, ..update }))
    }

    /// Combines both.
    fn combined(&self, era: &PlannedEra, layout: &Layout, members: [Member; 2]) -> Result<Hierarchy, Error> {
        let group = self.options.group.trim_matches('/');
        let mut members = MemoryMembers::new(members);
        let go_on = &mut || Ok::<_, CombineError>(());
        let joined = combine(era, layout, &PlanOptions::default(), &mut members, go_on);
        let Combined { hierarchy, chunks, .. } =
            joined.map_err(|error| self.refuse(group, error.to_string()))?;
        let whole = collect(hierarchy, &mut JoinedChunks::new(members, chunks));
        whole.map_err(|error| self.refuse(group, error.to_string()))
    }

    /// Checks that both have the same arrays, and that the new dataset has not been appended already.
    fn compare_nodes(&self, there: &Hierarchy, new: &Hierarchy) -> Result<(), Error> {
        let has_dimension =
            |array: &Array| array.dimension_names.iter().any(|name| name.as_deref() == Some(self.dimension));
        for (path, array) in there.arrays() {
            if has_dimension(array) && new.array(&path).is_none() {
                return Err(self.refuse(&path, "what is appended has no such array"));
            }
        }
        let mut grows = false;
        for (path, array) in new.arrays() {
            let Some(known) = there.array(&path) else {
                let arrays = there.arrays();
                let existing = alternatives("arrays", &path, arrays.iter().map(|(path, _)| path.as_str()));
                return Err(self.refuse(&path, format!("the repository has no such array{existing}")));
            };
            if !has_dimension(array) {
                continue;
            }
            grows = true;
            let first = array.chunks.iter().find_map(|(_, entry)| place_of(&entry, &new.sources));
            let is_there =
                |first| known.chunks.iter().any(|(_, entry)| place_of(&entry, &there.sources) == Some(first));
            if first.is_some_and(is_there) {
                let reason = "its first chunk is there already: it was appended before";
                return Err(self.refuse(&path, reason));
            }
        }
        match grows {
            true => Ok(()),
            false => {
                let arrays = new.arrays();
                let names = arrays.iter().flat_map(|(_, array)| array.dimension_names.iter().flatten());
                let names: BTreeSet<&str> = names.map(String::as_str).collect();
                let existing = alternatives("dimensions", self.dimension, names);
                let reason = format!("no array has a dimension {:?}{existing}", self.dimension);
                Err(self.refuse(self.options.group.trim_matches('/'), reason))
            }
        }
    }

    /// Plans both as one era, the existing dataset first.
    fn era(&self, members: &[&Member; 2], layout: &Layout) -> Result<PlannedEra, Error> {
        let refuse = |reason: String| self.refuse(self.options.group.trim_matches('/'), reason);
        let signatures = members.map(|member| Signature::of(member, layout));
        let mut files = Files::default();
        let (mut ranges, mut sizes) = (Vec::new(), Vec::new());
        for (member, signature) in members.iter().zip(&signatures) {
            let file = FileExtent::of(member, layout).map_err(|error| refuse(error.to_string()))?;
            let extent = file.extents().first();
            ranges.push(extent.and_then(|extent| extent.range.clone()));
            sizes.push(extent.map_or(0, |extent| extent.size));
            let kind = files.kind(&signature.storage_digest(), || signature.digest());
            files.push(kind, file);
        }
        if sizes.last() == Some(&0) {
            return Err(refuse(format!("what is appended has no element along {:?}", self.dimension)));
        }
        let [signature, _] = signatures.each_ref().map(Signature::digest);
        let member = |row| members.get(usize::try_from(row).ok()?).copied();
        let known = Known {
            signatures: signatures.iter().map(|one| (one.storage_digest(), one.clone())).collect(),
            coordinates: &|row, name| coordinates(member(row)?, name),
            url: &|row| member(row).map(|member| member.item.url.clone()).unwrap_or_default(),
        };
        let planned = match plan(files, &known, layout, &PlanOptions::default()) {
            Ok(planned) => planned,
            Err(CombineError::Eras { .. }) => return Err(self.differs(&signatures)),
            Err(CombineError::Files { problem, .. }) => {
                return Err(refuse(self.order(&ranges).unwrap_or_else(|| problem.to_string())));
            }
            Err(error) => return Err(refuse(error.to_string())),
        };
        let rows = planned.eras.iter().flat_map(|era| &era.blocks).map(|block| block.row);
        let (sizes, rows) = match (ranges.iter().any(Option::is_some), rows.collect::<Vec<_>>().as_slice()) {
            // Without coordinates the appended dataset follows the existing one.
            (false, [_, _]) | (true, [0, 1]) => (sizes, vec![0, 1]),
            // The existing dataset is still empty along the dimension.
            (_, [1]) => (sizes.into_iter().skip(1).collect(), vec![1]),
            _ => {
                let reason = self.order(&ranges);
                return Err(refuse(reason.unwrap_or_else(|| "it does not follow what is there".to_owned())));
            }
        };
        let blocks =
            (0..).zip(rows).map(|(at, row)| Block { row, at: smallvec![at], selection: None }).collect();
        Ok(PlannedEra { signature, group: String::new(), sizes: vec![sizes], blocks })
    }

    /// Describes the coordinates of both if the appended ones do not follow the existing ones.
    fn order(&self, ranges: &[Option<Range>]) -> Option<String> {
        let [Some(there), Some(here)] = ranges else { return None };
        let directions = [there.direction, here.direction];
        let comparable = !directions.contains(&Direction::Neither)
            && (there.direction == here.direction || directions.contains(&Direction::Single));
        comparable.then(|| {
            let (name, there, here) = (self.dimension, shown(there), shown(here));
            format!("{name} is {there} there and {here} here, which does not follow it")
        })
    }

    /// Returns the error that describes the first difference between both datasets.
    fn differs(&self, signatures: &[Signature; 2]) -> Error {
        let [there, here] = signatures;
        match differences(there, here).into_iter().next() {
            Some(difference) => {
                let (left, right) = (difference.left, difference.right);
                let reason = format!("{} is {left} there and {right} here", difference.what);
                self.refuse(&difference.path, reason)
            }
            None => self.refuse(self.options.group.trim_matches('/'), "its parts cannot stand side by side"),
        }
    }
}

/// Returns url, offset and length of a chunk of a file.
fn place_of<'a>(entry: &ChunkEntry<'_>, sources: &'a [Source]) -> Option<(&'a str, u64, u64)> {
    let ChunkEntry::Reference(part) = entry else { return None };
    Some((sources.get(part.source.index())?.url.as_str(), part.offset, part.length))
}

/// Reads a dataset as a member: its references, and the values to compare.
async fn member(
    store: &VirtualStore,
    url: &str,
    layout: &Layout,
    options: &StoreOptions,
) -> Result<Member, Error> {
    let hierarchy = store.hierarchy.clone();
    let (values, digests) = wanted(&hierarchy, layout).read(store, options).await?;
    Ok(Member { item: Item::of(url), hierarchy, values, digests, given: BTreeMap::new() })
}

/// Keeps the repository's version of attributes that affect no value.
fn keep_attributes(whole: &mut Group, there: &Group) {
    for (name, value) in &there.attributes {
        whole.attributes.entry(name.clone()).or_insert_with(|| value.clone());
    }
    for (name, node) in &mut whole.children {
        match (node, there.children.get(name)) {
            (Node::Group(group), Some(Node::Group(known))) => keep_attributes(group, known),
            (Node::Array(array), Some(Node::Array(known))) => {
                for (name, value) in known.attributes.iter().filter(|(name, _)| is_remark(name)) {
                    array.attributes.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
            _ => {}
        }
    }
}

/// Returns whether an attribute affects neither values nor which quantity they measure.
fn is_remark(name: &str) -> bool {
    !decides_values(name) && !names_quantity(name)
}

/// Returns first and last coordinate as text; times as dates.
fn shown(range: &Range) -> String {
    let Range { first, last, .. } = range;
    let one = |value| {
        let date = range.units().and_then(|units| date_of(value, units, range.calendar()));
        date.unwrap_or_else(|| value.to_string())
    };
    if first == last { one(first) } else { format!("{} to {}", one(first), one(last)) }
}
