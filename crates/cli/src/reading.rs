//! Progress of reading a remote file, on a terminal.

use std::{
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tracing_subscriber::filter::LevelFilter;
use virtualize::{Stats, StoreOptions};

use crate::terminal::{self, counted, size};

/// Time after which progress is displayed.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two updates.
const BETWEEN: Duration = Duration::from_millis(200);

/// Reads a file, and displays how much has been read if that takes long. Nothing is displayed next to a log, for local files,
/// and if `quiet`.
pub(crate) async fn shown<T>(reading: impl Future<Output = T>, store: &StoreOptions, quiet: bool) -> T {
    let has_log = LevelFilter::current() != LevelFilter::OFF;
    let _display = (!quiet && !has_log && terminal::has_bars()).then(|| Display::start(store));
    reading.await
}

/// A line on standard error, which disappears when this is dropped. It is drawn by a thread of its own, since the one
/// that reads is also busy parsing.
struct Display {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Display {
    fn start(store: &StoreOptions) -> Self {
        let (end, ended) = mpsc::channel::<()>();
        let traffic = store.traffic.clone();
        let draw = move || {
            let style = ProgressStyle::with_template("{spinner} {wide_msg}");
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            let mut wait = PATIENCE;
            // Until the other end of the channel is dropped.
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                wait = BETWEEN;
                let stats = traffic.stats();
                if stats.levels > 0 {
                    bar.set_message(line(&stats));
                    bar.tick();
                }
            }
            bar.finish_and_clear();
        };
        let thread = thread::Builder::new().spawn(draw);
        Self { end: Some(end), thread: thread.ok() }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn line(stats: &Stats) -> String {
    let (levels, requests) = (counted(stats.levels, "level"), counted(stats.requests, "request"));
    format!("reading: {levels}, {requests}, {}", size(stats.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_units() {
        let stats = Stats { levels: 1, requests: 1600, bytes: 3 << 19, ..Stats::default() };
        assert_eq!(line(&stats), "reading: 1 level, 1,600 requests, 1.5 MiB");
    }
}
