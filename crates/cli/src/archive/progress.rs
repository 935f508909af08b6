//! Progress of a run: a bar on a terminal, occasional lines elsewhere, and JSON lines on request.

use std::{
    collections::HashSet,
    io::Write,
    sync::Mutex,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use virtualize_archive::Event;

use crate::{messages, terminal};

/// Minimum time between two progress lines without a terminal.
const BETWEEN: Duration = Duration::from_secs(3);
/// Template of the progress bar.
const TEMPLATE: &str = "{bar:30} {pos}/{len} files, {per_sec}, {eta} left{msg}";

/// Display of a run's events.
pub(crate) struct Progress {
    /// Hidden without a terminal, and if the run is quiet.
    bar: ProgressBar,
    quiet: bool,
    /// Whether the run is a scan. Warnings and failures of single files and the length of the listing are not shown
    /// then.
    is_scan: bool,
    state: Mutex<State>,
}

struct State {
    /// Number of files that are to be read, that were read, and that failed.
    pending: u64,
    read: u64,
    failed: u64,
    log: Option<Box<dyn Write + Send>>,
    last: Instant,
    /// Notes that were printed.
    notes: HashSet<String>,
}

impl Progress {
    /// Returns the display of a batch or scan on standard error. `log` receives all events as JSON lines.
    pub(crate) fn new(is_scan: bool, quiet: bool, log: Option<Box<dyn Write + Send>>) -> Self {
        let target = match !quiet && terminal::has_bars() {
            true => ProgressDrawTarget::stderr_with_hz(5),
            false => ProgressDrawTarget::hidden(),
        };
        let style = ProgressStyle::with_template(TEMPLATE);
        let bar = ProgressBar::with_draw_target(None, target)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let state =
            State { pending: 0, read: 0, failed: 0, log, last: Instant::now(), notes: HashSet::new() };
        Self { bar, quiet, is_scan, state: Mutex::new(state) }
    }

    /// Handles an event.
    pub(crate) fn tell(&self, event: &Event) {
        let Ok(mut state) = self.state.lock() else { return };
        if let Some(log) = &mut state.log {
            let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
            let mut line = json!(event);
            if let Some(line) = line.as_object_mut() {
                line.insert("time".to_owned(), json!(time));
            }
            // The run continues if the log's reader is gone.
            let _ = writeln!(log, "{line}");
        }
        match event {
            Event::Listed { pending, .. } => state.pending = *pending,
            Event::Read { .. } => state.read += 1,
            Event::Failed { .. } => state.failed += 1,
            _ => {}
        }
        match event {
            Event::Listed { files, pending, complete: true } => {
                if !self.is_scan {
                    self.say(&format!("{files} files listed, {pending} to be read"));
                    self.bar.reset();
                }
                self.bar.set_length(*pending);
            }
            Event::Read { url, warnings, .. } => {
                let warnings =
                    warnings.iter().map(|warning| warning.split_once(": ").unwrap_or(("", warning)));
                for warning in messages::folded(warnings.filter(|_| !self.is_scan)) {
                    self.say(&format!("warning: {url}: {warning}"));
                }
            }
            Event::Failed { error, attempts, .. } if !self.is_scan => {
                self.say(&format!("failed (attempt {attempts}): {error}"));
            }
            Event::Retried { error, wait, .. } => self.say(&format!("again in {wait:.1} s: {error}")),
            Event::Skipped { url, reason } => self.say(&format!("skipped: {url}: {reason}")),
            Event::Note { text } => {
                self.say(&format!("note: {text}"));
                state.notes.insert(text.clone());
            }
            Event::Writing { target } => self.say(&format!("writing {target}")),
            _ => {}
        }
        // The bar or, without a terminal, a line at intervals.
        let (done, failed, pending) = (state.read + state.failed, state.failed, state.pending);
        if !self.bar.is_hidden() {
            self.bar.set_position(done);
            if failed > 0 {
                self.bar.set_message(format!(", {failed} failed"));
            }
        } else if state.last.elapsed() >= BETWEEN && done > 0 {
            state.last = Instant::now();
            self.say(&format!("{done} of {pending} files, {failed} failed"));
        }
    }

    /// Returns whether a note was printed during the run.
    pub(crate) fn has_note(&self, text: &str) -> bool {
        self.state.lock().is_ok_and(|state| state.notes.contains(text))
    }

    /// Removes the bar and flushes the log.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
        if let Ok(mut state) = self.state.lock()
            && let Some(log) = &mut state.log
        {
            let _ = log.flush();
        }
    }

    /// Prints a message, unless the run is quiet.
    fn say(&self, text: &str) {
        if !self.quiet {
            self.bar.suspend(|| messages::line(text));
        }
    }
}
