//! External links: the node that a link leads to is mapped in its own file, and attached at the link.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;

use virtualize_hdf5::model::{File, LinkTarget, Object};
use virtualize_remedy::Code;
use virtualize_zarr::node::{self, join};
use virtualize_zarr::{Array, Group, Node, Source, SourceId};

use super::dimensions::Lengths;
use super::heap::{DatasetKey, Flattened, SAMPLE_DIMENSION};
use super::selection::{Pattern, mappings};
use super::tree::DEPTH;
use super::tree::Lookup;
use super::{Mapper, NODES, map_within, weight};
use crate::mapped::resolve_relative;
use crate::{ChunkContent, Error, InlineTask, Mapped, Result, SourceAttribute};

/// Bytes of memory for a task, a diagnostic or a report that is copied, without its texts.
const ITEM: u64 = 512;

/// Longest chain of files that link to each other.
const MAX_FILE_CHAIN: usize = 8;

/// Maximum number of sources of a hierarchy.
const SOURCES: usize = 60_000;

/// Mapped files to which links lead, by url.
pub(super) type MappedFiles = RefCell<BTreeMap<String, Rc<LinkedFile>>>;

/// A mapped file, with indices by path: many links may lead to it.
#[derive(Debug)]
pub(super) struct LinkedFile {
    mapped: Mapped,
    /// Indices of diagnostics by path, without a leading slash.
    diagnostics: BTreeMap<String, Vec<usize>>,
    /// Indices of tasks by array.
    tasks: BTreeMap<String, Vec<usize>>,
    /// The dimensions of items of sequences, whose number is in another array: path of the group and name.
    sample_dimensions: BTreeSet<(String, String)>,
}

impl LinkedFile {
    fn new(mapped: Mapped) -> Self {
        let index = |paths: &mut dyn Iterator<Item = &str>| {
            let mut index: BTreeMap<String, Vec<usize>> = BTreeMap::new();
            for (at, path) in paths.enumerate() {
                index.entry(path.trim_start_matches('/').to_owned()).or_default().push(at);
            }
            index
        };
        let sample = |(path, array): (String, &Array)| {
            let name = array.attributes.get(SAMPLE_DIMENSION)?.as_str()?;
            Some((node::parent(&path).to_owned(), name.to_owned()))
        };
        Self {
            diagnostics: index(&mut mapped.report.diagnostics.iter().map(|one| one.path.as_str())),
            tasks: index(&mut mapped.tasks.iter().map(|task| task.array.as_str())),
            sample_dimensions: mapped.hierarchy.arrays().into_iter().filter_map(sample).collect(),
            mapped,
        }
    }

    /// Returns the tasks of arrays at or below `path`.
    fn tasks(&self, path: &str) -> impl Iterator<Item = &InlineTask> {
        let tasks = below(&self.tasks, path).flat_map(|(_, indices)| indices);
        tasks.filter_map(|at| self.mapped.tasks.get(*at))
    }
}

/// What all links of a file share.
#[derive(Default)]
struct Attached {
    /// Numbers of the sources of each linked file.
    ids: BTreeMap<String, Rc<[SourceId]>>,
    /// Dimensions of the groups to which nodes are attached.
    lengths: BTreeMap<String, Lengths>,
}

/// An external link.
#[derive(Clone, Debug)]
pub(super) struct ExternalLink {
    /// Path of the link, without a leading slash.
    pub(super) at: String,
    /// Name of the file, as stored.
    pub(super) file: String,
    /// The path in that file.
    pub(super) path: String,
}

