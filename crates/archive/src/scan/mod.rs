//! Scans files to report which are compatible, without writing any output.

mod groups;
mod report;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt, TryStreamExt, stream};
use tokio_util::sync::CancellationToken;
use virtualize::{Code, ErrorClass, Options, Relocation, VirtualStore};

use crate::list::{Assets, Filter, Input, ListOptions, list};
use crate::{
    Along, Cure, Error, Event, Item, Layout, Member, Summary,
    compat::{is_coordinate, wanted},
    event::Events,
    journal::{Failure, Outcome, Work},
    layout::given,
    read::{Ended, FileReader, Outage, ReadOptions, WorkQueue, attempt, event, read_all},
    values::calendar::is_time,
};
pub use groups::{Coordinate, Era, Eras, Seen, Stretch};

/// Maximum number of failures that a summary names.
const NAMED: usize = 10;

/// Options of a scan.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// The dimensions along which the files would be combined. If there are none, the scan infers the time dimension
    /// from the first file that can be read, if that file has one.
    pub layout: Layout,
    /// How files are opened and mapped.
    pub open: Options,
    /// Selects among the listed files ([`scan_inputs`]).
    pub filter: Filter,
    /// Selects the assets of STAC items ([`scan_inputs`]).
    pub assets: Assets,
    /// Reads at most this many of the listed files, evenly spread ([`scan_inputs`]).
    pub sample: Option<usize>,
    /// Maximum number of files read at once; 0 for the request limit of the store's options.
    pub files: usize,
    /// Number of attempts per file when a store fails or the file changes.
    pub attempts: u32,
    /// Average wait before the first retry.
    pub wait: Duration,
    /// Token that stops the scan.
    pub cancel: CancellationToken,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            layout: Layout::default(),
            open: Options::default(),
            filter: Filter::default(),
            assets: Assets::default(),
            sample: None,
            files: 0,
            attempts: 3,
            wait: Duration::from_secs(1),
            cancel: CancellationToken::new(),
        }
    }
}

impl ScanOptions {
    fn read_options(&self) -> ReadOptions {
        let files = if self.files == 0 { self.open.store.concurrency } else { self.files };
        let (attempts, cancel) = (self.attempts.max(1), self.cancel.clone());
        ReadOptions { files: files.clamp(1, 1024), attempts, wait: self.wait, cancel }
    }
}

/// Result of a scan.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// The files, grouped by the properties that must agree.
    pub eras: Eras,
    /// The layout with the dimensions of the scan.
    pub layout: Layout,
    /// Whether the dimensions were inferred from the first file.
    pub is_guessed: bool,
    /// Files that could not be read, in the order of the listing.
    pub failed: Vec<FailedFile>,
    /// Options of a batch that write all files; `None` if none is known.
    pub cure: Option<Cure>,
    /// Number of listed files, if only a sample of them was read.
    pub sampled_of: Option<usize>,
}

/// A file that could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedFile {
    /// The file.
    pub url: String,
    /// Class of the error.
    pub class: ErrorClass,
    /// The error in one line.
    pub error: String,
}

/// [`Error`] if the stream of items ends with one, or the scan is stopped. Files that cannot be read are not
/// errors, see [`Scan::failed`].
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use virtualize_archive::{Item, ScanOptions, scan};
///
/// let files = ["fixtures/hdf5/netcdf4.nc", "fixtures/hdf5/chunked.h5"];
/// # std::env::set_current_dir("../..")?;
/// let items = files.map(|url| Ok(Item { url: url.to_owned(), ..Item::default() }));
/// let found = scan(futures::stream::iter(items), &ScanOptions::default(), |_| {}).await?;
/// assert_eq!((found.eras.eras().len(), found.failed.len()), (2, 0));
/// for stretch in found.eras.stretches().iter().skip(1) {
///     for difference in stretch.differences.iter().flat_map(|all| all.iter()).take(3) {
///         println!("{difference}");
///     }
/// }
/// # Ok(()) }
/// ```
pub async fn scan(
    items: impl Stream<Item = Result<Item, Error>> + Send,
    options: &ScanOptions,
    events: impl Fn(Event) + Send + Sync + 'static,
) -> Result<Scan, Error> {
    let start = Instant::now();
    let events = Events::new(events);
    let items = std::pin::pin!(items);
    let mut findings = Findings {
        items,
        events: &events,
        found: Scan { layout: options.layout.clone(), ..Scan::default() },
        listed: 0,
        waiting: BTreeMap::new(),
        next: 0,
        requests: 0,
        bytes: 0,
    };
    let read = async {
        guess(&mut findings, options).await?;
        let reader = reader(&options.open, findings.found.layout.clone(), false);
        read_all(&mut findings, Arc::new(reader), &options.read_options(), &events).await
    };
    match read.await {
        Ok(outages) => {
            for Outage { store, failure, left } in outages {
                let text = format!("{store} is unavailable; {left} files were not read: {}", failure.error);
                events.tell(Event::Note { text });
            }
        }
        Err(Ended::Queue(error)) => return Err(error),
        Err(Ended::Task(error)) => return Err(Error::internal(error)),
        Err(Ended::Stopped) => return Err(stopped(findings.done())),
    }
    let (requests, bytes) = (findings.requests, findings.bytes);
    let mut found = findings.found;
    found.cure = found.eras.merge(&found.layout);
    events.tell(Event::Eras { files: found.eras.eras().iter().map(|era| era.files).collect() });
    let seconds = start.elapsed().as_secs_f64();
    let (read, failed) = (found.eras.len() as u64, found.failed.len() as u64);
    let failures = found.failed.iter().take(NAMED).map(|one| one.error.clone()).collect();
    let files = read + failed;
    let summary = Summary { files, read, failed, failures, requests, bytes, seconds, ..Summary::default() };
    events.tell(Event::Done { summary });
    Ok(found)
}

