#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    sync::{Mutex, atomic::AtomicUsize, atomic::Ordering},
    time::Duration,
};

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use virtualize::ErrorClass;

use super::*;
use crate::{
    Error, Event, Item,
    journal::{Accept, Listing},
};

/// A reader whose files behave as their names suggest.
#[derive(Default)]
struct Fake {
    tries: Mutex<BTreeMap<String, Vec<bool>>>,
    under_way: AtomicUsize,
    most: AtomicUsize,
}

impl ReadFile for Fake {
    fn probe<'a>(&'a self, item: &'a Item) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move { self.read(item, true).await.map(drop) })
    }

    fn read<'a>(&'a self, item: &'a Item, fresh: bool) -> BoxFuture<'a, Result<Done, Failure>> {
        Box::pin(async move {
            let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(2)).await;
            self.under_way.fetch_sub(1, Ordering::SeqCst);
            let nth = {
                let mut tries = self.tries.lock().unwrap();
                let tries = tries.entry(item.url.clone()).or_default();
                tries.push(fresh);
                tries.len()
            };
            let failure = |class| Err(Failure { attempts: 1, class, error: format!("{}: no", item.url) });
            match item.url.split(' ').next().unwrap() {
                "panics" => panic!("out of its depth"),
                "damaged" => failure(ErrorClass::File),
                "never" => failure(ErrorClass::Unavailable),
                "later" if nth < 3 => failure(ErrorClass::Unavailable),
                "changes" if nth < 2 => failure(ErrorClass::Changed),
                "forever" => std::future::pending().await,
                _ => Ok(Done {
                    replaced: fresh,
                    attempts: 1,
                    seconds: 0.0,
                    opened: Item { etag: Some("new".to_owned()), ..item.clone() },
                    requests: 1,
                    retries: 0,
                    bytes: 1,
                    warnings: Vec::new(),
                    related: BTreeMap::new(),
                    record: Record::Written { name: item.url.clone(), receipt: String::new() },
                }),
            }
        })
    }
}

fn journal(urls: &[String]) -> (tempfile::TempDir, Journal) {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(&folder.path().join("j")).unwrap();
    list(&mut journal, urls);
    (folder, journal)
}

/// Makes files those of the journal; returns the number of files to read.
fn list(journal: &mut Journal, urls: &[String]) -> u64 {
    let items: Vec<_> = urls.iter().map(|url| Item { url: url.clone(), ..Item::default() }).collect();
    let mut listing = Listing::default();
    journal.stage(&items, &mut listing).unwrap();
    journal.accept(Accept::default(), &BTreeMap::new(), None).unwrap();
    listing.pending
}

fn options() -> ReadOptions {
    let cancel = CancellationToken::new();
    ReadOptions { files: 8, attempts: 3, wait: Duration::from_millis(1), cancel }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_file_is_tried_as_often_as_that_may_help() {
    let mut urls: Vec<String> =
        ["panics", "damaged", "never", "later", "changes"].map(str::to_owned).to_vec();
    urls.extend((0..50).map(|n| format!("good {n}")));
    let (_folder, mut journal) = journal(&urls);
    let (fake, log) = (Arc::new(Fake::default()), Arc::new(Mutex::new(Vec::new())));
    let events = Events::new({
        let log = Arc::clone(&log);
        move |event| log.lock().unwrap().push(event)
    });
    let reader = Arc::clone(&fake) as Arc<dyn ReadFile>;
    assert_eq!(read_journal(&mut journal, reader, &options(), &events, false).await.unwrap(), []);
    let counts = journal.counts().unwrap();
    assert_eq!((counts.pending, counts.done, counts.failed), (0, 52, 3));
    let failures = journal.failures(9).unwrap();
    assert_eq!(
        failures,
        ["panics: the reader panicked: out of its depth [internal]", "damaged: no", "never: no"]
    );
    assert!(fake.most.load(Ordering::SeqCst) <= 8);
    let tries = fake.tries.lock().unwrap();
    assert_eq!(tries["changes"], [false, true], "what was listed is not believed any more");
    assert_eq!((tries["never"].len(), tries["later"].len(), tries["damaged"].len()), (3, 3, 1));
    let log = log.lock().unwrap();
    let count = |is: fn(&Event) -> bool| log.iter().filter(|event| is(event)).count();
    assert_eq!(count(|event| matches!(event, Event::Started { .. })), 55);
    assert_eq!(count(|event| matches!(event, Event::Read { .. })), 52);
    assert_eq!(count(|event| matches!(event, Event::Retried { .. })), 5);
    assert_eq!(count(|event| matches!(event, Event::Failed { .. })), 3);
}

#[tokio::test]
async fn a_stopped_run_keeps_what_is_done() {
    let urls: Vec<String> = (0..20).map(|n| format!("good {n}")).chain(["forever".to_owned()]).collect();
    let (folder, mut journal) = journal(&urls);
    let options = options();
    let (cancel, seen) = (options.cancel.clone(), AtomicUsize::new(0));
    let events = Events::new(move |event| {
        let is_read = matches!(event, Event::Read { .. });
        if is_read && seen.fetch_add(1, Ordering::SeqCst) == 19 {
            cancel.cancel();
        }
    });
    let read = read_journal(&mut journal, Arc::new(Fake::default()), &options, &events, false).await;
    assert!(matches!(read, Err(Error::Stopped { done: 20, files: 21 })), "{read:?}");
    drop(journal);
    let mut journal = Journal::open(&folder.path().join("j")).unwrap();
    let item = Item { url: "good 3".to_owned(), ..Item::default() };
    let mut listing = Listing::default();
    journal.stage(&[item], &mut listing).unwrap();
    assert_eq!(listing.pending, 0);
}

/// A store that rejects the requests to its bucket `b` whose numbers are in `down`.
struct Outages {
    requests: AtomicUsize,
    down: std::ops::Range<usize>,
    class: ErrorClass,
    /// Files that always fail.
    private: fn(&str) -> bool,
}

impl Outages {
    fn new(down: std::ops::Range<usize>, class: ErrorClass) -> Arc<Self> {
        Arc::new(Self { requests: AtomicUsize::new(0), down, class, private: |_| false })
    }

    fn ask(&self, item: &Item) -> Result<(), Failure> {
        let number = self.requests.fetch_add(1, Ordering::SeqCst);
        let is_down = item.url.starts_with("s3://b/") && self.down.contains(&number);
        match is_down || (self.private)(&item.url) {
            true => Err(Failure { attempts: 1, class: self.class, error: format!("{}: no", item.url) }),
            false => Ok(()),
        }
    }
}

impl ReadFile for Outages {
    fn probe<'a>(&'a self, item: &'a Item) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move { self.ask(item) })
    }

    fn read<'a>(&'a self, item: &'a Item, _: bool) -> BoxFuture<'a, Result<Done, Failure>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.ask(item)?;
            let record = Record::Written { name: item.url.clone(), receipt: String::new() };
            Ok(Done {
                replaced: false,
                attempts: 1,
                seconds: 0.0,
                opened: item.clone(),
                requests: 1,
                retries: 0,
                bytes: 1,
                warnings: Vec::new(),
                related: BTreeMap::new(),
                record,
            })
        })
    }
}

