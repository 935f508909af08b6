//! Mapping of HDF5 and NetCDF-4: datatypes, fill values, filters, layouts, dimensions, attributes, links.

mod array;
mod array_attributes;
mod attributes;
mod cf_attributes;
mod describe;
mod dimensions;
mod element;
mod external_links;
mod hdfeos;
mod header_fill;
mod heap;
mod ieee;
mod lengths;
mod lookup;
mod names;
mod others;
mod pattern;
mod plan;
mod references;
mod source_attributes;
mod source_table;
mod structures;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_budget;
#[cfg(test)]
mod tests_of_content;
#[cfg(test)]
mod tests_of_dimensions;
#[cfg(test)]
mod tests_of_types;
mod tree;
mod types;
mod unlimited;
mod weight;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use virtualize_bytes::{Budget, Limits};
use virtualize_hdf5::model::File;
use virtualize_remedy::Code;
use virtualize_zarr::{Hierarchy, Source};

use self::dimensions::ScaleLengths;
use self::external_links::{ExternalLink, MappedFiles};
use self::hdfeos::Fields;
pub use self::heap::{DatasetKey, Flattened, HeapPointer, HeapTask, HeapValues, flatten, heap_tasks};
use self::lookup::Lookup;
pub use self::names::{HeapPointers, ObjectNames};
use self::others::{FileContext, OpenFile};
pub use self::others::{OtherFile, OtherFiles, link_files, virtual_source_files};
pub use self::references::{reference_part, reference_path};
use self::source_table::SourceTable;
pub use self::unlimited::{NumberedFiles, numbered_files, resolve_extents};
use crate::{Diagnostic, Error, InlineTask, MapOptions, Mapped, Report, Result, Severity};

/// Most sources of the virtual datasets of a file. Nested ones count each time.
const VIRTUAL_SOURCES: u32 = 100_000;

/// Maps a file to Zarr. `source` describes the file itself, which becomes [`SourceId`](virtualize_zarr::SourceId) 0; other files
/// follow.
///
/// No bytes are read: [`Mapped::tasks`] lists what has to be fetched. Objects that cannot be mapped exactly are left out, with
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
    let (sources_left, mapped) = (Cell::new(VIRTUAL_SOURCES), MappedFiles::default());
    let (lookup, chain) = (Lookup::new(budget), [source.url.clone()]);
    let shared = Shared { others, sources_left: &sources_left, mapped: &mapped, lookup: &lookup };
    let mut mapped = map_within(file, source, shared, options, &chain);
    mapped.finish(options, budget);
    mapped
}

/// State that the mappings of a file and of linked files share.
#[derive(Clone, Copy)]
struct Shared<'a> {
    others: &'a OtherFiles,
    /// Number of sources of virtual datasets that may still be visited.
    sources_left: &'a Cell<u32>,
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
        linked_chunks: 0,
        options,
        names: Arc::new(names),
        sources: SourceTable::new(&source.url),
        tasks: Vec::new(),
        report: Report::default(),
        time_bounds: if options.unpack { cf_attributes::time_bounds(file) } else { BTreeSet::new() },
        fields: Fields::new(file.struct_metadata.as_deref().unwrap_or_default()),
        nodes: 0,
        hidden: None,
        scale_lengths: ScaleLengths::default(),
    };
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
    /// Number of chunks of linked files.
    linked_chunks: u64,
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
}

impl<'a> Mapper<'a> {
    fn file_context(&self) -> FileContext<'a> {
        let Shared { others, sources_left, lookup, .. } = self.shared;
        FileContext { root: self.own, here: self.own, others, sources_left, lookup, depth: 0 }
    }

    /// Takes memory from the budget. If it is spent, the whole file is refused in the end.
    fn take(&self, what: &str, bytes: u64) -> Result<()> {
        self.shared.lookup.take(what, bytes)
    }

    /// Adds a diagnostic. `path` has no leading slash.
    fn diagnose(&mut self, severity: Severity, code: Code, path: &str, message: String) {
        let diagnostic = Diagnostic { severity, code, path: format!("/{path}"), message, remedy: None };
        self.report.diagnostics.push(diagnostic);
    }

    fn array_left_out(&mut self, path: &str, error: &Error) {
        self.report.diagnostics.push(Diagnostic {
            severity: Severity::Warning,
            code: Code::ArrayLeftOut,
            path: format!("/{path}"),
            message: format!("the array is left out: {error}"),
            remedy: error.remedy(),
        });
    }

    fn attribute_left_out(&mut self, path: &str, name: &str, error: &Error) {
        let message = format!("the attribute \"{name}\" is left out: {error}");
        self.diagnose(Severity::Warning, Code::AttributeLeftOut, path, message);
    }
}
