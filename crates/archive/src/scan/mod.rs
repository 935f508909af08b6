//! Scans files to report which are compatible, without writing any output.

mod groups;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use futures::FutureExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use virtualize::{
    Code, ErrorClass, Notation, OptionName, Options, Relocation, Remedy, VirtualStore, describe::printable,
};
use virtualize_remedy::alternatives;

use crate::{
    Along, Difference, Error, Event, Layout, Proposal, Summary,
    compat::is_coordinate,
    error::files as count_files,
    event::Events,
    journal::{Accept, Journal, Listing},
    list::{Assets, Filter, Input, ListOptions, each_page},
    read::{FileReader, Outage, Process, ReadOptions, read_journal, read_member},
    values::calendar::is_time,
};

pub use groups::{Coordinate, FileRun, FileSet, FileSets};

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
    pub sets: FileSets,
    /// The layout with the dimensions of the scan.
    pub layout: Layout,
    /// Whether the dimensions were inferred from the first file.
    pub is_guessed: bool,
    /// Files that could not be read, in the order of the listing.
    pub failed: Vec<FailedFile>,
    /// Options of a batch that write all files; `None` if none is known.
    pub proposal: Option<Proposal>,
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

/// Lists the inputs, and reports which files are compatible. Files that cannot be read are not errors, see
/// [`Scan::failed`].
///
/// # Errors
/// [`Error`] if the inputs cannot be listed, or the scan is stopped.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use virtualize_archive::{ScanOptions, scan_inputs};
///
/// # std::env::set_current_dir("../..")?;
/// let inputs = ["fixtures/hdf5/netcdf4.nc", "fixtures/hdf5/chunked.h5"].map(Into::into).to_vec();
/// let found = scan_inputs(inputs, &ScanOptions::default(), |_| {}).await?;
/// assert_eq!((found.sets.sets().len(), found.failed.len()), (2, 0));
/// for run in found.sets.runs().iter().skip(1) {
///     for difference in run.differences.iter().flat_map(|all| all.iter()).take(3) {
///         println!("{difference}");
///     }
/// }
/// # Ok(()) }
/// ```
pub async fn scan_inputs(
    inputs: Vec<Input>,
    options: &ScanOptions,
    events: impl Fn(Event) + Send + Sync + 'static,
) -> Result<Scan, Error> {
    let start = Instant::now();
    let events = Events::new(events);
    let read = async {
        let mut journal = Journal::temporary()?;
        let found = read(&mut journal, inputs, options, &events).await?;
        Ok((journal, found))
    };
    let (journal, mut found) = match read.boxed_local().await {
        Err(Error::Stopped { done, .. }) => {
            let message = format!("stopped after {done} files; nothing is kept of a scan");
            return Err(Error::new(ErrorClass::Unavailable, Code::Stopped, message, None));
        }
        read => read?,
    };
    (found.sets, found.proposal) = groups::group(&journal, &found.layout)?;
    events.tell(Event::Sets { files: found.sets.sets().iter().map(|set| set.files).collect() });
    let (requests, bytes) = journal.traffic()?;
    let (read, failed) = (found.sets.len() as u64, found.failed.len() as u64);
    let failures = found.failed.iter().take(NAMED).map(|one| one.error.clone()).collect();
    let (files, seconds) = (read + failed, start.elapsed().as_secs_f64());
    let summary = Summary { files, read, failed, failures, requests, bytes, seconds, ..Summary::default() };
    events.tell(Event::Done { summary });
    Ok(found)
}

/// Reads the files into a journal. Returns the scan without its sets.
async fn read(
    journal: &mut Journal,
    inputs: Vec<Input>,
    options: &ScanOptions,
    events: &Events,
) -> Result<Scan, Error> {
    let mut found = Scan { layout: options.layout.clone(), ..Scan::default() };
    let listing =
        ListOptions { store: options.open.store.clone(), assets: options.assets.clone(), absent: true };
    let mut items = Vec::new();
    each_page(inputs, &options.filter, listing, (&options.cancel, events), |page| {
        items.extend(page);
        let files = items.len() as u64;
        events.tell(Event::Listed { files, pending: files, complete: false });
        Ok(())
    })
    .await?;
    if let Some(most) = options.sample {
        found.sampled_of = Some(items.len());
        items = spread(most, items.len()).filter_map(|at| items.get(at).cloned()).collect();
    }
    journal.stage(&items, &mut Listing::default())?;
    let files = journal.accept(Accept::default(), &BTreeMap::new(), None)?.all();
    events.tell(Event::Listed { files, pending: files, complete: true });
    let how = options.read_options();
    if found.layout.along.is_empty() {
        let guess = Arc::new(OnceLock::new());
        let reader = reader(options, &found.layout, Some(Arc::clone(&guess)));
        let one = ReadOptions { files: 1, ..how.clone() };
        read_journal(journal, Arc::new(reader), &one, events, true).await?;
        found.layout.along.extend(guess.get().cloned().map(Along::Concat));
        found.is_guessed = guess.get().is_some();
    }
    let reader = reader(options, &found.layout, None);
    let outages = read_journal(journal, Arc::new(reader), &how, events, false).await?;
    for Outage { store, failure, left } in &outages {
        let text = format!("{store} is unavailable; {left} files were not read: {}", failure.error);
        events.tell(Event::Note { text });
    }
    for (url, failure) in journal.unread()? {
        let (class, error) = failure.unwrap_or_else(|| {
            (ErrorClass::Unavailable, format!("{url}: not read, since its store is unavailable"))
        });
        found.failed.push(FailedFile { url, class, error });
    }
    Ok(found)
}

