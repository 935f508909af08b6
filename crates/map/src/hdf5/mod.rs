//! Mapping of HDF5, NetCDF-4 and NetCDF classic: datatypes, fill values, filters, layouts, dimensions, attributes, links.

mod attributes;
mod chunks;
mod contiguous;
mod dataset;
mod datatype;
mod dimensions;
mod eos_grid;
mod fill;
mod filters;
mod heap;
mod links;
mod selection;
#[cfg(test)]
mod tests;
mod tree;
mod virtual_dataset;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use virtualize_bytes::{Budget, Limits};
use virtualize_hdf5::model::File;
use virtualize_remedy::Code;
use virtualize_zarr::{Hierarchy, Node, Source, SourceId};

use crate::hdf5::attributes::time_bounds;
use crate::hdf5::dimensions::{Fields, ScaleLengths};
use crate::hdf5::links::{ExternalLink, FileContext, MappedFiles, OpenFile};
use crate::hdf5::tree::Lookup;
use crate::{Diagnostic, Error, InlineTask, MapOptions, Mapped, Report, Result};

pub use crate::hdf5::heap::{DatasetKey, Flattened, HeapPointer, HeapTask, HeapValues, flatten, heap_tasks};
pub use crate::hdf5::links::{OtherFile, OtherFiles, link_files, virtual_source_files};
pub use crate::hdf5::selection::{NumberedFiles, numbered_files, resolve_extents};
pub use crate::hdf5::tree::{HeapPointers, ObjectNames, reference_part, reference_path};

/// Maps a file to Zarr. `source` describes the file itself, which becomes [`SourceId`] 0; other files
/// follow.
///
/// No bytes are read: [`Mapped::tasks`] lists what has to be fetched. Objects that cannot be mapped exactly are omitted, with
/// a diagnostic.
pub fn map_file(file: &File, source: Source, options: &MapOptions) -> Mapped {
    let budget = Budget::of_file(&Limits::default(), source.size);
    map_file_among(file, source, &OtherFiles::default(), options, &budget)
}

/// Maps a file together with the other files that its virtual datasets and external links name. Takes memory for the result
/// from `budget`; if that is spent, the report has an error.
pub fn map_file_among(
    file: &File,
    source: Source,
    others: &OtherFiles,
    options: &MapOptions,
    budget: &Budget<'_>,
) -> Mapped {
    let (mapped, lookup, chain) = (MappedFiles::default(), Lookup::new(budget), [source.url.clone()]);
    let shared = Shared { others, mapped: &mapped, lookup: &lookup };
    let mut mapped = map_within(file, source, shared, options, &chain);
    mapped.finish(options, budget);
    mapped
}

/// State that the mappings of a file and of linked files share.
#[derive(Clone, Copy)]
struct Shared<'a> {
    others: &'a OtherFiles,
    /// Linked files that are mapped already.
    mapped: &'a MappedFiles,
    lookup: &'a Lookup<'a>,
}

fn map_within(
    file: &File,
    source: Source,
    shared: Shared<'_>,
    options: &MapOptions,
    chain: &[String],
) -> Mapped {
    let names = ObjectNames::new(file);
    let names = if chain.len() > 1 { names.linked() } else { names };
    let mut mapper = Mapper {
        own: OpenFile { file, source: &source },
        shared,
        links: Vec::new(),
        options,
        names: Arc::new(names),
        sources: SourceTable::new(&source.url),
        tasks: Vec::new(),
        report: Report::default(),
        time_bounds: if options.unpack { time_bounds(file) } else { BTreeSet::new() },
        fields: Fields::new(file.struct_metadata.as_deref().unwrap_or_default()),
        nodes: 0,
        hidden: None,
        scale_lengths: ScaleLengths::default(),
        small_records: contiguous::small_records(file),
    };
    mapper.report_partial_record();
    let mut root = mapper.root();
    mapper.report_hidden();
    mapper.attach_links(&mut root, chain);
    let Mapper { sources, tasks, report, .. } = mapper;
    let others = sources.into_others().into_iter().map(|url| Source { url, ..Source::default() });
    let sources = std::iter::once(source).chain(others).collect();
    let hierarchy = Hierarchy { format: options.format, root, sources };
    Mapped { hierarchy, tasks, report, companions: &[] }
}