/// Returns the error of a scan that was stopped.
fn stopped(read: u64) -> Error {
    let message = format!("stopped after {read} files; nothing is kept of a scan");
    Error::new(ErrorClass::Unavailable, Code::Stopped, message, None)
}

fn reader(options: &Options, layout: Layout, guesses: bool) -> FileReader<Looked> {
    FileReader::new(options.clone(), &Relocation::Keep, move |item, store, options| {
        Box::pin(look(item, store, options, layout.clone(), guesses))
    })
}

/// Reads files one at a time until one succeeds, and infers the dimension from it; does nothing if the layout has one.
async fn guess<S: Stream<Item = Result<Item, Error>> + Send>(
    findings: &mut Findings<'_, S>,
    options: &ScanOptions,
) -> Result<(), Ended<Error>> {
    let how = options.read_options();
    while findings.found.layout.along.is_empty() && findings.found.eras.is_empty() {
        let reader = reader(&options.open, options.layout.clone(), true);
        let events = findings.events;
        let one = async {
            let Some(work) = findings.take(1).await?.pop() else { return Ok::<_, Error>(false) };
            let Some(outcome) = attempt(&work.item, &reader, None, &how, events).await else {
                return Ok(false);
            };
            events.tell(event(&work.item, &outcome));
            if let Ok(done) = &outcome {
                let guessed = done.record.1.clone();
                findings.found.is_guessed = guessed.is_some();
                findings.found.layout.along.extend(guessed.map(Along::Concat));
            }
            findings.finished(work, outcome).await?;
            Ok(true)
        };
        let more = tokio::select! {
            biased;
            () = how.cancel.cancelled() => return Err(Ended::Stopped),
            more = one => more.map_err(Ended::Queue)?,
        };
        if !more {
            break;
        }
    }
    Ok(())
}

/// Lists the inputs and scans the files.
///
/// # Errors
/// Those of [`scan`], and of inputs that cannot be listed.
pub async fn scan_inputs(
    inputs: Vec<Input>,
    options: &ScanOptions,
    events: impl Fn(Event) + Send + Sync + 'static,
) -> Result<Scan, Error> {
    let listing =
        ListOptions { store: options.open.store.clone(), assets: options.assets.clone(), absent: true };
    let items = list(inputs, options.filter.clone(), listing)?;
    let Some(most) = options.sample else {
        return scan(items.map(|item| Ok(item?)), options, events).await;
    };
    let items: Vec<Item> = tokio::select! {
        biased;
        () = options.cancel.cancelled() => return Err(stopped(0)),
        items = items.try_collect() => items?,
    };
    let listed = items.len();
    let sample: Vec<_> = spread(most, listed).filter_map(|at| items.get(at).cloned()).map(Ok).collect();
    let found = scan(stream::iter(sample), options, events).await?;
    Ok(Scan { sampled_of: Some(listed), ..found })
}

/// Returns at most `most` of the numbers below `count`, evenly spread; the first is 0, the last is the highest.
fn spread(most: usize, count: usize) -> impl Iterator<Item = usize> {
    let most = most.clamp(1, count.max(1));
    (0..most.min(count)).map(move |at| {
        let place = at as u128 * count.saturating_sub(1) as u128 / most.saturating_sub(1).max(1) as u128;
        usize::try_from(place).unwrap_or(usize::MAX)
    })
}