/// Returns the reader of files. With `guess`, the time dimension of a file is added to the layout, and stored there.
fn reader(options: &ScanOptions, layout: &Layout, guess: Option<Arc<OnceLock<String>>>) -> FileReader {
    let layout = layout.clone();
    let process: Box<Process> = Box::new(move |item, store, options| {
        let (mut layout, guess) = (layout.clone(), guess.clone());
        async move {
            layout.drop_arrays(store);
            if let Some((guess, name)) = guess.zip(dimension_of_time(store)) {
                layout.along.push(Along::Concat(guess.get_or_init(|| name).clone()));
                // Further ones are not part of files that are joined.
                layout.drop_arrays(store);
            }
            let member = read_member(item, store, store.hierarchy.clone(), &layout, options).await?;
            groups::record(&member, &layout)
        }
        .boxed()
    });
    FileReader::new(options.open.clone(), &Relocation::Keep, process)
}

/// Returns at most `most` of the numbers below `count`, evenly spread; the first is 0, the last is the highest.
fn spread(most: usize, count: usize) -> impl Iterator<Item = usize> {
    let most = most.clamp(1, count.max(1));
    (0..most.min(count)).map(move |at| {
        let place = at as u128 * count.saturating_sub(1) as u128 / most.saturating_sub(1).max(1) as u128;
        usize::try_from(place).unwrap_or(usize::MAX)
    })
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

/// Number of runs that are printed.
const MAX_RUNS: usize = 100;
/// Number of differences that are printed for a run.
const DIFFERENCES: usize = 10;
/// Longest printed difference, in characters.
const LONGEST: usize = 200;

impl Scan {
    /// Writes the result as text: the runs of files, the contents of the first set, and the number of failed
    /// files.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn table(&self, out: &mut impl Write, notation: Notation) -> io::Result<()> {
        let names: Vec<&str> = self.layout.along.iter().map(Along::name).collect();
        let dimensions = Remedy::turn_on(OptionName::ConcatDim, "choose one")
            .or(Remedy::turn_on(OptionName::StackDim, "add one"));
        let along = match (names.as_slice(), self.is_guessed) {
            ([], _) => notation.append(", no dimension to combine them along", Some(&dimensions)),
            (names, true) => format!(" along {} (found in the first file)", printable(&names.join(", "))),
            (names, false) => format!(" along {}", printable(&names.join(", "))),
        };
        let of = self.sampled_of.map_or_else(String::new, |listed| format!(" of {listed}"));
        let (files, sets) = (self.sets.len(), self.sets.sets().len());
        let [end, end_of_sets] = [files, sets].map(|count| if count == 1 { "" } else { "s" });
        writeln!(out, "{files}{of} file{end}, {sets} set{end_of_sets} of compatible files{along}")?;
        if !self.sets.is_ordered() && !names.is_empty() {
            writeln!(out, "in the order of the listing, since not all have coordinates")?;
        }
        let arrays = (0..self.sets.sets().len()).flat_map(|set| self.sets.arrays(set));
        let existing: BTreeSet<&str> =
            arrays.flat_map(|(_, array)| array.dimensions.iter().flatten().map(String::as_str)).collect();
        for along in &self.layout.along {
            if let Along::Concat(name) = along
                && !existing.contains(name.as_str())
                && !self.sets.is_empty()
            {
                let existing = alternatives("dimensions", name, existing.iter().copied());
                writeln!(out, "no array has a dimension {}", printable(&format!("{name}{existing}")))?;
            }
        }
        let columns =
            if names.is_empty() { "first and last file" } else { "coordinates, first and last file" };
        writeln!(out, "\n{:>5} {:>8}  {columns}", "set", "files")?;
        let runs = self.sets.runs();
        for one in runs.iter().take(MAX_RUNS) {
            run(one, out)?;
        }
        if runs.len() > MAX_RUNS {
            writeln!(out, "{:>14}  and {} more", "", runs.len() - MAX_RUNS)?;
        }
        if let Some(set) = self.sets.sets().first() {
            writeln!(out, "\nset 0: {} bytes, {} chunks", set.bytes, set.chunks)?;
            for (name, [least, most, all]) in names.iter().zip(&set.extents) {
                let each = if least == most { least.to_string() } else { format!("{least} to {most}") };
                writeln!(out, "  {} {all}: {each} a file", printable(name))?;
            }
            for (path, array) in self.sets.arrays(0) {
                let codecs = array.codecs.as_ref().map(|codecs| format!("; {}", codecs.join(", ")));
                let described = format!("{array}{}", codecs.unwrap_or_default());
                writeln!(out, "  /{}  {}", printable(path), printable(&described))?;
            }
        }
        if !self.failed.is_empty() {
            writeln!(out, "\n{} could not be read", count_files(self.failed.len() as u64))?;
        }
        Ok(())
    }
}

