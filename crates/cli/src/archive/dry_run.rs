//! The report of a dry run.

use std::{
    io::{self, Write},
    sync::Arc,
};

use virtualize::Stats;
use virtualize_archive::{Batch, DryRun, Estimate, Prices, SampleGroup, Survey};

use crate::{
    archive::progress::Progress,
    arguments,
    error::Failure,
    messages::printable,
    units::{size, tenth},
};

/// Number of differences that are printed for a group.
const DIFFERENCES: usize = 5;
/// Number of failed files that are printed.
const FAILURES: usize = 10;

/// Runs `virtualize batch --dry-run`. The exit status is 1 if something would be refused.
pub(crate) async fn run(
    batch: &Batch,
    arguments: &arguments::DryRun,
    progress: &Arc<Progress>,
) -> Result<(), Failure> {
    let options = arguments.options();
    let told = Arc::clone(progress);
    let found = batch.dry_run(&options, move |event| told.tell(&event)).await;
    progress.finish();
    let found = found?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    match arguments.json {
        true => {
            serde_json::to_writer_pretty(&mut out, &found).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        false => report(&found, &mut out)?,
    }
    out.flush()?;
    if found.refused.is_empty() && found.failed.is_empty() { Ok(()) } else { Err(Failure::Found) }
}

fn report(found: &DryRun, out: &mut impl Write) -> io::Result<()> {
    files(&found.survey, found.vanished, out)?;
    sample(found, out)?;
    for group in &found.groups {
        self::group(group, out)?;
    }
    for note in &found.notes {
        line(out, &format!("note: {note}"))?;
    }
    for failure in found.failed.iter().take(FAILURES) {
        line(out, &format!("failed: {}", failure.error))?;
    }
    for reason in &found.refused {
        line(out, &format!("refused: {reason}"))?;
    }
    match &found.estimate {
        Some(estimate) => self::estimate(estimate, found, out),
        None if found.survey.to_read == 0 => line(out, "nothing is to be read"),
        None => line(out, "no estimate: no file of the sample can be read"),
    }
}

fn files(survey: &Survey, vanished: u64, out: &mut impl Write) -> io::Result<()> {
    let Survey { files, new, changed, to_read, without_size, bytes, bytes_to_read } = *survey;
    let known = files.saturating_sub(new).saturating_sub(changed);
    let unknown =
        if without_size > 0 { format!(" and {without_size} files of unknown size") } else { String::new() };
    line(
        out,
        &format!(
            "files: {files} listed ({}{unknown}): {new} new, {known} known, {changed} changed, {vanished} vanished",
            size(bytes)
        ),
    )?;
    line(out, &format!("to be read: {} ({})", count(to_read), size(bytes_to_read)))
}

fn sample(found: &DryRun, out: &mut impl Write) -> io::Result<()> {
    let Stats { requests, bytes, retries, .. } = &found.sample_stats;
    let (files, failed) = (found.sample, found.failed.len());
    line(
        out,
        &format!(
            "sample: {}, {failed} failed; a file: {} requests, {}; {retries}",
            count(files),
            tenth(*requests, files.max(1)),
            size(bytes / files.max(1))
        ),
    )
}

fn group(group: &SampleGroup, out: &mut impl Write) -> io::Result<()> {
    line(out, &format!("group: {} of the sample, such as {}", count(group.files), group.first))?;
    for difference in group.differences.iter().take(DIFFERENCES) {
        line(out, &format!("  {difference}"))?;
    }
    match group.differences.len().saturating_sub(DIFFERENCES) {
        0 => Ok(()),
        more => line(out, &format!("  and {more} more differences")),
    }
}

fn estimate(estimate: &Estimate, found: &DryRun, out: &mut impl Write) -> io::Result<()> {
    let Estimate { files, requests, listings, bytes, seconds, memory, journal, cost } = estimate;
    let Prices { get, list } = found.prices;
    let sample = found.sample.saturating_sub(found.failed.len() as u64);
    line(out, &format!("estimate for {}, from {}:", count(*files), count(sample)))?;
    line(out, &format!("  requests      {requests}, and {listings} for listings"))?;
    line(out, &format!("  bytes fetched {}", size(*bytes)))?;
    line(out, &format!("  time          {seconds:.1} s to read the files, {} at once", found.at_once))?;
    line(out, &format!("  memory        {}", size(*memory)))?;
    line(out, &format!("  journal       {}", size(*journal)))?;
    line(
        out,
        &format!(
            "  requests cost ${cost:.4} (${get} per 1,000 GET, ${list} per 1,000 LIST, none for local files and web servers)"
        ),
    )
}

fn line(out: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(out, "{}", printable(text))
}

fn count(files: u64) -> String {
    if files == 1 { "1 file".to_owned() } else { format!("{files} files") }
}
