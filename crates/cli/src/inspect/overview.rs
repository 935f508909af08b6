//! The overview of a file: a summary, the tree, the notes.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use virtualize::{
    Diagnostic, Notation, OptionName, Severity, VirtualStore,
    describe::zarr_version,
    segments::{Segment, Segments},
    zarr::{node::join, readers::ReaderSetup},
};

use super::{Facts, tree::Tree};
use crate::{
    messages::printable,
    terminal::{counted, pad, shorten, size, tenth, thousands, wrap},
};

/// Number of nodes, and of notes, that are printed unless all are wanted.
const LIMIT: usize = 2000;
/// Columns of the labels of the summary.
const LABEL: usize = 10;

/// How an overview is printed.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    /// Notation of options in remedies.
    pub(crate) notation: Notation,
    /// Width of the lines.
    pub(crate) columns: usize,
    /// Whether all nodes and notes are printed, however many they are.
    pub(crate) is_full: bool,
}

impl Style {
    fn limit(&self) -> usize {
        if self.is_full { usize::MAX } else { LIMIT }
    }

    /// Prints how many lines of a kind are omitted, and the option that prints them.
    fn rest(&self, count: usize, noun: &str, out: &mut impl Write) -> io::Result<()> {
        if count == 0 {
            return Ok(());
        }
        let option = (self.notation.0)(OptionName::Full, None).map(|option| format!(" ({option} shows all)"));
        writeln!(out, "… and {}{}", counted(count as u64, noun), option.unwrap_or_default())
    }
}

/// Writes the overview of a mapped file.
pub(crate) fn write(store: &VirtualStore, style: Style, out: &mut impl Write) -> io::Result<()> {
    summary(store, style, out)?;
    writeln!(out)?;
    let rest = Tree::print(store, style.columns, style.limit(), out)?;
    style.rest(rest, "more node", out)?;
    omitted(store, style, out)?;
    notes(store, style, out)
}

fn summary(store: &VirtualStore, style: Style, out: &mut impl Write) -> io::Result<()> {
    let columns = style.columns.saturating_sub(LABEL);
    let url = printable(store.object().map_or(store.name(), |object| object.url()));
    let mut line = |label: &str, text: &str| -> io::Result<()> {
        for (index, part) in wrap(text, columns).iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            writeln!(out, "{}{part}", pad(label, LABEL))?;
        }
        Ok(())
    };
    line("File", &shorten(&url, columns))?;
    let files = match store.object() {
        Some(object) => size(object.bytes()),
        None => counted(store.hierarchy.sources.len() as u64, "file"),
    };
    line("Format", &format!("{}, {files}, mapped to Zarr v{}", store.source_format, zarr_version(store)))?;
    let facts = Facts::of_group(&store.hierarchy.root);
    line("Content", &content(store, &facts))?;
    line("Data", &data(&facts))?;
    for (group, segments) in store.segments().into_iter().flatten() {
        line("Segments", &shown_segments(group, segments))?;
    }
    if let Some(crs) = crs(store) {
        line("CRS", &crs)?;
    }
    let setup = ReaderSetup::of(&store.hierarchy);
    let install = setup.install().map_or(String::new(), |install| format!(" after {install}"));
    match setup.python() {
        None if install.is_empty() => line("Readers", "xarray and zarr-python, without other packages")?,
        None => line("Readers", &format!("xarray and zarr-python,{install}"))?,
        Some(python) => {
            let and = if install.is_empty() { " after" } else { " and" };
            line("Readers", &format!("xarray and zarr-python,{install}{and} this Python:"))?;
            line("", &python)?;
        }
    }
    match codes(store) {
        codes if codes.is_empty() => Ok(()),
        codes => line("Notes", &codes),
    }
}

/// Maximum number of segments that are printed.
const MAX_SEGMENTS: usize = 5;

/// Returns the ranges of the segments along their dimension, with their groups.
fn shown_segments(parent: &str, segments: &Segments) -> String {
    let mut offset = 0_u64;
    let ranges = segments.segments.iter().map(|Segment { group, length, .. }| {
        let first = offset;
        offset = offset.saturating_add(*length);
        format!("{first} to {} in {}", offset.saturating_sub(1), printable(&join(parent, group)))
    });
    let mut ranges: Vec<String> = ranges.collect();
    let count = ranges.len();
    if count > MAX_SEGMENTS {
        let last = ranges.pop();
        ranges.truncate(MAX_SEGMENTS - 1);
        ranges.push("…".to_owned());
        ranges.extend(last);
    }
    format!("{count} along {}: {}", printable(&segments.dimension), ranges.join(", "))
}

