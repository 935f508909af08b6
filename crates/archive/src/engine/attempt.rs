//! One file: tried, tried again where that may help, and else given up with its reason.

use std::{
    any::Any,
    panic::AssertUnwindSafe,
    time::{Duration, Instant},
};

use futures::FutureExt;
use virtualize::ErrorClass;

use super::{
    EngineOptions, ReadFuture,
    breaker::{Breaker, Probe},
};
use crate::{
    Event, Item,
    event::Events,
    journal::{Done, Failed, Outcome, class_name},
};

/// Longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Reads a file.
pub(crate) trait ReadFile: Probe + Send {
    /// What comes of a file.
    type Content: Send + 'static;

    /// Reads it; `fresh` where what the listing said of it is not to be believed any more.
    fn read<'a>(&'a self, item: &'a Item, fresh: bool) -> ReadFuture<'a, Self::Content>;
}

/// What was read.
#[derive(Debug)]
pub(crate) struct Reading<C> {
    /// The file as it was opened.
    pub(crate) opened: Item,
    /// Requests that it took.
    pub(crate) requests: u64,
    /// Bytes that came.
    pub(crate) bytes: u64,
    /// What the user should know, one line each.
    pub(crate) warnings: Vec<String>,
    /// What came of it.
    pub(crate) content: C,
}

/// Why a file could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// Its class, on which it depends whether it is tried again.
    pub(crate) class: ErrorClass,
    /// One line that names the file.
    pub(crate) error: String,
}

/// Reads a file as often as may be; nothing where its store is not asked any more. What panics has failed.
pub(crate) async fn read<C: Send + 'static>(
    item: &Item,
    read: &dyn ReadFile<Content = C>,
    breaker: Option<&Breaker>,
    options: &EngineOptions,
    events: &Events,
) -> Option<Outcome<C>> {
    let mut started = false;
    let start = Instant::now();
    let (mut attempt, mut fresh) = (1, false);
    loop {
        if let Some(breaker) = breaker
            && !breaker.may_ask(item, read, options).await
        {
            return None;
        }
        if !std::mem::replace(&mut started, true) {
            events.tell(Event::Started { url: item.url.clone() });
        }
        let begun = breaker.map_or(0, Breaker::begin);
        let result = once(item, read, fresh).await;
        if let Some(breaker) = breaker {
            breaker.ended(begun, result.as_ref().map(|_| item));
        }
        let failure = match result {
            Ok(reading) => return Some(done(reading, attempt, fresh, start.elapsed())),
            Err(failure) => failure,
        };
        fresh |= failure.class == ErrorClass::Changed;
        let may_help = matches!(failure.class, ErrorClass::Unavailable | ErrorClass::Changed);
        if !may_help || attempt >= options.attempts {
            let Failure { class, error } = failure;
            return Some(Outcome::Failed(Failed { attempts: attempt, class, error }));
        }
        let wait = wait(options.wait, attempt);
        let (url, error) = (item.url.clone(), failure.error);
        events.tell(Event::Retried { url, attempt, error, wait: wait.as_secs_f64() });
        tokio::time::sleep(wait).await;
        attempt += 1;
    }
}

async fn once<C: Send + 'static>(
    item: &Item,
    read: &dyn ReadFile<Content = C>,
    fresh: bool,
) -> Result<Reading<C>, Failure> {
    let result = AssertUnwindSafe(read.read(item, fresh)).catch_unwind().await;
    result.unwrap_or_else(|panic| Err(panicked(item, panic.as_ref())))
}

/// Between half of the time and one and a half: that many who wait do not come back at once.
pub(super) fn wait(first: Duration, attempt: u32) -> Duration {
    let doubled = first.saturating_mul(1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX));
    doubled.min(LONGEST_WAIT).mul_f64(0.5 + fastrand::f64())
}

fn done<C>(reading: Reading<C>, attempts: u32, fresh: bool, took: Duration) -> Outcome<C> {
    let Reading { opened, requests, bytes, warnings, content } = reading;
    Outcome::Done(Box::new(Done {
        opened,
        replaced: fresh,
        attempts,
        seconds: took.as_secs_f64(),
        requests,
        bytes,
        warnings,
        content,
    }))
}

fn panicked(item: &Item, panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    let error = format!("{}: the reader panicked: {}", item.url, text.replace('\n', " "));
    Failure { class: ErrorClass::File, error }
}

/// How the reading of a file ended, as it is told.
pub(crate) fn event<C>(item: &Item, outcome: &Outcome<C>) -> Event {
    let url = item.url.clone();
    match outcome {
        Outcome::Done(done) => Event::Read {
            url,
            seconds: done.seconds,
            requests: done.requests,
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
