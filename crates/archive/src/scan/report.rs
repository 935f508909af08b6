//! The result of a scan as text and as JSON.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use serde_json::{Value, json};
use virtualize::{Notation, OptionName, Remedy, describe::printable};
use virtualize_remedy::alternatives;

use super::{FileRun, Scan};
use crate::{Along, Difference, compat::ArraySignature};

/// Number of runs that are printed.
const MAX_RUNS: usize = 100;
/// Number of differences that are printed for a run.
const DIFFERENCES: usize = 10;
/// Longest printed difference, in characters.
const LONGEST: usize = 200;

impl Scan {
    /// Writes the result as text: the runs of files, the contents of the first set, and the number of failed
    /// files.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn table(&self, out: &mut impl Write, notation: Notation) -> io::Result<()> {
        let names: Vec<&str> = self.layout.along.iter().map(Along::name).collect();
        heading(self, &names, notation, out)?;
        let arrays = (0..self.sets.sets().len()).flat_map(|set| self.sets.arrays(set));
        let existing: BTreeSet<&str> =
            arrays.flat_map(|(_, array)| array.dimensions.iter().flatten().map(String::as_str)).collect();
        for along in &self.layout.along {
            if let Along::Concat(name) = along
                && !existing.contains(name.as_str())
                && !self.sets.is_empty()
            {
                let existing = alternatives("dimensions", name, existing.iter().copied());
                writeln!(out, "no array has a dimension {}", printable(&format!("{name}{existing}")))?;
            }
        }
        runs(self, &names, out)?;
        if !self.sets.sets().is_empty() {
            set(self, 0, &names, out)?;
        }
        if !self.failed.is_empty() {
            writeln!(out, "\n{} could not be read", plural(self.failed.len(), "file"))?;
        }
        Ok(())
    }
}

/// Prints the numbers of files and sets, and the dimensions.
fn heading(found: &Scan, names: &[&str], notation: Notation, out: &mut impl Write) -> io::Result<()> {
    let dimensions = Remedy::turn_on(OptionName::ConcatDim, "choose one")
        .or(Remedy::turn_on(OptionName::StackDim, "add one"));
    let along = match (names, found.is_guessed) {
        ([], _) => notation.append(", no dimension to combine them along", Some(&dimensions)),
        (names, true) => format!(" along {} (found in the first file)", printable(&names.join(", "))),
        (names, false) => format!(" along {}", printable(&names.join(", "))),
    };
    let sets = found.sets.sets().len();
    let of = found.sampled_of.map_or_else(String::new, |listed| format!(" of {listed}"));
    let files = format!("{}{of} file{}", found.sets.len(), if found.sets.len() == 1 { "" } else { "s" });
    let sets = format!("{} of compatible files", plural(sets, "set"));
    writeln!(out, "{files}, {sets}{along}")?;
    if !found.sets.is_ordered() && !names.is_empty() {
        writeln!(out, "in the order of the listing, since not all have coordinates")?;
    }
    Ok(())
}

/// Prints the first runs of files.
fn runs(found: &Scan, names: &[&str], out: &mut impl Write) -> io::Result<()> {
    let runs = found.sets.runs();
    writeln!(
        out,
        "\n{:>5} {:>8}  {}",
        "set",
        "files",
        if names.is_empty() { "first and last file" } else { "coordinates, first and last file" }
    )?;
    for one in runs.iter().take(MAX_RUNS) {
        run(one, out)?;
    }
    if runs.len() > MAX_RUNS {
        writeln!(out, "{:>14}  and {} more", "", runs.len() - MAX_RUNS)?;
    }
    Ok(())
}

fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Prints a run of files with its differences.
fn run(run: &FileRun<'_>, out: &mut impl Write) -> io::Result<()> {
    let range = |range: &Option<(&str, &str)>| {
        range.map(|(first, last)| format!("{} … {}", printable(first), printable(last)))
    };
    let ranges: Vec<String> = run.coordinates.iter().filter_map(range).collect();
    let name = |url: Option<&&str>| {
        url.map_or_else(String::new, |url| printable(url.strip_prefix("file://").unwrap_or(url)))
    };
    let (first, last) = (name(run.files.first()), name(run.files.last()));
    let files = if first == last { first } else { format!("{first} … {last}") };
    let coordinates = if ranges.is_empty() { String::new() } else { format!("{}  ", ranges.join("; ")) };
    writeln!(out, "{:>5} {:>8}  {coordinates}{files}", run.set, run.files.len())?;
    let Some(differences) = &run.differences else { return Ok(()) };
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

/// Prints the contents of a set's files.
fn set(found: &Scan, at: usize, names: &[&str], out: &mut impl Write) -> io::Result<()> {
    let Some(set) = found.sets.sets().get(at) else { return Ok(()) };
    writeln!(out, "\nset {at}: {} bytes, {} chunks", set.bytes, set.chunks)?;
    for (name, [least, most, all]) in names.iter().zip(&set.extents) {
        let each = if least == most { least.to_string() } else { format!("{least} to {most}") };
        writeln!(out, "  {} {all}: {each} a file", printable(name))?;
    }
    for (path, signed) in found.sets.arrays(at) {
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

impl Scan {
    /// Returns the result as JSON: `dimensions`, `sets` with their `arrays`, `runs` of consecutive files with the
    /// `differences` from the previous one, and `failed`.
    pub fn to_json(&self) -> Value {
        let along = self.layout.along.iter().map(|along| match along {
            Along::Concat(name) => json!({"name": name, "kind": "concat"}),
            Along::Stack(name) => json!({"name": name, "kind": "stack"}),
        });
        let sets: Vec<Value> = (0..self.sets.sets().len()).map(|set| self.set(set)).collect();
        let runs: Vec<Value> = self.sets.runs().iter().map(|one| self.run(one)).collect();
        let failed = self.failed.iter().map(|one| json!({"url": one.url, "error": one.error}));
        json!({
            "dimensions": along.collect::<Vec<_>>(),
            "dimensions_are_guessed": self.is_guessed,
            "order": if self.sets.is_ordered() { "coordinates" } else { "listing" },
            "files": self.sets.len(),
            "sampled_of": self.sampled_of,
            "sets": sets,
            "runs": runs,
            "failed": failed.collect::<Vec<_>>(),
        })
    }

    fn set(&self, at: usize) -> Value {
        let Some(set) = self.sets.sets().get(at) else { return Value::Null };
        let names = self.layout.along.iter().map(Along::name);
        let extents = names.zip(&set.extents).map(|(name, [least, most, all])| {
            (name.to_owned(), json!({"least": least, "most": most, "all": all}))
        });
        json!({
            "set": at,
            "digest": set.digest,
            "files": set.files,
            "bytes": set.bytes,
            "chunks": set.chunks,
            "extents": extents.collect::<serde_json::Map<_, _>>(),
            "arrays": self.sets.arrays(at),
            "groups": set.signature.as_ref().map(|signature| &signature.groups),
        })
    }

    fn run(&self, run: &FileRun<'_>) -> Value {
        let names = self.layout.along.iter().map(Along::name);
        let coordinates = names.zip(&run.coordinates).filter_map(|(name, range)| {
            let (first, last) = (*range)?;
            Some((name.to_owned(), json!({"first": first, "last": last})))
        });
        json!({
            "set": run.set,
            "files": run.files,
            "coordinates": coordinates.collect::<serde_json::Map<_, _>>(),
            "differences": run.differences.as_deref(),
        })
    }
}
