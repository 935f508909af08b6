//! Arithmetic as C++ does it on each type of numbers.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "conversions of C++ and of x86 processors"
)]

/// A type of numbers that SZ3 compresses.
pub(in crate::codecs) trait Number: Copy + Default {
    /// Bytes of a number.
    const SIZE: usize;

    fn from_le_slice(bytes: &[u8]) -> Option<Self>;
    fn push_le_bytes(self, out: &mut Vec<u8>);
    fn to_f64(self) -> f64;
    /// Converts as compilers for x86 do: towards zero, and modulo the size of the type.
    fn from_f64(value: f64) -> Self;
    /// Returns the sum of factors times numbers, from the first term on, divided by `divisor`.
    fn combine(terms: &[(i8, Self)], divisor: u8) -> Self;
    /// Returns `self + position * slope`.
    fn plus_product(self, position: usize, slope: Self) -> Self;
}

macro_rules! float {
    ($type:ty) => {
        impl Number for $type {
            const SIZE: usize = size_of::<Self>();

            fn from_le_slice(bytes: &[u8]) -> Option<Self> {
                bytes.first_chunk().map(|bytes| Self::from_le_bytes(*bytes))
            }

            fn push_le_bytes(self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }

            fn to_f64(self) -> f64 {
                self.into()
            }

            fn from_f64(value: f64) -> Self {
                value as Self
            }

            fn combine(terms: &[(i8, Self)], divisor: u8) -> Self {
                let products = terms.iter().map(|(factor, value)| Self::from(*factor) * value);
                products.reduce(|sum, product| sum + product).unwrap_or_default() / Self::from(divisor)
            }

            fn plus_product(self, position: usize, slope: Self) -> Self {
                self + position as Self * slope
            }
        }
    };
}

float!(f32);
float!(f64);

/// Integers: `$wide` is the type to which C++ promotes them, `$convert` how x86 converts numbers to them.
macro_rules! integer {
    ($type:ty, $wide:ty, $convert:expr) => {
        impl Number for $type {
            const SIZE: usize = size_of::<Self>();

            fn from_le_slice(bytes: &[u8]) -> Option<Self> {
                bytes.first_chunk().map(|bytes| Self::from_le_bytes(*bytes))
            }

            fn push_le_bytes(self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }

            #[allow(clippy::cast_lossless, reason = "one line for all types")]
            fn to_f64(self) -> f64 {
                self as f64
            }

            fn from_f64(value: f64) -> Self {
                $convert(value) as Self
            }

            #[allow(trivial_numeric_casts, clippy::cast_lossless, reason = "one line for all types")]
            fn combine(terms: &[(i8, Self)], divisor: u8) -> Self {
                let products =
                    terms.iter().map(|(factor, value)| (*factor as $wide).wrapping_mul(*value as $wide));
                let sum = products.fold(0, <$wide>::wrapping_add);
                (sum / divisor.max(1) as $wide) as Self
            }

            fn plus_product(self, position: usize, slope: Self) -> Self {
                self.wrapping_add((position as Self).wrapping_mul(slope))
            }
        }
    };
}

integer!(i8, i32, to_i32);
integer!(u8, i32, to_i32);
integer!(i16, i32, to_i32);
integer!(u16, i32, to_i32);
integer!(i32, i32, to_i32);
integer!(u32, u32, to_i64);
integer!(i64, i64, to_i64);
integer!(u64, u64, to_u64);

/// Instruction `cvttsd2si` with a register of 32 bits.
fn to_i32(value: f64) -> i32 {
    if value > f64::from(i32::MIN) - 1.0 && value < f64::from(i32::MAX) + 1.0 {
        value as i32
    } else {
        i32::MIN
    }
}

/// Instruction `cvttsd2si` with a register of 64 bits.
fn to_i64(value: f64) -> i64 {
    if value >= i64::MIN as f64 && value < TWO_63 { value as i64 } else { i64::MIN }
}

fn to_u64(value: f64) -> u64 {
    if value >= TWO_63 { to_i64(value - TWO_63) as u64 ^ 1 << 63 } else { to_i64(value) as u64 }
}

const TWO_63: f64 = 9_223_372_036_854_775_808.0;