/// The mapping of one file in progress.
struct Mapper<'a> {
    own: OpenFile<'a>,
    shared: Shared<'a>,
    /// External links to follow.
    links: Vec<ExternalLink>,
    options: &'a MapOptions,
    names: Arc<ObjectNames>,
    sources: SourceTable,
    tasks: Vec<InlineTask>,
    report: Report,
    /// Dimensions of the fields of an HDF-EOS5 file.
    fields: Fields,
    /// Names of variables that hold the bounds of times.
    time_bounds: BTreeSet<String>,
    /// Number of groups and arrays so far. Hard links can make a tree far larger than the file.
    nodes: u64,
    /// Number of objects with hidden attributes that do not describe dimension scales, and the first of them.
    hidden: Option<(u64, String)>,
    scale_lengths: ScaleLengths,
    /// Start of the records of a NetCDF classic file whose small records are inlined.
    small_records: Option<u64>,
}

impl<'a> Mapper<'a> {
    fn file_context(&self) -> FileContext<'a> {
        let Shared { others, lookup, .. } = self.shared;
        FileContext { root: self.own, here: self.own, others, lookup, depth: 0 }
    }

    /// Takes memory from the budget. If it is spent, the whole file is refused in the end.
    fn take(&self, what: &str, bytes: u64) -> Result<()> {
        self.shared.lookup.take(what, bytes)
    }

    fn array_omitted(&mut self, path: &str, error: &Error) {
        self.report.diagnostics.push(
            Diagnostic::warning(Code::ArrayOmitted, path, format!("array omitted: {error}"))
                .with(error.remedy()),
        );
    }
}

/// Urls of files, numbered in the order of their first use. Number 0 is the file itself.
#[derive(Clone, Debug)]
pub(super) struct SourceTable {
    ids: BTreeMap<String, SourceId>,
    /// Urls of the other files: number 1 is the first.
    others: Vec<String>,
}

impl SourceTable {
    pub(super) fn new(own: &str) -> Self {
        Self { ids: BTreeMap::from([(own.to_owned(), SourceId(0))]), others: Vec::new() }
    }

    /// Returns the number of a file, and adds the file if it is new.
    ///
    /// # Errors
    /// There are more files than numbers.
    pub(super) fn id(&mut self, url: &str) -> Result<SourceId> {
        if let Some(id) = self.ids.get(url) {
            return Ok(*id);
        }
        self.others.push(url.to_owned());
        let id = u32::try_from(self.others.len()).map_err(|_| Error::overflow("the list of source files"))?;
        self.ids.insert(url.to_owned(), SourceId(id));
        Ok(SourceId(id))
    }

    /// Returns the number of files, the file itself included.
    pub(super) fn len(&self) -> usize {
        self.others.len() + 1
    }

    /// Returns the urls of the other files, in the order of their numbers.
    pub(super) fn into_others(self) -> Vec<String> {
        self.others
    }
}

/// Maximum number of groups and arrays of a hierarchy.
pub(super) const NODES: u64 = 1_000_000;

/// Bytes of memory for a group or an array, without names, attributes and chunks.
const NODE: u64 = 1 << 10;

/// Bytes of memory for a link, without its names.
pub(super) const LINK: u64 = 96;

/// Returns the memory for a node, whose path appears in the hierarchy and in the report.
pub(super) fn node_bytes(path: &str, name: &str) -> u64 {
    let names = path.len().saturating_add(name.len()) as u64;
    names.saturating_mul(4).saturating_add(NODE)
}

/// Returns the memory for a copy of a node at a path, without its children.
pub(super) fn weight(node: &Node, path: &str) -> u64 {
    let (attributes, chunks) = match node {
        Node::Group(group) => (&group.attributes, 0),
        Node::Array(array) => (&array.attributes, array.chunks.len()),
    };
    let chunks = chunks.saturating_mul((path.len() as u64 / 4).saturating_add(32));
    let attributes =
        attributes.iter().map(|(name, value)| json_bytes(value).saturating_add(name.len() as u64));
    attributes.fold(node_bytes(path, ""), u64::saturating_add).saturating_add(chunks)
}

fn json_bytes(value: &serde_json::Value) -> u64 {
    use serde_json::Value;
    match value {
        Value::String(text) => (text.len() as u64).saturating_add(LINK),
        Value::Array(items) => items.iter().map(json_bytes).fold(LINK, u64::saturating_add),
        Value::Object(items) => {
            let all = items.iter().map(|(name, value)| json_bytes(value).saturating_add(name.len() as u64));
            all.fold(LINK, u64::saturating_add)
        }
        _ => LINK,
    }
}
