//! What is in an archive, before anything is written.

mod report;

use std::sync::Arc;

use futures::{Stream, StreamExt, pin_mut};
use virtualize::{ErrorClass, Options, VirtualStore};
use virtualize_store::Listed;

use crate::combine::{calendar::is_time, given, is_coordinate, wanted};
use crate::eras::{Eras, Seen};
use crate::list::{Assets, Filter, Input, ListOptions, list};
use crate::{Along, Error, Item, Layout, Member};

/// How files are looked at.
#[derive(Clone, Debug, Default)]
pub struct ScanOptions {
    /// The dimensions along which the files are to be put together. With none, the first file's dimension of time is
    /// taken, if it has one.
    pub layout: Layout,
    /// How files are opened and mapped.
    pub open: Options,
    /// Which of the listed files are taken ([`scan_inputs`]).
    pub filter: Filter,
    /// Which assets of STAC items are taken ([`scan_inputs`]).
    pub assets: Assets,
    /// Most files at once; 0 for the requests of the store's options.
    pub files: usize,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// The files by what must agree.
    pub eras: Eras,
    /// The dimensions that were taken.
    pub layout: Layout,
    /// Whether they were taken from the first file.
    pub is_guessed: bool,
    /// Files that could not be read, in order.
    pub failed: Vec<FailedFile>,
}

/// A file that could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedFile {
    /// The file.
    pub url: String,
    /// Class of the error.
    pub class: ErrorClass,
    /// Why, in one line.
    pub error: String,
}

/// Reads the metadata of files, and what must be equal in all, and groups them. Each file is a task of the runtime; the
/// order is that of the items. `told` is called after each file with the numbers of files that were read and that failed.
///
/// # Errors
/// [`Error`] where the items end with one; files that cannot be read are none.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use virtualize_archive::{Item, ScanOptions, scan};
///
/// let files = ["fixtures/hdf5/netcdf4.nc", "fixtures/hdf5/chunked.h5"];
/// # std::env::set_current_dir("../..")?;
/// let items = files.map(|url| Ok(Item { url: url.to_owned(), ..Item::default() }));
/// let found = scan(futures::stream::iter(items), &ScanOptions::default(), |_, _| {}).await?;
/// assert_eq!((found.eras.eras().len(), found.failed.len()), (2, 0));
/// for stretch in found.eras.stretches().iter().skip(1) {
///     for difference in stretch.differences.iter().flat_map(|all| all.iter()).take(3) {
///         println!("{difference}");
///     }
/// }
/// # Ok(()) }
/// ```
pub async fn scan(
    items: impl Stream<Item = Result<Item, Error>>,
    options: &ScanOptions,
    mut told: impl FnMut(u64, u64),
) -> Result<Scan, Error> {
    let mut found = Scan { layout: options.layout.clone(), ..Scan::default() };
    let open = Arc::new(options.open.clone());
    pin_mut!(items);
    let mut read = 0;
    while found.layout.along.is_empty() && found.eras.is_empty() {
        let Some(item) = items.next().await else { return Ok(found) };
        let item = item?;
        match guess(&item, &open).await {
            Ok(guessed) => {
                found.is_guessed = guessed.is_some();
                found.layout.along.extend(guessed.map(Along::Concat));
            }
            Err(_) => tracing::debug!("{}: no dimension is taken from it", item.url),
        }
        found.keep(task(item, open.clone(), Arc::new(found.layout.clone())).await);
        read += 1;
        told(read, found.failed.len() as u64);
    }
    let layout = Arc::new(found.layout.clone());
    let files = if options.files == 0 { options.open.store.concurrency } else { options.files };
    let one = |item: Result<Item, Error>| {
        let (open, layout) = (open.clone(), layout.clone());
        async move { Ok::<_, Error>(task(item?, open, layout).await) }
    };
    let seen = items.map(one).buffered(files.clamp(1, 1024));
    pin_mut!(seen);
    while let Some(one) = seen.next().await {
        found.keep(one?);
        read += 1;
        told(read, found.failed.len() as u64);
    }
    Ok(found)
}

impl Scan {
    fn keep(&mut self, seen: Result<Seen, FailedFile>) {
        match seen {
            Ok(seen) => self.eras.add(seen),
            Err(failed) => self.failed.push(failed),
        }
    }
}

/// Why a file could not be read: its class, and one line.
type Reason = (ErrorClass, String);

/// Looks at a file in a task of its own, so that one that panics is only one that failed.
async fn task(item: Item, open: Arc<Options>, layout: Arc<Layout>) -> Result<Seen, FailedFile> {
    let url = item.url.clone();
    let failed = |(class, error): Reason| FailedFile { url, class, error: error.replace('\n', " ") };
    let task = tokio::spawn(async move {
        let member = member(item, &open, &layout).await?;
        Ok::<_, Reason>(Seen::of(&member, &layout))
    });
    match task.await {
        Ok(Ok(seen)) => Ok(seen),
        Ok(Err(error)) => Err(failed(error)),
        Err(error) => Err(failed((ErrorClass::File, format!("the reader ended early: {error}")))),
    }
}

async fn member(item: Item, open: &Options, layout: &Layout) -> Result<Member, Reason> {
    let store = opened(&item, open).await?;
    let read = wanted(&store.hierarchy, layout).read(&store, &open.store).await;
    let (values, digests) = read.map_err(|error| hinted(&error))?;
    let given = given(&item, layout).map_err(|error| (ErrorClass::File, error.to_string()))?;
    Ok(Member { item, hierarchy: store.hierarchy, values, digests, given })
}

async fn opened(item: &Item, open: &Options) -> Result<VirtualStore, Reason> {
    let Item { size, etag, modified, .. } = item.clone();
    let listed = Listed { size, etag, modified, ..Listed::of(&item.url) };
    let object = virtualize_store::open_listed(&listed, &open.store).await;
    let object = object.map_err(|error| hinted(&error.into()))?;
    virtualize::open_object(object, open).await.map_err(|error| hinted(&error))
}

fn hinted(error: &virtualize::Error) -> Reason {
    let text = match error {
        virtualize::Error::Values { path, .. } => {
            format!("{error} (--assume-equal {path} takes the first file's)")
        }
        other => other.hint().map_or_else(|| other.to_string(), |hint| format!("{other} ({hint})")),
    };
    (error.class(), text)
}

/// The dimension of time of a file: the first that is a coordinate, nearest to the root, and counts from a time.
async fn guess(item: &Item, open: &Options) -> Result<Option<String>, Reason> {
    let store = opened(item, open).await?;
    let arrays = store.hierarchy.arrays().into_iter();
    let times = arrays.filter(|(path, array)| {
        let units = array.attributes.get("units").and_then(|units| units.as_str());
        is_coordinate(path, array) && units.is_some_and(is_time)
    });
    let first = times.min_by_key(|(path, _)| path.matches('/').count());
    Ok(first.and_then(|(_, array)| array.dimension_names.first().cloned().flatten()))
}

/// Lists files, and scans them.
///
/// # Errors
/// As [`scan`]; inputs that cannot be listed.
pub async fn scan_inputs(
    inputs: Vec<Input>,
    options: &ScanOptions,
    told: impl FnMut(u64, u64),
) -> Result<Scan, Error> {
    let listing =
        ListOptions { store: options.open.store.clone(), assets: options.assets.clone(), absent: true };
    let items = list(inputs, options.filter.clone(), listing)?;
    scan(items.map(|item| Ok(item?)), options, told).await
}
