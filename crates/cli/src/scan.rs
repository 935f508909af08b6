use std::io::{self, Write};
use std::sync::Arc;

use virtualize_archive::{ArraySignature, Difference, Scan, Stretch, scan_inputs};

use crate::{
    arguments::{self, Usage},
    batch::{log, stopped_by_signals},
    exit::Failure,
    messages::{self, printable},
    progress::Progress,
};

/// Number of stretches that are printed.
const STRETCHES: usize = 100;
/// Number of differences that are printed for a stretch.
const DIFFERENCES: usize = 10;
/// Longest printed difference, in characters.
const LONGEST: usize = 200;

/// Runs `virtualize scan INPUT…`.
pub(crate) async fn run(arguments: &arguments::Scan) -> Result<(), Failure> {
    let progress = Arc::new(Progress::of_scan(arguments.quiet, log(arguments.json_log.as_deref())?));
    let told = Arc::clone(&progress);
    let options = arguments.options(stopped_by_signals());
    let found = scan_inputs(arguments.inputs(), &options, move |event| told.tell(&event)).await;
    progress.finish();
    let found = found?;
    if let Some(path) = &arguments.output {
        let failed = |error: io::Error| Usage::File { path: path.display().to_string(), error };
        let mut file = io::BufWriter::new(std::fs::File::create(path).map_err(failed)?);
        json(&found, &mut file).and_then(|()| file.flush()).map_err(failed)?;
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    match arguments.json {
        true => json(&found, &mut out)?,
        false => table(&found, &mut out)?,
    }
    out.flush()?;
    for failed in &found.failed {
        messages::line(&format!("failed: {}", failed.error));
    }
    let disagrees = arguments.fail_on_mismatch && found.eras.eras().len() > 1;
    if disagrees || !found.failed.is_empty() { Err(Failure::Found) } else { Ok(()) }
}

fn json(found: &Scan, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &found.to_json())?;
    writeln!(out)
}

/// Prints the report as text: the stretches of files, the contents of the first era, and the number of failed files.
fn table(found: &Scan, out: &mut impl Write) -> io::Result<()> {
    let eras = found.eras.eras();
    let names: Vec<&str> = found.layout.along.iter().map(|along| along.name()).collect();
    let along = match (names.as_slice(), found.is_guessed) {
        ([], _) => ", no dimension along which they could be put together (give --concat-dim or --stack-dim)"
            .to_owned(),
        (names, true) => format!(" along {} (found in the first file)", printable(&names.join(", "))),
        (names, false) => format!(" along {}", printable(&names.join(", "))),
    };
    writeln!(out, "{}, {}{along}", plural(found.eras.len(), "file"), plural(eras.len(), "era"))?;
    if !found.eras.is_ordered() && !names.is_empty() {
        writeln!(out, "in the order of the listing, since not all have coordinates")?;
    }
    let stretches = found.eras.stretches();
    writeln!(
        out,
        "\n{:>5} {:>8}  {}",
        "era",
        "files",
        if names.is_empty() { "first and last file" } else { "coordinates, first and last file" }
    )?;
    for one in stretches.iter().take(STRETCHES) {
        stretch(one, out)?;
    }
    if stretches.len() > STRETCHES {
        writeln!(out, "{:>14}  and {} more (--json has all)", "", stretches.len() - STRETCHES)?;
    }
    for at in 0..eras.len().min(1) {
        era(found, at, &names, out)?;
    }
    if !found.failed.is_empty() {
        writeln!(out, "\n{} could not be read", plural(found.failed.len(), "file"))?;
    }
    Ok(())
}

fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Prints a stretch of files with its differences.
fn stretch(stretch: &Stretch<'_>, out: &mut impl Write) -> io::Result<()> {
    let range = |range: &Option<(&str, &str)>| {
        range.map(|(first, last)| format!("{} … {}", printable(first), printable(last)))
    };
    let ranges: Vec<String> = stretch.coordinates.iter().filter_map(range).collect();
    let name = |url: Option<&&str>| {
        url.map_or_else(String::new, |url| printable(url.strip_prefix("file://").unwrap_or(url)))
    };
    let (first, last) = (name(stretch.files.first()), name(stretch.files.last()));
    let files = if first == last { first } else { format!("{first} … {last}") };
    let coordinates = if ranges.is_empty() { String::new() } else { format!("{}  ", ranges.join("; ")) };
    writeln!(out, "{:>5} {:>8}  {coordinates}{files}", stretch.era, stretch.files.len())?;
    let Some(differences) = &stretch.differences else { return Ok(()) };
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

/// Prints the contents of an era's files.
fn era(found: &Scan, at: usize, names: &[&str], out: &mut impl Write) -> io::Result<()> {
    let Some(era) = found.eras.eras().get(at) else { return Ok(()) };
    writeln!(out, "\nera {at}: {} bytes, {} chunks", era.bytes, era.chunks)?;
    for (name, [least, most, all]) in names.iter().zip(&era.extents) {
        let each = if least == most { least.to_string() } else { format!("{least} to {most}") };
        writeln!(out, "  {} {all}: {each} a file", printable(name))?;
    }
    for (path, signed) in found.eras.arrays(at) {
        writeln!(out, "  /{}  {}", printable(path), printable(&array(signed)))?;
    }
    Ok(())
}

/// Describes an array: `float32 (time, lat 73), chunks (1, 73), bytes (little-endian), zlib`.
fn array(signed: &ArraySignature) -> String {
    let mut text = signed.to_string();
    if let Some(codecs) = &signed.codecs {
        text = format!("{text}; {}", codecs.join(", "));
    }
    text
}
