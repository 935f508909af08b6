//! A blob of version 4 whose pixels are all valid, with its values as they are.

use super::{CodecFailure, head::fletcher32};
use crate::parameters;

const FRONT: usize = 14;

pub(super) fn blob(shape: [u32; 3], size: usize, bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    let refuse = || parameters("lerc", format!("{} bytes do not make {shape:?} values", bytes.len()));
    let [rows, columns, depth] = shape;
    let elements = shape.iter().try_fold(1_usize, |n, extent| n.checked_mul(usize::try_from(*extent).ok()?));
    if elements.and_then(|n| n.checked_mul(size)) != Some(bytes.len()) {
        return Err(refuse());
    }
    let pixels = rows.checked_mul(columns).ok_or_else(refuse)?;
    let kind: u32 = if size == 8 { 7 } else { 6 };
    let mut after = Vec::with_capacity(bytes.len());
    after.extend([0.0_f64, 0.0, 1.0].into_iter().flat_map(f64::to_le_bytes));
    after.extend(0_u32.to_le_bytes());
    // The range of each depth: readers only ask whether it is one value.
    for bound in [0_u8, 1] {
        let bound = f32::from(bound);
        let bound =
            if size == 8 { f64::from(bound).to_le_bytes().to_vec() } else { bound.to_le_bytes().to_vec() };
        (0..depth).for_each(|_| after.extend(&bound));
    }
    after.push(1);
    after.extend(bytes);
    let length = u32::try_from(FRONT + 7 * 4 + after.len()).map_err(|_| refuse())?;
    let middle = [rows, columns, depth, pixels, 8, length, kind];
    let checked: Vec<u8> = middle.into_iter().flat_map(u32::to_le_bytes).chain(after).collect();
    let mut blob = b"Lerc2 ".to_vec();
    blob.extend(4_u32.to_le_bytes());
    blob.extend(fletcher32(&checked).to_le_bytes());
    blob.extend(checked);
    Ok(blob)
}
