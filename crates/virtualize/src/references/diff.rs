//! Compares two hierarchies.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use virtualize_references::translate;
use virtualize_zarr::{
    Array, ChunkEntry, ChunkManifest, Group, Hierarchy, Node, ZarrFormat, chunk_indices, node::join,
};

use super::difference::{ChunkDifference, Difference, NodeDifference};
use super::meaning::{Aligned, aligned, both_lack_a_chunk, is_full_of, missing_reads};
use super::pairs::{pairs, place};

/// Number of differing chunks that are listed for an array, as examples.
const EXAMPLES: usize = 3;
/// Compares two hierarchies: nodes, metadata, attributes and chunks. If their Zarr formats differ, both are compared
/// as Zarr v3, and a different order of identically named axes, which Zarr v2 cannot express, is not a difference. A
/// missing chunk equals a chunk full of the fill value. Fill values are compared where both arrays lack a chunk.
/// Unless `urls` is set, chunks at equal offsets are equal, whichever files they are in.
pub fn diff(first: &Hierarchy, second: &Hierarchy, urls: bool) -> Difference {
    let is_one_format = first.format == second.format;
    let in_v3 = |hierarchy: &Hierarchy| {
        let translates = !is_one_format && hierarchy.format != ZarrFormat::V3;
        translates.then(|| translate(hierarchy.clone(), ZarrFormat::V3))
    };
    let (one, other) = (in_v3(first), in_v3(second));
    let mut compare = Compare {
        first: one.as_ref().map_or(first, |one| &one.hierarchy),
        second: other.as_ref().map_or(second, |other| &other.hierarchy),
        is_one_format,
        urls,
        found: Vec::new(),
    };
    compare.groups("", &compare.first.root, &compare.second.root);
    let mut found = Difference { nodes: compare.found };
    for (is_first, translation) in [(true, &one), (false, &other)] {
        for (path, reason) in translation.iter().flat_map(|translation| &translation.left_out) {
            found.unread(path, is_first, reason);
        }
        for (path, _) in translation.iter().flat_map(|translation| &translation.pending) {
            found.remade(path, is_first);
        }
    }
    found
}

struct Compare<'a> {
    first: &'a Hierarchy,
    second: &'a Hierarchy,
    /// Whether both hierarchies had the same Zarr format, so that neither was converted.
    is_one_format: bool,
    urls: bool,
    found: Vec<NodeDifference>,
}

