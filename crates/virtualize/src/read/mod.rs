//! Reads and decodes values: selections of arrays, whole arrays, and batches of chunks.

mod ahead;
mod batches;
mod combined;
mod elements;
mod place;
mod plan;
mod queue;
mod run;
mod selection;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use virtualize_bytes::ByteRange;
use virtualize_store::StoreOptions;
use virtualize_zarr::{Array, ChunkEntry, DataType, Endian, Field};

pub use self::batches::{chunk_size, decode_chunk};
pub(crate) use self::run::{Helpers, cores};
pub use self::selection::{AxisSelection, Selection};
use self::{
    ahead::{Cache, Walks},
    batches::Request,
    elements::Elements,
    place::{Place, PlaceVariable, Reading},
    plan::{Part, Parts, Plan, Stored},
    run::{Scratch, Work},
};
use crate::{
    chunks::{Files, Interrupt, fetch},
    decode,
    error::{ArrayError, Error},
    open::LazyStore,
    sources::{Pool, lock},
    store::VirtualStore,
};

/// Default limit of [`read_array`] in bytes.
pub const MAX_BYTES: u64 = 256 << 20;

/// All values of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayValues {
    /// Size along each axis in elements, slowest axis first.
    pub shape: Vec<u64>,
    /// Type of an element. Fields of structures are little-endian.
    pub data_type: DataType,
    /// Elements in row-major order and little-endian byte order. Each element of variable length (UTF-8 text or a byte
    /// string) is preceded by its length in bytes, a little-endian 32-bit integer.
    pub bytes: Bytes,
}

impl ArrayValues {
    /// Creates the values of an array from `bytes` that [`read_array`] returned before.
    pub fn of_array(array: &Array, bytes: Bytes) -> Self {
        Self { shape: array.shape.clone(), data_type: little_endian(&array.data_type), bytes }
    }
}

/// Reads and decodes all chunks of an array: those of the open file, those of other files, which are opened, and
/// inline ones. A missing chunk reads as the fill value, or as zero if there is none.
///
/// # Errors
/// [`Error::Values`] if no such array, it has more than [`MAX_BYTES`], or a chunk is damaged, has a codec
/// without a decoder here (of images), or belongs to a file that has changed; [`Error::Store`], [`Error::Read`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { futures::executor::block_on(async {
/// use virtualize::{Options, open, read_array};
///
/// let options = Options::default();
/// # std::env::set_current_dir("../..")?;
/// let store = open("fixtures/hdf5/netcdf4.nc", &options).await?;
/// let time = read_array(&store, "time", &options.store).await?;
/// assert_eq!((time.shape, time.data_type.to_string()), (vec![3], "float64".to_owned()));
/// assert_eq!(time.bytes.as_ref(), [0.0_f64, 1.0, 2.0].map(f64::to_le_bytes).concat());
/// # Ok(()) }) }
/// ```
pub async fn read_array(
    store: &VirtualStore,
    path: &str,
    options: &StoreOptions,
) -> Result<ArrayValues, Error> {
    read_array_within(store, path, MAX_BYTES, options).await
}

/// Reads an array as [`read_array`] does, with a different limit in bytes. The limit applies to the array, to its
/// stored chunks together, and to each chunk.
///
/// # Errors
/// As [`read_array`].
pub async fn read_array_within(
    store: &VirtualStore,
    path: &str,
    most: u64,
    options: &StoreOptions,
) -> Result<ArrayValues, Error> {
    let values = values_of(store, path, most, options).await;
    values.map_err(|error| Error::of_array(store.name(), path, error))
}

async fn values_of(
    store: &VirtualStore,
    path: &str,
    most: u64,
    options: &StoreOptions,
) -> Result<ArrayValues, ArrayError> {
    let array = store.hierarchy.array(path).ok_or(ArrayError::NO_ARRAY)?;
    let all = Selection::all(&array.shape);
    let plan = Plan::new(array, &all)?;
    within(array, &array.shape, most, "it")?;
    plan.check_positions()?;
    let fetched = fetch(store, array, most, options).await?;
    let reading = Reading { path, cache: None, missing: None };
    let bytes = match array.data_type.size() {
        Some(size) => {
            let length = all.check(&array.shape)?.saturating_mul(size);
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
            if length > 0 {
                let elements = Elements::new(array, most, None)?;
                let work = Place::new(&plan, elements, all.lengths()?, &mut bytes, reading)?;
                place(&plan, &fetched, &work)?;
            }
            bytes
        }
        None => {
            let work = PlaceVariable::new(&plan, all.lengths()?, most, reading)?;
            place(&plan, &fetched, &work)?;
            joined(&work.into_elements(), most)?
        }
    };
    Ok(ArrayValues {
        shape: array.shape.clone(),
        data_type: little_endian(&array.data_type),
        bytes: bytes.into(),
    })
}

