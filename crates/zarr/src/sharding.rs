//! The codec `sharding_indexed` (Zarr v3, "Sharding codec", version 1.0): a shard stores many chunks, and an index of them
//! at its start or end.

use serde_json::Value;

use crate::{
    Array, ChunkGrid, ChunkManifest, Codec, Endian, Reference, ZarrFormat, chunk_indices, chunk_position,
    codecs,
    read::{ReadError, sizes, unexpected},
};

/// Maximum number of chunks in a shard.
const MAX_CHUNKS: u64 = 1 << 22;
/// Bytes of an entry of the index: offset and length.
const ENTRY: usize = 16;
/// Offset and length of a missing chunk.
const MISSING: u64 = u64::MAX;

/// The shards of an array.
#[derive(Clone, PartialEq, Debug)]
pub struct Sharding {
    /// The array with the chunks in the shards as its grid, without chunks.
    pub array: Array,
    /// Number of shards along each axis, slowest first.
    shards: Vec<u64>,
    /// Number of chunks in a shard along each axis, slowest first.
    per_shard: Vec<u64>,
    endian: Endian,
    has_checksum: bool,
    is_at_end: bool,
}

impl Sharding {
    /// Parses the codec of an array whose chunks are shards. Returns `None` if they are not.
    ///
    /// # Errors
    /// A configuration that violates the specification; other codecs before or after the shards; an index that is
    /// compressed.
    pub fn of(array: &Array) -> Result<Option<Self>, ReadError> {
        let entries = array.codecs.iter().filter_map(|codec| match codec {
            Codec::Foreign { entry, format: ZarrFormat::V3, .. } => Some(entry),
            _ => None,
        });
        let is_sharding =
            |entry: &&Value| entry.get("name").and_then(Value::as_str) == Some("sharding_indexed");
        let Some(entry) = entries.into_iter().find(is_sharding) else { return Ok(None) };
        if array.codecs.len() > 1 {
            return Err(unexpected("codecs", "sharding_indexed as the only codec of its array", entry));
        }
        let nothing = Value::Null;
        let configuration = entry.get("configuration").unwrap_or(&nothing);
        let inner = sizes(configuration, "chunk_shape")?;
        let ChunkGrid::Regular(outer) = &array.chunk_grid else {
            return Err(unexpected("chunk_grid", "shards of one shape", entry));
        };
        let divides = |(outer, inner): (&u64, &u64)| *inner > 0 && outer.is_multiple_of(*inner);
        if outer.len() != inner.len() || !outer.iter().zip(&inner).all(divides) {
            return Err(unexpected("chunk_shape", "sizes that divide the shape of a shard", configuration));
        }
        let per_shard: Vec<_> = outer.iter().zip(&inner).map(|(outer, inner)| outer / inner).collect();
        let count = per_shard.iter().try_fold(1_u64, |all, n| all.checked_mul(*n));
        if count.is_none_or(|count| count > MAX_CHUNKS) {
            return Err(unexpected("chunk_shape", "at most 4,194,304 chunks in a shard", configuration));
        }
        let is_at_end = match configuration.get("index_location").and_then(Value::as_str) {
            None | Some("end") => true,
            Some("start") => false,
            Some(_) => return Err(unexpected("index_location", "start or end", configuration)),
        };
        let member = |name: &str| configuration.get(name).unwrap_or(&nothing);
        let (endian, has_checksum) = index_codecs(member("index_codecs"))?;
        let codecs = codecs::from_v3(member("codecs"), &array.data_type)?;
        let data_type = array.data_type.clone().in_byte_order(Codec::endian_of(&codecs));
        let shards = array.chunk_grid.counts(&array.shape);
        let array = Array {
            shape: array.shape.clone(),
            data_type,
            chunk_grid: ChunkGrid::Regular(inner),
            fill_value: array.fill_value.clone(),
            codecs,
            dimension_names: array.dimension_names.clone(),
            attributes: array.attributes.clone(),
            chunks: ChunkManifest::default(),
        };
        Ok(Some(Self { array, shards, per_shard, endian, has_checksum, is_at_end }))
    }