impl Compare<'_> {
    /// Compares the attributes and children of two groups.
    fn groups(&mut self, path: &str, first: &Group, second: &Group) {
        self.members(path, "attribute ", &first.attributes, &second.attributes);
        let names: BTreeSet<&String> = first.children.keys().chain(second.children.keys()).collect();
        for name in names {
            let path = join(path, name);
            match (first.children.get(name), second.children.get(name)) {
                (Some(Node::Group(one)), Some(Node::Group(other))) => self.groups(&path, one, other),
                (Some(Node::Array(one)), Some(Node::Array(other))) => self.arrays(&path, one, other),
                (Some(_), Some(_)) => self.found.push(NodeDifference::Kind { path }),
                (one, _) => self.found.push(NodeDifference::OnlyIn { path, first: one.is_some() }),
            }
        }
    }

    /// Compares the metadata, attributes and chunks of two arrays, after aligning their axes.
    fn arrays(&mut self, path: &str, first: &Array, second: &Array) {
        let Aligned { first, second, .. } = self.align(path, first, second);
        let format = self.first.format;
        let (mut one, mut other) = (document(&first, format, path), document(&second, format, path));
        let counts = first.chunk_grid.counts(&first.shape);
        let is_one_grid = counts == second.chunk_grid.counts(&second.shape);
        // In Zarr v2 the fill value is a sentinel as well.
        let is_storage = !self.is_one_format || format == ZarrFormat::V3;
        if is_storage && is_one_grid && !both_lack_a_chunk(&first, &second) {
            one.remove("fill_value");
            other.remove("fill_value");
        }
        let (mut attributes, mut others) = (first.attributes.clone(), second.attributes.clone());
        if !is_storage && is_one_grid && mask_alike(&first, &second) {
            for members in [&mut one, &mut other, &mut attributes, &mut others] {
                members.remove("fill_value");
                members.remove("_FillValue");
            }
        }
        self.members(path, "", &one, &other);
        self.members(path, "attribute ", &attributes, &others);
        if is_one_grid {
            self.chunks(path, &counts, &first, &second);
        }
    }

    /// Returns both arrays with the same order of axes. Another order is a difference within one format.
    fn align<'b>(&mut self, path: &str, first: &'b Array, second: &'b Array) -> Aligned<'b> {
        let aligned = aligned(first, second);
        if aligned.is_moved && self.is_one_format {
            let names = |array: &Array| Some(Value::from(array.dimension_names.clone()));
            self.found.push(NodeDifference::Member {
                path: path.to_owned(),
                member: "order of axes".to_owned(),
                first: names(first),
                second: names(second),
            });
        }
        aligned
    }

    /// Reports each member that has different values, with `kind` before its name.
    fn members(&mut self, path: &str, kind: &str, first: &Map<String, Value>, second: &Map<String, Value>) {
        let names: BTreeSet<&String> = first.keys().chain(second.keys()).collect();
        for name in names.into_iter().filter(|name| !same(first.get(*name), second.get(*name))) {
            self.found.push(NodeDifference::Member {
                path: path.to_owned(),
                member: format!("{kind}{name}"),
                first: first.get(name).cloned(),
                second: second.get(name).cloned(),
            });
        }
    }

    /// Compares the chunks of two arrays of the same grid, and reports their number and a few examples.
    fn chunks(&mut self, path: &str, counts: &[u64], first: &Array, second: &Array) {
        let (mut count, mut examples) = (0, Vec::new());
        for (position, one, other) in pairs(first, second) {
            let is_same = match (&one, &other) {
                (Some(ChunkEntry::Inline(bytes)), None) => {
                    is_full_of(first, position, bytes, &missing_reads(second))
                }
                (None, Some(ChunkEntry::Inline(bytes))) => {
                    is_full_of(second, position, bytes, &missing_reads(first))
                }
                (one, other) => self.is_same(one.as_ref(), other.as_ref()),
            };
            if is_same {
                continue;
            }
            count += 1;
            if examples.len() < EXAMPLES {
                examples.push(ChunkDifference {
                    indices: chunk_indices(position, counts).unwrap_or_else(|| vec![position]),
                    first: place(self.first, one.as_ref()),
                    second: place(self.second, other.as_ref()),
                });
            }
        }
        if count > 0 {
            self.found.push(NodeDifference::Chunks { path: path.to_owned(), count, examples });
        }
    }

    /// Returns whether two chunks are stored in the same place, or inline with the same bytes.
    fn is_same(&self, one: Option<&ChunkEntry<'_>>, other: Option<&ChunkEntry<'_>>) -> bool {
        match (one, other) {
            (Some(ChunkEntry::Inline(one)), Some(ChunkEntry::Inline(other))) => one == other,
            (Some(ChunkEntry::Reference(one)), Some(ChunkEntry::Reference(other))) => {
                let url = |hierarchy: &Hierarchy, id| hierarchy.source(id).map(|source| source.url.clone());
                (one.offset, one.length) == (other.offset, other.length)
                    && (!self.urls || url(self.first, one.source) == url(self.second, other.source))
            }
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

/// Returns whether two arrays of Zarr v2 have the same sentinel, as `fill_value` or as an attribute, and their missing
/// chunks read as the same value.
fn mask_alike(first: &Array, second: &Array) -> bool {
    let masks = |array: &Array| {
        let mut in_v3 = Array { chunks: ChunkManifest::default(), ..array.clone() };
        let lost = virtualize_references::fill_in_v3(&mut in_v3);
        lost.is_none().then(|| (in_v3.fill_value, in_v3.attributes.remove("_FillValue")))
    };
    match (masks(first), masks(second)) {
        (Some((one, sentinel)), Some((other, same_sentinel))) => {
            same(sentinel.as_ref(), same_sentinel.as_ref())
                && (one == other || !both_lack_a_chunk(first, second))
        }
        _ => false,
    }
}

/// Returns whether two values are equal, including the sign of a zero.
fn same(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one, other) {
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(Some(one), Some(other)))
        }
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            one.len() == other.len() && one.iter().all(|(name, one)| same(Some(one), other.get(name)))
        }
        (Some(Value::Number(one)), Some(Value::Number(other))) => {
            let is_negative =
                |number: &serde_json::Number| number.as_f64().is_some_and(f64::is_sign_negative);
            one == other && is_negative(one) == is_negative(other)
        }
        (one, other) => one == other,
    }
}

