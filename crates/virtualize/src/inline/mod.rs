//! Creation of chunks that references cannot express: fetches their pieces, decodes and places them, and encodes the
//! result with the array's own codecs. If one chunk fails, the whole array is omitted, never shown in part.

mod assemble;
mod probe;
pub(crate) mod small;
#[cfg(test)]
mod tests;
mod variable;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Sender},
    },
    thread,
};

use bytes::Bytes;
use futures::{StreamExt, channel::oneshot, future::join, stream::FuturesOrdered};
use virtualize_bytes::{Budgeted, ByteRange, Limits, ReadError, ReadRanges};
use virtualize_map::{ChunkContent, InlineTask, Mapped, Omitted, Piece, PieceBytes, StoredChange};
use virtualize_store::Object;
use virtualize_zarr::{Array, ChunkManifest, Codec, Hierarchy, NodePath, SourceId};

pub(crate) use self::probe::{examine, finding, lerc_masks};
pub(crate) use self::variable::heap_values;
use crate::{
    error::Failure,
    read::{Helpers, cores},
    source_formats::SourceFile,
    sources::{Sources, Unopened},
};

/// Number of encoded bytes that are fetched together. Two such batches are in memory: one whose chunks are made, and the
/// next one, which is fetched at the same time.
const BATCH: u64 = 32 << 20;

/// Making chunks of fewer encoded bytes takes no longer than starting a thread.
const WORTHWHILE: u64 = 64 << 10;

/// Memory overhead of an inline chunk besides its bytes.
const POSITION: u64 = 64;

const NO_ARRAY: &str = "no such array";

/// Arrays without their chunks.
type Arrays = BTreeMap<NodePath, Arc<Array>>;

/// Creates all chunks of a mapped file that have a recipe, and adds them to its hierarchy.
pub(crate) async fn run(maker: &ChunkMaker<'_>, mapped: &mut Mapped) -> Result<(), ReadError> {
    run_in_batches(maker, mapped, BATCH).await
}

async fn run_in_batches(maker: &ChunkMaker<'_>, mapped: &mut Mapped, batch: u64) -> Result<(), ReadError> {
    let mut tasks = std::mem::take(&mut mapped.tasks);
    // Files are opened one after the other, so that few are open at a time. Tasks that share a range are fetched together.
    tasks.sort_by_cached_key(|task| task.content.ranges().next());
    let bytes = tasks.iter().map(encoded_bytes).fold(0, u64::saturating_add);
    let is_worthwhile = tasks.len() > 1 && bytes >= WORTHWHILE;
    let workers = Workers::start(if is_worthwhile { tasks.len().min(cores()) } else { 0 });
    let mut arrays = Arrays::new();
    for task in &tasks {
        if let (false, Some(array)) = (arrays.contains_key(&task.array), mapped.hierarchy.array(&task.array))
        {
            let array = Array { chunks: ChunkManifest::default(), ..array.clone() };
            arrays.insert(task.array.clone(), Arc::new(array));
        }
    }
    let mut batches = batches(tasks, batch, encoded_bytes);
    let mut failed = BTreeMap::new();
    let mut coming = fetch(maker, batches.next()).await?;
    while let Some((mut tasks, bytes)) = coming {
        tasks.retain(|task| !failed.contains_key(&task.array));
        let make = Make { maker, workers: &workers, arrays: &arrays, fetched: Arc::new(bytes) };
        let made = make.all(tasks, &mut mapped.hierarchy, &mut failed);
        let (made, next) = join(made, fetch(maker, batches.next())).await;
        made?;
        coming = next?;
    }
    mapped.omit(failed.into_iter().map(|(path, reason)| (path, Omitted::not_made(reason))));
    Ok(())
}

/// Splits items into batches of at most `most` bytes. A batch of one item may be larger; an item has at least one byte.
pub(crate) fn batches<T>(
    items: Vec<T>,
    most: u64,
    bytes: impl Fn(&T) -> u64,
) -> impl Iterator<Item = Vec<T>> {
    let mut items = items.into_iter().peekable();
    std::iter::from_fn(move || {
        let (mut sum, mut batch) = (0_u64, Vec::new());
        while let Some(item) = items.next_if(|item| {
            sum = sum.saturating_add(bytes(item).max(1));
            batch.is_empty() || sum <= most
        }) {
            batch.push(item);
        }
        Some(batch).filter(|batch| !batch.is_empty())
    })
}

