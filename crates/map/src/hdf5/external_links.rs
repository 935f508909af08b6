//! External links: the node that a link leads to is mapped in its own file, and attached at the link.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use virtualize_remedy::Code;
use virtualize_zarr::{
    Group, Node, SourceId,
    node::{self, join},
};

use super::heap::SAMPLE_DIMENSION;
use super::lengths::Lengths;
use super::others::OtherFile;
use super::tree::DEPTH as DEPTH_OF_GROUPS;
use super::weight::{NODES, weight};
use super::{Mapper, map_within};
use crate::related::resolve_relative;
use crate::{ChunkContent, Error, InlineTask, Mapped, Report, Result, Severity, SourceAttribute};

/// Bytes of the budget for a step of work.
const STEP: u64 = 8;

/// Longest chain of files that link to each other.
const DEPTH: usize = 8;

/// Most sources of a hierarchy.
const SOURCES: usize = 60_000;

/// Most chunks that links may bring.
const CHUNKS: u64 = 20_000_000;

/// Mapped files to which links lead, by url.
pub(super) type MappedFiles = RefCell<BTreeMap<String, Rc<Mapped>>>;

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
        for link in std::mem::take(&mut self.links) {
            if let Err(error) = self.attach_linked(root, &link, chain) {
                let message = format!("the link to \"{}\" in the file \"{}\": {error}", link.path, link.file);
                self.diagnose(Severity::Warning, Code::LinkLeftOut, &link.at, message);
            }
        }
    }

    /// Attaches the target of one link to the hierarchy under `root`.
    fn attach_linked(&mut self, root: &mut Group, link: &ExternalLink, chain: &[String]) -> Result<()> {
        let mapped = self.linked_file(&link.file, chain)?;
        self.take("external links", steps(&mapped).saturating_mul(STEP))?;
        let steps: Vec<&str> = link.path.split('/').filter(|step| !matches!(*step, "" | ".")).collect();
        let path = steps.join("/");
        let mut node = match path.is_empty() {
            true => Node::Group(mapped.hierarchy.root.clone()),
            false => mapped.hierarchy.node(&path).cloned().ok_or_else(|| unmapped("its target"))?,
        };
        if has_row_sizes(&mapped, &path, &node) {
            return Err(Error::unsupported("sequences", "their row sizes are not behind the link"));
        }
        if link.at.split('/').count() - 1 + depth(&node) > DEPTH_OF_GROUPS {
            return Err(Error::Limit { what: "nested groups", limit: DEPTH_OF_GROUPS as u64 });
        }
        let left_out = referring(&mapped, &path, &link.at);
        let ids: Vec<SourceId> = mapped
            .hierarchy
            .sources
            .iter()
            .map(|source| self.sources.id(&source.url))
            .collect::<Result<_>>()?;
        if self.sources.len() > SOURCES {
            return Err(Error::Limit { what: "files", limit: SOURCES as u64 });
        }
        let (parent, name) = node::split(&link.at);
        let parent = root.group_mut(parent).ok_or_else(|| unmapped("its group"))?;
        if parent.children.contains_key(name) {
            return Err(Error::Name { name: name.to_owned(), problem: "is the name of another object" });
        }
        self.take("external links", parent.children.len() as u64)?;
        if let Node::Array(array) = &mut node {
            self.rename_dimensions(&link.at, array, &mut lengths(parent), &[]);
        }
        self.renumber_sources(&mut node, &link.at, &ids, &left_out)?;
        if !left_out.contains(&link.at) {
            parent.children.insert(name.to_owned(), node);
        }
        self.take_report(&mapped, &path, &link.at)?;
        self.take_tasks(&mapped, &path, &link.at, &ids, &left_out);
        Ok(())
    }

    /// Returns the file of a link, mapped.
    ///
    /// # Errors
    /// The file is missing or refused, or links form a cycle or too long a chain.
    fn linked_file(&self, name: &str, chain: &[String]) -> Result<Rc<Mapped>> {
        let url = resolve_relative(&self.own.source.url, name);
        if chain.contains(&url) {
            return Err(Error::other_file(name, "links lead back to it"));
        }
        if let Some(mapped) = self.shared.mapped.borrow().get(&url) {
            return Ok(Rc::clone(mapped));
        }
        if chain.len() >= DEPTH {
            return Err(Error::Limit { what: "files in a chain of links", limit: DEPTH as u64 });
        }
        let (file, source) = match self.shared.others.files.get(&url) {
            Some(OtherFile::Read(file, source)) => (file, source),
            Some(OtherFile::Missing) => return Err(Error::other_file(name, "does not exist")),
            Some(OtherFile::Refused(why)) => return Err(Error::other_file(name, why.clone())),
            None => return Err(Error::other_file(name, "was not read")),
        };
        let chain: Vec<String> = chain.iter().cloned().chain([url.clone()]).collect();
        let mapped = Rc::new(map_within(file, source.clone(), self.shared, self.options, &chain));
        self.shared.mapped.borrow_mut().insert(url, Rc::clone(&mapped));
        Ok(mapped)
    }

    /// Copies the diagnostics and reports of nodes at or below `path`, which becomes `at`.
    fn take_report(&mut self, mapped: &Mapped, path: &str, at: &str) -> Result<()> {
        for diagnostic in &mapped.report.diagnostics {
            if let Some(moved) = moved(diagnostic.path.trim_start_matches('/'), path, at) {
                let path = format!("/{moved}");
                self.report.diagnostics.push(crate::Diagnostic { path, ..diagnostic.clone() });
            }
        }
        for (array, report) in &mapped.report.arrays {
            if let Some(moved) = moved(array, path, at) {
                self.report.arrays.insert(moved, report.clone());
            }
        }
        for (node, attributes) in &mapped.report.attributes {
            if let Some(moved) = moved(node, path, at) {
                self.take("external links", attributes.iter().map(SourceAttribute::weight).sum())?;
                self.report.attributes.insert(moved, attributes.clone());
            }
        }
        for (group, names) in &mapped.report.unlimited {
            if let Some(moved) = moved(group, path, at) {
                self.take("external links", names.iter().map(|name| name.len() as u64).sum())?;
                self.report.unlimited.insert(moved, names.clone());
            }
        }
        Ok(())
    }

    /// Copies the tasks of arrays that are attached, and reports those that are left out.
    fn take_tasks(
        &mut self,
        mapped: &Mapped,
        path: &str,
        at: &str,
        ids: &[SourceId],
        left_out: &BTreeSet<String>,
    ) {
        for task in &mapped.tasks {
            let Some(array) = moved(&task.array, path, at).filter(|array| !left_out.contains(array)) else {
                continue;
            };
            let mut task = InlineTask { array, ..task.clone() };
            for source in task.content.sources_mut() {
                *source = renumbered(*source, ids);
            }
            self.tasks.push(task);
        }
        for array in left_out {
            let error = Error::unresolved("its references", "lead to objects of another file");
            self.array_left_out(array, &error);
            self.report.arrays.entry(array.clone()).or_default().left_out = Some(error.to_string());
        }
    }

    /// Renumbers the sources of all chunks to those of the whole hierarchy, and removes arrays that are left out.
    fn renumber_sources(
        &mut self,
        node: &mut Node,
        at: &str,
        ids: &[SourceId],
        left_out: &BTreeSet<String>,
    ) -> Result<()> {
        self.nodes += 1;
        if self.nodes > NODES {
            return Err(Error::Limit { what: "groups and arrays", limit: NODES });
        }
        self.take("groups and arrays", weight(node, at))?;
        match node {
            Node::Array(array) => {
                self.linked_chunks = self.linked_chunks.saturating_add(array.chunks.len());
                for column in &mut array.chunks.references {
                    column.source = renumbered(column.source, ids);
                }
            }
            Node::Group(group) => {
                group.children.retain(|name, _| !left_out.contains(&join(at, name)));
                for (name, child) in &mut group.children {
                    self.renumber_sources(child, &join(at, name), ids, left_out)?;
                }
            }
        }
        match self.linked_chunks > CHUNKS {
            true => Err(Error::Limit { what: "chunks behind links", limit: CHUNKS }),
            false => Ok(()),
        }
    }
}

