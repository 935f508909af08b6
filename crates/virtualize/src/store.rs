use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use virtualize_map::{Diagnostic, Report, Severity, SourceAttribute};
use virtualize_remedy::Code;
use virtualize_store::{Object, Stats, StoreError};
use virtualize_zarr::{Array, ChunkEntry, Codec, Hierarchy, NodePath, Source, SourceId, ZarrFormat, node};

use crate::error::{Error, warning};
use crate::relocate::{self, Relocation};
use crate::segments::{Combined, CombinedArray, Segments};

/// Number of bytes from which an inlined array is compressed.
const COMPRESSED_FROM: usize = 1 << 12;
/// Level of Deflate.
const LEVEL: u8 = 6;

/// A virtual Zarr hierarchy, complete and ready to be written.
#[derive(Clone, Debug)]
pub struct VirtualStore {
    /// Groups, arrays, and the locations of their chunks.
    pub hierarchy: Hierarchy,
    /// Decisions and diagnostics.
    pub report: Report,
    /// "HDF5", "TIFF", or "references".
    pub source_format: &'static str,
    pub(crate) name: String,
    pub(crate) object: Option<Arc<Object>>,
    /// Urls of the sources as they were read.
    pub(crate) source_urls: Vec<String>,
    /// Whether all content comes from one file.
    pub(crate) is_of_one_file: bool,
    /// Urls and names of the files of which readers cannot read ranges.
    pub(crate) whole: BTreeMap<String, String>,
    /// The dataset that groups form together.
    pub(crate) combined: Option<Arc<Combined>>,
    /// Versions of the other files that were looked for, by url.
    pub(crate) related: BTreeMap<String, Option<Source>>,
}

impl VirtualStore {
    /// Returns the store of a hierarchy that does not come from a single file; `name` appears in messages.
    pub fn of(hierarchy: Hierarchy, name: impl Into<String>) -> Self {
        let source_urls = hierarchy.sources.iter().map(|source| source.url.clone()).collect();
        Self {
            hierarchy,
            report: Report::default(),
            source_format: "references",
            name: name.into(),
            object: None,
            source_urls,
            is_of_one_file: false,
            whole: BTreeMap::new(),
            combined: None,
            related: BTreeMap::new(),
        }
    }

    /// Returns the versions of the other files that the content depends on, such as sources of virtual datasets and
    /// sidecars, by url; `None` for those that do not exist.
    pub fn related(&self) -> &BTreeMap<String, Option<Source>> {
        &self.related
    }

    /// Refuses the store if it has warnings and `strict` is set.
    pub(crate) fn checked(self, strict: bool) -> Result<Self, Error> {
        if strict && self.warnings().next().is_some() {
            return Err(Error::Strict { name: self.name, diagnostics: self.report.diagnostics });
        }
        Ok(self)
    }

    /// Combines groups that are segments of one dataset, see [`crate::segments`]. If the description is damaged or of another
    /// version, adds a warning instead.
    pub(crate) fn combine_segments(&mut self) {
        match Combined::of(&self.hierarchy) {
            Ok(combined) => self.combined = combined.map(Arc::new),
            Err(reason) => {
                let attribute = crate::segments::ATTRIBUTE;
                let message = format!(
                    "{attribute}: {reason}; the groups are listed, but not the dataset that they form"
                );
                self.report.diagnostics.push(warning(Code::SegmentsIgnored, "", message));
            }
        }
    }

    /// Returns what readers see: the groups and arrays, and if groups are segments of one dataset, its arrays, which have no
    /// chunks of their own.
    pub fn view(&self) -> &Hierarchy {
        self.combined.as_ref().map_or(&self.hierarchy, |combined| &combined.hierarchy)
    }

    /// Returns how groups form datasets, by path of the group that contains them.
    pub fn segments(&self) -> Option<&BTreeMap<NodePath, Segments>> {
        self.combined.as_ref().map(|combined| &combined.datasets)
    }

    /// Returns the paths of the groups that are segments.
    pub fn segment_groups(&self) -> BTreeSet<NodePath> {
        self.combined.as_ref().map(|combined| combined.groups()).unwrap_or_default()
    }

    /// Returns the segments of an array that consists of them, and the path of the group that contains them.
    pub fn segments_of(&self, path: &str) -> Option<(&str, &Segments)> {
        let combined = self.combined.as_ref().filter(|combined| combined.arrays.contains_key(path))?;
        let above = node::ancestors(node::parent(path));
        let mut found = above.filter_map(|group| combined.datasets.get_key_value(group));
        found.next().map(|(base, segments)| (base.as_str(), segments))
    }

    /// Returns whether an array consists of segments.
    pub fn is_combined(&self, path: &str) -> bool {
        self.combined(path).is_some()
    }

    /// Returns an array that consists of segments, and its metadata.
    pub(crate) fn combined(&self, path: &str) -> Option<(&CombinedArray, &Array)> {
        let combined = self.combined.as_ref()?;
        Some((combined.arrays.get(path)?, combined.hierarchy.array(path)?))
    }