/// Places all chunks of an array.
fn place<'a>(
    plan: &'a Plan<'a>,
    fetched: &BTreeMap<u64, Bytes>,
    work: &impl Work<Part<'a>>,
) -> Result<(), ArrayError> {
    let mut scratch = Scratch::default();
    for part in plan.whole_parts() {
        let part = part?;
        let bytes = fetched.get(&part.position).map(AsRef::as_ref).unwrap_or_default();
        work.run(part, Ok(run::Bytes::Here(bytes)), &mut scratch)?;
    }
    Ok(())
}

/// Returns elements of variable length, each preceded by its length.
fn joined(elements: &[Bytes], most: u64) -> Result<Vec<u8>, ArrayError> {
    let mut joined = Vec::new();
    for element in elements {
        let length = u32::try_from(element.len()).map_err(|_| ArrayError::text_too_large(most))?;
        joined.extend_from_slice(&length.to_le_bytes());
        joined.extend_from_slice(element);
    }
    Ok(joined)
}

/// Checks that an array or chunk does not exceed the limit in bytes.
fn within(array: &Array, shape: &[u64], most: u64, what: &str) -> Result<(), ArrayError> {
    // Elements of variable length are counted as their lengths.
    let size = array.data_type.size().unwrap_or(8).max(1);
    let bytes = decode::count(shape).and_then(|count| count.checked_mul(size));
    match bytes {
        Some(bytes) if bytes <= most => Ok(()),
        Some(bytes) => Err(ArrayError::too_large(what, bytes, most)),
        None => {
            let data_type = &array.data_type;
            Err(ArrayError::invalid(format!("{what} has {shape:?} elements of {data_type}, too many")))
        }
    }
}

/// Default of [`ArrayReader::with_limit`] in bytes.
const DEFAULT_LIMIT: u64 = 4 << 30;

/// Decodes a chunk that has a codec without a decoder here: receives its stored bytes, its array, and the chunk's shape
/// in elements, and returns its elements in row-major order and little-endian byte order.
pub type ForeignDecoder = dyn Fn(&[u8], &Array, &[u64]) -> Result<Vec<u8>, String> + Send + Sync;

/// Reads selections of arrays of one store, and its chunks. Keeps files open between reads; a file that changed since
/// it was mapped is refused.
///
/// Reads block, and may run on any number of threads at once. They use all cores, and hold up to 64 MiB besides the
/// result, or one chunk if it is larger. Remote files and Icechunk repositories need the context of a tokio runtime with
/// worker threads
/// (`Handle::enter`).
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use virtualize::{ArrayReader, AxisSelection, Options, Selection, open};
///
/// let options = Options::default();
/// # std::env::set_current_dir("../..")?;
/// let store = futures::executor::block_on(open("fixtures/hdf5/netcdf4.nc", &options))?;
/// let reader = ArrayReader::new(Arc::new(store), options.store);
/// let last_two = Selection::Axes(vec![AxisSelection::Range { start: 1, step: 1, count: 2 }]);
/// let mut bytes = [0; 16];
/// reader.read("time", &last_two, &mut bytes)?;
/// assert_eq!(bytes.as_slice(), [1.0_f64, 2.0].map(f64::to_le_bytes).concat());
/// # Ok(()) }
/// ```
pub struct ArrayReader {
    store: Arc<LazyStore>,
    options: StoreOptions,
    files: Arc<Pool>,
    foreign: Option<Arc<ForeignDecoder>>,
    most: u64,
    cache: Option<Arc<Cache>>,
    /// Arrays that are read step by step; `None` if nothing is read ahead.
    walks: Option<Walks>,
    interrupt: Option<Arc<Interrupt>>,
    /// Arrays with chunks that read as missing, and the reasons; `None` if that is an error.
    missing: Option<Mutex<Vec<(String, String)>>>,
}

/// A chunk of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChunkAddress {
    /// Path of the array.
    pub path: String,
    /// Indices in the chunk grid, slowest axis first.
    pub indices: Vec<u64>,
}

/// Part of the stored bytes of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ChunkPart {
    /// All bytes.
    #[default]
    Whole,
    /// From one byte to another, which is excluded.
    Range(u64, u64),
    /// From a byte on.
    From(u64),
    /// The last bytes.
    Last(u64),
}