/// Returns the numbers of groups, arrays and chunks.
fn content(store: &VirtualStore, facts: &Facts) -> String {
    let omitted = store.report.arrays.values().filter(|report| report.omitted.is_some()).count();
    let omitted =
        if omitted > 0 { format!(" ({} omitted)", thousands(omitted as u64)) } else { String::new() };
    let mut chunks = counted(facts.chunks, "chunk");
    for (count, what) in [(facts.missing(), "missing"), (facts.inline, "inline")] {
        if count > 0 {
            chunks += &format!(", {} {what}", thousands(count));
        }
    }
    let (groups, arrays) = (counted(facts.groups, "group"), counted(facts.arrays, "array"));
    format!("{groups}, {arrays}{omitted}, {chunks}")
}

/// Returns the decoded size, and how far it is compressed.
fn data(facts: &Facts) -> String {
    let mut text = format!("{} decoded", size(facts.decoded));
    if facts.variable > 0 {
        text += &format!(", plus {} of text or bytes of variable length", counted(facts.variable, "array"));
    }
    let (decoded, stored) = facts.compared;
    match stored {
        0 => text,
        _ if stored == decoded && decoded == facts.decoded => text + ", not compressed",
        // Compressed arrays that lack chunks have no ratio.
        _ if stored == decoded => text,
        _ => text + &format!(", compression {} : 1", tenth(decoded, stored)),
    }
}

/// Returns the coordinate reference system: its code, or the name in its definition.
fn crs(store: &VirtualStore) -> Option<String> {
    let root = &store.hierarchy.root.attributes;
    if let Some(code) = root.get("proj:code").and_then(|code| code.as_str()) {
        return Some(printable(code));
    }
    let arrays = store.hierarchy.arrays();
    let definition = arrays.iter().find_map(|(_, array)| {
        ["crs_wkt", "spatial_ref"].iter().find_map(|name| array.attributes.get(*name)?.as_str())
    })?;
    // WKT: KEYWORD["name",…
    Some(printable(definition.split('"').nth(1).map_or(definition, |name| name)))
}

/// Returns the codes of all notes with their numbers, warnings first.
fn codes(store: &VirtualStore) -> String {
    let mut counts: BTreeMap<(u8, &str), u64> = BTreeMap::new();
    for note in &store.report.diagnostics {
        *counts.entry((order(note), note.code.as_str())).or_default() += 1;
    }
    let mut parts = Vec::new();
    for (rank, kind) in [(0, "errors"), (1, "warnings"), (2, "info")] {
        let own = counts.iter().filter(|((found, _), _)| *found == rank);
        let codes = own.map(|((_, code), count)| match count {
            1 => (*code).to_owned(),
            _ => format!("{code} ({})", thousands(*count)),
        });
        let codes: Vec<_> = codes.collect();
        if !codes.is_empty() {
            parts.push(format!("{kind}: {}", codes.join(", ")));
        }
    }
    parts.join("; ")
}

/// Returns the rank of a note: the gravest come first.
fn order(note: &Diagnostic) -> u8 {
    match note.severity {
        Severity::Error => 0,
        Severity::Warning => 1,
        Severity::Info => 2,
    }
}

/// Prints the omitted arrays with the reasons, unless a note about the array contains its reason.
fn omitted(store: &VirtualStore, style: Style, out: &mut impl Write) -> io::Result<()> {
    let arrays = store.report.arrays.iter();
    let reasons = arrays.filter_map(|(path, array)| Some((format!("/{path}"), array.omitted.as_ref()?)));
    let mut messages: BTreeMap<&str, String> = BTreeMap::new();
    for note in &store.report.diagnostics {
        *messages.entry(&note.path).or_default() += &note.message;
    }
    let lines: Vec<_> = reasons
        .filter(|(path, reason)| {
            !messages.get(path.as_str()).is_some_and(|messages| messages.contains(*reason))
        })
        .map(|(path, reason)| format!("{path}: {reason}"))
        .collect();
    section("Omitted", lines.into_iter(), style, out)
}

/// Prints the notes in full, the gravest first.
fn notes(store: &VirtualStore, style: Style, out: &mut impl Write) -> io::Result<()> {
    let mut notes: Vec<_> = store.report.diagnostics.iter().collect();
    notes.sort_by_key(|note| order(note));
    let lines = notes.into_iter().map(|note| format!("{}: {}", note.severity, note.render(style.notation)));
    section("Notes", lines, style, out)
}

/// Prints a title and paragraphs, whose continued lines are indented.
fn section(
    title: &str,
    paragraphs: impl ExactSizeIterator<Item = String>,
    style: Style,
    out: &mut impl Write,
) -> io::Result<()> {
    let rest = paragraphs.len().saturating_sub(style.limit());
    for (index, paragraph) in paragraphs.take(style.limit()).enumerate() {
        if index == 0 {
            writeln!(out, "\n{title}")?;
        }
        for (index, line) in wrap(&printable(&paragraph), style.columns - "    ".len()).iter().enumerate() {
            writeln!(out, "{}{line}", if index == 0 { "  " } else { "    " })?;
        }
    }
    style.rest(rest, "more line", out)
}
