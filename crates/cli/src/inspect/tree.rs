//! Groups and arrays as a tree, with one line of facts below each array.

use std::io::{self, Write};

use serde_json::{Map, Value};
use virtualize::{
    VirtualStore,
    describe::scalar,
    zarr::{Array, ChunkGrid, Codec, Endian, Group, Node, node::join},
};

use super::Facts;
use crate::{
    messages::printable,
    terminal::{counted, flow, list, pad, shorten, size, thousands, width},
};

/// Columns of the longest text of an attribute or fill value.
const LONGEST_VALUE: usize = 32;
/// Columns of a size, such as "1023.9 MiB".
const SIZE: usize = 10;
/// Columns of the longest common data type, "complex128".
const DATA_TYPE: usize = 10;
/// Attributes of groups that are printed.
const OF_GROUPS: [&str; 2] = ["title", "Conventions"];
/// Attributes of arrays that are printed.
const OF_ARRAYS: [&str; 4] = ["units", "long_name", "scale_factor", "add_offset"];

/// Prints the tree of a file.
pub(super) struct Tree<'a, W> {
    store: &'a VirtualStore,
    out: &'a mut W,
    columns: usize,
    /// Columns of the branches and names, before the data types.
    names: usize,
    /// Number of nodes that may still be printed.
    left: usize,
}

impl<'a, W: Write> Tree<'a, W> {
    /// Prints at most `limit` groups and arrays, and returns how many were omitted.
    pub(super) fn print(
        store: &'a VirtualStore,
        columns: usize,
        limit: usize,
        out: &'a mut W,
    ) -> io::Result<usize> {
        let shown = store.shown();
        let root = &shown.root;
        let names = longest(root, 0).min(columns * 2 / 5);
        let mut tree = Self { store, out, columns, names, left: limit };
        tree.named_group("", "", "/", root)?;
        tree.group("", root, "")
    }

    /// Prints the children of a group, whose lines start with `branches`.
    fn group(&mut self, path: &str, group: &Group, branches: &str) -> io::Result<usize> {
        let mut omitted = 0;
        let last = group.children.len().saturating_sub(1);
        for (index, (name, node)) in group.children.iter().enumerate() {
            if self.left == 0 {
                omitted += nodes(node);
                continue;
            }
            self.left -= 1;
            let (branch, below) = if index == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let (line, below) = (format!("{branches}{branch}"), format!("{branches}{below}"));
            match node {
                Node::Group(child) => {
                    self.named_group(&line, &below, &format!("{}/", printable(name)), child)?;
                    omitted += self.group(&join(path, name), child, &self.kept(&below))?;
                }
                Node::Array(child) => self.array(&join(path, name), name, child, &line, &below)?,
            }
        }
        Ok(omitted)
    }

    /// Prints the name of a group with its facts, on one line if they fit.
    fn named_group(&mut self, line: &str, below: &str, name: &str, group: &Group) -> io::Result<()> {
        let empty = group.children.is_empty().then(|| "empty".to_owned());
        let parts: Vec<_> = attributes(&group.attributes, &OF_GROUPS).into_iter().chain(empty).collect();
        let name = self.named(line, name);
        let rest = self.columns.saturating_sub(width(&name) + 2);
        match flow(&parts, rest).as_slice() {
            [] => writeln!(self.out, "{name}"),
            [one] if parts.iter().all(|part| width(part) <= rest) => writeln!(self.out, "{name}  {one}"),
            _ => {
                writeln!(self.out, "{name}")?;
                self.facts(below, &parts)
            }
        }
    }