impl ChunkPart {
    /// Returns the range of the part of a chunk of `length` bytes.
    pub fn range(self, length: u64) -> ByteRange {
        let (start, end) = match self {
            Self::Whole => (0, length),
            Self::Range(start, end) => (start, end),
            Self::From(start) => (start, length),
            Self::Last(count) => (length.saturating_sub(count), length),
        };
        let start = start.min(length);
        ByteRange::new(start, end.min(length).saturating_sub(start))
    }
}

impl fmt::Debug for ArrayReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrayReader").field("store", &self.store.metadata().name()).finish_non_exhaustive()
    }
}

impl ArrayReader {
    /// Creates a reader of a store.
    pub fn new(store: Arc<VirtualStore>, options: StoreOptions) -> Self {
        Self::lazy(Arc::new(store.into()), options)
    }

    /// Creates a reader that reads the chunk tables that it needs.
    pub fn lazy(store: Arc<LazyStore>, options: StoreOptions) -> Self {
        Self {
            store,
            options,
            files: Arc::default(),
            foreign: None,
            most: DEFAULT_LIMIT,
            cache: None,
            walks: None,
            interrupt: None,
            missing: None,
        }
    }

    /// Keeps decoded chunks of which only a part was read, at most so many bytes. Of remote arrays that are read step by
    /// step along an axis, up to a quarter of these bytes are read ahead by other threads.
    #[must_use]
    pub fn with_cache(self, bytes: u64) -> Self {
        let cache = (bytes > 0).then(|| Arc::new(Cache::new(bytes)));
        Self { walks: cache.as_ref().map(|_| Walks::default()), cache, ..self }
    }

    /// Asks a function repeatedly, at short intervals, whether reads are to stop. Reads of remote files then need a timer of
    /// tokio.
    #[must_use]
    pub fn with_interrupt(self, interrupt: Arc<Interrupt>) -> Self {
        Self { interrupt: Some(interrupt), ..self }
    }

    /// Reads chunks whose file is missing, has changed or is too short as the fill value, instead of failing.
    /// [`ArrayReader::missing`] returns the reasons.
    #[must_use]
    pub fn filling(self) -> Self {
        Self { missing: Some(Mutex::default()), ..self }
    }

    /// Returns the array and the reason of chunks that were filled since the last call, at most 100.
    pub fn missing(&self) -> Vec<(String, String)> {
        self.missing.as_ref().map(|missing| std::mem::take(&mut *lock(missing))).unwrap_or_default()
    }

    /// Records why a chunk is filled.
    fn note(&self, path: &str, error: ArrayError) {
        let Some(missing) = &self.missing else { return };
        let mut missing = lock(missing);
        if missing.len() < 100 {
            missing.push((path.to_owned(), error.to_string()));
        }
    }

    /// Decodes chunks by a function if they have a codec without a decoder here.
    #[must_use]
    pub fn with_decoder(self, decoder: Arc<ForeignDecoder>) -> Self {
        Self { foreign: Some(decoder), ..self }
    }

    /// Refuses decoded chunks of more bytes, and more bytes of elements of variable length at once. The default is
    /// 4 GiB.
    #[must_use]
    pub fn with_limit(self, most: u64) -> Self {
        Self { most, ..self }
    }

    /// Reads the selected elements of an array of fixed-size elements into `out`, in row-major order of the selection
    /// and little-endian byte order. Missing chunks read as the fill value. After an error, the content of `out` is
    /// undefined.
    ///
    /// # Errors
    /// As [`crate::read_array`]; the selection does not fit the array, or `out` does not fit the selection.
    pub fn read(&self, path: &str, selection: &Selection, out: &mut [u8]) -> Result<(), Error> {
        if let Some((combined, array)) = self.store.metadata().combined(path) {
            return self.read_combined(path, combined, array, selection, out);
        }
        let read = self.read_selection(path, selection, out);
        match read {
            Ok(true) => self.read_ahead(path, selection),
            _ => self.forget(path),
        }
        read.map(drop)
    }

    /// Reads a selection. Returns whether its successors can be read ahead.
    fn read_selection(&self, path: &str, selection: &Selection, out: &mut [u8]) -> Result<bool, Error> {
        if self.take_ahead(path, selection, out).map_err(|error| self.error(path, error))? {
            return Ok(true);
        }
        let store = self.with_chunks(path, selection)?;
        self.read_into(&store, path, selection, out).map_err(|error| self.error(path, error))?;
        let array = store.hierarchy.array(path).filter(|_| self.walks.is_some());
        Ok(array.is_some_and(|array| !self.is_local(&store, array)))
    }