    /// Returns the number of chunks in a shard.
    fn count(&self) -> usize {
        self.per_shard.iter().fold(1, |all, n| all.saturating_mul(usize::try_from(*n).unwrap_or(usize::MAX)))
    }

    /// Returns whether the index ends with a CRC-32C of the bytes before it, little-endian.
    pub fn has_checksum(&self) -> bool {
        self.has_checksum
    }

    /// Returns the location of the index of a shard; `None` if the shard is too short to have one.
    pub fn index(&self, shard: Reference) -> Option<Reference> {
        let checksum = if self.has_checksum { 4 } else { 0 };
        let length = self.count().saturating_mul(ENTRY).saturating_add(checksum) as u64;
        let at_end = shard.length.checked_sub(length)?;
        let offset = shard.offset.checked_add(if self.is_at_end { at_end } else { 0 })?;
        Some(Reference { offset, length, ..shard })
    }

    /// Returns the row-major position of the shard that contains the chunk at a row-major position of the inner array.
    pub fn shard(&self, position: u64) -> Option<u64> {
        let indices = chunk_indices(position, &self.array.chunk_grid.counts(&self.array.shape))?;
        let shard = indices.iter().zip(&self.per_shard).map(|(index, n)| index.checked_div(*n).unwrap_or(0));
        chunk_position(shard, &self.shards)
    }

    /// Parses the index of the shard at a row-major position. Returns the chunks that are stored, with their row-major
    /// positions in the inner array; `None` if a chunk is outside of the shard.
    pub fn chunks(&self, position: u64, shard: Reference, index: &[u8]) -> Option<Vec<(u64, Reference)>> {
        let first = chunk_indices(position, &self.shards)?;
        let counts = self.array.chunk_grid.counts(&self.array.shape);
        let mut found = Vec::new();
        for (n, entry) in index.chunks_exact(ENTRY).take(self.count()).enumerate() {
            let (offset, length) = entry.split_first_chunk::<8>()?;
            let length = length.first_chunk::<8>()?;
            let number = |bytes: [u8; 8]| match self.endian {
                Endian::Little => u64::from_le_bytes(bytes),
                Endian::Big => u64::from_be_bytes(bytes),
            };
            let (offset, length) = (number(*offset), number(*length));
            if (offset, length) == (MISSING, MISSING) {
                continue;
            }
            let end = offset.checked_add(length).filter(|end| *end <= shard.length);
            end.filter(|_| length > 0)?;
            let within = chunk_indices(n as u64, &self.per_shard)?;
            let indices = first.iter().zip(&self.per_shard).zip(within);
            let indices: Option<Vec<u64>> =
                indices.map(|((first, n), within)| first.checked_mul(*n)?.checked_add(within)).collect();
            // Chunks beyond the edge of the array may be stored, but are not part of it.
            if let Some(position) = chunk_position(indices?, &counts) {
                let offset = shard.offset.checked_add(offset)?;
                found.push((position, Reference { offset, length, ..shard }));
            }
        }
        Some(found)
    }
}

