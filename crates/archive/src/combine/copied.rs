//! Arrays whose values the references themselves carry.

use std::collections::BTreeMap;

use bytes::Bytes;
use virtualize::zarr::{Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian};

use super::{
    boxes::{advance, paste},
    geometry::Geometry,
    grow::{Growing, Piece},
};

/// Most bytes of a chunk of copied values, as long as one element of the slowest axis is shorter.
const CHUNK: u64 = 1 << 20;

/// All values of an array, the parts at their places, `missing` elsewhere. Row-major, little-endian.
pub(super) fn whole(
    growing: &Growing,
    geometry: &Geometry,
    missing: &[u8],
    most: u64,
) -> Result<Vec<u8>, String> {
    let size = growing.first.data_type.size().ok_or("its elements are of no fixed size")?;
    let shape = geometry.shape();
    let bytes = shape.iter().try_fold(size, |product, n| product.checked_mul(*n)).unwrap_or(u64::MAX);
    if bytes > most {
        return Err(format!("{bytes} bytes of values are to be copied, and at most {most} may be"));
    }
    let odd = || "its values do not have the shape that they should".to_owned();
    let count = usize::try_from(bytes / size.max(1)).map_err(|_| odd())?;
    let mut all = missing.repeat(count);
    for (key, piece) in &growing.pieces {
        put(&mut all, &shape, growing, geometry, key, piece, size).ok_or_else(odd)?;
    }
    Ok(all)
}

fn put(
    all: &mut [u8],
    shape: &[u64],
    growing: &Growing,
    geometry: &Geometry,
    key: &[usize],
    piece: &Piece,
    size: u64,
) -> Option<()> {
    let values = piece.values.as_ref()?;
    let (start, extent) = geometry.part(key)?;
    let own = geometry.axes.iter().map(|axis| axis.own.map_or(Some(1), |own| piece.shape.get(own).copied()));
    let own: Vec<u64> = own.collect::<Option<_>>()?;
    if own.iter().try_fold(size, |product, n| product.checked_mul(*n))? != values.len() as u64 {
        return None;
    }
    // New axes repeat the values as often as the part has elements along them.
    let times: Vec<u64> =
        geometry.axes.iter().zip(&extent).map(|(axis, n)| if axis.own.is_none() { *n } else { 1 }).collect();
    if times.contains(&0) || growing.places.is_empty() {
        return Some(());
    }
    let mut step = vec![0; times.len()];
    loop {
        let at: Vec<u64> = start.iter().zip(&step).map(|(start, step)| start + step).collect();
        paste(all, shape, &at, values, &own, size)?;
        if !advance(&mut step, &times) {
            return Some(());
        }
    }
}

/// Puts values into an array as plain chunks of a bounded size.
pub(super) fn carry(array: &mut Array, values: Vec<u8>) -> Option<()> {
    let size = array.data_type.size()?;
    let endian = (array.data_type.number_size() > 1).then_some(Endian::Little);
    array.codecs = vec![Codec::Bytes { endian }];
    let Some((rows, rest)) = array.shape.split_first() else {
        array.chunk_grid = ChunkGrid::Regular(Vec::new());
        array.chunks = ChunkManifest { references: Vec::new(), inline: [(0, values.into())].into() };
        return Some(());
    };
    let row = rest.iter().try_fold(size, |product, n| product.checked_mul(*n))?;
    let most = CHUNK.checked_div(row).unwrap_or(1).max(1).min((*rows).max(1));
    let length = usize::try_from(most.checked_mul(row)?).ok()?;
    let mut inline = BTreeMap::new();
    if length > 0 {
        let values = Bytes::from(values);
        for (position, start) in (0..values.len()).step_by(length).enumerate() {
            let mut chunk = values.slice(start..values.len().min(start.checked_add(length)?));
            if chunk.len() < length {
                let mut padded = chunk.to_vec();
                padded.resize(length, 0);
                chunk = padded.into();
            }
            // The grid has one chunk along all other axes, so that positions are those along the first.
            inline.insert(position as u64, chunk);
        }
    }
    let chunk = std::iter::once(most).chain(rest.iter().map(|n| (*n).max(1))).collect();
    array.chunk_grid = ChunkGrid::Regular(chunk);
    array.chunks = ChunkManifest { references: Vec::new(), inline };
    Some(())
}

/// Puts texts into an array of one axis, in one chunk.
pub(super) fn carry_texts(array: &mut Array, texts: &[String]) -> Option<()> {
    let count = u32::try_from(texts.len()).ok()?;
    let mut chunk = count.to_le_bytes().to_vec();
    for text in texts {
        chunk.extend(u32::try_from(text.len()).ok()?.to_le_bytes());
        chunk.extend(text.as_bytes());
    }
    array.data_type = DataType::String;
    array.codecs = vec![Codec::VlenUtf8];
    array.chunk_grid = ChunkGrid::Regular(vec![texts.len().max(1) as u64]);
    array.chunks = ChunkManifest { references: Vec::new(), inline: [(0, chunk.into())].into() };
    Some(())
}
