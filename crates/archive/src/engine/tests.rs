#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    sync::{Mutex, atomic::AtomicUsize, atomic::Ordering},
};

use virtualize::ErrorClass;

use super::*;
use crate::{
    Error, Event, Item,
    journal::{Accept, Content, Journal, Listing},
};

/// Files behave as their names say.
#[derive(Default)]
struct Fake {
    tries: Mutex<BTreeMap<String, Vec<bool>>>,
    under_way: AtomicUsize,
    most: AtomicUsize,
}

impl ReadFile for Fake {
    type Content = Content;

    fn read<'a>(&'a self, item: &'a Item, fresh: bool) -> ReadFuture<'a, Content> {
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
            let failure = |class| Err(Failure { class, error: format!("{}: no", item.url) });
            match item.url.split(' ').next().unwrap() {
                "panics" => panic!("out of its depth"),
                "damaged" => failure(ErrorClass::File),
                "never" => failure(ErrorClass::Unavailable),
                "later" if nth < 3 => failure(ErrorClass::Unavailable),
                "changes" if nth < 2 => failure(ErrorClass::Changed),
                "forever" => std::future::pending().await,
                _ => Ok(Reading {
                    opened: Item { etag: Some("new".to_owned()), ..item.clone() },
                    requests: 1,
                    bytes: 1,
                    warnings: Vec::new(),
                    content: Content::Written { name: item.url.clone(), receipt: String::new() },
                }),
            }
        })
    }
}

fn journal(urls: &[String]) -> (tempfile::TempDir, Journal) {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(&folder.path().join("j")).unwrap();
    let items: Vec<_> = urls.iter().map(|url| Item { url: url.clone(), ..Item::default() }).collect();
    journal.stage(&items, &mut Listing::default()).unwrap();
    journal.accept(Accept::default(), &BTreeMap::new(), None).unwrap();
    (folder, journal)
}

fn options() -> EngineOptions {
    let cancel = CancellationToken::new();
    EngineOptions { files: 8, attempts: 3, wait: Duration::from_millis(1), cancel }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_file_is_tried_as_often_as_that_may_help() {
    let mut urls: Vec<String> =
        ["panics", "damaged", "never", "later", "changes"].map(str::to_owned).to_vec();
    urls.extend((0..50).map(|n| format!("good {n}")));
    let (_folder, journal) = journal(&urls);
    let (fake, told) = (Arc::new(Fake::default()), Arc::new(Mutex::new(Vec::new())));
    let events = Events::new({
        let told = Arc::clone(&told);
        move |event| told.lock().unwrap().push(event)
    });
    let journal =
        run_journal(journal, Arc::clone(&fake) as Arc<dyn ReadFile<Content = Content>>, &options(), &events)
            .await
            .unwrap();
    let counts = journal.counts().unwrap();
    assert_eq!((counts.pending, counts.done, counts.failed), (0, 52, 3));
    let failures = journal.failures(9).unwrap();
    assert_eq!(failures, ["panics: the reader panicked: out of its depth", "damaged: no", "never: no"]);
    assert!(fake.most.load(Ordering::SeqCst) <= 8);
    let tries = fake.tries.lock().unwrap();
    assert_eq!(tries["changes"], [false, true], "what was listed is not believed any more");
    assert_eq!((tries["never"].len(), tries["later"].len(), tries["damaged"].len()), (3, 3, 1));
    let told = told.lock().unwrap();
    let count = |is: fn(&Event) -> bool| told.iter().filter(|event| is(event)).count();
    assert_eq!(count(|event| matches!(event, Event::Started { .. })), 55);
    assert_eq!(count(|event| matches!(event, Event::Read { .. })), 52);
    assert_eq!(count(|event| matches!(event, Event::Retried { .. })), 5);
    assert_eq!(count(|event| matches!(event, Event::Failed { .. })), 3);
}

#[tokio::test]
async fn a_stopped_run_keeps_what_is_done() {
    let urls: Vec<String> = (0..20).map(|n| format!("good {n}")).chain(["forever".to_owned()]).collect();
    let (folder, journal) = journal(&urls);
    let options = options();
    let (cancel, seen) = (options.cancel.clone(), AtomicUsize::new(0));
    let events = Events::new(move |event| {
        let is_read = matches!(event, Event::Read { .. });
        if is_read && seen.fetch_add(1, Ordering::SeqCst) == 19 {
            cancel.cancel();
        }
    });
    let error = run_journal(journal, Arc::new(Fake::default()), &options, &events).await.unwrap_err();
    assert!(matches!(error, Error::Stopped { done: 20, files: 21 }), "{error}");
    let mut journal = Journal::open(&folder.path().join("j")).unwrap();
    let item = Item { url: "good 3".to_owned(), ..Item::default() };
    let mut listing = Listing::default();
    journal.stage(&[item], &mut listing).unwrap();
    assert_eq!(listing.pending, 0);
}