/// Prints a run of files with its differences.
fn run(run: &FileRun<'_>, out: &mut impl Write) -> io::Result<()> {
    let range = |range: &Option<(&str, &str)>| {
        range.map(|(first, last)| format!("{} … {}", printable(first), printable(last)))
    };
    let ranges: Vec<String> = run.coordinates.iter().filter_map(range).collect();
    let name = |url: Option<&&str>| {
        url.map_or_else(String::new, |url| printable(url.strip_prefix("file://").unwrap_or(url)))
    };
    let (first, last) = (name(run.files.first()), name(run.files.last()));
    let files = if first == last { first } else { format!("{first} … {last}") };
    let coordinates = if ranges.is_empty() { String::new() } else { format!("{}  ", ranges.join("; ")) };
    writeln!(out, "{:>5} {:>8}  {coordinates}{files}", run.set, run.files.len())?;
    let Some(differences) = &run.differences else { return Ok(()) };
    for difference in differences.iter().take(DIFFERENCES) {
        writeln!(out, "{:>14}  {}", "", shown(difference))?;
    }
    if differences.len() > DIFFERENCES {
        writeln!(out, "{:>14}  and {} more", "", differences.len() - DIFFERENCES)?;
    }
    Ok(())
}

/// Returns a difference as printable text, truncated.
fn shown(difference: &Difference) -> String {
    let text = printable(&difference.to_string());
    match text.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}…", text.get(..cut).unwrap_or_default()),
        None => text,
    }
}

impl Scan {
    /// Returns the result as JSON: `dimensions`, `sets` with their `arrays`, `runs` of consecutive files with the
    /// `differences` from the previous one, and `failed`.
    pub fn to_json(&self) -> Value {
        let along = self.layout.along.iter().map(|along| match along {
            Along::Concat(name) => json!({"name": name, "kind": "concat"}),
            Along::Stack(name) => json!({"name": name, "kind": "stack"}),
        });
        let sets: Vec<Value> = (0..self.sets.sets().len()).map(|set| self.set(set)).collect();
        let runs: Vec<Value> = self.sets.runs().iter().map(|one| self.run(one)).collect();
        let failed = self.failed.iter().map(|one| json!({"url": one.url, "error": one.error}));
        json!({
            "dimensions": along.collect::<Vec<_>>(),
            "dimensions_are_guessed": self.is_guessed,
            "order": if self.sets.is_ordered() { "coordinates" } else { "listing" },
            "files": self.sets.len(),
            "sampled_of": self.sampled_of,
            "sets": sets,
            "runs": runs,
            "failed": failed.collect::<Vec<_>>(),
        })
    }

    fn set(&self, at: usize) -> Value {
        let Some(set) = self.sets.sets().get(at) else { return Value::Null };
        let names = self.layout.along.iter().map(Along::name);
        let extents = names.zip(&set.extents).map(|(name, [least, most, all])| {
            (name.to_owned(), json!({"least": least, "most": most, "all": all}))
        });
        json!({
            "set": at,
            "digest": set.digest,
            "files": set.files,
            "bytes": set.bytes,
            "chunks": set.chunks,
            "extents": extents.collect::<serde_json::Map<_, _>>(),
            "arrays": self.sets.arrays(at),
            "groups": set.signature.as_ref().map(|signature| &signature.groups),
        })
    }

    fn run(&self, run: &FileRun<'_>) -> Value {
        let names = self.layout.along.iter().map(Along::name);
        let coordinates = names.zip(&run.coordinates).filter_map(|(name, range)| {
            let (first, last) = (*range)?;
            Some((name.to_owned(), json!({"first": first, "last": last})))
        });
        json!({
            "set": run.set,
            "files": run.files,
            "coordinates": coordinates.collect::<serde_json::Map<_, _>>(),
            "differences": run.differences.as_deref(),
        })
    }
}
