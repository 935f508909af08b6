//! Reads selections of arrays, and batches of chunks.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use virtualize_bytes::ByteRange;
use virtualize_store::StoreOptions;
use virtualize_zarr::Array;

use super::batches::{self, Answer, Wanted};
use super::elements::Elements;
use super::fetch::Files;
use super::place::Place;
use super::plan::{Part, Plan, Stored};
use super::run::{self, Work};
use super::variable::PlaceVariable;
use crate::error::ArrayError;
use crate::error::Error;
use crate::selection::{Selection, SelectionError};
use crate::sources::Pool;
use crate::store::VirtualStore;

/// Default of [`ArrayReader::with_limit`] in bytes.
pub(super) const MOST: u64 = 4 << 30;

/// Decodes a chunk that has a codec without a decoder here: receives its stored bytes, its array, and the chunk's shape
/// in elements, and returns its elements in row-major order and little-endian byte order.
pub type ForeignDecoder = dyn Fn(&[u8], &Array, &[u64]) -> Result<Vec<u8>, String> + Send + Sync;

/// Reads selections of arrays of one store, and its chunks. Keeps files open between reads; a file that changed since
/// it was mapped is refused.
///
/// Reads block, and may run on any number of threads at once. They use all cores, and hold up to 64 MiB besides the
/// result, or one chunk if it is larger. Remote files need the context of a tokio runtime with worker threads
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
    store: Arc<VirtualStore>,
    options: StoreOptions,
    files: Pool,
    foreign: Option<Arc<ForeignDecoder>>,
    pub(super) most: u64,
}

/// A chunk of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChunkAddress {
    /// Path of the array.
    pub path: String,
    /// Indices in the chunk grid, slowest axis first.
    pub indices: Vec<u64>,
}

impl fmt::Debug for ArrayReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrayReader").field("store", &self.store.name()).finish_non_exhaustive()
    }
}

impl ArrayReader {
    /// Creates a reader of a store.
    pub fn new(store: Arc<VirtualStore>, options: StoreOptions) -> Self {
        Self { store, options, files: Pool::default(), foreign: None, most: MOST }
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

    /// Returns the store.
    pub fn store(&self) -> &VirtualStore {
        &self.store
    }

    /// Reads the selected elements of an array of fixed-size elements into `out`, in row-major order of the selection
    /// and little-endian byte order. Missing chunks read as the fill value. After an error, the content of `out` is
    /// undefined.
    ///
    /// # Errors
    /// As [`crate::read_array`]; the selection does not fit the array, or `out` does not fit the selection.
    pub fn read(&self, path: &str, selection: &Selection, out: &mut [u8]) -> Result<(), Error> {
        self.read_into(path, selection, out).map_err(|error| self.error(path, error))
    }

    /// Reads the selected elements of an array of strings or byte strings of variable length, in row-major order of the
    /// selection.
    ///
    /// # Errors
    /// As [`ArrayReader::read`].
    pub fn read_variable(&self, path: &str, selection: &Selection) -> Result<Vec<Bytes>, Error> {
        self.variable(path, selection).map_err(|error| self.error(path, error))
    }

    /// Returns decoded chunks, `None` for missing ones: whole chunks in row-major order and little-endian byte order,
    /// including elements outside the array. Elements of variable length are in the layout of `vlen-utf8` and
    /// `vlen-bytes`.
    pub fn decoded_chunks(&self, chunks: &[ChunkAddress]) -> Vec<Result<Option<Bytes>, Error>> {
        let addresses: Vec<&ChunkAddress> = chunks.iter().collect();
        self.named(&addresses, batches::read(self, &addresses, Wanted::Decoded))
    }

    /// Returns the stored bytes of chunks, `None` for missing ones. Each range is relative to its chunk, and is clamped
    /// to it.
    pub fn stored_chunks(&self, chunks: &[(ChunkAddress, ByteRange)]) -> Vec<Result<Option<Bytes>, Error>> {
        let (addresses, ranges): (Vec<_>, Vec<_>) =
            chunks.iter().map(|(address, range)| (address, *range)).unzip();
        self.named(&addresses, batches::read(self, &addresses, Wanted::Stored(&ranges)))
    }

    /// Adds store and array to the errors of chunks.
    fn named(&self, chunks: &[&ChunkAddress], answers: Vec<Answer>) -> Vec<Result<Option<Bytes>, Error>> {
        let named = |(chunk, answer): (&&ChunkAddress, Answer)| {
            answer.map_err(|error| self.error(&chunk.path, error))
        };
        chunks.iter().zip(answers).map(named).collect()
    }

    fn error(&self, path: &str, error: ArrayError) -> Error {
        Error::of_array(self.store.name(), path, error)
    }

    pub(super) fn array(&self, path: &str) -> Result<&Array, ArrayError> {
        self.store.hierarchy.array(path).ok_or(ArrayError::NoArray)
    }

    pub(super) fn elements<'a>(&'a self, array: &'a Array) -> Result<Elements<'a>, ArrayError> {
        Elements::new(array, self.most, self.foreign.as_deref())
    }

    pub(super) fn files(&self) -> Files<'_> {
        Files { store: &self.store, options: &self.options, pool: &self.files }
    }

    fn read_into(&self, path: &str, selection: &Selection, out: &mut [u8]) -> Result<(), ArrayError> {
        let array = self.array(path)?;
        let count = selection.check(&array.shape)?;
        let size = array.data_type.size().ok_or(ArrayError::VariableSize)?;
        let too_large = || SelectionError::TooLarge { shape: selection.shape() };
        let expected = count.checked_mul(size).ok_or_else(too_large)?;
        if expected != out.len() as u64 {
            return Err(SelectionError::Buffer { expected, found: out.len() as u64 }.into());
        }
        if expected == 0 {
            return Ok(());
        }
        let plan = Plan::new(array, selection)?;
        let place = Place::new(&plan, self.elements(array)?, selection.lengths()?, out)?;
        self.run(&plan, plan.parts(), &place)
    }

    fn variable(&self, path: &str, selection: &Selection) -> Result<Vec<Bytes>, ArrayError> {
        let array = self.array(path)?;
        if array.data_type.size().is_some() {
            return Err(ArrayError::FixedSize);
        }
        if selection.check(&array.shape)? == 0 {
            return Ok(Vec::new());
        }
        let plan = Plan::new(array, selection)?;
        let place = PlaceVariable::new(&plan, selection.lengths()?, self.most)?;
        self.run(&plan, plan.whole_parts(), &place)?;
        Ok(place.into_elements())
    }

    fn run<'p, W: Work<Part<'p>>>(
        &self,
        plan: &Plan<'_>,
        parts: impl Iterator<Item = Result<Part<'p>, ArrayError>> + Send,
        work: &W,
    ) -> Result<(), ArrayError> {
        let files = self.files();
        let mut sources = plan.array.chunks.references.iter().map(|column| column.source);
        let is_local = sources.all(|source| files.is_local(source));
        let placed = |part: Part<'p>| match part.bytes {
            Stored::At(reference) => (part, Some(reference)),
            Stored::Missing | Stored::Inline(_) => (part, None),
        };
        run::run(parts.map(|part| part.map(placed)), plan.extent(is_local), files, work)
    }
}