/// Returns the encoded bytes that a task needs.
fn encoded_bytes(task: &InlineTask) -> u64 {
    task.content.ranges().map(|(_, range)| range.length).fold(0, u64::saturating_add)
}

async fn fetch(
    maker: &ChunkMaker<'_>,
    tasks: Option<Vec<InlineTask>>,
) -> Result<Option<(Vec<InlineTask>, Fetched)>, ReadError> {
    let Some(tasks) = tasks else { return Ok(None) };
    let fetched = maker.fetch(tasks.iter().flat_map(|task| task.content.ranges())).await?;
    Ok(Some((tasks, fetched)))
}

/// Makes the chunks of a batch.
struct Make<'a> {
    maker: &'a ChunkMaker<'a>,
    workers: &'a Workers,
    arrays: &'a Arrays,
    fetched: Arc<Fetched>,
}

impl Make<'_> {
    /// Makes all chunks and adds them to the hierarchy. Once a chunk of an array has failed, the others are ignored.
    async fn all(
        self,
        tasks: Vec<InlineTask>,
        hierarchy: &mut Hierarchy,
        failed: &mut BTreeMap<NodePath, String>,
    ) -> Result<(), ReadError> {
        let budget = self.maker.sources.budget;
        let (mut tasks, mut jobs) = (tasks.into_iter(), FuturesOrdered::new());
        loop {
            while jobs.len() < self.workers.jobs()
                && let Some(task) = tasks.next()
            {
                jobs.push_back(self.one(task));
            }
            let Some((task, chunk)) = jobs.next().await else { return Ok(()) };
            if failed.contains_key(&task.array) {
                continue;
            }
            let chunk = match &task.content {
                ChunkContent::Variable { .. } => variable(self.maker, &task, &self.fetched, hierarchy).await,
                _ => chunk,
            };
            match chunk {
                Ok(bytes) => {
                    let held = (task.positions.len() as u64).saturating_mul(POSITION);
                    budget.take("inlined chunks", held.saturating_add(bytes.len() as u64))?;
                    if let Some(array) = hierarchy.array_mut(&task.array) {
                        let positions = task.positions.iter();
                        array.chunks.inline.extend(positions.map(|position| (*position, bytes.clone())));
                    }
                }
                Err(Failure::Chunk(reason)) => drop(failed.insert(task.array.clone(), reason)),
                Err(Failure::Read(error)) => return Err(error),
            }
        }
    }

    /// Returns the encoded bytes of one chunk of fixed size.
    async fn one(&self, task: InlineTask) -> (Arc<InlineTask>, Result<Bytes, Failure>) {
        let task = Arc::new(task);
        let Some(array) = self.arrays.get(&task.array) else { return (task, Err(Failure::chunk(NO_ARRAY))) };
        let (array, shared, fetched) = (Arc::clone(array), Arc::clone(&task), Arc::clone(&self.fetched));
        let limits = *self.maker.limits;
        let made = self.workers.run(move || chunk(&limits, &array, &shared.content, &fetched)).await;
        (task, made.unwrap_or_else(|| Err(Failure::chunk("its codecs ended unexpectedly"))))
    }
}

/// Returns the encoded bytes of one chunk of elements of variable length, which are read from the file.
async fn variable(
    maker: &ChunkMaker<'_>,
    task: &InlineTask,
    fetched: &Fetched,
    hierarchy: &Hierarchy,
) -> Result<Bytes, Failure> {
    let array = hierarchy.array(&task.array).ok_or_else(|| Failure::chunk(NO_ARRAY))?;
    let elements = variable::chunk(maker, &task.content, fetched).await?;
    let text = variable::encode(&array.codecs, &elements, maker.sources.budget.left())?;
    assemble::encode(&array.codecs, text)
}