    /// Prints an array: its name, data type, size and dimensions, then its facts.
    fn array(&mut self, path: &str, name: &str, array: &Array, line: &str, below: &str) -> io::Result<()> {
        let name = printable(name);
        let data_type = array.data_type.to_string();
        let facts = Facts::of_array(array);
        let decoded = array.data_type.size().map(|_| size(facts.decoded)).unwrap_or_default();
        let room = self.columns.saturating_sub(width(below) + 3);
        let start = pad(&format!("{line}{name}"), self.names);
        let start = format!("{start}  {} {decoded:>SIZE$}  ", pad(&data_type, DATA_TYPE));
        let dimensions = dimensions(array, self.columns.saturating_sub(width(&start)));
        if width(&start) + width(&dimensions) <= self.columns {
            writeln!(self.out, "{start}{dimensions}")?;
        } else {
            writeln!(self.out, "{}", self.named(line, &name))?;
            let parts = [data_type, decoded, self::dimensions(array, room)];
            self.facts(below, &parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>())?;
        }
        self.facts(below, &self.array_parts(path, array, &facts, room))
    }

    /// Returns a name at the end of its branches, shortened if it is wider than the line.
    fn named(&self, line: &str, name: &str) -> String {
        format!("{line}{}", shorten(name, self.columns.saturating_sub(width(line))))
    }

    /// Prints facts in as few lines as they fit into.
    fn facts(&mut self, below: &str, parts: &[String]) -> io::Result<()> {
        let start = format!("{below}   ");
        for line in flow(parts, self.columns.saturating_sub(width(&start))) {
            writeln!(self.out, "{start}{line}")?;
        }
        Ok(())
    }

    /// Returns the branches of a group's children. Deep groups keep the innermost only, so that names have room.
    fn kept(&self, branches: &str) -> String {
        if width(branches) > self.columns / 3 { "⋯  ".to_owned() } else { branches.to_owned() }
    }

    /// Returns the facts about an array, each at most `room` wide.
    fn array_parts(&self, path: &str, array: &Array, facts: &Facts, room: usize) -> Vec<String> {
        let mut parts = Vec::new();
        match self.store.segments_of(path) {
            Some((_, segments)) => {
                let is_along = array.dimension_names.iter().flatten().any(|name| *name == segments.dimension);
                let count = counted(segments.segments.len() as u64, "segment");
                parts.push(if is_along { count } else { "the same in all segments".to_owned() });
            }
            None => {
                parts.extend(chunks(array, facts, room));
                parts.extend(codecs(array));
            }
        }
        let fill = array.fill_value.as_ref().map(|value| value_of(&scalar(value, &array.data_type)));
        parts.push(fill.map_or("no fill value".to_owned(), |value| format!("fill {value}")));
        let report = self.store.report.arrays.get(path).and_then(|report| report.fill.as_ref());
        let sentinel = report.and_then(|fill| fill.sentinel.as_ref());
        if let Some(sentinel) = sentinel.filter(|sentinel| Some(*sentinel) != array.fill_value.as_ref()) {
            parts.push(format!("sentinel {}", value_of(&scalar(sentinel, &array.data_type))));
        }
        parts.extend(attributes(&array.attributes, &OF_ARRAYS));
        parts
    }
}

/// Returns the number of columns of the longest branches with a name.
fn longest(group: &Group, depth: usize) -> usize {
    let children = group.children.iter().map(|(name, node)| {
        let own = 3 * (depth + 1) + width(&printable(name));
        match node {
            Node::Group(child) => longest(child, depth + 1),
            Node::Array(_) => own,
        }
    });
    children.max().unwrap_or(0)
}

/// Returns the number of groups and arrays of a node, itself included.
fn nodes(node: &Node) -> usize {
    match node {
        Node::Array(_) => 1,
        Node::Group(group) => 1 + group.children.values().map(nodes).sum::<usize>(),
    }
}

/// Returns sizes with their names, `(time: 24, y: 180)`; without names if those do not fit.
pub(super) fn dimensions(array: &Array, columns: usize) -> String {
    if array.shape.is_empty() {
        return "scalar".to_owned();
    }
    let names = array.dimension_names.iter().map(Option::as_deref).chain(std::iter::repeat(None));
    let axes = array.shape.iter().zip(names).map(|(size, name)| match name {
        Some(name) => format!("{}: {size}", printable(name)),
        None => size.to_string(),
    });
    let named = axes.collect::<Vec<_>>();
    match list(&named, columns) {
        line if !line.contains('…') => line,
        _ => shape(&array.shape, columns),
    }
}

