//! Other spellings of an array, which more readers know.

use crate::{Array, ChunkGrid, Codec, ZarrFormat};

/// The same array with its axes in the order in which they are stored, instead of a `transpose`. `None` where it has no
/// such codec, or where chunks would change places.
pub fn untransposed(array: &Array) -> Option<Array> {
    let (Codec::Transpose { order }, rest) = array.codecs.split_first()? else { return None };
    let ChunkGrid::Regular(chunk) = &array.chunk_grid else { return None };
    let counts = array.chunk_grid.counts(&array.shape);
    let several = order.iter().filter(|axis| counts.get(**axis).is_some_and(|count| *count > 1));
    if !several.is_sorted() {
        return None;
    }
    let moved =
        |sizes: &[u64]| order.iter().map(|axis| sizes.get(*axis).copied()).collect::<Option<Vec<_>>>();
    let name = |axis: &usize| array.dimension_names.get(*axis).cloned().flatten();
    Some(Array {
        shape: moved(&array.shape)?,
        chunk_grid: ChunkGrid::Regular(moved(chunk)?),
        dimension_names: order.iter().map(name).collect(),
        codecs: rest.to_vec(),
        ..array.clone()
    })
}

/// The codecs for chunks that are made anew: the layout stays, and what compressed them becomes a compression that every
/// reader of the format knows. `None` where only a client decodes them.
pub fn plain_codecs(array: &Array, format: ZarrFormat) -> Option<Vec<Codec>> {
    let decoded_by_clients_only = |codec: &Codec| {
        codec.is_arithmetic() || matches!(codec, Codec::Image { .. } | Codec::Blosc2Nd | Codec::Named { .. })
    };
    if array.data_type.size().is_none() || array.codecs.iter().any(decoded_by_clients_only) {
        return None;
    }
    let layout = array.codecs.iter().take_while(|codec| matches!(codec, Codec::Transpose { .. }));
    let mut plain: Vec<_> = layout.cloned().collect();
    plain.push(Codec::Bytes { endian: Some(array.endian()) });
    if array.codecs.iter().any(compresses) {
        plain.push(match format {
            ZarrFormat::V2 => Codec::Zlib { level: LEVEL },
            ZarrFormat::V3 => Codec::Gzip { level: LEVEL },
        });
    }
    Some(plain)
}

/// Usual for both formats.
const LEVEL: u8 = 6;

fn compresses(codec: &Codec) -> bool {
    let keeps_size = matches!(codec, Codec::Shuffle { .. } | Codec::Fletcher32 | Codec::BitOrder);
    codec.is_bytes_to_bytes() && !keeps_size
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::{ChunkManifest, DataType, Endian};

    fn array(shape: &[u64], chunk: &[u64], order: &[usize]) -> Array {
        Array {
            shape: shape.to_vec(),
            data_type: DataType::UInt16,
            chunk_grid: ChunkGrid::Regular(chunk.to_vec()),
            fill_value: None,
            codecs: vec![
                Codec::Transpose { order: order.to_vec() },
                Codec::Bytes { endian: Some(Endian::Big) },
                Codec::Lzw,
            ],
            dimension_names: ["band", "y", "x"].map(|name| Some(name.to_owned())).to_vec(),
            attributes: Map::new(),
            chunks: ChunkManifest::default(),
        }
    }

    #[test]
    fn bands_that_are_stored_last_come_last() {
        let array = untransposed(&array(&[3, 20, 24], &[3, 5, 24], &[1, 2, 0])).unwrap();
        assert_eq!(array.shape, [20, 24, 3]);
        assert_eq!(array.chunk_grid, ChunkGrid::Regular(vec![5, 24, 3]));
        assert_eq!(array.dimension_names, ["y", "x", "band"].map(|name| Some(name.to_owned())));
        assert_eq!(array.codecs.len(), 2);
    }

    #[test]
    fn chunks_keep_their_places() {
        assert_eq!(untransposed(&array(&[3, 20, 24], &[1, 5, 24], &[1, 2, 0])), None);
        assert_eq!(untransposed(&array(&[3, 20, 24], &[3, 5, 4], &[2, 1, 0])), None);
    }

    #[test]
    fn new_chunks_keep_byte_order_and_layout() {
        let array = array(&[3, 20, 24], &[3, 5, 24], &[1, 2, 0]);
        let [layout, bytes] = [array.codecs[0].clone(), array.codecs[1].clone()];
        assert_eq!(
            plain_codecs(&array, ZarrFormat::V3).unwrap(),
            [layout, bytes, Codec::Gzip { level: LEVEL }]
        );
    }
}
