//! A hierarchy assembled from the keys of a reference set: first its nodes from metadata documents, then their chunks.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use bytes::Bytes;
use indexmap::IndexMap;
use serde_json::Value;
use virtualize_zarr::{
    Array, ArrayDocument, Group, Hierarchy, Node, ReferencesBuilder, Source, SourceId, ZarrFormat,
    chunk_indices, chunk_position,
    node::{self, ROOT_ARRAY},
};

use super::{Entry, Place, ReferencesError, json::read_json};

/// Greatest depth of a node.
const DEPTH: usize = 256;

/// A reference set, parsed.
#[derive(Clone, PartialEq, Debug)]
pub struct ReferenceSet {
    /// The hierarchy. Urls of sources are those of the set, which may be paths or relative.
    pub hierarchy: Hierarchy,
    /// Chunks that are whole files. Their references have a length of 0 until the caller has looked up the file's size.
    pub whole_files: Vec<WholeFile>,
    /// Keys that belong to no array, 100 at most.
    pub ignored: Vec<String>,
    /// Paths of arrays whose type, codecs, fill value or grid are not supported, with the reason.
    pub omitted: BTreeMap<String, String>,
}

/// Members that a document must have to describe an array. An error in one of them fails the set; errors in others omit
/// the array.
const NEEDED: [&str; 4] = ["zarr_format", "node_type", "shape", "chunks"];

/// A chunk that is a whole file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WholeFile {
    /// Path of the array.
    pub array: String,
    /// Row-major position of the chunk.
    pub position: u64,
    /// The file.
    pub source: SourceId,
}

/// Parses kerchunk's JSON, or the same with keys of Zarr v3.
///
/// # Errors
/// See [`ReferencesError`].
pub fn from_json(text: &[u8]) -> Result<ReferenceSet, ReferencesError> {
    let text = std::str::from_utf8(text).map_err(|error| ReferencesError::Json(error.to_string()))?;
    let read = match read_json(text) {
        // Metadata documents that are objects instead of text may contain NaN, as Python writes it.
        Err(ReferencesError::Json(_)) if super::numbers::has_words(text) => {
            read_json(&super::numbers::quoted(text))
        }
        read => read,
    };
    read?.finish()
}

/// An array with the chunks read so far.
struct Growing {
    document: ArrayDocument,
    counts: Vec<u64>,
    columns: HashMap<u32, ReferencesBuilder>,
    inline: BTreeMap<u64, Bytes>,
}

/// Builds a hierarchy from documents and references.
#[derive(Default)]
pub(crate) struct Builder {
    documents: BTreeMap<String, Value>,
    format: Option<ZarrFormat>,
    /// Whether the root is an array: all keys are below [`ROOT_ARRAY`].
    is_array: bool,
    /// Whether a chunk was read before its array, so that chunks have to be read again.
    pub(crate) is_late: bool,
    groups: BTreeMap<String, Group>,
    arrays: IndexMap<String, Growing>,
    /// Index of the array of the last chunk.
    last_array: usize,
    sources: Vec<Source>,
    source_ids: HashMap<String, u32>,
    /// The source of the last chunk.
    last_source: u32,
    whole_files: Vec<WholeFile>,
    ignored: Vec<String>,
    omitted: BTreeMap<String, String>,
}

impl Builder {
    /// Creates a builder from metadata documents by key.
    pub(crate) fn of(documents: BTreeMap<String, Value>) -> Self {
        Self { documents, ..Self::default() }
    }

    /// Returns a builder of some arrays, without chunks.
    pub(crate) fn of_arrays<'a>(&self, paths: impl IntoIterator<Item = &'a str>) -> Self {
        let array = |path: &str| Some((path.to_owned(), self.arrays.get(path)?.empty()));
        let arrays = paths.into_iter().filter_map(array).collect();
        Self { format: self.format, is_array: self.is_array, arrays, ..Self::default() }
    }

    /// Returns an array without chunks.
    pub(crate) fn array(&self, path: &str) -> Option<&Array> {
        self.arrays.get(path).map(|array| &array.document.array)
    }

    /// Returns a builder of all nodes, without chunks.
    pub(crate) fn without_chunks(&self) -> Self {
        let (groups, omitted) = (self.groups.clone(), self.omitted.clone());
        Self { groups, omitted, ..self.of_arrays(self.arrays.keys().map(String::as_str)) }
    }

    /// Returns the path and the number of grid cells of each array, in no order.
    #[cfg(feature = "parquet")]
    pub(crate) fn grids(&self) -> impl Iterator<Item = (&str, u64)> {
        self.arrays.iter().map(|(path, array)| (path.as_str(), array.total()))
    }

    /// Returns the number of grid cells of the array at a path.
    #[cfg(feature = "parquet")]
    pub(crate) fn grid(&self, path: &str) -> Option<u64> {
        self.arrays.get(path).map(Growing::total)
    }
}