/// Returns the encoded bytes of one chunk of elements of fixed size.
fn chunk(
    limits: &Limits,
    array: &Array,
    content: &ChunkContent,
    fetched: &Fetched,
) -> Result<Bytes, Failure> {
    Ok(match content {
        ChunkContent::Stored { source, range, change } => {
            let stored = fetched.range(*source, *range)?;
            match change {
                StoredChange::Prefix { bytes, bits, word } => {
                    assemble::joined_bits(bytes, *bits, stored, *word).into()
                }
                StoredChange::ReverseBits => stored.iter().map(|byte| byte.reverse_bits()).collect(),
                StoredChange::AddRows { width, rows, height } => {
                    taller(limits, array, stored, (*width, *rows, *height))?
                }
                StoredChange::Lerc { layout, height } => {
                    probe::without_mask(limits, array, stored, *layout, *height)?
                }
            }
        }
        ChunkContent::Assemble { shape, background, pieces } => {
            let raw = assemble::chunk(limits, shape, background, pieces, fetched)?;
            assemble::encode(&array.codecs, raw)?
        }
        ChunkContent::Variable { .. } => return Ok(Bytes::new()),
    })
}

/// Returns an image with more rows, in the format of its array's codec.
fn taller(
    limits: &Limits,
    array: &Array,
    bytes: &[u8],
    (width, rows, height): (u64, u64, u64),
) -> Result<Bytes, Failure> {
    let name = array.codecs.iter().find_map(|codec| match codec {
        Codec::Image { name, .. } => Some(*name),
        _ => None,
    });
    let taller = match name {
        Some("imagecodecs_jpeg") => virtualize_codec::jpeg::with_rows(bytes, width, rows, height),
        Some("imagecodecs_ccittfax3") => {
            let is_bit_order = |codec: &Codec| match codec {
                Codec::Own(codec) => **codec == Codec::BitOrder,
                codec => *codec == Codec::BitOrder,
            };
            let reversed = |bytes: &[u8]| bytes.iter().map(|byte| byte.reverse_bits()).collect::<Vec<u8>>();
            if array.codecs.iter().any(is_bit_order) {
                let taller = virtualize_codec::fax::with_rows(&reversed(bytes), rows, height);
                taller.map(|taller| reversed(&taller))
            } else {
                virtualize_codec::fax::with_rows(bytes, rows, height)
            }
        }
        Some("imagecodecs_jpeg2k") => virtualize_codec::jpeg2000::with_rows(bytes, width, rows, height),
        Some("imagecodecs_png") => virtualize_codec::png::with_rows(bytes, width, rows, height),
        Some("imagecodecs_webp") => {
            virtualize_codec::webp::with_rows(bytes, width, rows, height, limits.structure_bytes)
        }
        _ => return Err(Failure::chunk("images of this format cannot be extended")),
    };
    let taller = taller.map(Bytes::from);
    taller.map_err(|error| {
        let advice = "a rectilinear chunk grid (Zarr v3) references it as it is";
        Failure::Chunk(format!("its last strip: {error}; {advice}"))
    })
}

/// Inputs of chunk creation besides the recipes.
pub(crate) struct ChunkMaker<'a> {
    /// The file that is mapped.
    pub(crate) own: &'a dyn ReadRanges,
    pub(crate) limits: &'a Limits,
    /// Metadata of the file.
    pub(crate) file: &'a SourceFile,
    pub(crate) sources: &'a Sources<'a>,
    /// Urls of the sources of the hierarchy.
    pub(crate) urls: Vec<String>,
}

/// Fetched bytes, or the reason why the bytes of a file could not be fetched.
#[derive(Default)]
pub(crate) struct Fetched {
    bytes: BTreeMap<(SourceId, ByteRange), Bytes>,
    failed: BTreeMap<SourceId, String>,
    /// Limit of a range in bytes.
    most: u64,
}

impl Fetched {
    /// Returns all bytes of a range.
    pub(crate) fn range(&self, source: SourceId, range: ByteRange) -> Result<&Bytes, String> {
        if let Some(why) = self.failed.get(&source) {
            return Err(why.clone());
        }
        if range.length > self.most {
            return Err(format!("{range} are more than the {} that may be read at once", self.most));
        }
        let bytes = self.bytes.get(&(source, range));
        let bytes = bytes.filter(|bytes| bytes.len() as u64 == range.length);
        bytes.ok_or_else(|| format!("{range} cannot be read: the file ends before"))
    }