    /// Reads the selected elements of an array of strings or byte strings of variable length, in row-major order of the
    /// selection.
    ///
    /// # Errors
    /// As [`ArrayReader::read`].
    pub fn read_variable(&self, path: &str, selection: &Selection) -> Result<Vec<Bytes>, Error> {
        if let Some((combined, array)) = self.store.metadata().combined(path) {
            return self.read_combined_variable(path, combined, array, selection);
        }
        let store = self.with_chunks(path, selection)?;
        self.variable(&store, path, selection).map_err(|error| self.error(path, error))
    }

    /// Returns a store with the chunks that contain selected elements.
    fn with_chunks(&self, path: &str, selection: &Selection) -> Result<Arc<VirtualStore>, Error> {
        let positions = || {
            let array = self.store.metadata().hierarchy.array(path)?;
            selection.check(&array.shape).ok()?;
            Some(Plan::new(array, selection).ok()?.positions())
        };
        // A selection that does not fit is refused later.
        self.store.with_chunks(path, || positions().unwrap_or_default(), self.interrupt.as_deref())
    }

    /// Returns decoded chunks, `None` for missing ones: whole chunks in row-major order and little-endian byte order,
    /// including elements outside the array. Elements of variable length are in the layout of `vlen-utf8` and
    /// `vlen-bytes`.
    pub fn decoded_chunks(&self, chunks: &[ChunkAddress]) -> Vec<Result<Option<Bytes>, Error>> {
        let requests: Vec<_> = chunks.iter().map(|address| (address, ChunkPart::Whole)).collect();
        self.chunks_of_all(&requests, true)
    }

    /// Returns stored bytes of chunks, `None` for missing ones.
    pub fn stored_chunks(&self, chunks: &[(ChunkAddress, ChunkPart)]) -> Vec<Result<Option<Bytes>, Error>> {
        let requests: Vec<_> = chunks.iter().map(|(address, part)| (address, *part)).collect();
        self.chunks_of_all(&requests, false)
    }

    /// Reads chunks of which some may belong to arrays that consist of segments: these have no codecs.
    fn chunks_of_all(&self, chunks: &[Request<'_>], is_decoded: bool) -> Vec<Result<Option<Bytes>, Error>> {
        let metadata = self.store.metadata();
        if chunks.iter().all(|(chunk, _)| !metadata.is_combined(&chunk.path)) {
            return batches::read(self, chunks, is_decoded);
        }
        let one = |request: &Request<'_>| {
            let (chunk, part) = *request;
            let Some((_, array)) = metadata.combined(&chunk.path) else {
                return batches::read(self, &[*request], is_decoded).pop().unwrap_or(Ok(None));
            };
            let bytes = self.combined_chunk(array, chunk)?;
            let range = part.range(bytes.len() as u64);
            let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(bytes.len());
            Ok(Some(bytes.slice(at(range.start)..at(range.end()))))
        };
        chunks.iter().map(one).collect()
    }

    /// Returns the length of a stored chunk in bytes; `None` if it is missing.
    ///
    /// # Errors
    /// The chunk table cannot be read.
    pub fn stored_length(&self, chunk: &ChunkAddress) -> Result<Option<u64>, Error> {
        let (path, metadata) = (chunk.path.as_str(), self.store.metadata());
        let combined = metadata.combined(path).map(|(_, array)| array);
        let position = combined.or_else(|| metadata.hierarchy.array(path));
        let position = position.and_then(|array| batches::position(array, &chunk.indices).ok());
        let Some(position) = position else { return Ok(None) };
        if let Some(array) = combined {
            return match chunk_size(array, position) {
                Some(size) => Ok(Some(size)),
                None => Ok(Some(self.combined_chunk(array, chunk)?.len() as u64)),
            };
        }
        let store = self.store.with_chunks(path, || vec![position], self.interrupt.as_deref())?;
        let entry = store.hierarchy.array(path).and_then(|array| array.chunks.get(position));
        Ok(entry.map(|entry| match entry {
            ChunkEntry::Inline(bytes) => bytes.len() as u64,
            ChunkEntry::Reference(place) => place.length,
        }))
    }

    fn error(&self, path: &str, error: ArrayError) -> Error {
        Error::of_array(self.store.metadata().name(), path, error)
    }

    fn elements<'a>(&'a self, array: &'a Array) -> Result<Elements<'a>, ArrayError> {
        Elements::new(array, self.most, self.foreign.as_deref())
    }