/// Returns the members of an array's document that determine how its chunks are read.
fn document(array: &Array, format: ZarrFormat, path: &str) -> Map<String, Value> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let document = match format {
        ZarrFormat::V2 => array.to_zarray(),
        ZarrFormat::V3 => array.to_zarr_json(name),
    };
    let mut members = match document {
        Ok(Value::Object(members)) => members,
        Ok(_) | Err(_) => Map::from_iter([("array".to_owned(), Value::from(format!("{array:?}")))]),
    };
    members.remove("attributes");
    if format == ZarrFormat::V2 {
        members.insert("dimension_names".to_owned(), array.axis_names(name).into());
    }
    members
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;
    use virtualize_zarr::{
        ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, Lengths, References, Source, SourceId,
    };

    use super::*;

    /// An array of 2 × 3 chunks in `s3://b/one.nc`, in a group.
    fn hierarchy(format: ZarrFormat) -> Hierarchy {
        let mut hierarchy = Hierarchy::new(format);
        hierarchy.sources.push(Source { url: "s3://b/one.nc".to_owned(), ..Source::default() });
        let references = References {
            source: SourceId(0),
            positions: None,
            offsets: vec![10, 20, 30, 40, 50, 60].into(),
            lengths: Lengths::Uniform(10),
        };
        let array = Array {
            shape: vec![4, 6],
            data_type: DataType::Int16,
            chunk_grid: ChunkGrid::Regular(vec![2, 2]),
            fill_value: Some(FillValue::zero(&DataType::Int16)),
            codecs: vec![Codec::Bytes { endian: Some(Endian::Little) }, Codec::Zlib { level: 4 }],
            dimension_names: vec![Some("y".to_owned()), Some("x".to_owned())],
            attributes: Map::from_iter([("units".to_owned(), json!("K"))]),
            chunks: ChunkManifest::of(references),
        };
        hierarchy.root.make_group("g").unwrap().children.insert("a".to_owned(), Node::Array(Box::new(array)));
        hierarchy
    }

    fn changed(change: impl FnOnce(&mut Hierarchy)) -> Hierarchy {
        let mut hierarchy = hierarchy(ZarrFormat::V3);
        change(&mut hierarchy);
        hierarchy
    }

    fn told(other: &Hierarchy, urls: bool) -> Vec<String> {
        let found = diff(&hierarchy(ZarrFormat::V3), other, urls);
        found.nodes.iter().map(ToString::to_string).collect()
    }

    fn array(hierarchy: &mut Hierarchy) -> &mut Array {
        hierarchy.array_mut("g/a").unwrap()
    }

    #[test]
    fn equal_hierarchies_of_either_format_do_not_differ() {
        assert!(told(&hierarchy(ZarrFormat::V3), true).is_empty());
        let mut other = hierarchy(ZarrFormat::V2);
        // Zarr v2: readers would mask the fill value.
        array(&mut other).fill_value = None;
        assert_eq!(told(&other, true), Vec::<String>::new());
        assert!(diff(&hierarchy(ZarrFormat::V2), &hierarchy(ZarrFormat::V2), true).is_empty());
    }

    #[test]
    fn nodes_of_one_only_and_of_two_kinds() {
        let other = changed(|h| {
            h.root.make_group("h").unwrap();
        });
        assert_eq!(told(&other, true), ["/h: only in the second"]);
        let other = changed(|h| h.root.children.clear());
        assert_eq!(told(&other, true), ["/g: only in the first"]);
        let other = changed(|h| {
            h.root.make_group("g").unwrap().children.clear();
            h.root.make_group("g/a").unwrap();
        });
        assert_eq!(told(&other, true), ["/g/a: a group in one, an array in the other"]);
    }

    #[test]
    fn members_and_attributes() {
        let other = changed(|h| {
            array(h).attributes.insert("units".to_owned(), json!("m"));
            array(h).attributes.insert("long".to_owned(), json!("é".repeat(200)));
            array(h).codecs.pop();
        });
        let told = told(&other, true);
        let expected = [
            "/g/a: codecs: [",
            "/g/a: attribute long: nothing | \"é",
            "/g/a: attribute units: \"K\" | \"m\"",
        ];
        assert_eq!(told.len(), expected.len(), "{told:?}");
        for (found, start) in told.iter().zip(expected) {
            assert!(found.starts_with(start), "{found}");
        }
        assert!(told.get(1).is_some_and(|line| line.ends_with('…')));
    }

    #[test]
    fn chunks_that_moved_are_missing_or_inline() {
        let other = changed(|h| {
            let chunks = &mut array(h).chunks;
            chunks.references.first_mut().unwrap().offsets = vec![10, 21, 30, 40, 50].into();
            chunks.inline.insert(3, Bytes::from_static(b"12345"));
        });
        let expected = "/g/a: 3 chunks; 0.1: [s3://b/one.nc, 20, 10] | [s3://b/one.nc, 21, 10]; \
            1.0: [s3://b/one.nc, 40, 10] | 5 bytes inline; 1.2: [s3://b/one.nc, 60, 10] | missing";
        assert_eq!(told(&other, true), [expected]);
    }

    #[test]
    fn many_chunks_are_counted_and_three_shown() {
        let other = changed(|h| array(h).chunks.references.clear());
        let told = told(&other, true);
        assert!(told.iter().all(|line| line.starts_with("/g/a: 6 chunks; 0.0: ") && line.ends_with("; …")));
        assert_eq!(told.len(), 1);
    }

    #[test]
    fn urls_count_where_they_are_wanted() {
        let other = changed(|h| h.sources.first_mut().unwrap().url = "s3://b/two.nc".to_owned());
        assert!(told(&other, false).is_empty());
        assert_eq!(told(&other, true).len(), 1);
    }

    #[test]
    fn secrets_of_urls_are_not_shown() {
        let other =
            changed(|h| h.sources.first_mut().unwrap().url = "https://h/one.nc?signature=secret".to_owned());
        let told = told(&other, true).concat();
        assert!(told.contains("https://h/one.nc,") && !told.contains("secret"), "{told}");
    }
}