    /// Returns all bytes of a piece.
    pub(super) fn piece<'a>(&'a self, piece: &'a Piece) -> Result<&'a Bytes, String> {
        match &piece.bytes {
            PieceBytes::Here(bytes) => Ok(bytes),
            PieceBytes::At(range) => self.range(piece.source, *range),
        }
    }
}

impl ChunkMaker<'_> {
    /// Fetches ranges: those of one file together, and several files concurrently. Omits a range that is implausibly
    /// long.
    pub(crate) async fn fetch(
        &self,
        wanted: impl Iterator<Item = (SourceId, ByteRange)>,
    ) -> Result<Fetched, ReadError> {
        let most = self.limits.structure_bytes;
        let mut by_file: BTreeMap<SourceId, BTreeSet<ByteRange>> = BTreeMap::new();
        for (source, range) in wanted.filter(|(_, range)| range.length <= most) {
            by_file.entry(source).or_default().insert(range);
        }
        let reads = by_file.into_iter().map(|(source, ranges)| async move {
            let ranges: Vec<ByteRange> = ranges.into_iter().collect();
            let read = self.read(source, &ranges).await;
            (source, ranges, read)
        });
        let mut fetched = Fetched { most, ..Fetched::default() };
        let mut reads = Box::pin(self.sources.several(reads));
        while let Some((source, ranges, read)) = reads.next().await {
            match read {
                Ok(bytes) => {
                    let placed = ranges.into_iter().zip(bytes);
                    fetched.bytes.extend(placed.map(|(range, bytes)| ((source, range), bytes)));
                }
                Err(Failure::Chunk(why)) => drop(fetched.failed.insert(source, why)),
                Err(Failure::Read(error)) => return Err(error),
            }
        }
        Ok(fetched)
    }

    async fn read(&self, source: SourceId, ranges: &[ByteRange]) -> Result<Vec<Bytes>, Failure> {
        match source {
            SourceId(0) => self.own.read_ranges(ranges).await.map_err(Failure::Read),
            other => {
                let object = self.open(other).await?;
                let budgeted = Budgeted::new(object.as_ref(), self.sources.budget);
                budgeted.read_ranges(ranges).await.map_err(Failure::of_other_read)
            }
        }
    }

    async fn open(&self, id: SourceId) -> Result<Arc<Object>, Failure> {
        let url = self.urls.get(id.index()).ok_or_else(|| format!("there is no source {}", id.0))?;
        self.sources.open(url).await.map_err(|unopened| match unopened {
            Unopened::Changed(error) => Failure::Read(error),
            unopened => Failure::Chunk(unopened.to_string()),
        })
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Threads that compute for a future, which meanwhile reads. Without threads, the future computes by itself.
struct Workers {
    jobs: Sender<Job>,
    threads: usize,
    _helpers: Helpers,
}

impl Workers {
    /// Starts up to `wanted` threads, which end when the workers are dropped.
    fn start(wanted: usize) -> Self {
        let helpers = Helpers::take(wanted);
        let (jobs, queue) = mpsc::channel();
        let queue: Arc<Mutex<mpsc::Receiver<Job>>> = Arc::new(Mutex::new(queue));
        let start = |_: &usize| {
            let queue = Arc::clone(&queue);
            let next = move || queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            thread::Builder::new()
                .spawn(move || {
                    while let Ok(job) = next() {
                        job()
                    }
                })
                .is_ok()
        };
        let threads = (0..helpers.0).filter(start).count();
        Self { jobs, threads, _helpers: helpers }
    }

    /// Returns the number of jobs that keep all threads busy.
    fn jobs(&self) -> usize {
        self.threads.saturating_mul(4).max(1)
    }

    /// Returns the result of `job`; `None` if it panicked. A job that nobody waits for any more is not started.
    async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        if self.threads == 0 {
            return Some(job());
        }
        let (done, result) = oneshot::channel();
        let job = move || {
            if !done.is_canceled() {
                drop(done.send(job()));
            }
        };
        self.jobs.send(Box::new(job)).ok()?;
        result.await.ok()
    }
}