    fn files<'a>(&'a self, store: &'a VirtualStore) -> Files<'a> {
        let interrupt = self.interrupt.as_deref();
        Files { store, options: &self.options, pool: &self.files, interrupt }
    }

    fn read_into(
        &self,
        store: &VirtualStore,
        path: &str,
        selection: &Selection,
        out: &mut [u8],
    ) -> Result<(), ArrayError> {
        let array = store.hierarchy.array(path).ok_or(ArrayError::NO_ARRAY)?;
        let count = selection.check(&array.shape)?;
        let size = array.data_type.size().ok_or(ArrayError::VARIABLE_SIZE)?;
        let too_large = || selection::too_large(&selection.shape());
        let expected = count.checked_mul(size).ok_or_else(too_large)?;
        if expected != out.len() as u64 {
            let text = format!("a buffer of {} bytes for a selection of {expected} bytes", out.len());
            return Err(ArrayError::invalid(text));
        }
        if expected == 0 {
            return Ok(());
        }
        let plan = Plan::new(array, selection)?;
        let note = |error| self.note(path, error);
        let reading = self.reading(path, &note);
        let place = Place::new(&plan, self.elements(array)?, selection.lengths()?, out, reading)?;
        self.run(store, path, plan.parts(), &place)
    }

    fn variable(
        &self,
        store: &VirtualStore,
        path: &str,
        selection: &Selection,
    ) -> Result<Vec<Bytes>, ArrayError> {
        let array = store.hierarchy.array(path).ok_or(ArrayError::NO_ARRAY)?;
        if array.data_type.size().is_some() {
            return Err(ArrayError::invalid("its elements have a fixed size"));
        }
        if selection.check(&array.shape)? == 0 {
            return Ok(Vec::new());
        }
        let plan = Plan::new(array, selection)?;
        let note = |error| self.note(path, error);
        let reading = self.reading(path, &note);
        let place = PlaceVariable::new(&plan, selection.lengths()?, self.most, reading)?;
        self.run(store, path, plan.whole_parts(), &place)?;
        Ok(place.into_elements())
    }

    fn reading<'a>(&'a self, path: &'a str, note: &'a place::Missing<'a>) -> Reading<'a> {
        Reading { path, cache: self.cache.as_deref(), missing: self.missing.as_ref().map(|_| note) }
    }

    /// Runs the work on the parts of a plan, except for reading those that are in the cache.
    fn run<'p>(
        &self,
        store: &VirtualStore,
        path: &str,
        parts: Parts<'p>,
        work: &dyn Work<Part<'p>>,
    ) -> Result<(), ArrayError> {
        let placed = |part: Result<Part<'p>, ArrayError>| {
            let mut part = part?;
            let place = match part.bytes {
                Stored::At(place) => Some(place),
                Stored::Missing | Stored::Inline(_) => None,
            };
            if let (Some(cache), Some(_), false) = (&self.cache, place, part.is_plain) {
                part.cached = cache.get(path, part.position);
            }
            let place = place.filter(|_| part.cached.is_none());
            Ok((part, place))
        };
        let extent = parts.plan.extent(self.is_local(store, parts.plan.array));
        run::run(Box::new(parts.map(placed)), extent, self.files(store), work)
    }

    /// Returns whether all chunks of an array can be read without waiting.
    fn is_local(&self, store: &VirtualStore, array: &Array) -> bool {
        let files = self.files(store);
        array.chunks.references.iter().all(|column| files.is_local(column.source))
    }
}

/// Returns the SHA-256 of type, shape and bytes, in hexadecimal. NaNs differ if their bits do.
pub fn digest(values: &ArrayValues) -> String {
    let mut hasher = Sha256::new();
    hasher.update(format!("{}\n{:?}\n", type_name(&values.data_type), values.shape));
    hasher.update(&values.bytes);
    hex::encode(hasher.finalize())
}

/// Returns the type with all its numbers in little-endian byte order.
pub(crate) fn little_endian(data_type: &DataType) -> DataType {
    let DataType::Struct(fields) = data_type else { return data_type.clone() };
    let turned = |field: &Field| Field {
        data_type: little_endian(&field.data_type),
        endian: Endian::Little,
        ..field.clone()
    };
    DataType::Struct(fields.iter().map(turned).collect())
}

/// Returns the name of a type in digests. The name must never change.
fn type_name(data_type: &DataType) -> String {
    let DataType::Struct(fields) = data_type else { return data_type.to_string() };
    let field =
        |field: &Field| format!("{:?}: {} {:?}", field.name, type_name(&field.data_type), field.shape);
    format!("struct {{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
}
