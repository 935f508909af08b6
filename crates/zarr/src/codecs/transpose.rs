//! `transpose`: a permutation of the axes.
//! <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/transpose/index.html>
//!
//! v2 has no such filter. The array's `order` expresses the reversal of all axes ([`super::order_v2`]).

use serde_json::{Value, json};

use super::{Codec, CodecUse, Definition, Registry};
use crate::{ZarrFormat, chunk_reader::Reader};

pub(super) const DEFINITION: Definition = Definition {
    configuration: |codec, format| match (codec, format) {
        (Codec::Transpose { order }, ZarrFormat::V3) => Some(json!({"order": order})),
        _ => None,
    },
    parse: |encoded| {
        let order = encoded.get("order")?.as_array()?.iter();
        let order = order.map(|axis| usize::try_from(axis.as_u64()?).ok()).collect::<Option<_>>()?;
        Some(Codec::Transpose { order })
    },
    add_leading_axes: |codec, count| {
        if let Codec::Transpose { order } = codec {
            *order = with_leading_axes(order, count);
        }
    },
    readers: &[Reader::Zarrs, Reader::Zarrita, Reader::Gdal],
    limitation: |used, reader| {
        let is_wrong = reader == Reader::Gdal && used.format == ZarrFormat::V3 && !is_involution(used);
        is_wrong.then(|| "transpose of more than two axes in turn".to_owned())
    },
    describe: |codec| match codec {
        Codec::Transpose { order } => format!("a transposition of axes to {order:?}"),
        _ => String::new(),
    },
    examples: || vec![Codec::Transpose { order: vec![1, 0] }],
    ..Definition::array_to_array(Registry::Core, &["transpose"])
};

/// A reversal stays a reversal, which v2 expresses. The new axes have one element, so their position has no effect.
fn with_leading_axes(order: &[usize], count: usize) -> Vec<usize> {
    let moved = order.iter().map(|axis| axis.saturating_add(count));
    match order.iter().rev().copied().eq(0..order.len()) {
        true => moved.chain((0..count).rev()).collect(),
        false => (0..count).chain(moved).collect(),
    }
}

/// Whether the transposition is its own inverse: GDAL applies the inverse of all others.
fn is_involution(used: &CodecUse<'_>) -> bool {
    let axes = used.configuration.get("order").and_then(Value::as_array).into_iter().flatten();
    let order: Vec<_> = axes.filter_map(Value::as_u64).collect();
    let target = |axis: u64| usize::try_from(axis).ok().and_then(|axis| order.get(axis)).copied();
    (0..).zip(&order).all(|(axis, to)| target(*to) == Some(axis))
}
