//! Equivalent forms of an array that more readers decode.

use crate::{
    Array, ChunkGrid, ChunkManifest, Codec, Implementation, ReferencesBuilder, ZarrFormat, chunk_indices,
    chunk_position,
};

/// Returns the array with its axes in stored order instead of a `transpose`; `None` where it has no such codec, or
/// where chunks would change their positions.
pub fn untransposed(array: &Array) -> Option<Array> {
    let (Codec::Transpose { order }, ChunkGrid::Regular(_)) = (array.codecs.first()?, &array.chunk_grid)
    else {
        return None;
    };
    let counts = array.chunk_grid.counts(&array.shape);
    keeps_positions(order, &counts).then(|| in_stored_order(array)).flatten()
}

/// Returns the array with its axes in stored order instead of a `transpose` that comes first, with its chunks at their
/// new positions; `None` where it has no such codec.
pub fn in_stored_order(array: &Array) -> Option<Array> {
    let (Codec::Transpose { order }, rest) = array.codecs.split_first()? else { return None };
    let counts = array.chunk_grid.counts(&array.shape);
    let name = |axis: &usize| array.dimension_names.get(*axis).cloned().flatten();
    Some(Array {
        shape: permuted(&array.shape, order)?,
        data_type: array.data_type.clone(),
        chunk_grid: match &array.chunk_grid {
            ChunkGrid::Regular(chunk) => ChunkGrid::Regular(permuted(chunk, order)?),
            ChunkGrid::Rectilinear(edges) => ChunkGrid::Rectilinear(permuted(edges, order)?),
        },
        fill_value: array.fill_value.clone(),
        codecs: rest.to_vec(),
        dimension_names: order.iter().map(name).collect(),
        attributes: array.attributes.clone(),
        chunks: match keeps_positions(order, &counts) {
            true => array.chunks.clone(),
            false => permuted_chunks(&array.chunks, order, &counts)?,
        },
    })
}

/// Permutes a property of each axis.
fn permuted<T: Clone>(of_axes: &[T], order: &[usize]) -> Option<Vec<T>> {
    let permuted = order.iter().map(|axis| of_axes.get(*axis).cloned()).collect::<Option<Vec<_>>>()?;
    (permuted.len() == of_axes.len()).then_some(permuted)
}

/// Whether row-major positions of chunks are the same in both orders of axes.
fn keeps_positions(order: &[usize], counts: &[u64]) -> bool {
    order.iter().filter(|axis| counts.get(**axis).is_some_and(|count| *count > 1)).is_sorted()
}

fn permuted_chunks(chunks: &ChunkManifest, order: &[usize], counts: &[u64]) -> Option<ChunkManifest> {
    let new_counts = permuted(counts, order)?;
    let place = |position: u64| {
        let indices = chunk_indices(position, counts)?;
        chunk_position(permuted(&indices, order)?, &new_counts)
    };
    let mut all = ChunkManifest::default();
    for column in &chunks.references {
        let mut builder = ReferencesBuilder::default();
        for (position, reference) in column.iter() {
            builder.push(place(position)?, reference.offset, reference.length);
        }
        all.references.extend(builder.finish(column.source));
    }
    for (position, bytes) in &chunks.inline {
        all.inline.insert(place(*position)?, bytes.clone());
    }
    Some(all)
}

/// Returns codecs for chunks that are encoded anew: the layout stays, and compression becomes one that every reader of
/// the format decodes. `None` where chunks cannot be decoded here.
pub fn plain_codecs(array: &Array, format: ZarrFormat) -> Option<Vec<Codec>> {
    let is_recoded = |codec: &Codec| codec.implementation() != Implementation::None && !codec.is_arithmetic();
    if array.data_type.size().is_none() || !array.codecs.iter().all(is_recoded) {
        return None;
    }
    let layout = array.codecs.iter().take_while(|codec| matches!(codec, Codec::Transpose { .. }));
    let mut plain: Vec<_> = layout.cloned().collect();
    plain.push(Codec::Bytes { endian: Some(array.endian()) });
    if array.codecs.iter().any(Codec::is_compressor) {
        plain.push(match format {
            ZarrFormat::V2 => Codec::Zlib { level: LEVEL },
            ZarrFormat::V3 => Codec::Gzip { level: LEVEL },
        });
    }
    Some(plain)
}

/// Usual compression level of both.
const LEVEL: u8 = 6;

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::{DataType, Endian, Lengths, References, SourceId};

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
    fn chunks_move_with_their_axes() {
        let mut array = array(&[2, 4, 24], &[1, 2, 24], &[1, 2, 0]);
        let references = References {
            source: SourceId(0),
            positions: None,
            offsets: vec![0, 10, 20, 30].into(),
            lengths: Lengths::Uniform(5),
        };
        array.chunks = ChunkManifest::of(references);
        array.chunks.inline.insert(1, bytes::Bytes::from_static(b"at y 1, band 0"));
        let stored = in_stored_order(&array).unwrap();
        assert_eq!(stored.shape, [4, 24, 2]);
        let places: Vec<_> = stored.chunks.references[0].iter().map(|(at, part)| (at, part.offset)).collect();
        assert_eq!(places, [(0, 0), (1, 20), (2, 10), (3, 30)]);
        assert!(stored.chunks.inline.contains_key(&2));
        array.codecs[0] = Codec::Transpose { order: vec![0, 5, 1] };
        assert_eq!(in_stored_order(&array), None);
    }

    #[test]
    fn new_chunks_keep_byte_order_and_layout() {
        let array = array(&[3, 20, 24], &[3, 5, 24], &[1, 2, 0]);
        let [layout, bytes] = [array.codecs[0].clone(), array.codecs[1].clone()];
        assert_eq!(
            plain_codecs(&array, ZarrFormat::V3).unwrap(),
            [layout, bytes, Codec::Gzip { level: LEVEL }]
        );
        let unknown = |codec: Codec| {
            let mut array = array.clone();
            array.codecs[2] = codec;
            plain_codecs(&array, ZarrFormat::V3).is_none()
        };
        assert!(unknown(Codec::ScaleOffset { offset: None, scale: Some(2.into()) }), "of arithmetic");
        assert!(unknown(Codec::Image { name: "imagecodecs_jpegxr", configuration: Map::new() }));
        assert_eq!(plain_codecs(&Array { data_type: DataType::String, ..array }, ZarrFormat::V3), None);
    }
}
