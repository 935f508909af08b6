//! HDF5 → Zarr. One file a noun: types and structures, fill values, filters, layouts, dimensions, attributes, names.

mod array;
mod attributes;
mod cast;
mod chunked;
mod describe;
mod dimensions;
mod external;
mod fill;
mod filters;
mod hdfeos;
mod header_fill;
mod layout;
mod names;
mod split;
mod structures;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_content;
mod tree;
mod types;
mod zfp;

use std::sync::Arc;

use virtualize_hdf5::model::File;
use virtualize_zarr::{Hierarchy, Source, SourceId};

use self::hdfeos::Fields;
pub use self::names::ObjectNames;
use crate::{Diagnostic, InlineTask, MapOptions, Mapped, Report, Severity};

/// Maps a file that was read. `source` is the file, which becomes [`SourceId`] 0; external raw data files follow.
///
/// Reads no bytes: what must be fetched is in [`Mapped::tasks`]. What cannot be mapped exactly is left out, with a
/// diagnostic.
pub fn map_file(file: &File, source: Source, options: &MapOptions) -> Mapped {
    let mut mapper = Mapper {
        file,
        options,
        names: Arc::new(ObjectNames::new(file)),
        sources: vec![source],
        tasks: Vec::new(),
        report: Report::default(),
        fields: Fields::new(file.struct_metadata.as_deref().unwrap_or_default()),
        nodes: 0,
    };
    let root = mapper.root();
    let hierarchy = Hierarchy { format: options.format, root, sources: mapper.sources };
    Mapped { hierarchy, tasks: mapper.tasks, report: mapper.report }
}

/// What mapping a file gathers.
struct Mapper<'a> {
    file: &'a File,
    options: &'a MapOptions,
    names: Arc<ObjectNames>,
    sources: Vec<Source>,
    tasks: Vec<InlineTask>,
    report: Report,
    /// What HDF-EOS5 says of the dimensions of its fields.
    fields: Fields,
    /// Groups and arrays so far: hard links can make a tree far bigger than the file.
    nodes: u64,
}

impl Mapper<'_> {
    fn file_size(&self) -> u64 {
        self.sources.first().map_or(0, |source| source.size)
    }

    /// The source of an external file, whose name is relative to the folder of the HDF5 file.
    fn external_source(&mut self, file: &str) -> SourceId {
        let own = self.sources.first().map_or("", |source| source.url.as_str());
        let folder = own.rsplit_once('/').map_or("", |(folder, _)| folder);
        let url = match file.strip_prefix('/') {
            Some(absolute) => format!("file:///{absolute}"),
            None => format!("{folder}/{file}"),
        };
        let at = self.sources.iter().position(|source| source.url == url).unwrap_or_else(|| {
            self.sources.push(Source { url, ..Source::default() });
            self.sources.len() - 1
        });
        SourceId(u16::try_from(at).unwrap_or(u16::MAX))
    }

    /// `path` without a leading slash.
    fn diagnose(&mut self, severity: Severity, code: &'static str, path: &str, message: String) {
        let diagnostic = Diagnostic { severity, code, path: format!("/{path}"), message, hint: None };
        self.report.diagnostics.push(diagnostic);
    }

    fn attribute_left_out(&mut self, path: &str, name: &str, why: &str) {
        let message = format!("the attribute \"{name}\" is left out: {why}");
        self.diagnose(Severity::Warning, "attribute-left-out", path, message);
    }
}