impl Mapper<'_> {
    /// Attaches the targets of all links that were found. `chain` holds the urls of the files that lead here, this one last.
    pub(super) fn attach_links(&mut self, root: &mut Group, chain: &[String]) {
        let mut attached = Attached::default();
        for link in std::mem::take(&mut self.links) {
            if let Err(error) = self.attach_linked(root, &link, chain, &mut attached) {
                let message = format!("the link to \"{}\" in the file \"{}\": {error}", link.path, link.file);
                self.report.warn(Code::LinkOmitted, &link.at, message);
            }
        }
    }

    /// Attaches the target of one link to the hierarchy under `root`.
    fn attach_linked(
        &mut self,
        root: &mut Group,
        link: &ExternalLink,
        chain: &[String],
        attached: &mut Attached,
    ) -> Result<()> {
        let url = resolve_relative(&self.own.source.url, &link.file);
        let linked = self.linked_file(&link.file, &url, chain)?;
        let steps: Vec<&str> = link.path.split('/').filter(|step| !matches!(*step, "" | ".")).collect();
        let path = steps.join("/");
        let hierarchy = &linked.mapped.hierarchy;
        let target = if path.is_empty() {
            None
        } else {
            Some(hierarchy.node(&path).ok_or_else(|| unmapped("its target"))?)
        };
        let mut node = target.cloned().unwrap_or_else(|| Node::Group(hierarchy.root.clone()));
        let is_ragged = matches!(&node, Node::Array(array)
            if matches!(array.dimension_names.as_slice(), [Some(sample), ..]
                if linked.sample_dimensions.contains(&(node::parent(&path).to_owned(), sample.clone()))));
        if is_ragged {
            return Err(Error::unsupported("sequences", "their row sizes are not behind the link"));
        }
        if link.at.split('/').count() - 1 + depth(&node) > DEPTH {
            return Err(Error::limit("nested groups", DEPTH as u64));
        }
        let refers =
            |task: &&InlineTask| matches!(&task.content, ChunkContent::Variable { references: Some(_), .. });
        let omitted = linked.tasks(&path).filter(refers);
        let omitted: BTreeSet<String> =
            omitted.filter_map(|task| moved(&task.array, &path, &link.at)).collect();
        let ids = match attached.ids.get(&url) {
            Some(ids) => Rc::clone(ids),
            None => {
                let ids = hierarchy.sources.iter().map(|source| self.sources.id(&source.url));
                let ids: Rc<[SourceId]> = ids.collect::<Result<_>>()?;
                attached.ids.insert(url, Rc::clone(&ids));
                ids
            }
        };
        if self.sources.len() > SOURCES {
            return Err(Error::limit("files", SOURCES as u64));
        }
        let (group, name) = node::split(&link.at);
        let parent = root.group_mut(group).ok_or_else(|| unmapped("its group"))?;
        if parent.children.contains_key(name) {
            return Err(Error::name(name, "is the name of another object"));
        }
        let lengths = attached.lengths.entry(group.to_owned()).or_insert_with(|| {
            let mut lengths = Lengths::new(parent.children.keys().cloned());
            for node in parent.children.values() {
                if let Node::Array(array) = node {
                    lengths.note_array(array);
                }
            }
            lengths
        });
        if let Node::Array(array) = &mut node {
            self.rename_dimensions(&link.at, array, lengths, &[]);
        }
        self.renumber_sources(&mut node, &link.at, &ids, &omitted)?;
        if !omitted.contains(&link.at) {
            lengths.taken.insert(name.to_owned());
            parent.children.insert(name.to_owned(), node);
        }
        self.take_report(&linked, &path, &link.at)?;
        let path = &path;
        for task in linked.tasks(path) {
            let Some(array) = moved(&task.array, path, &link.at).filter(|array| !omitted.contains(array))
            else {
                continue;
            };
            self.take("external links", ITEM)?;
            let mut task = InlineTask { array, ..task.clone() };
            for source in task.content.sources_mut() {
                *source = renumbered(*source, &ids);
            }
            self.tasks.push(task);
        }
        for array in &omitted {
            let error = Error::unresolved("its references", "lead to objects of another file");
            self.array_omitted(array, &error);
            self.report.arrays.entry(array.clone()).or_default().omitted = Some(error.to_string());
        }
        Ok(())
    }

    /// Returns the file of a link, mapped.
    ///
    /// # Errors
    /// The file is missing or refused, or links form a cycle or too long a chain.
    fn linked_file(&self, name: &str, url: &str, chain: &[String]) -> Result<Rc<LinkedFile>> {
        if chain.iter().any(|file| file == url) {
            return Err(Error::other_file(name, "its links form a cycle"));
        }
        if let Some(mapped) = self.shared.mapped.borrow().get(url) {
            return Ok(Rc::clone(mapped));
        }
        if chain.len() >= MAX_FILE_CHAIN {
            return Err(Error::limit("files in a chain of links", MAX_FILE_CHAIN as u64));
        }
        let found = self.shared.others.read(url, name)?;
        let OpenFile { file, source } = found.ok_or_else(|| Error::other_file(name, "does not exist"))?;
        let chain: Vec<String> = chain.iter().cloned().chain([url.to_owned()]).collect();
        let mapped = map_within(file, source.clone(), self.shared, self.options, &chain);
        let linked = Rc::new(LinkedFile::new(mapped));
        self.shared.mapped.borrow_mut().insert(url.to_owned(), Rc::clone(&linked));
        Ok(linked)
    }

    /// Copies the diagnostics and reports of nodes at or below `path`, which becomes `at`.
    fn take_report(&mut self, linked: &LinkedFile, path: &str, at: &str) -> Result<()> {
        let report = &linked.mapped.report;
        let mut diagnostics: Vec<usize> =
            below(&linked.diagnostics, path).flat_map(|(_, indices)| indices).copied().collect();
        diagnostics.sort_unstable();
        for diagnostic in diagnostics.into_iter().filter_map(|at| report.diagnostics.get(at)) {
            if let Some(moved) = moved(diagnostic.path.trim_start_matches('/'), path, at) {
                let path = format!("/{moved}");
                self.take("external links", (diagnostic.message.len() as u64).saturating_add(ITEM))?;
                self.report.diagnostics.push(crate::Diagnostic { path, ..diagnostic.clone() });
            }
        }
        let own = &mut self.report;
        let budget = self.shared.lookup;
        let take = |bytes| budget.take("external links", bytes);
        copy(&report.arrays, &mut own.arrays, (path, at), |_| take(ITEM))?;
        copy(&report.attributes, &mut own.attributes, (path, at), |attributes| {
            take(attributes.iter().map(SourceAttribute::weight).sum())
        })?;
        copy(&report.unlimited, &mut own.unlimited, (path, at), |names| {
            take(names.iter().map(|name| name.len() as u64).sum())
        })?;
        Ok(())
    }

    /// Renumbers the sources of all chunks to those of the whole hierarchy, and removes omitted arrays.
    fn renumber_sources(
        &mut self,
        node: &mut Node,
        at: &str,
        ids: &[SourceId],
        omitted: &BTreeSet<String>,
    ) -> Result<()> {
        self.nodes += 1;
        if self.nodes > NODES {
            return Err(Error::limit("groups and arrays", NODES));
        }
        self.take("groups and arrays", weight(node, at))?;
        match node {
            Node::Array(array) => {
                for column in &mut array.chunks.references {
                    column.source = renumbered(column.source, ids);
                }
            }
            Node::Group(group) => {
                group.children.retain(|name, _| !omitted.contains(&join(at, name)));
                for (name, child) in &mut group.children {
                    self.renumber_sources(child, &join(at, name), ids, omitted)?;
                }
            }
        }
        Ok(())
    }
}

