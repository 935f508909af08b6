//! The inverse discrete cosine transform of 8 × 8 coefficients in integers, by the algorithm of Loeffler, Ligtenberg and
//! Moschytz (1989) with 13 bits of constants: the accurate one of libjpeg, whose rounding is the same.

use super::malformed;
use crate::CodecFailure;

/// Fraction bits of the constants.
const CONSTANT: u32 = 13;
/// Fraction bits between the two passes.
const BETWEEN: u32 = 2;

/// Transforms dequantized coefficients, row by row, to samples.
pub(super) fn samples(coefficients: &[i32; 64]) -> Result<[u8; 64], CodecFailure> {
    let mut columns = [[0_i64; 8]; 8];
    for (x, column) in columns.iter_mut().enumerate() {
        let mut input = [0_i64; 8];
        for (value, coefficient) in input.iter_mut().zip(coefficients.iter().skip(x).step_by(8)) {
            *value = i64::from(*coefficient);
        }
        *column = pass(input, CONSTANT - BETWEEN);
    }
    let mut out = [0_u8; 64];
    for (y, row) in out.chunks_exact_mut(8).enumerate() {
        let input = columns.map(|column| column.get(y).copied().unwrap_or(0));
        for (sample, value) in row.iter_mut().zip(pass(input, CONSTANT + BETWEEN + 3)) {
            *sample = sample_of(value)?;
        }
    }
    Ok(out)
}

/// Libraries differ in numbers far outside of the range of samples, which no encoder produces.
fn sample_of(value: i64) -> Result<u8, CodecFailure> {
    if !(-512..512).contains(&value) {
        return Err(malformed("coefficients out of range"));
    }
    Ok(u8::try_from((value + 128).clamp(0, 255)).unwrap_or(0))
}

/// Transforms 8 numbers, and rounds `shift` bits off.
#[expect(clippy::arithmetic_side_effects, reason = "coefficients have 16 bits, and constants 15")]
fn pass([a0, a1, a2, a3, a4, a5, a6, a7]: [i64; 8], shift: u32) -> [i64; 8] {
    // Even part: 0.541196100, 1.847759065, 0.765366865.
    let even = (a2 + a6) * 4433;
    let (low, high) = (even - a6 * 15137, even + a2 * 6270);
    let (sum, difference) = ((a0 + a4) << CONSTANT, (a0 - a4) << CONSTANT);
    let evens = [sum + high, difference + low, difference - low, sum - high];
    // Odd part: 1.175875602, 0.298631336, 2.053119869, 3.072711026, 1.501321110, 0.899976223, 2.562915447, 1.961570560,
    // 0.390180644.
    let all = (a7 + a3 + a5 + a1) * 9633;
    let z1 = (a7 + a1) * -7373;
    let z2 = (a5 + a3) * -20995;
    let z3 = (a7 + a3) * -16069 + all;
    let z4 = (a5 + a1) * -3196 + all;
    let odds = [a1 * 12299 + z1 + z4, a3 * 25172 + z2 + z3, a5 * 16819 + z2 + z4, a7 * 2446 + z1 + z3];
    let rounded = |number: i64| (number + (1 << (shift - 1))) >> shift;
    let [e0, e1, e2, e3] = evens;
    let [o0, o1, o2, o3] = odds;
    [e0 + o0, e1 + o1, e2 + o2, e3 + o3, e3 - o3, e2 - o2, e1 - o1, e0 - o0].map(rounded)
}