fn of_bucket(files: std::ops::Range<usize>) -> Vec<String> {
    files.map(|n| format!("s3://b/{n:04}")).collect()
}

async fn read_urls(urls: &[String], store: &Arc<Outages>) -> (Vec<Outage>, Journal, tempfile::TempDir) {
    let (folder, mut journal) = journal(urls);
    let reader = Arc::clone(store) as Arc<dyn ReadFile>;
    let outages = read_journal(&mut journal, reader, &options(), &Events::new(|_| {}), false).await;
    (outages.unwrap(), journal, folder)
}

#[tokio::test]
async fn an_outage_leaves_files_unread() {
    for class in [ErrorClass::Unavailable, ErrorClass::Denied] {
        let store = Outages::new(100..usize::MAX, class);
        let (outages, journal, folder) = read_urls(&of_bucket(0..1000), &store).await;
        let outages: Vec<_> = outages.iter().map(|one| (one.store.as_str(), one.left)).collect();
        assert_eq!((outages, journal.counts().unwrap().pending), (vec![("s3://b", 900)], 900));
        drop(journal);
        assert!(store.requests.load(Ordering::SeqCst) < 150, "{:?}", store.requests);
        // A second run resumes once the store answers.
        let mut journal = Journal::open(&folder.path().join("j")).unwrap();
        assert_eq!(list(&mut journal, &of_bucket(0..1000)), 900);
        let store = Outages::new(0..0, class);
        read_journal(&mut journal, store, &options(), &Events::new(|_| {}), false).await.unwrap();
        let counts = journal.counts().unwrap();
        assert_eq!((counts.done, counts.failed, counts.pending), (1000, 0, 0));
    }
}

#[tokio::test]
async fn an_outage_that_passes_is_waited_for() {
    let store = Outages::new(100..110, ErrorClass::Unavailable);
    let (_, journal, _folder) = read_urls(&of_bucket(0..400), &store).await;
    let counts = journal.counts().unwrap();
    assert_eq!((counts.done, counts.failed), (400, 0));
}

#[tokio::test]
async fn files_that_fail_among_good_ones_are_not_an_outage() {
    for class in [ErrorClass::Unavailable, ErrorClass::Denied] {
        let private = |url: &str| ("s3://b/0100".."s3://b/0150").contains(&url) || url.ends_with('7');
        let store = Arc::new(Outages { private, ..Arc::into_inner(Outages::new(0..0, class)).unwrap() });
        let (_, journal, _folder) = read_urls(&of_bucket(0..400), &store).await;
        let counts = journal.counts().unwrap();
        assert_eq!((counts.done, counts.failed, counts.pending), (315, 85, 0), "{class:?}");
    }
    let private = |url: &str| url < "s3://b/0040";
    let new = Arc::into_inner(Outages::new(0..0, ErrorClass::Denied)).unwrap();
    let store = Arc::new(Outages { private, ..new });
    let (_, journal, _folder) = read_urls(&of_bucket(0..100), &store).await;
    assert_eq!(journal.counts().unwrap().failed, 40, "a private folder that comes first");
}

#[tokio::test]
async fn other_stores_are_read_to_the_end() {
    let store = Outages::new(0..usize::MAX, ErrorClass::Unavailable);
    let mut urls = of_bucket(0..100);
    urls.extend((0..100).map(|n| format!("https://h/{n}")));
    urls.extend((0..100).map(|n| format!("/local/{n}")));
    let (outages, journal, _folder) = read_urls(&urls, &store).await;
    let counts = journal.counts().unwrap();
    assert_eq!((outages.len(), counts.pending, counts.done), (1, 100, 200));
    assert!(store.requests.load(Ordering::SeqCst) < 200 + 50);
}