impl Builder {
    /// Returns the path in the hierarchy of a key of the set.
    pub(crate) fn path_of<'a>(&self, key: &'a str) -> Cow<'a, str> {
        if self.is_array { node::join(ROOT_ARRAY, key).into() } else { key.into() }
    }

    /// Returns the key in the set of what is below a node of the hierarchy.
    pub(crate) fn key_of(&self, path: &str, name: &str) -> String {
        node::join(if self.is_array { "" } else { path }, name)
    }

    /// Records a key that belongs to no array, such as a file of another tool.
    pub(crate) fn ignore(&mut self, key: &str) {
        let path = self.path_of(key);
        let of_omitted = path
            .rmatch_indices('/')
            .any(|(at, _)| path.get(..at).is_some_and(|path| self.omitted.contains_key(path)));
        if self.ignored.len() < 100 && !of_omitted {
            self.ignored.push(key.to_owned());
        }
    }

    /// Parses the documents into groups and arrays. Chunks that were read before keep their place.
    pub(crate) fn nodes(&mut self) -> Result<(), ReferencesError> {
        let early = std::mem::take(&mut self.arrays);
        let mut documents = std::mem::take(&mut self.documents);
        let has = |name: &str| documents.keys().any(|key| key.rsplit('/').next() == Some(name));
        let format = if documents.contains_key("zarr.json") || (has("zarr.json") && !has(".zgroup")) {
            ZarrFormat::V3
        } else if has(".zgroup") || has(".zarray") {
            ZarrFormat::V2
        } else {
            let problem = "it has neither .zgroup or .zarray nor zarr.json";
            return Err(ReferencesError::Invalid(problem.to_owned()));
        };
        self.format = Some(format);
        let root = documents.get("zarr.json").and_then(|root| root.get("node_type")).and_then(Value::as_str);
        self.is_array = match format {
            ZarrFormat::V2 => documents.contains_key(".zarray"),
            ZarrFormat::V3 => root == Some("array"),
        };
        if self.is_array {
            documents =
                documents.into_iter().map(|(key, value)| (node::join(ROOT_ARRAY, &key), value)).collect();
        }
        for (key, document) in &documents {
            let (path, name) = node::split(key);
            let attributes = |name: &str| {
                let key = node::join(path, name);
                documents.get(&key).unwrap_or(&Value::Null)
            };
            let is_group = document.get("node_type").and_then(Value::as_str) == Some("group");
            match (format, name) {
                (ZarrFormat::V2, ".zgroup") => {
                    let group = Group::from_document(attributes(".zattrs"), format);
                    self.groups.insert(path.to_owned(), group);
                }
                (ZarrFormat::V3, "zarr.json") if is_group => {
                    self.groups.insert(path.to_owned(), Group::from_document(document, format));
                }
                (ZarrFormat::V2, ".zarray") => {
                    self.add_array(key, path, Array::from_zarray(document, attributes(".zattrs")))?;
                }
                (ZarrFormat::V3, "zarr.json") => {
                    self.add_array(key, path, Array::from_zarr_json(document))?
                }
                _ => {}
            }
        }
        for (path, early) in early {
            let has_grid = |array: &&mut Growing| {
                let (one, other) = (&array.document, &early.document);
                array.counts == early.counts
                    && one.separator == other.separator
                    && one.starts_with_c == other.starts_with_c
            };
            match self.arrays.get_mut(&path).filter(has_grid) {
                Some(array) => (array.columns, array.inline) = (early.columns, early.inline),
                None => self.is_late |= !early.columns.is_empty() || !early.inline.is_empty(),
            }
        }
        Ok(())
    }

    fn add_array(
        &mut self,
        key: &str,
        path: &str,
        read: Result<ArrayDocument, virtualize_zarr::ReadError>,
    ) -> Result<(), ReferencesError> {
        check_depth(key, path)?;
        let document = match read {
            Ok(document) => document,
            Err(error) if NEEDED.contains(&error.member) => {
                return Err(ReferencesError::at(key, error));
            }
            Err(error) => {
                self.omitted.insert(path.to_owned(), error.to_string());
                return Ok(());
            }
        };
        self.arrays.insert(path.to_owned(), Growing::of(document));
        Ok(())
    }

    fn source(&mut self, url: &str) -> Result<u32, ReferencesError> {
        // Chunks of a file often follow each other.
        if self.sources.get(SourceId(self.last_source).index()).is_some_and(|last| last.url == url) {
            return Ok(self.last_source);
        }
        self.last_source = match self.source_ids.get(url) {
            Some(id) => *id,
            None => {
                let id = u32::try_from(self.sources.len());
                let id = id.map_err(|_| ReferencesError::at("files", format!("more than {}", u32::MAX)))?;
                self.sources.push(Source { url: url.to_owned(), ..Source::default() });
                self.source_ids.insert(url.to_owned(), id);
                id
            }
        };
        Ok(self.last_source)
    }

    /// Adds a chunk of a known array.
    pub(crate) fn put(&mut self, path: &str, position: u64, entry: Entry<'_>) -> Result<(), ReferencesError> {
        match self.arrays.get_index_of(path) {
            Some(index) => self.put_at(index, position, entry),
            None => Ok(()),
        }
    }

    fn put_at(&mut self, index: usize, position: u64, entry: Entry<'_>) -> Result<(), ReferencesError> {
        let source = match &entry {
            Entry::Inline(_) => None,
            Entry::Place(place) => Some(self.source(&place.url)?),
        };
        let Some((path, array)) = self.arrays.get_index_mut(index) else { return Ok(()) };
        match (entry, source) {
            (Entry::Place(Place { part, .. }), Some(source)) => {
                let (offset, length) = part.unwrap_or((0, 0));
                if part.is_none() {
                    let (array, source) = (path.clone(), SourceId(source));
                    self.whole_files.push(WholeFile { array, position, source });
                }
                array.columns.entry(source).or_default().push(position, offset, length);
            }
            (Entry::Inline(bytes), _) => drop(array.inline.insert(position, bytes)),
            _ => {}
        }
        Ok(())
    }

    /// Adds a chunk by its key. Returns false if the key is of no known array.
    pub(crate) fn chunk(&mut self, key: &str, entry: Entry<'_>) -> Result<bool, ReferencesError> {
        let full = self.path_of(key);
        // Chunks of an array often follow each other.
        let last = self.arrays.get_index(self.last_array);
        let last = last.and_then(|(path, _)| full.strip_prefix(path.as_str())?.strip_prefix('/'));
        let found = last.map(|name| (self.last_array, name)).or_else(|| {
            full.rmatch_indices('/').find_map(|(at, _)| {
                let (path, name) = full.split_at_checked(at)?;
                Some((self.arrays.get_index_of(path)?, name.strip_prefix('/')?))
            })
        });
        let Some((index, name)) = found else { return Ok(false) };
        self.last_array = index;
        match self.arrays.get_index(index).and_then(|(_, array)| array.position(name)) {
            Some(position) => self.put_at(index, position, entry)?,
            None => self.ignore(key),
        }
        Ok(true)
    }

    /// Adds a metadata document. Chunks of its array may follow, unless it is that of the root.
    pub(crate) fn document(&mut self, key: &str, document: Value) {
        let (path, name) = node::split(key);
        let read = match name {
            ".zarray" => Array::from_zarray(&document, &Value::Null).ok(),
            "zarr.json" => Array::from_zarr_json(&document).ok(),
            _ => None,
        };
        if let Some(read) = read {
            self.is_late |= self.arrays.insert(path.to_owned(), Growing::of(read)).is_some();
        }
        self.documents.insert(key.to_owned(), document);
    }

    /// Forgets all chunks.
    pub(crate) fn clear_chunks(&mut self) {
        self.arrays.values_mut().for_each(|array| *array = array.empty());
        self.sources.clear();
        self.source_ids.clear();
        self.last_source = 0;
        self.whole_files.clear();
        self.ignored.clear();
    }

    pub(crate) fn finish(mut self) -> Result<ReferenceSet, ReferencesError> {
        let mut hierarchy = Hierarchy::new(self.format.unwrap_or(ZarrFormat::V2));
        hierarchy.sources = std::mem::take(&mut self.sources);
        for (path, group) in std::mem::take(&mut self.groups) {
            check_depth(&path, &path)?;
            if let Some(place) = hierarchy.root.make_group(&path) {
                place.attributes = group.attributes;
            }
        }
        let mut arrays: Vec<_> = std::mem::take(&mut self.arrays).into_iter().collect();
        arrays.sort_by(|one, other| one.0.cmp(&other.0));
        for (path, growing) in arrays {
            let array = growing.finish(&path)?;
            let (parent, name) = node::split(&path);
            let place = hierarchy.root.make_group(parent);
            let place = place.ok_or_else(|| ReferencesError::at(&path, "the node is inside an array"))?;
            place.children.insert(name.to_owned(), Node::Array(Box::new(array)));
        }
        let Self { whole_files, ignored, omitted, .. } = self;
        Ok(ReferenceSet { hierarchy, whole_files, ignored, omitted })
    }
}

