//! Reads one file, with as many attempts as may help.

use std::{
    any::Any,
    panic::AssertUnwindSafe,
    time::{Duration, Instant},
};

use futures::FutureExt;
use virtualize::{Code, ErrorClass};

use super::{Failure, ReadFile, ReadOptions, Reading, breaker::Breaker};
use crate::{
    Event, Item,
    event::Events,
    journal::{Done, Failed, Outcome, class_name},
};

/// Reads a file, retrying failures that may be temporary. Returns `None` if the breaker of its store is open. A panic
/// of the reader counts as a failure of the file.
pub(crate) async fn read<R: Send + 'static>(
    item: &Item,
    reader: &dyn ReadFile<R>,
    breaker: Option<&Breaker>,
    options: &ReadOptions,
    events: &Events,
) -> Option<Outcome<R>> {
    let mut started = false;
    let start = Instant::now();
    let (mut attempt, mut fresh) = (1, false);
    loop {
        if let Some(breaker) = breaker
            && !breaker.may_ask(item, reader, options).await
        {
            return None;
        }
        if !std::mem::replace(&mut started, true) {
            events.tell(Event::Started { url: item.url.clone() });
        }
        let begun = breaker.map_or(0, Breaker::begin);
        let result = read_once(item, reader, fresh).await;
        if let Some(breaker) = breaker {
            breaker.ended(begun, result.as_ref().map(|_| item));
        }
        let failure = match result {
            Ok(reading) => return Some(done(reading, attempt, fresh, start.elapsed())),
            Err(failure) => failure,
        };
        fresh |= failure.class == ErrorClass::Changed;
        let may_pass = matches!(failure.class, ErrorClass::Unavailable | ErrorClass::Changed);
        if !may_pass || attempt >= options.attempts {
            let Failure { class, error } = failure;
            return Some(Outcome::Failed(Failed { attempts: attempt, class, error }));
        }
        let wait = options.wait_after(attempt);
        let (url, error) = (item.url.clone(), failure.error);
        events.tell(Event::Retried { url, attempt, error, wait: wait.as_secs_f64() });
        tokio::time::sleep(wait).await;
        attempt += 1;
    }
}

/// Reads a file once; a panic of the reader becomes a failure.
async fn read_once<R: Send + 'static>(
    item: &Item,
    reader: &dyn ReadFile<R>,
    fresh: bool,
) -> Result<Reading<R>, Failure> {
    let result = AssertUnwindSafe(reader.read(item, fresh)).catch_unwind().await;
    result.unwrap_or_else(|panic| Err(panicked(item, panic.as_ref())))
}

fn done<R>(reading: Reading<R>, attempts: u32, fresh: bool, took: Duration) -> Outcome<R> {
    let Reading { opened, requests, retries, bytes, warnings, record } = reading;
    Outcome::Done(Box::new(Done {
        opened,
        replaced: fresh,
        attempts,
        seconds: took.as_secs_f64(),
        requests,
        retries,
        bytes,
        warnings,
        record,
    }))
}

fn panicked(item: &Item, panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    let error =
        format!("{}: the reader panicked: {} [{}]", item.url, text.replace('\n', " "), Code::Internal);
    Failure { class: ErrorClass::File, error }
}

/// Returns the event that reports how reading a file ended.
pub(crate) fn event<R>(item: &Item, outcome: &Outcome<R>) -> Event {
    let url = item.url.clone();
    match outcome {
        Outcome::Done(done) => Event::Read {
            url,
            seconds: done.seconds,
            requests: done.requests,
            retries: done.retries,
            bytes: done.bytes,
            warnings: done.warnings.clone(),
        },
        Outcome::Failed(failed) => Event::Failed {
            url,
            attempts: failed.attempts,
            class: class_name(failed.class).to_owned(),
            error: failed.error.clone(),
        },
    }
}
