//! Everything about one array.

use std::io::{self, Write};

use serde_json::Value;
use virtualize::{
    VirtualStore,
    describe::{Counts, codec, counts, outcome, scalar},
    segments::{Segment, Segments},
    zarr::{
        Array, ChunkEntry, ChunkGrid, chunk_indices,
        node::join,
        readers::{ChunkFacts, Compatibility, compatibility},
    },
};

use super::{
    Facts, stored_bytes,
    tree::{dimensions, shape, value_of},
};
use crate::{
    messages::printable,
    terminal::{counted, pad, size, tenth, thousands, wrap},
};

/// Number of chunks whose locations are printed.
const LOCATIONS: usize = 3;
/// Columns of the labels, with the indentation.
const LABEL: usize = 15;

/// Writes the description of an array.
pub(super) fn write(
    store: &VirtualStore,
    path: &str,
    array: &Array,
    columns: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "/{}", printable(path))?;
    let mut details = Details { columns, out };
    details.data_type(store, path, array)?;
    let format = store.hierarchy.format;
    let is_along = |(_, segments): &(&str, &Segments)| {
        array.dimension_names.iter().flatten().any(|name| *name == segments.dimension)
    };
    if let Some((parent, segments)) = store.segments_of(path).filter(is_along) {
        let inner = path.strip_prefix(parent).unwrap_or(path).trim_start_matches('/');
        let own = segments.segments.iter().map(|Segment { group, start, length }| {
            let end = start.saturating_add(*length).saturating_sub(1);
            let group = join(parent, group);
            let is_there = store.hierarchy.array(&join(&group, inner)).is_some();
            let missing = if is_there { "" } else { ": missing values" };
            format!("{group}, elements {start} to {end} along {}{missing}", segments.dimension)
        });
        details.each("segments", own)?;
    } else if !store.is_combined(path) {
        details.chunks(array)?;
        for (index, line) in chunk_map(array, columns - LABEL).iter().enumerate() {
            details.raw(if index == 0 { "chunk map" } else { "" }, line)?;
        }
        details.locations(store, array)?;
        let codecs = array.codecs.iter().map(|each| brief(&codec(each, format)));
        details.each("codecs", codecs)?;
    }
    let fill = array.fill_value.as_ref().map(|value| scalar(value, &array.data_type));
    details.line("fill value", &fill.map_or("none".to_owned(), |value| whole(&value)))?;
    if let Some(fill) = store.report.arrays.get(path).and_then(|report| report.fill.as_ref()) {
        if let Some(sentinel) = &fill.sentinel {
            details.line("sentinel", &whole(&scalar(sentinel, &array.data_type)))?;
        }
        let sources = fill.sources.iter().map(|source| {
            let (word, reason) = outcome(&source.outcome);
            let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("{}: {}, {word}{reason}", source.origin, source.text)
        });
        details.each("declared", sources)?;
        details.line("policy", fill.policy.0)?;
    }
    let readers = compatibility(path, array, ChunkFacts::of(array), format).into_iter();
    details.each(
        "readers",
        readers.map(|(reader, found)| match found {
            Compatibility::Yes => format!("{reader}: yes"),
            Compatibility::Needs(needs) => {
                let needs: Vec<_> = needs.iter().map(|need| need.name()).collect();
                format!("{reader}: with {}", needs.join(" and "))
            }
            Compatibility::No(because) => format!("{reader}: no ({because})"),
        }),
    )?;
    let absolute = format!("/{path}");
    let own = store.report.diagnostics.iter().filter(|note| note.path == absolute);
    details.each("notes", own.map(|note| format!("{}: {} [{}]", note.severity, note.message, note.code)))?;
    // All attributes in full, one per line.
    array.attributes.iter().enumerate().try_for_each(|(index, (name, value))| {
        let line = format!("{} = {}", printable(name), printable(&value.to_string()));
        details.raw(if index == 0 { "attributes" } else { "" }, &line)
    })
}

struct Details<'a, W> {
    columns: usize,
    out: &'a mut W,
}

