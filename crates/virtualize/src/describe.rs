//! JSON descriptions of mapped files, for `inspect` and the service.

use serde_json::{Map, Value, json};
use virtualize_map::{Diagnostic, FillDecision, Outcome};
use virtualize_remedy::Notation;
use virtualize_zarr::{
    Array, ChunkEntry, ChunkGrid, Codec, DataType, FillValue, Group, Node, ZarrFormat,
    node::join,
    readers::{ChunkFacts, Compatibility, ReaderSetup, compatibility},
};

use crate::store::VirtualStore;

/// Describes one array of a mapped file, as [`store`] does; `None` if there is no array at the path.
pub fn array_at(store: &VirtualStore, path: &str) -> Option<Value> {
    let is_stored = !store.is_combined(path);
    let hierarchy = if is_stored { &store.hierarchy } else { store.view() };
    Some(array(store, path, hierarchy.array(path)?))
}

/// Describes a mapped file, or references. New versions may add keys, but never rename them.
pub fn store(store: &VirtualStore, notation: Notation) -> Value {
    let own = store.hierarchy.sources.first().filter(|_| store.object().is_some());
    let sources = store.hierarchy.sources.iter();
    let of_references = || virtualize_store::url_of(store.name()).unwrap_or_else(|_| store.name().to_owned());
    json!({
        "file": {
            "url": own.map_or_else(of_references, |source| source.url.clone()),
            "format": store.source_format,
            "size": own.map(|source| source.size),
            "etag": own.and_then(|source| source.etag.as_ref()),
            "modified": own.and_then(|source| source.modified),
        },
        "zarr_format": zarr_version(store),
        "sources": sources.map(|source| source.url.as_str()).collect::<Vec<_>>(),
        "setup": setup(store),
        "segments": store.segments().and_then(|datasets| datasets.get("")),
        "root": group(store, "", &store.shown().root),
        "omitted": omitted(store),
        "diagnostics": store.report.diagnostics.iter().map(|each| diagnostic(each, notation)).collect::<Vec<_>>(),
    })
}

/// Describes what zarr-python and xarray need: packages to install, and Python to run before opening.
fn setup(store: &VirtualStore) -> Value {
    let setup = ReaderSetup::of(&store.hierarchy);
    json!({"packages": setup.packages, "python": setup.python()})
}

/// Returns text from a file without characters that could end the line, control the terminal, or reorder what follows.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_layout(c) { '\u{FFFD}' } else { c }).collect()
}

/// Returns whether a character separates lines, or changes the direction of writing.
fn is_layout(c: char) -> bool {
    matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Returns the number of the Zarr format: 2 or 3.
pub fn zarr_version(store: &VirtualStore) -> u8 {
    match store.hierarchy.format {
        ZarrFormat::V2 => 2,
        ZarrFormat::V3 => 3,
    }
}

fn group(store: &VirtualStore, path: &str, group: &Group) -> Value {
    let children = group.children.iter().map(|(name, node)| {
        let path = join(path, name);
        let described = match node {
            Node::Group(child) => self::group(store, &path, child),
            Node::Array(child) => array(store, &path, child),
        };
        (name.clone(), described)
    });
    let children: Map<String, Value> = children.collect();
    json!({"node": "group", "attributes": group.attributes, "children": children})
}

fn array(store: &VirtualStore, path: &str, array: &Array) -> Value {
    let (report, format) = (store.report.arrays.get(path), store.hierarchy.format);
    let mut chunks = chunks(array);
    if let (Some((_, segments)), Some(members)) = (store.segments_of(path), chunks.as_object_mut()) {
        // Its chunks are those of the segments.
        members.insert("stored".to_owned(), Value::Null);
        members.insert("inline".to_owned(), Value::Null);
        members.insert("segments".to_owned(), segments.segments.len().into());
    }
    let codecs = array.codecs.iter().map(|each| codec(each, format)).collect::<Vec<_>>();
    json!({
        "node": "array",
        "shape": array.shape,
        "dimensions": array.dimension_names,
        "data_type": array.data_type.to_string(),
        "codecs": codecs,
        "chunks": chunks,
        "fill_value": array.fill_value.as_ref().map(|value| scalar(value, &array.data_type)),
        "fill_decision": report.and_then(|report| report.fill.as_ref()).map(|fill| decision(fill, &array.data_type)),
        "readers": readers(path, array, format),
        "source": report.map(|report| json!({
            "type": report.source_type,
            "layout": report.source_layout,
            "filters": report.source_filters,
        })),
        "attributes": array.attributes,
    })
}

fn chunks(array: &Array) -> Value {
    let shape = match &array.chunk_grid {
        ChunkGrid::Regular(shape) => json!(shape),
        ChunkGrid::Rectilinear(edges) => json!(edges),
    };
    let Counts { grid, stored, inline } = counts(array);
    let count = grid.iter().fold(1_u64, |all, along| all.saturating_mul(*along));
    json!({"shape": shape, "grid": grid, "count": count, "stored": stored, "inline": inline})
}

/// Returns the locations of at most `most` evenly chosen chunks of an array: `{"sampled": 2, "places": [[position,
/// source, offset, length], …]}`. Positions are row-major in the grid; source and offset of inline chunks are `null`.
pub fn places(array: &Array, most: usize) -> Value {
    let stored = usize::try_from(array.chunks.len()).unwrap_or(usize::MAX);
    let step = stored.div_ceil(most.max(1)).max(1);
    let places = array.chunks.iter().step_by(step).map(|(position, chunk)| match chunk {
        ChunkEntry::Reference(place) => json!([position, place.source.0, place.offset, place.length]),
        ChunkEntry::Inline(bytes) => json!([position, null, null, bytes.len()]),
    });
    let places: Vec<Value> = places.collect();
    json!({"sampled": places.len(), "places": places})
}

/// Returns which readers decode an array: `{"zarrs": {"reads": "no", "because": "imagecodecs_lzw"}, …}`.
pub fn readers(path: &str, array: &Array, format: ZarrFormat) -> Value {
    let readers =
        compatibility(path, array, ChunkFacts::of(array), format).into_iter().map(|(reader, found)| {
            let described = match found {
                Compatibility::Yes => json!({"reads": "yes"}),
                Compatibility::Needs(needs) => {
                    json!({"reads": "yes", "needs": needs.iter().map(|need| need.name()).collect::<Vec<_>>()})
                }
                Compatibility::No(because) => json!({"reads": "no", "because": because}),
            };
            (reader.name().to_owned(), described)
        });
    Value::Object(readers.collect::<Map<_, _>>())
}

/// Chunk counts of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Number of chunk positions along each axis.
    pub grid: Vec<u64>,
    /// Number of existing chunks.
    pub stored: u64,
    /// Number of existing chunks that are inline.
    pub inline: usize,
}