/// Returns sizes in parentheses.
pub(super) fn shape(sizes: &[u64], columns: usize) -> String {
    list(&sizes.iter().map(u64::to_string).collect::<Vec<_>>(), columns)
}

/// Returns number and shape of the chunks, and how many are not in a file: `6 chunks of (1, 4, 3)`, `2 missing`.
fn chunks(array: &Array, facts: &Facts, room: usize) -> Vec<String> {
    let mut first = counted(facts.chunks, "chunk");
    let of = match &array.chunk_grid {
        ChunkGrid::Rectilinear(_) => " of several shapes".to_owned(),
        ChunkGrid::Regular(sizes) if sizes.is_empty() => String::new(),
        ChunkGrid::Regular(sizes) => {
            format!(" of {}", shape(sizes, room.saturating_sub(width(&first) + " of ".len())))
        }
    };
    if width(&first) + width(&of) <= room {
        first += &of;
    }
    let others = [(facts.missing(), "missing"), (facts.inline, "inline")];
    let others = others.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| match count {
        1 if facts.chunks == 1 => what.to_owned(),
        _ if count == facts.chunks => format!("all {what}"),
        _ => format!("{} {what}", thousands(count)),
    });
    std::iter::once(first).chain(others).collect()
}

/// Returns the names of the codecs, without those that only order bytes; `None` if all that is left is inline.
fn codecs(array: &Array) -> Option<String> {
    let is_big = |codec: &Codec| matches!(codec, Codec::Bytes { endian: Some(Endian::Big) });
    let endian = array.codecs.iter().any(is_big).then(|| "big-endian".to_owned());
    let others = array.codecs.iter().filter(|codec| !matches!(codec, Codec::Bytes { .. }));
    let names: Vec<_> = endian.into_iter().chain(others.map(short_name)).collect();
    if !names.is_empty() {
        return Some(printable(&names.join(" + ")));
    }
    (!array.chunks.references.is_empty()).then(|| "not compressed".to_owned())
}

/// Returns the name of a codec without the prefix that Zarr v3 adds to those of numcodecs.
fn short_name(codec: &Codec) -> String {
    let entry = codec.to_v3().or_else(|_| codec.to_v2());
    let name = entry.ok().and_then(|entry| {
        let name = ["name", "id"].iter().find_map(|key| entry.get(key)?.as_str())?;
        Some(name.strip_prefix("numcodecs.").unwrap_or(name).to_owned())
    });
    name.unwrap_or_else(|| codec.describe())
}

/// Returns a value on one line. Numbers are never shortened, and NaN has no quotes.
pub(super) fn value_of(value: &Value) -> String {
    match value {
        Value::String(text) if ["NaN", "Infinity", "-Infinity"].contains(&text.as_str()) => text.clone(),
        Value::String(text) => shorten(&printable(&format!("\"{text}\"")), LONGEST_VALUE),
        Value::Array(_) | Value::Object(_) => match printable(&value.to_string()) {
            text if width(&text) <= LONGEST_VALUE => text,
            _ => "set".to_owned(),
        },
        number => number.to_string(),
    }
}

/// Returns an attribute that is a text or a number, with its name.
fn attribute(attributes: &Map<String, Value>, name: &str) -> Option<String> {
    let value = match attributes.get(name)? {
        Value::String(text) if text.contains(' ') => {
            format!("\"{}\"", shorten(&printable(text), LONGEST_VALUE))
        }
        Value::String(text) => shorten(&printable(text), LONGEST_VALUE),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    Some(format!("{name} {value}"))
}

/// Returns the attributes of these names, and the number of all others.
fn attributes(attributes: &Map<String, Value>, names: &[&str]) -> Vec<String> {
    let mut parts: Vec<_> = names.iter().filter_map(|name| attribute(attributes, name)).collect();
    let others = attributes.len().saturating_sub(parts.len()) as u64;
    match (others, parts.is_empty()) {
        (0, _) => {}
        (_, true) => parts.push(counted(others, "attribute")),
        (_, false) => parts.push(counted(others, "more attribute")),
    }
    parts
}