/// Whether an array holds the items of sequences, whose number is in another array of the group.
fn has_row_sizes(mapped: &Mapped, path: &str, node: &Node) -> bool {
    let Node::Array(array) = node else { return false };
    let [Some(sample), ..] = array.dimension_names.as_slice() else { return false };
    let Some(group) = mapped.hierarchy.group(node::split(path).0) else { return false };
    group.children.values().any(|other| match other {
        Node::Array(sizes) => {
            sizes.attributes.get(SAMPLE_DIMENSION).and_then(|name| name.as_str()) == Some(sample)
        }
        Node::Group(_) => false,
    })
}

fn unmapped(what: &'static str) -> Error {
    Error::unresolved(what, "is not mapped")
}

/// The number of a linked file's source in the whole hierarchy; one that no source has where the file has no such source.
fn renumbered(source: SourceId, ids: &[SourceId]) -> SourceId {
    ids.get(source.index()).copied().unwrap_or(SourceId(u32::MAX))
}

/// Returns the number of items that attaching one link to a file visits.
fn steps(mapped: &Mapped) -> u64 {
    let Report { diagnostics, arrays, attributes, unlimited } = &mapped.report;
    let report = diagnostics.len().saturating_add(arrays.len()).saturating_add(attributes.len());
    let report = report.saturating_add(unlimited.len());
    report.saturating_add(mapped.tasks.len()).saturating_add(mapped.hierarchy.sources.len()) as u64
}

/// Returns the arrays of references below `path`, by their new paths. Their values would be paths of the other file.
fn referring(mapped: &Mapped, path: &str, at: &str) -> BTreeSet<String> {
    let refers =
        |task: &&InlineTask| matches!(&task.content, ChunkContent::Variable { references: Some(_), .. });
    mapped.tasks.iter().filter(refers).filter_map(|task| moved(&task.array, path, at)).collect()
}

/// Returns the number of nested groups in a node, itself included.
fn depth(node: &Node) -> usize {
    match node {
        Node::Group(group) => 1 + group.children.values().map(depth).max().unwrap_or(0),
        Node::Array(_) => 0,
    }
}

/// Returns the dimensions of a group's arrays.
fn lengths(group: &Group) -> Lengths {
    let mut lengths = Lengths::new(group.children.keys().cloned());
    for node in group.children.values() {
        if let Node::Array(array) = node {
            lengths.note_array(array);
        }
    }
    lengths
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

#[cfg(test)]
mod tests {
    use super::moved;

    #[test]
    fn paths_move_with_their_node() {
        assert_eq!(moved("a/b/c", "a/b", "x").as_deref(), Some("x/c"));
        assert_eq!(moved("a/b", "a/b", "x/y").as_deref(), Some("x/y"));
        assert_eq!(moved("a/bc", "a/b", "x"), None);
        assert_eq!(moved("a", "", "x").as_deref(), Some("x/a"));
        assert_eq!(moved("", "", "x").as_deref(), Some("x"));
    }
}