    /// Returns [`VirtualStore::view`] with the chunks of groups.
    pub fn shown(&self) -> Cow<'_, Hierarchy> {
        match &self.combined {
            None => Cow::Borrowed(&self.hierarchy),
            Some(combined) => Cow::Owned(combined.shown(&self.hierarchy)),
        }
    }

    /// Returns the hierarchy with the keys of all chunks that readers see.
    ///
    /// # Errors
    /// [`Error::References`] if there are too many.
    pub fn listing(&self) -> Result<Cow<'_, Hierarchy>, Error> {
        let Some(combined) = &self.combined else { return Ok(Cow::Borrowed(&self.hierarchy)) };
        let listed = combined.listing(&self.hierarchy).map(Cow::Owned);
        listed.ok_or_else(|| Error::References {
            name: self.name.clone(),
            reason: "too many chunks to list (list the keys of a group instead)".to_owned(),
        })
    }

    /// Returns the file's name for messages: a path, or a url without its query.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the file, if the store comes from one.
    pub fn object(&self) -> Option<&Object> {
        self.object.as_deref()
    }

    /// Returns whether all content comes from one file that refers to no other files, existing or not.
    pub fn is_of_one_file(&self) -> bool {
        self.is_of_one_file
    }

    /// Returns a text that changes with the version of any file that contains chunks. Returns `None` if the store of a
    /// file reports no version.
    pub fn stamp(&self) -> Option<String> {
        let own = self.object.as_ref()?.stamp()?;
        let others = self.hierarchy.sources.iter().skip(1);
        Some(others.fold(own, |all, other| {
            format!("{all}\n{} {:?} {} {:?}", other.url, other.etag, other.size, other.modified)
        }))
    }

    /// Returns the attributes of a group or array of an HDF5 file with their types, without those that h5netcdf hides.
    /// Returns `None` if there is no such node, or the attributes were not kept
    /// ([`virtualize_map::MapOptions::source_attributes`]).
    pub fn source_attributes(&self, path: &str) -> Option<&[SourceAttribute]> {
        self.report.attributes.get(path).map(Vec::as_slice)
    }

    /// Returns the url of a source as it was read.
    pub(crate) fn source_url(&self, id: SourceId) -> Option<&str> {
        self.source_urls.get(id.index()).map(String::as_str)
    }

    /// Changes the urls of the sources in the references to be written.
    ///
    /// # Errors
    /// [`Error::Relocation`] if a url cannot be written that way, or a rule applies to no source.
    pub fn relocate(&mut self, relocation: &Relocation) -> Result<(), Error> {
        relocate::relocate(&mut self.hierarchy.sources, relocation, true)
    }

    /// Compresses the inlined arrays: those without references and without a compressor. Small arrays, and those that do not
    /// become a quarter smaller, stay as they are. All readers decode the result.
    pub fn compress_inlined(&mut self) {
        let format = self.hierarchy.format;
        let paths: Vec<_> = self.hierarchy.arrays().into_iter().map(|(path, _)| path).collect();
        for path in paths {
            let Some(array) = self.hierarchy.array_mut(&path) else { continue };
            let bytes: usize = array.chunks.inline.values().map(Bytes::len).sum();
            let is_plain = |codec: &Codec| {
                matches!(
                    codec,
                    Codec::Transpose { .. } | Codec::Bytes { .. } | Codec::VlenUtf8 | Codec::VlenBytes
                )
            };
            let has_references = array.chunks.references.iter().any(|column| !column.is_empty());
            if bytes < COMPRESSED_FROM || has_references || !array.codecs.iter().all(is_plain) {
                continue;
            }
            let compressor = match format {
                ZarrFormat::V2 => Codec::Zlib { level: LEVEL },
                ZarrFormat::V3 => Codec::Gzip { level: LEVEL },
            };
            let encode = |(at, chunk): (&u64, &Bytes)| {
                let encoded = virtualize_codec::encode(std::slice::from_ref(&compressor), chunk).ok()?;
                Some((*at, Bytes::from(encoded)))
            };
            let Some(inline) = array.chunks.inline.iter().map(encode).collect::<Option<BTreeMap<_, _>>>()
            else {
                continue;
            };
            if inline.values().map(Bytes::len).sum::<usize>() <= bytes / 4 * 3 {
                array.chunks.inline = inline;
                array.codecs.push(compressor);
            }
        }
    }

    /// Checks that readers can read the files to which references are written, with urls changed by a relocation.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`] if a server ignores range requests.
    pub fn check_ranges(&self, relocation: &Relocation) -> Result<(), Error> {
        if self.whole.is_empty() {
            return Ok(());
        }
        let mut relocator = relocate::Relocator::new(relocation)?;
        for (_, array) in self.hierarchy.arrays() {
            let sources = array.chunks.iter().filter_map(|(_, entry)| match entry {
                ChunkEntry::Reference(place) => Some(place.source),
                ChunkEntry::Inline(_) => None,
            });
            for id in sources {
                let (Some(url), Some(source)) = (self.source_url(id), self.hierarchy.source(id)) else {
                    continue;
                };
                let is_kept = source.url == url && relocator.url(url).is_ok_and(|new| new == url);
                if let Some(name) = self.whole.get(url).filter(|_| is_kept) {
                    return Err(StoreError::without_ranges(name.clone()).into());
                }
            }
        }
        Ok(())
    }

    /// Returns the number of requests and bytes that reading took.
    pub fn stats(&self) -> Stats {
        self.object.as_ref().map(|object| object.stats()).unwrap_or_default()
    }

    /// Returns the warnings, in the order in which they were raised.
    pub fn warnings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.report.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Warning)
    }
}