fn unmapped(what: &'static str) -> Error {
    Error::unresolved(what, "is not mapped")
}

/// The number of a linked file's source in the whole hierarchy; one that no source has where the file has no such source.
fn renumbered(source: SourceId, ids: &[SourceId]) -> SourceId {
    ids.get(source.index()).copied().unwrap_or(SourceId(u32::MAX))
}

/// Returns the entries of paths at or below `path`.
fn below<'m, T>(entries: &'m BTreeMap<String, T>, path: &str) -> impl Iterator<Item = (&'m String, &'m T)> {
    let (from, to) = match path.is_empty() {
        true => (Bound::Unbounded, Bound::Unbounded),
        // The character after the slash.
        false => (Bound::Included(format!("{path}/")), Bound::Excluded(format!("{path}0"))),
    };
    let own = if path.is_empty() { None } else { entries.get_key_value(path) };
    own.into_iter().chain(entries.range((from, to)))
}

/// Copies the entries of paths at or below `path`, which becomes `at`. `take` takes memory for a value.
fn copy<T: Clone>(
    from: &BTreeMap<String, T>,
    to: &mut BTreeMap<String, T>,
    (path, at): (&str, &str),
    take: impl Fn(&T) -> Result<()>,
) -> Result<()> {
    for (own, value) in below(from, path) {
        if let Some(moved) = moved(own, path, at) {
            take(value)?;
            to.insert(moved, value.clone());
        }
    }
    Ok(())
}

/// Returns the number of nested groups in a node, itself included.
fn depth(node: &Node) -> usize {
    match node {
        Node::Group(group) => 1 + group.children.values().map(depth).max().unwrap_or(0),
        Node::Array(_) => 0,
    }
}

/// Returns the new path of a node at or below `path`, if `path` becomes `at`; `None` for other nodes.
fn moved(full: &str, path: &str, at: &str) -> Option<String> {
    let rest = full.strip_prefix(path)?;
    match rest.strip_prefix('/') {
        Some(rest) => Some(join(at, rest)),
        None if rest.is_empty() => Some(at.to_owned()),
        None if path.is_empty() => Some(join(at, rest)),
        None => None,
    }
}

/// Bytes of memory for a source of a virtual dataset. Nested ones count each time.
const SOURCE: u64 = 512;

/// Deepest chain of virtual datasets.
const MAX_VIRTUAL_CHAIN: u32 = 8;

/// Why a virtual dataset cannot be the source of another one.
pub(super) fn grown() -> Error {
    Error::unsupported("a virtual source", "its own sources have another extent than its file declares")
}

pub(super) fn no_dataset() -> Error {
    Error::unresolved("its path", "leads to no dataset")
}

/// Another HDF5 file that a file names. What virtual datasets map to a missing one reads as the fill value.
pub type OtherFile = crate::mapped::OtherFile<File>;

/// Other files by url.
#[derive(Clone, Debug, Default)]
pub struct OtherFiles {
    /// The files by url.
    pub files: BTreeMap<String, OtherFile>,
    /// Virtual datasets, as (url, address), whose sources make another extent than their own file declares. Through another
    /// virtual dataset, libhdf5 shows the declared extent.
    pub grown: BTreeSet<DatasetKey>,
    /// What represents the datasets of [`heap_tasks`](crate::hdf5::heap_tasks), or why nothing does.
    pub flattened: BTreeMap<DatasetKey, Result<Flattened>>,
}

