//! Progress of a run: bars on a terminal, a line now and then elsewhere, JSON lines where they are wanted.

use std::{
    io::{IsTerminal, Write},
    sync::Mutex,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use virtualize_archive::Event;

use crate::messages::{self, printable};

/// Time between two lines where there is no terminal.
const BETWEEN: Duration = Duration::from_secs(3);
/// What is on the bar's line.
const TEMPLATE: &str = "{bar:30} {pos}/{len} files, {per_sec}, {eta} left{msg}";

/// Shows what happens.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
    /// Warnings of single files, and the length of the listing, are not what is asked for.
    is_scan: bool,
    state: Mutex<State>,
}

struct State {
    log: Option<Box<dyn Write + Send>>,
    last: Instant,
    files: u64,
    pending: u64,
    read: u64,
    failed: u64,
}

impl Progress {
    /// To standard error; `log` takes all events as lines of JSON.
    pub(crate) fn new(quiet: bool, log: Option<Box<dyn Write + Send>>) -> Self {
        let shown = !quiet && std::io::stderr().is_terminal();
        let bar = shown.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
            bar.with_style(
                ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar()),
            )
        });
        let state = State { log, last: Instant::now(), files: 0, pending: 0, read: 0, failed: 0 };
        Self { bar, quiet, is_scan: false, state: Mutex::new(state) }
    }

    /// Of a scan, which tells what it found at its end.
    pub(crate) fn of_scan(quiet: bool, log: Option<Box<dyn Write + Send>>) -> Self {
        Self { is_scan: true, ..Self::new(quiet, log) }
    }

    /// Something happened.
    pub(crate) fn tell(&self, event: &Event) {
        let Ok(mut state) = self.state.lock() else { return };
        state.write_log(event);
        match event {
            Event::Listed { files, pending, complete } => {
                (state.files, state.pending) = (*files, *pending);
                if *complete {
                    if !self.is_scan {
                        self.say(&format!("{files} files listed, {pending} to be read"));
                        self.with_bar(ProgressBar::reset);
                    }
                    self.with_bar(|bar| bar.set_length(*pending));
                }
            }
            Event::Read { url, warnings, .. } => {
                state.read += 1;
                for warning in warnings.iter().filter(|_| !self.is_scan) {
                    self.say(&format!("warning: {url}: {warning}"));
                }
            }
            Event::Failed { error, attempts, .. } => {
                state.failed += 1;
                if !self.is_scan {
                    self.say(&format!("failed (attempt {attempts}): {error}"));
                }
            }
            Event::Retried { error, wait, .. } => self.say(&format!("again in {wait:.1} s: {error}")),
            Event::Skipped { url, reason } => self.say(&format!("skipped: {url}: {reason}")),
            Event::Note { text } => self.say(&format!("note: {text}")),
            Event::Writing { target } => self.say(&format!("writing {target}")),
            _ => {}
        }
        self.show(&mut state);
    }

    /// The run is over.
    pub(crate) fn finish(&self) {
        self.with_bar(ProgressBar::finish_and_clear);
        if let Ok(mut state) = self.state.lock()
            && let Some(log) = &mut state.log
        {
            let _ = log.flush();
        }
    }

    fn show(&self, state: &mut State) {
        let done = state.read + state.failed;
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            if state.failed > 0 {
                bar.set_message(format!(", {} failed", state.failed));
            }
        } else if state.last.elapsed() >= BETWEEN && done > 0 {
            state.last = Instant::now();
            self.say(&format!("{done} of {} files, {} failed", state.pending, state.failed));
        }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            _ if self.quiet => {}
            Some(bar) => bar.suspend(|| messages::line(text)),
            None => messages::line(&printable(text)),
        }
    }

    fn with_bar(&self, act: impl FnOnce(&ProgressBar)) {
        if let Some(bar) = &self.bar {
            act(bar);
        }
    }
}

impl State {
    /// A line of JSON: the time in seconds since 1970, and the event.
    fn write_log(&mut self, event: &Event) {
        let Some(log) = &mut self.log else { return };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let mut line = json!(event);
        if let Some(line) = line.as_object_mut() {
            line.insert("time".to_owned(), json!(time));
        }
        // Nobody may be listening, which is no reason to end.
        let _ = writeln!(log, "{line}");
    }
}