/// Summary of a file, and the dimension inferred from it.
type Looked = (Seen, Option<String>);

/// Returns the summary of a file. With `guesses`, adds the file's time dimension to the layout, if there is one.
async fn look(
    item: &Item,
    store: &mut VirtualStore,
    options: &Options,
    mut layout: Layout,
    guesses: bool,
) -> Result<Looked, Failure> {
    layout.drop_arrays(&mut store.hierarchy.root);
    let guessed = if guesses { dimension_of_time(store) } else { None };
    layout.along.extend(guessed.clone().map(Along::Concat));
    let read = wanted(&store.hierarchy, &layout).read(store, &options.store).await;
    let (values, digests, grids) = read.map_err(|error| Failure::new(error, options.notation))?;
    let given = given(item, &store.hierarchy, &layout);
    let given = given.map_err(|error| Failure::of_layout(&error, options.notation))?;
    let item = item.clone();
    let member = Member { item, hierarchy: store.hierarchy.clone(), values, digests, grids, given };
    Ok((Seen::of(&member, &layout), guessed))
}

/// Returns the time dimension of a file: the first coordinate, nearest to the root, whose units have a reference time.
fn dimension_of_time(store: &VirtualStore) -> Option<String> {
    let arrays = store.hierarchy.arrays().into_iter();
    let times = arrays.filter(|(path, array)| {
        let units = array.attributes.get("units").and_then(|units| units.as_str());
        is_coordinate(path, array) && units.is_some_and(is_time)
    });
    let first = times.min_by_key(|(path, _)| path.matches('/').count());
    first.and_then(|(_, array)| array.dimension_names.first().cloned().flatten())
}

/// Maximum number of files that may be read ahead of a slow one.
const AHEAD: usize = 4096;
/// Number of listed files between two progress events.
const TOLD: u64 = 100;

/// Results collected while files are read.
struct Findings<'a, S> {
    items: Pin<&'a mut S>,
    events: &'a Events,
    found: Scan,
    /// Number of files listed so far.
    listed: u64,
    /// Results that wait for those of earlier files.
    waiting: BTreeMap<i64, Result<Looked, FailedFile>>,
    /// Index of the next file in order.
    next: i64,
    /// Requests and bytes for the files read so far.
    requests: u64,
    bytes: u64,
}

impl<S: Stream<Item = Result<Item, Error>> + Send> WorkQueue for Findings<'_, S> {
    type Record = Looked;
    type Error = Error;

    fn room(&self) -> usize {
        AHEAD.saturating_sub(self.waiting.len())
    }

    async fn take(&mut self, _most: usize) -> Result<Vec<Work>, Error> {
        let item = self.items.next().await.transpose()?;
        let complete = item.is_none();
        let work = item.map(|item| Work { id: self.listed.try_into().unwrap_or(i64::MAX), item });
        self.listed += u64::from(!complete);
        if complete || self.listed.is_multiple_of(TOLD) {
            self.events.tell(Event::Listed { files: self.listed, pending: self.listed, complete });
        }
        Ok(work.into_iter().collect())
    }

    async fn finished(&mut self, work: Work, outcome: Outcome<Looked>) -> Result<(), Error> {
        let looked = match outcome {
            Ok(done) => {
                self.requests = self.requests.saturating_add(done.requests);
                self.bytes = self.bytes.saturating_add(done.bytes);
                Ok(done.record)
            }
            Err(Failure { class, error, .. }) => Err(FailedFile { url: work.item.url, class, error }),
        };
        self.add(work.id, looked);
        Ok(())
    }

    fn left(&mut self, work: Work, failure: &Failure) {
        let url = work.item.url;
        let error = format!("{url}: not read, since its store is unavailable");
        self.add(work.id, Err(FailedFile { url, class: failure.class, error }));
    }
}

impl<S> Findings<'_, S> {
    /// Returns the number of files that were read or failed.
    fn done(&self) -> u64 {
        (self.found.eras.len() + self.found.failed.len() + self.waiting.len()) as u64
    }

    /// Adds the result of a file, and forwards results in the order of the listing.
    fn add(&mut self, id: i64, looked: Result<Looked, FailedFile>) {
        self.waiting.insert(id, looked);
        while let Some(looked) = self.waiting.remove(&self.next) {
            self.next += 1;
            match looked {
                Ok((seen, _)) => self.found.eras.add(seen),
                Err(failed) => self.found.failed.push(failed),
            }
        }
    }
}