/// A Zarr store with one object per chunk. Create it from its metadata documents, then add chunks.
pub struct NativeStore(Builder);

impl NativeStore {
    /// Parses the metadata documents of all nodes, by key: `zarr.json`, or `.zgroup`, `.zarray` and `.zattrs`.
    ///
    /// # Errors
    /// See [`ReferencesError`].
    pub fn new(documents: BTreeMap<String, Value>) -> Result<Self, ReferencesError> {
        let mut builder = Builder::of(documents);
        builder.nodes()?;
        Ok(Self(builder))
    }

    /// Returns a store of some arrays, without chunks.
    pub fn of_arrays<'a>(&self, paths: impl IntoIterator<Item = &'a str>) -> Self {
        Self(self.0.of_arrays(paths))
    }

    /// Returns groups and arrays without chunks.
    ///
    /// # Errors
    /// See [`ReferencesError`].
    pub fn metadata(&self) -> Result<ReferenceSet, ReferencesError> {
        self.0.without_chunks().finish()
    }

    /// Returns an array without chunks.
    pub fn array(&self, path: &str) -> Option<&Array> {
        self.0.array(path)
    }

    /// Returns the key of the chunk at a row-major position in the grid of an array.
    pub fn key(&self, path: &str, position: u64) -> Option<String> {
        Some(self.0.key_of(path, &self.0.arrays.get(path)?.key(position)?))
    }

    /// Adds a chunk: a whole object of `length` bytes.
    ///
    /// # Errors
    /// See [`ReferencesError`].
    pub fn add(&mut self, path: &str, position: u64, url: &str, length: u64) -> Result<(), ReferencesError> {
        self.0.put(path, position, Entry::Place(Place { url: url.into(), part: Some((0, length)) }))
    }

    /// Returns the hierarchy with the chunks that were added.
    ///
    /// # Errors
    /// See [`ReferencesError`].
    pub fn finish(self) -> Result<ReferenceSet, ReferencesError> {
        self.0.finish()
    }
}