impl<W: Write> Details<'_, W> {
    /// Prints a line as it is.
    fn raw(&mut self, label: &str, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}{text}", pad(&format!("  {label}"), LABEL))
    }

    /// Prints text with its label, in as many lines as it takes.
    fn line(&mut self, label: &str, text: &str) -> io::Result<()> {
        let lines = wrap(&printable(text), self.columns - LABEL);
        lines
            .iter()
            .enumerate()
            .try_for_each(|(index, line)| self.raw(if index == 0 { label } else { "" }, line))
    }

    /// Prints texts, each on lines of its own, with one label.
    fn each(&mut self, label: &str, texts: impl Iterator<Item = String>) -> io::Result<()> {
        texts.enumerate().try_for_each(|(index, text)| self.line(if index == 0 { label } else { "" }, &text))
    }

    /// Prints data type, dimensions and size, and how the file stores them.
    fn data_type(&mut self, store: &VirtualStore, path: &str, array: &Array) -> io::Result<()> {
        self.line("data type", &array.data_type.to_string())?;
        self.line("dimensions", &dimensions(array, usize::MAX))?;
        if let Some(report) = store.report.arrays.get(path) {
            let parts = [&report.source_type, &report.source_layout];
            let parts = parts.into_iter().chain(&report.source_filters).filter(|part| !part.is_empty());
            self.line("in the file", &parts.cloned().collect::<Vec<_>>().join("; "))?;
        }
        let facts = Facts::of_array(array);
        let stored = size(stored_bytes(array));
        let text = match (array.data_type.size(), facts.compared) {
            _ if store.is_combined(path) => format!("{} decoded", size(facts.decoded)),
            (None, _) => format!("{stored} in files"),
            (_, (bytes, compressed)) if bytes != compressed => {
                let ratio = tenth(bytes, compressed.max(1));
                format!("{} decoded, {stored} in files, compression {ratio} : 1", size(facts.decoded))
            }
            _ => format!("{} decoded, {stored} in files", size(facts.decoded)),
        };
        self.line("size", &text)
    }

    /// Prints the chunk grid, and the sizes of stored chunks.
    fn chunks(&mut self, array: &Array) -> io::Result<()> {
        let Counts { grid, .. } = counts(array);
        let facts = Facts::of_array(array);
        let shape_text = match &array.chunk_grid {
            ChunkGrid::Regular(sizes) => format!(" of {}", shape(sizes, usize::MAX)),
            ChunkGrid::Rectilinear(_) => " of several shapes".to_owned(),
        };
        self.line(
            "chunks",
            &format!("{}{shape_text}, grid {}", counted(facts.chunks, "chunk"), shape(&grid, usize::MAX)),
        )?;
        let references = facts.stored.saturating_sub(facts.inline);
        let [references, inline, missing] = [references, facts.inline, facts.missing()].map(thousands);
        self.line("", &format!("{references} in files, {inline} inline, {missing} missing"))?;
        let (mut least, mut most, mut count) = (u64::MAX, 0, 0);
        for (_, place) in array.chunks.references.iter().flat_map(|column| column.iter()) {
            (least, most, count) = (least.min(place.length), most.max(place.length), count + 1);
        }
        match stored_bytes(array).checked_div(count) {
            Some(_) if least == most => self.line("", &format!("stored in {least} bytes each")),
            Some(mean) => self.line("", &format!("stored in {least} to {most} bytes, {mean} on average")),
            None => Ok(()),
        }
    }

    /// Prints where the first chunks are.
    fn locations(&mut self, store: &VirtualStore, array: &Array) -> io::Result<()> {
        let Counts { grid, .. } = counts(array);
        let first = array.chunks.iter().filter_map(|(position, chunk)| match chunk {
            ChunkEntry::Reference(place) => Some((position, place)),
            ChunkEntry::Inline(_) => None,
        });
        let lines = first.take(LOCATIONS).map(|(position, place)| {
            let url = store.hierarchy.source(place.source).map_or("", |source| source.url.as_str());
            let index = label(position, &grid);
            let text = format!("{index} offset {} length {} {url}", place.offset, place.length);
            text.trim_start().to_owned()
        });
        self.each("first chunks", lines)
    }
}

/// Returns a value in full.
fn whole(value: &Value) -> String {
    match value {
        Value::String(_) | Value::Number(_) if value_of(value).contains('…') => value.to_string(),
        Value::Array(_) | Value::Object(_) => value.to_string(),
        short => value_of(short),
    }
}

/// Returns a codec on one line: its name, and its configuration in brackets.
fn brief(codec: &Value) -> String {
    let name = ["name", "id"].iter().find_map(|key| codec.get(key)?.as_str());
    let Some(name) = name else { return codec.to_string() };
    let parameters = codec.get("configuration").unwrap_or(codec).as_object();
    let settings =
        parameters.into_iter().flatten().filter(|(key, _)| !["name", "id"].contains(&key.as_str()));
    let settings: Vec<_> = settings.map(|(key, value)| format!("{key}={value}")).collect();
    if settings.is_empty() { name.to_owned() } else { format!("{name}({})", settings.join(", ")) }
}

/// Number of rows of the largest map.
const ROWS: u64 = 32;

/// Returns the map of a grid that has more than one chunk and fits, else nothing. The last axis runs to the right; each
/// row starts with its index along the other axes.
fn chunk_map(array: &Array, columns: usize) -> Vec<String> {
    let Counts { grid, .. } = counts(array);
    let Some((along, outer)) = grid.split_last() else { return Vec::new() };
    let rows = outer.iter().fold(1_u64, |rows, each| rows.saturating_mul(*each));
    if rows == 0 || rows > ROWS || rows.saturating_mul(*along) < 2 {
        return Vec::new();
    }
    let labels: Vec<_> = (0..rows).map(|row| label(row, outer)).collect();
    let label_columns = labels.iter().map(String::len).max().unwrap_or(0);
    if *along > columns.saturating_sub(label_columns + 1) as u64 {
        return Vec::new();
    }
    let maps = labels.iter().zip(0..rows).map(|(label, row)| {
        let symbol = |at| match array.chunks.get(row * along + at) {
            Some(ChunkEntry::Reference(_)) => '#',
            Some(ChunkEntry::Inline(_)) => 'i',
            None => '.',
        };
        let chunks: String = (0..*along).map(symbol).collect();
        if label.is_empty() { chunks } else { format!("{label:<label_columns$} {chunks}") }
    });
    maps.chain(["# in a file, i inline, . missing".to_owned()]).collect()
}

/// Returns the indices of the chunk at a position, such as `(0, 2)`.
fn label(position: u64, grid: &[u64]) -> String {
    let indices = chunk_indices(position, grid).unwrap_or_default();
    if indices.is_empty() { String::new() } else { shape(&indices, usize::MAX) }
}