/// Counts the chunks of an array.
pub fn counts(array: &Array) -> Counts {
    let chunks = &array.chunks;
    Counts { grid: array.chunk_grid.counts(&array.shape), stored: chunks.len(), inline: chunks.inline.len() }
}

/// Describes the fill value and sentinel of an array, and the outcome of each declaration in the source.
fn decision(fill: &FillDecision, data_type: &DataType) -> Value {
    let sources = fill.sources.iter().map(|source| {
        let (outcome, reason) = outcome(&source.outcome);
        json!({"origin": source.origin, "text": source.text, "outcome": outcome, "reason": reason})
    });
    json!({
        "policy": fill.policy.0,
        "sources": sources.collect::<Vec<_>>(),
        "fill_value": fill.fill_value.as_ref().map(|value| scalar(value, data_type)),
        "sentinel": fill.sentinel.as_ref().map(|value| scalar(value, data_type)),
    })
}

/// Returns the outcome of a declared fill value, and the reason if it was dropped.
pub fn outcome(outcome: &Outcome) -> (&'static str, Option<&str>) {
    match outcome {
        Outcome::Used => ("used", None),
        Outcome::Kept => ("kept", None),
        Outcome::Dropped(reason) => ("dropped", Some(reason)),
    }
}

/// Describes a diagnostic, with its remedy in the given notation.
pub fn diagnostic(diagnostic: &Diagnostic, notation: Notation) -> Value {
    json!({
        "severity": diagnostic.severity.to_string(),
        "code": diagnostic.code,
        "path": diagnostic.path,
        "message": diagnostic.message,
        "hint": diagnostic.remedy.as_ref().and_then(|remedy| remedy.render(notation)),
    })
}

/// Returns the omitted arrays by path, with the reasons.
fn omitted(store: &VirtualStore) -> Map<String, Value> {
    let arrays = store.report.arrays.iter();
    arrays.filter_map(|(path, array)| Some((format!("/{path}"), json!(array.omitted.as_ref()?)))).collect()
}

/// Returns a codec's metadata in a Zarr format, or a description if the format has no name for it.
pub fn codec(codec: &Codec, format: ZarrFormat) -> Value {
    let metadata = match format {
        // In v2 the byte order is part of the data type; only v3 has a codec for it.
        ZarrFormat::V2 => codec.to_v2().or_else(|_| codec.to_v3()),
        ZarrFormat::V3 => codec.to_v3(),
    };
    metadata.unwrap_or_else(|_| json!(codec.describe()))
}

/// Returns a scalar in the encoding of Zarr v3, which has names for values that JSON lacks ("NaN").
pub fn scalar(value: &FillValue, data_type: &DataType) -> Value {
    value.to_json(data_type, ZarrFormat::V3).unwrap_or(Value::Null)
}