fn check_depth(key: &str, path: &str) -> Result<(), ReferencesError> {
    if path.split('/').count() <= DEPTH {
        return Ok(());
    }
    Err(ReferencesError::at(key, format!("nested deeper than {DEPTH} groups")))
}

/// Parses a chunk index of a key. No reader asks for `+1` or `01`.
fn index(number: &str) -> Option<u64> {
    let is_plain = number == "0" || !number.starts_with(['0', '+']);
    number.parse().ok().filter(|_| is_plain)
}

impl Growing {
    /// Returns an array without chunks.
    fn of(document: ArrayDocument) -> Self {
        let counts = document.array.chunk_grid.counts(&document.array.shape);
        Self { document, counts, columns: HashMap::new(), inline: BTreeMap::new() }
    }

    /// Returns the array without chunks.
    fn empty(&self) -> Self {
        Self::of(self.document.clone())
    }

    /// Returns the number of grid cells.
    #[cfg(feature = "parquet")]
    fn total(&self) -> u64 {
        self.counts.iter().fold(1_u64, |product, count| product.saturating_mul(*count))
    }

    /// Returns the key of a chunk without the array's path.
    fn key(&self, position: u64) -> Option<String> {
        let ArrayDocument { separator, starts_with_c, .. } = self.document;
        let indices = chunk_indices(position, &self.counts)?;
        let numbers = indices.iter().map(u64::to_string).collect::<Vec<_>>().join(&separator.to_string());
        Some(match (starts_with_c, numbers.is_empty()) {
            (true, true) => "c".to_owned(),
            (true, false) => format!("c{separator}{numbers}"),
            (false, true) => "0".to_owned(),
            (false, false) => numbers,
        })
    }

    /// Returns the row-major position of a chunk from its key without the array's path.
    fn position(&self, name: &str) -> Option<u64> {
        let ArrayDocument { separator, starts_with_c, .. } = self.document;
        let numbers = match starts_with_c {
            true if name == "c" => "",
            true => name.strip_prefix('c')?.strip_prefix(separator)?,
            // VirtualiZarr writes the key of a scalar's chunk as `NAME/`.
            false if self.counts.is_empty() => return matches!(name, "0" | "").then_some(0),
            false => name,
        };
        if numbers.is_empty() {
            return self.counts.is_empty().then_some(0);
        }
        // Anything but a number is outside every grid.
        let indices = numbers.split(separator).map(|number| index(number).unwrap_or(u64::MAX));
        chunk_position(indices, &self.counts)
    }

    fn finish(self, path: &str) -> Result<Array, ReferencesError> {
        let mut array = self.document.array;
        let mut columns: Vec<_> = self.columns.into_iter().collect();
        columns.sort_by_key(|(source, _)| *source);
        array.chunks.references =
            columns.into_iter().flat_map(|(source, column)| column.finish(SourceId(source))).collect();
        array.chunks.inline = self.inline;
        let mut last = None;
        for (position, _) in array.chunks.iter() {
            if last.is_some_and(|last| last >= position) {
                return Err(ReferencesError::at(path, format!("chunk {position} is there twice")));
            }
            last = Some(position);
        }
        Ok(array)
    }
}
