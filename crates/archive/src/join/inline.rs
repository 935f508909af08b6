//! Arrays whose values are inlined into the references.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use virtualize::zarr::{Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian};

use super::{accumulate::Growing, pieces::Place};
use crate::compat::geometry::{Axis, Geometry};
use crate::error::Problem;
use crate::values::{
    paste::{advance, paste},
    variable::{self, Table, is_variable},
};

/// Maximum size in bytes of a chunk of inlined values, unless a single element of the slowest axis is larger.
const CHUNK: u64 = 1 << 20;

/// Assembles all values of an array, with `missing` where no file has a part. Values are row-major and little-endian;
/// each variable-length element is preceded by its length.
pub(super) fn whole(
    growing: &mut Growing<'_>,
    geometry: &Geometry,
    missing: &[u8],
    most: u64,
) -> Result<Vec<u8>, Problem> {
    if !is_variable(&growing.first.data_type) {
        let size = growing.first.data_type.size().ok_or(Problem::ValueShape)?;
        if growing.pieces.kept() <= most
            && follow_each_other(growing, geometry, size)
            && let Some(values) = growing.pieces.take_values()
        {
            return Ok(values);
        }
        let values = |n| growing.pieces.values(n);
        return assembled((growing, geometry), missing, (size, most), values);
    }
    let missing = variable::join([missing]).ok_or(Problem::TooLarge)?;
    let mut table = Table::default();
    let none = table.numbers(&missing);
    let numbers: HashMap<u32, Bytes> =
        growing.pieces.iter().filter_map(|n| Some((n, table.numbers(growing.pieces.values(n)?)))).collect();
    let values = |n| numbers.get(&n).map(|numbers| numbers.as_ref());
    let numbers = assembled((growing, geometry), &none, (8, most), values)?;
    let joined = table.elements(&numbers).and_then(variable::join).ok_or(Problem::ValueShape)?;
    let bytes = joined.len() as u64;
    if bytes > most { Err(Problem::TooManyBytes { bytes, most }) } else { Ok(joined) }
}

/// Returns whether the combined array consists of the values of all parts, one after the other.
fn follow_each_other(growing: &Growing<'_>, geometry: &Geometry, size: u64) -> bool {
    let Some((slowest, others)) = geometry.axes.split_first() else { return false };
    let is_whole = |n| {
        let form = growing.pieces.form(n)?;
        let (_, extent) = geometry.part(&growing.place_of(n))?;
        let shape = &form.layout.shape;
        let is_own = |(axis, n): (&Axis, &u64)| axis.own.map_or(*n == 1, |own| shape.get(own) == Some(n));
        let bytes = extent.iter().try_fold(size, |all, n| all.checked_mul(*n))?;
        Some(geometry.axes.iter().zip(&extent).all(is_own) && form.values == Some(bytes))
    };
    growing.pieces.len() == slowest.sizes.len()
        && others.iter().all(|axis| axis.dimension.is_none())
        && growing.pieces.iter().all(|n| is_whole(n) == Some(true))
}

/// Assembles elements of `size` bytes from the parts at their places.
fn assembled<'a>(
    (growing, geometry): (&Growing<'_>, &Geometry),
    missing: &[u8],
    (size, most): (u64, u64),
    values: impl Fn(u32) -> Option<&'a [u8]>,
) -> Result<Vec<u8>, Problem> {
    let shape = geometry.shape();
    let bytes = shape.iter().try_fold(size, |product, n| product.checked_mul(*n)).unwrap_or(u64::MAX);
    if bytes > most {
        return Err(Problem::TooManyBytes { bytes, most });
    }
    let count = usize::try_from(bytes / size.max(1)).map_err(|_| Problem::TooLarge)?;
    let mut all = missing.repeat(count);
    for n in growing.pieces.iter() {
        let values = values(n).ok_or(Problem::ValueShape)?;
        let own = growing.pieces.form(n).map(|form| form.layout.shape.as_slice()).unwrap_or_default();
        let part = (growing.place_of(n), own, values);
        put(&mut all, &shape, geometry, part, size).ok_or(Problem::ValueShape)?;
    }
    Ok(all)
}

