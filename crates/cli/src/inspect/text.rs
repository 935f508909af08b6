use std::io::{self, Write};

use serde_json::{Map, Value};
use virtualize::zarr::node::join;
use virtualize::{
    FillDecision, Notation, VirtualStore,
    zarr::{Array, ChunkGrid, DataType, Group, Node},
};

use super::readers;
use crate::messages::printable;
use virtualize::describe::{Counts, codec, counts, outcome, scalar, zarr_version};

/// Longest attribute value that is printed in full, in characters.
const LONGEST: usize = 100;

/// Writes the description of a mapped file as text. Remedies name options in `notation`.
pub(crate) fn write(store: &VirtualStore, notation: Notation, out: &mut impl Write) -> io::Result<()> {
    let size = store.hierarchy.sources.first().map_or(0, |source| source.size);
    writeln!(out, "{}", printable(store.object().map_or(store.name(), |object| object.url())))?;
    writeln!(out, "{}, {size} bytes, mapped to Zarr v{}", store.source_format, zarr_version(store))?;
    writeln!(out)?;
    writeln!(out, "/")?;
    group(store, "", &store.hierarchy.root, 1, out)?;
    left_out(store, out)?;
    if !store.report.diagnostics.is_empty() {
        writeln!(out, "\nDiagnostics")?;
    }
    for diagnostic in &store.report.diagnostics {
        writeln!(out, "  {}: {}", diagnostic.severity, printable(&diagnostic.render(notation)))?;
    }
    Ok(())
}

fn group(
    store: &VirtualStore,
    path: &str,
    group: &Group,
    depth: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    attributes(&group.attributes, depth, out)?;
    for (name, node) in &group.children {
        let (path, indent) = (join(path, name), "  ".repeat(depth));
        match node {
            Node::Group(child) => {
                writeln!(out, "{indent}{}/", printable(name))?;
                self::group(store, &path, child, depth + 1, out)?;
            }
            Node::Array(child) => {
                writeln!(out, "{indent}{}  {} {}", printable(name), child.data_type, extent(child))?;
                array(store, &path, child, depth + 1, out)?;
            }
        }
    }
    Ok(())
}

/// Returns sizes with their names: `(time 24, y 180, x 360)`.
fn extent(array: &Array) -> String {
    let names = array.dimension_names.iter().map(Option::as_deref).chain(std::iter::repeat(None));
    let axes = array.shape.iter().zip(names).map(|(size, name)| match name {
        Some(name) => format!("{} {size}", printable(name)),
        None => size.to_string(),
    });
    format!("({})", axes.collect::<Vec<_>>().join(", "))
}

fn array(
    store: &VirtualStore,
    path: &str,
    array: &Array,
    depth: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let (indent, report) = ("  ".repeat(depth), store.report.arrays.get(path));
    if let Some(report) = report {
        let storage =
            [vec![report.source_type.clone(), report.source_layout.clone()], report.source_filters.clone()];
        let said: Vec<_> = storage.concat().into_iter().filter(|part| !part.is_empty()).collect();
        writeln!(out, "{indent}source  {}", printable(&said.join("; ")))?;
    }
    writeln!(out, "{indent}chunks  {}", chunks(array))?;
    let codecs = array.codecs.iter().map(|each| brief(&codec(each, store.hierarchy.format)));
    writeln!(out, "{indent}codecs  {}", codecs.collect::<Vec<_>>().join(", "))?;
    writeln!(out, "{indent}readers {}", printable(&readers::line(path, array, store.hierarchy.format)))?;
    if let Some(fill) = report.and_then(|report| report.fill.as_ref()) {
        decision(fill, &array.data_type, &indent, out)?;
    }
    attributes(&array.attributes, depth, out)
}

/// Returns a codec on one line: its name, and its configuration in brackets.
fn brief(codec: &Value) -> String {
    let name = ["name", "id"].iter().find_map(|key| codec.get(key)?.as_str());
    let Some(name) = name else { return printable(&codec.to_string()) };
    let parameters = codec.get("configuration").unwrap_or(codec).as_object();
    let said = parameters.into_iter().flatten().filter(|(key, _)| !["name", "id"].contains(&key.as_str()));
    let said: Vec<_> = said.map(|(key, value)| format!("{key}={value}")).collect();
    if said.is_empty() { name.to_owned() } else { printable(&format!("{name}({})", said.join(", "))) }
}

/// Describes an array's chunk grid, with the numbers of stored and inline chunks.
fn chunks(array: &Array) -> String {
    let Counts { grid, stored, inline } = counts(array);
    let all: u64 = grid.iter().product();
    let shape = match &array.chunk_grid {
        ChunkGrid::Regular(shape) => format!("{shape:?}"),
        ChunkGrid::Rectilinear(_) => "of several shapes".to_owned(),
    };
    format!("{shape}, {all} in grid {grid:?}, {stored} stored, {inline} of them inline")
}

/// Prints the fill value and sentinel of an array, and the outcome of each declaration in the source.
fn decision(fill: &FillDecision, data_type: &DataType, indent: &str, out: &mut impl Write) -> io::Result<()> {
    let said = |value: &Option<_>| {
        value.as_ref().map_or("none".to_owned(), |value| scalar(value, data_type).to_string())
    };
    let (fill_value, sentinel) = (said(&fill.fill_value), said(&fill.sentinel));
    writeln!(out, "{indent}fill    {fill_value}, sentinel {sentinel} (policy {})", fill.policy.0)?;
    for source in &fill.sources {
        let (word, reason) = outcome(&source.outcome);
        let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        let line = format!("{}: {}, {word}{reason}", source.origin, source.text);
        writeln!(out, "{indent}        {}", printable(&line))?;
    }
    Ok(())
}

/// Prints attributes, one per line, with long values truncated.
fn attributes(attributes: &Map<String, Value>, depth: usize, out: &mut impl Write) -> io::Result<()> {
    for (name, value) in attributes {
        let mut text = value.to_string();
        if let Some((cut, _)) = text.char_indices().nth(LONGEST) {
            text.truncate(cut);
            text.push('…');
        }
        writeln!(out, "{}@{} = {}", "  ".repeat(depth), printable(name), printable(&text))?;
    }
    Ok(())
}

/// Prints the omitted arrays with the reasons.
fn left_out(store: &VirtualStore, out: &mut impl Write) -> io::Result<()> {
    let arrays = store.report.arrays.iter();
    let reasons = arrays.filter_map(|(path, array)| Some((path, array.left_out.as_ref()?)));
    for (at, (path, reason)) in reasons.enumerate() {
        if at == 0 {
            writeln!(out, "\nLeft out")?;
        }
        writeln!(out, "  /{}: {}", printable(path), printable(reason))?;
    }
    Ok(())
}
