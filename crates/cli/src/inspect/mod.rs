//! `virtualize inspect FILE`: one description of the mapped file, printed as text for people or as JSON.

mod details;
mod overview;
#[cfg(test)]
mod tests;
mod tree;

use std::io::{self, Write};

use serde_json::{Map, Value};
use virtualize::{
    Notation, VirtualStore,
    describe::{Counts, array_at, counts, printable},
    zarr::{Array, Codec, Group, Lengths, Node},
};
use virtualize_remedy::alternatives;

use crate::{
    arguments::Inspect,
    error::{Failure, Usage},
    messages, reading,
    terminal::{self, json},
};
use overview::Style;

/// Width of the text where no terminal has another.
const COLUMNS: usize = 100;
/// Width of the text in narrow terminals.
const FEWEST_COLUMNS: usize = 60;

/// Returns the overview that `virtualize inspect` prints of a mapped file, with remedies in `notation`. All nodes and
/// notes are printed if `full` is set.
pub fn describe(store: &VirtualStore, notation: Notation, full: bool) -> String {
    let style = Style { notation, columns: COLUMNS, is_full: full };
    text(|out| overview::write(store, style, out))
}

/// Returns what `virtualize inspect --array` prints about arrays.
///
/// # Errors
/// [`UnknownArray`] if there is no array at one of the paths.
pub fn describe_arrays(store: &VirtualStore, paths: &[String]) -> Result<String, UnknownArray> {
    let arrays = select(store, paths)?;
    Ok(text(|out| details_of(store, &arrays, COLUMNS, out)))
}

pub(crate) async fn run(arguments: &Inspect) -> Result<(), Failure> {
    let options = arguments.options()?;
    let opening = virtualize::open(arguments.input.file(), &options);
    let store = reading::shown(opening, &options.store, false).await?;
    let arrays = select(&store, &arguments.arrays)
        .map_err(|reason| Usage::new(format!("{}: {reason}", store.name())))?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    match (arguments.json, arrays.is_empty()) {
        (true, true) => json(&virtualize::describe::store(&store, messages::FLAGS), &mut out)?,
        (true, false) => json(&as_json(&store, &arrays), &mut out)?,
        (false, false) => details_of(&store, &arrays, columns(), &mut out)?,
        (false, true) => {
            let style = Style { notation: messages::FLAGS, columns: columns(), is_full: arguments.full };
            overview::write(&store, style, &mut out)?;
        }
    }
    Ok(out.flush()?)
}

/// Returns the width of the text in columns.
fn columns() -> usize {
    terminal::columns().unwrap_or(COLUMNS).max(FEWEST_COLUMNS)
}

fn text(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    // Writing to memory does not fail.
    let _ = write(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn as_json(store: &VirtualStore, arrays: &[(String, &Array)]) -> Value {
    let arrays = arrays.iter().filter_map(|(path, _)| Some((format!("/{path}"), array_at(store, path)?)));
    Value::Object(arrays.collect::<Map<_, _>>())
}

fn details_of(
    store: &VirtualStore,
    arrays: &[(String, &Array)],
    columns: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    for (index, (path, array)) in arrays.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        details::write(store, path, array, columns, out)?;
    }
    Ok(())
}

/// Returns the arrays at these paths, which may start with a slash.
fn select<'a>(store: &'a VirtualStore, paths: &[String]) -> Result<Vec<(String, &'a Array)>, UnknownArray> {
    let found = paths.iter().map(|given| {
        let path = given.trim_matches('/').to_owned();
        let array = store.hierarchy.array(&path).or_else(|| store.view().array(&path));
        let array = array.ok_or_else(|| UnknownArray::new(store, given))?;
        Ok((path, array))
    });
    found.collect()
}

/// A path at which a file has no array. The message names the paths that may have been meant.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnknownArray(String);

impl UnknownArray {
    fn new(store: &VirtualStore, given: &str) -> Self {
        let path = given.trim_matches('/');
        let is_group = store.view().group(path).is_some();
        let inside = if path.is_empty() { String::new() } else { format!("{path}/") };
        let all = store.view().arrays().into_iter().map(|(path, _)| printable(&path));
        let names: Vec<_> = all.filter(|each| !is_group || each.starts_with(&inside)).collect();
        let what = if is_group { "is a group, not an array" } else { "no such array" };
        let rest = alternatives("arrays", path, names.iter().map(String::as_str));
        Self(format!("array {}: {what}{rest}", printable(path)))
    }
}

/// Sizes and chunk counts of an array, or of all arrays together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Facts {
    groups: u64,
    arrays: u64,
    /// Positions of the chunk grid.
    chunks: u64,
    /// Chunks that are inline or in a file.
    stored: u64,
    inline: u64,
    /// Decoded bytes of all arrays whose elements have a fixed size.
    decoded: u64,
    /// Arrays whose elements vary in size, such as text.
    variable: u64,
    /// Decoded and stored bytes of the arrays that have all their chunks in files.
    compared: (u64, u64),
}

impl Facts {
    fn of_array(array: &Array) -> Self {
        let Counts { grid, stored, inline } = counts(array);
        let product = |factors: &[u64]| factors.iter().fold(1_u64, |all, each| all.saturating_mul(*each));
        let size = array.data_type.size();
        let decoded = size.map_or(0, |size| product(&array.shape).saturating_mul(size));
        let (chunks, inline) = (product(&grid), inline as u64);
        let is_whole = size.is_some() && inline == 0 && stored == chunks;
        let is_plain = array.codecs.iter().all(|codec| matches!(codec, Codec::Bytes { .. }));
        let compared = match (is_whole, is_plain) {
            (false, _) => (0, 0),
            // Chunks at edges may be stored whole, which is not compression.
            (true, true) => (decoded, decoded),
            (true, false) => (decoded, stored_bytes(array)),
        };
        Self {
            groups: 0,
            arrays: 1,
            chunks,
            stored,
            inline,
            decoded,
            variable: u64::from(size.is_none()),
            compared,
        }
    }

    /// Returns the sums over a group and all that is in it.
    fn of_group(group: &Group) -> Self {
        let one = Self { groups: 1, ..Self::default() };
        group.children.values().fold(one, |all, node| {
            all.plus(match node {
                Node::Group(child) => Self::of_group(child),
                Node::Array(child) => Self::of_array(child),
            })
        })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            groups: self.groups + other.groups,
            arrays: self.arrays + other.arrays,
            chunks: self.chunks.saturating_add(other.chunks),
            stored: self.stored.saturating_add(other.stored),
            inline: self.inline.saturating_add(other.inline),
            decoded: self.decoded.saturating_add(other.decoded),
            variable: self.variable + other.variable,
            compared: (
                self.compared.0.saturating_add(other.compared.0),
                self.compared.1.saturating_add(other.compared.1),
            ),
        }
    }

    /// Returns the number of positions without a chunk.
    fn missing(&self) -> u64 {
        self.chunks.saturating_sub(self.stored)
    }
}

/// Returns the bytes that the referenced chunks of an array take in files.
fn stored_bytes(array: &Array) -> u64 {
    let columns = array.chunks.references.iter().map(|column| match &column.lengths {
        Lengths::Uniform(length) => length.saturating_mul(column.offsets.len() as u64),
        Lengths::Each(lengths) => lengths.iter().map(|length| u64::from(*length)).sum(),
    });
    columns.fold(0, u64::saturating_add)
}