/// Copies the values of a part, given with its place and shape, into the combined array.
fn put(
    all: &mut [u8],
    shape: &[u64],
    geometry: &Geometry,
    (place, part, values): (Place, &[u64], &[u8]),
    size: u64,
) -> Option<()> {
    let (start, extent) = geometry.part(&place)?;
    let own = geometry.axes.iter().map(|axis| axis.own.map_or(Some(1), |own| part.get(own).copied()));
    let own: Vec<u64> = own.collect::<Option<_>>()?;
    if own.iter().try_fold(size, |product, n| product.checked_mul(*n))? != values.len() as u64 {
        return None;
    }
    // Along new axes, values are repeated for each element of the part.
    let times: Vec<u64> =
        geometry.axes.iter().zip(&extent).map(|(axis, n)| if axis.own.is_none() { *n } else { 1 }).collect();
    if times.contains(&0) {
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

/// Inlines values into an array as uncompressed chunks of bounded size.
pub(super) fn set_inline_values(array: &mut Array, values: Vec<u8>) -> Option<()> {
    if is_variable(&array.data_type) {
        let fill = variable::fill(array);
        return set_inline_elements(array, &variable::split(&values).collect::<Vec<_>>(), &fill);
    }
    let size = array.data_type.size()?;
    let endian = (array.data_type.number_size() > 1).then_some(Endian::Little);
    array.codecs = vec![Codec::Bytes { endian }];
    let Some((rows, rest)) = array.shape.split_first() else {
        array.chunk_grid = ChunkGrid::Regular(Vec::new());
        array.chunks = ChunkManifest { references: Vec::new(), inline: [(0, values.into())].into() };
        return Some(());
    };
    let row = rest.iter().try_fold(size, |product, n| product.checked_mul(*n))?;
    let most = rows_per_chunk(row, *rows);
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
            // The grid has one chunk along all other axes, hence positions equal indices along the first axis.
            inline.insert(position as u64, chunk);
        }
    }
    let chunk = std::iter::once(most).chain(rest.iter().map(|n| (*n).max(1))).collect();
    array.chunk_grid = ChunkGrid::Regular(chunk);
    array.chunks = ChunkManifest { references: Vec::new(), inline };
    Some(())
}

/// Returns the length of chunks along the slowest axis, of which an element has `row` bytes.
pub(super) fn rows_per_chunk(row: u64, rows: u64) -> u64 {
    CHUNK.checked_div(row).unwrap_or(1).max(1).min(rows.max(1))
}

/// Inlines variable-length elements into an array; the number of rows per chunk bounds the average chunk size.
fn set_inline_elements(array: &mut Array, elements: &[&[u8]], fill: &[u8]) -> Option<()> {
    let rows = array.shape.first().copied().unwrap_or(1).max(1);
    let row = array.shape.iter().skip(1).try_fold(1, |product: u64, n| product.checked_mul(*n))?;
    let bytes: u64 = elements.iter().map(|element| element.len() as u64 + 4).sum();
    let most = CHUNK.checked_div(bytes.div_ceil(rows)).unwrap_or(rows).clamp(1, rows);
    let length = usize::try_from(most.checked_mul(row)?).ok()?;
    let mut inline = BTreeMap::new();
    for (position, part) in elements.chunks(length.max(1)).enumerate() {
        let mut part = part.to_vec();
        part.resize(length, fill);
        let (chunk, codec) = variable::encoded(part.into_iter(), &array.data_type)?;
        array.codecs = vec![codec];
        inline.insert(position as u64, chunk);
    }
    let sizes = std::iter::once(most).chain(array.shape.iter().skip(1).map(|n| (*n).max(1)));
    array.chunk_grid = ChunkGrid::Regular(sizes.take(array.shape.len()).collect());
    array.chunks = ChunkManifest { references: Vec::new(), inline };
    Some(())
}

/// Inlines strings into an array with one axis.
pub(super) fn set_inline_texts(array: &mut Array, texts: &[String]) -> Option<()> {
    array.data_type = DataType::String;
    let elements: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    set_inline_elements(array, &elements, &[])
}
