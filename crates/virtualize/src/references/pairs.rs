//! Chunks of two arrays by position, and their names in messages.

use virtualize_zarr::{Array, ChunkEntry, Hierarchy, chunk_indices};

/// A position, and the chunk that each of two arrays has there.
pub(super) type Pair<'a> = (u64, Option<ChunkEntry<'a>>, Option<ChunkEntry<'a>>);

/// Pairs the chunks of two arrays, in order of position.
pub(super) fn pairs<'a>(first: &'a Array, second: &'a Array) -> impl Iterator<Item = Pair<'a>> {
    let (mut ones, mut others) = (first.chunks.iter().peekable(), second.chunks.iter().peekable());
    std::iter::from_fn(move || {
        let at = match (ones.peek(), others.peek()) {
            (Some((one, _)), Some((other, _))) => *one.min(other),
            (Some((one, _)), None) => *one,
            (None, Some((other, _))) => *other,
            (None, None) => return None,
        };
        let one = ones.next_if(|(position, _)| *position == at).map(|(_, entry)| entry);
        let other = others.next_if(|(position, _)| *position == at).map(|(_, entry)| entry);
        Some((at, one, other))
    })
}

/// Describes where a chunk is stored. Omits the query of a url, which may contain a signature.
pub(super) fn place(hierarchy: &Hierarchy, entry: Option<&ChunkEntry<'_>>) -> String {
    match entry {
        None => "missing".to_owned(),
        Some(ChunkEntry::Inline(bytes)) => format!("{} bytes inline", bytes.len()),
        Some(ChunkEntry::Reference(reference)) => {
            let url = hierarchy.source(reference.source).map_or("?", |source| {
                source
                    .url
                    .split_once('?')
                    .filter(|(url, _)| url.starts_with("http"))
                    .map_or(&*source.url, |(url, _)| url)
            });
            format!("[{url}, {}, {}]", reference.offset, reference.length)
        }
    }
}

/// Returns the name of a chunk in the notation of keys: `0.1`.
pub(super) fn name(position: u64, counts: &[u64]) -> String {
    chunk_indices(position, counts)
        .map_or_else(|| format!("at position {position}, outside the grid"), |indices| key(&indices))
}

/// Returns indices in the notation of keys.
pub(super) fn key(indices: &[u64]) -> String {
    match indices {
        [] => "0".to_owned(),
        indices => indices.iter().map(u64::to_string).collect::<Vec<_>>().join("."),
    }
}