impl OtherFiles {
    /// Returns the file at a url, called `name` where it is referred to; `None` if it does not exist.
    ///
    /// # Errors
    /// It was not read.
    pub(super) fn read(&self, url: &str, name: &str) -> Result<Option<OpenFile<'_>>> {
        match self.files.get(url) {
            Some(OtherFile::Read(file, source)) => Ok(Some(OpenFile { file, source })),
            Some(OtherFile::Missing) => Ok(None),
            Some(OtherFile::Refused(why)) => Err(Error::other_file(name, why)),
            None => Err(Error::other_file(name, "was not read")),
        }
    }
}

/// Returns the urls of the files that hold the sources of a file's virtual datasets. `own` is the url of the file itself,
/// which is not included; nor are numbered files ([`numbered_files`](crate::hdf5::numbered_files)).
pub fn virtual_source_files(file: &File, own: &str) -> BTreeSet<String> {
    file.objects
        .values()
        .flat_map(mappings)
        .filter(|mapping| mapping.file != ".")
        .filter_map(|mapping| Pattern::new(&mapping.file).ok().filter(|name| !name.is_numbered()))
        .map(|name| resolve_relative(own, &name.name(0)))
        .filter(|url| url != own)
        .collect()
}

/// Returns the urls of the files to which external links lead. `own` is the url of the file itself, which is not included.
pub fn link_files(file: &File, own: &str) -> BTreeSet<String> {
    let groups = file.objects.values().filter_map(|object| match object {
        Object::Group(group) => Some(group),
        _ => None,
    });
    let names = groups.flat_map(|group| &group.links).filter_map(|link| match &link.target {
        LinkTarget::External { file, .. } => Some(resolve_relative(own, file)),
        _ => None,
    });
    names.filter(|url| url != own).collect()
}

/// A file that was read, with its source.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFile<'a> {
    /// Its metadata.
    pub(super) file: &'a File,
    /// Its url, size and version.
    pub(super) source: &'a Source,
}

/// The files that the mapping of a dataset can use.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileContext<'a> {
    /// The file that is mapped.
    pub(super) root: OpenFile<'a>,
    /// The file of the dataset.
    pub(super) here: OpenFile<'a>,
    /// All other files.
    pub(super) others: &'a OtherFiles,
    /// Lookup of objects by path.
    pub(super) lookup: &'a Lookup<'a>,
    /// Number of virtual datasets between the mapped dataset and this one.
    pub(super) depth: u32,
}

impl<'a> FileContext<'a> {
    /// Returns the context of a source in the file called `name`; `None` if there is no such file.
    ///
    /// # Errors
    /// The file was refused, or sources are too deeply nested, or the budget is spent.
    pub(super) fn of_source(&self, name: &str) -> Result<Option<Self>> {
        self.lookup.take("sources of virtual datasets", SOURCE)?;
        if self.depth >= MAX_VIRTUAL_CHAIN {
            return Err(Error::limit("virtual datasets in a chain", MAX_VIRTUAL_CHAIN.into()));
        }
        let url = match name {
            "." => self.here.source.url.clone(),
            _ => resolve_relative(&self.here.source.url, name),
        };
        let here = if url == self.here.source.url {
            Some(self.here)
        } else if url == self.root.source.url {
            Some(self.root)
        } else {
            self.others.read(&url, name)?
        };
        Ok(here.map(|here| Self { here, depth: self.depth + 1, ..*self }))
    }
}

#[cfg(test)]
mod tests {
    use super::below;
    use super::moved;
    use std::collections::BTreeMap;

    #[test]
    fn entries_below_a_path() {
        let entries: BTreeMap<_, _> =
            ["a", "a b", "a-", "a/", "a/b", "a/b/c", "a0", "b"].map(|path| (path.to_owned(), ())).into();
        let found = |path| below(&entries, path).map(|(path, ())| path.as_str()).collect::<Vec<_>>();
        assert_eq!(found("a"), ["a", "a/", "a/b", "a/b/c"]);
        assert_eq!((found("").len(), found("c").len()), (8, 0));
    }

    #[test]
    fn paths_move_with_their_node() {
        assert_eq!(moved("a/b/c", "a/b", "x").as_deref(), Some("x/c"));
        assert_eq!(moved("a/b", "a/b", "x/y").as_deref(), Some("x/y"));
        assert_eq!(moved("a/bc", "a/b", "x"), None);
        assert_eq!(moved("a", "", "x").as_deref(), Some("x/a"));
        assert_eq!(moved("", "", "x").as_deref(), Some("x"));
    }
}