/// Returns the byte order of the index, and whether a checksum follows it.
fn index_codecs(codecs: &Value) -> Result<(Endian, bool), ReadError> {
    let refused = || unexpected("index_codecs", "bytes, then perhaps crc32c", codecs);
    let list = codecs.as_array().ok_or_else(refused)?;
    let name = |codec: &Value| codec.get("name").unwrap_or(codec).as_str().map(str::to_owned);
    let has_checksum = match list.as_slice() {
        [_] => false,
        [_, checksum] if name(checksum).as_deref() == Some("crc32c") => true,
        _ => return Err(refused()),
    };
    let bytes = list.first().filter(|bytes| name(bytes).as_deref() == Some("bytes")).ok_or_else(refused)?;
    match bytes.pointer("/configuration/endian").and_then(Value::as_str) {
        Some("little") => Ok((Endian::Little, has_checksum)),
        Some("big") => Ok((Endian::Big, has_checksum)),
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceId;
    use serde_json::json;

    /// Shards of 4 × 4 with chunks of 2 × 2, of an array of 6 × 5.
    fn sharding(change: impl FnOnce(&mut Value)) -> Result<Option<Sharding>, ReadError> {
        let mut codecs = json!([{ "name": "sharding_indexed", "configuration": {
            "chunk_shape": [2, 2], "index_location": "end",
            "codecs": [{ "name": "bytes", "configuration": { "endian": "big" } }],
            "index_codecs": [{ "name": "bytes", "configuration": { "endian": "little" } }, { "name": "crc32c" }],
        }}]);
        change(&mut codecs);
        let document = json!({
            "zarr_format": 3, "node_type": "array", "shape": [6, 5], "data_type": "int16", "fill_value": 0,
            "chunk_grid": { "name": "regular", "configuration": { "chunk_shape": [4, 4] } },
            "chunk_key_encoding": { "name": "default" }, "codecs": codecs,
        });
        Sharding::of(&Array::from_zarr_json(&document).unwrap().array)
    }

    fn configuration(codecs: &mut Value) -> &mut Value {
        codecs.pointer_mut("/0/configuration").unwrap()
    }

    #[test]
    fn chunks_of_a_shard_at_the_edge() {
        let sharding = sharding(|_| {}).unwrap().unwrap();
        assert_eq!(sharding.array.codecs, [Codec::Bytes { endian: Some(Endian::Big) }]);
        assert_eq!(sharding.array.chunk_grid.counts(&[6, 5]), [3, 3]);
        let shard = Reference { source: SourceId(7), offset: 1000, length: 100 };
        assert_eq!(sharding.index(shard), Some(Reference { offset: 1032, length: 68, ..shard }));
        let entries = [(0, 8), (8, 8), (MISSING, MISSING), (16, 8)];
        let index: Vec<u8> = entries
            .iter()
            .flat_map(|(at, n): &(u64, u64)| [at.to_le_bytes(), n.to_le_bytes()])
            .flatten()
            .collect();
        // The second column of chunks of shard (0, 1) starts at x = 6.
        let at = |offset| Reference { offset, length: 8, ..shard };
        assert_eq!(sharding.chunks(1, shard, &index), Some(vec![(2, at(1000))]));
        assert_eq!(
            sharding.chunks(0, shard, &index),
            Some(vec![(0, at(1000)), (1, at(1008)), (4, at(1016))])
        );
        for (position, shard) in [(0, 0), (1, 0), (2, 1), (4, 0), (6, 2), (8, 3)] {
            assert_eq!(sharding.shard(position), Some(shard), "{position}");
        }
        assert_eq!(sharding.chunks(0, Reference { length: 10, ..shard }, &index), None);
        assert_eq!(sharding.index(Reference { length: 67, ..shard }), None);
    }

    #[test]
    fn invalid_configurations() {
        assert!(sharding(|codecs| configuration(codecs)["chunk_shape"] = json!([3, 2])).is_err());
        assert!(sharding(|codecs| configuration(codecs)["chunk_shape"] = json!([0, 2])).is_err());
        assert!(sharding(|codecs| configuration(codecs)["chunk_shape"] = json!([2])).is_err());
        assert!(sharding(|codecs| configuration(codecs)["index_location"] = json!("middle")).is_err());
        assert!(sharding(|codecs| configuration(codecs)["index_codecs"] = json!([])).is_err());
        assert!(sharding(|codecs| configuration(codecs)["codecs"] = json!([])).is_err());
        assert!(sharding(|codecs| codecs.as_array_mut().unwrap().push(json!("zstd"))).is_err());
        assert_eq!(sharding(|codecs| *codecs = json!(["bytes"])), Ok(None));
    }
}
