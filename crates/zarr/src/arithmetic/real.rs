//! Integer and floating-point types, and their elements as bits.

use serde_json::Value;

use crate::{DataType, Endian, Rounding};

/// A type of real numbers. An element is its stored bits, in the lower end of 64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Real {
    /// Integers.
    Integer {
        /// 8 to 64.
        bits: u32,
        /// Whether in two's complement.
        signed: bool,
    },
    /// Floating-point numbers.
    Float(Format),
}

impl Real {
    /// Returns the type, if it is one of real numbers.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        let integer = |bits, signed| Some(Self::Integer { bits, signed });
        match data_type {
            DataType::Int8 => integer(8, true),
            DataType::Int16 => integer(16, true),
            DataType::Int32 => integer(32, true),
            DataType::Int64 => integer(64, true),
            DataType::UInt8 => integer(8, false),
            DataType::UInt16 => integer(16, false),
            DataType::UInt32 => integer(32, false),
            DataType::UInt64 => integer(64, false),
            DataType::Float16 => Some(Self::Float(Format::BINARY16)),
            DataType::Float32 => Some(Self::Float(Format::BINARY32)),
            DataType::Float64 => Some(Self::Float(Format::BINARY64)),
            _ => None,
        }
    }

    fn bits(self) -> u32 {
        match self {
            Self::Integer { bits, .. } => bits,
            Self::Float(format) => format.bits(),
        }
    }

    /// Returns the bytes per element.
    pub(crate) fn size(self) -> usize {
        usize::try_from(self.bits() / 8).unwrap_or(usize::MAX)
    }

    /// Reads an element from its bytes.
    pub(crate) fn read(bytes: &[u8], endian: Endian) -> u64 {
        let append = |bits: u64, byte: &u8| bits << 8 | u64::from(*byte);
        match endian {
            Endian::Little => bytes.iter().rev().fold(0, append),
            Endian::Big => bytes.iter().fold(0, append),
        }
    }

    /// Appends the bytes of an element.
    pub(crate) fn write(self, element: u64, endian: Endian, out: &mut Vec<u8>) {
        let bytes = element.to_le_bytes();
        let bytes = bytes.get(..self.size()).unwrap_or_default();
        match endian {
            Endian::Little => out.extend_from_slice(bytes),
            Endian::Big => out.extend(bytes.iter().rev()),
        }
    }

    /// Returns an element of an integer type as an integer.
    pub(crate) fn integer(self, element: u64) -> i128 {
        let Self::Integer { bits, signed } = self else { return 0 };
        let number = i128::from(element);
        if signed && number >> (bits - 1) & 1 == 1 { number - (1 << bits) } else { number }
    }

    /// Returns the smallest and the largest integer of an integer type.
    pub(crate) fn range(self) -> (i128, i128) {
        match self {
            Self::Integer { bits, signed: true } => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            Self::Integer { bits, signed: false } => (0, (1 << bits) - 1),
            Self::Float(_) => (0, 0),
        }
    }

    /// Returns an integer as an element of an integer type; `None` outside its range.
    pub(crate) fn exactly(self, integer: i128) -> Option<u64> {
        let (least, greatest) = self.range();
        (least..=greatest).contains(&integer).then(|| self.modulo(integer))
    }

    /// Returns an integer as an element of an integer type, modulo 2ⁿ.
    pub(crate) fn modulo(self, integer: i128) -> u64 {
        let low = u64::try_from(integer & i128::from(u64::MAX)).unwrap_or(0);
        low & (u64::MAX >> (u64::BITS - self.bits()))
    }

    /// Whether two elements are the same number. NaNs are the same if their bits are.
    pub(crate) fn same(self, one: u64, other: u64) -> bool {
        let is_zero = |element| matches!(self.split(element), Float::Finite(Binary { significand: 0, .. }));
        one == other || is_zero(one) && is_zero(other)
    }

    /// Whether an element is a NaN.
    pub(crate) fn is_nan(self, element: u64) -> bool {
        matches!(self.split(element), Float::Nan { .. })
    }

    /// Decomposes an element.
    pub(crate) fn split(self, element: u64) -> Float {
        match self {
            Self::Integer { .. } => Float::Finite(Binary::of_integer(self.integer(element))),
            Self::Float(format) => format.split(element),
        }
    }

    /// Parses a scalar that is encoded like a fill value of Zarr v3.
    pub(crate) fn scalar(self, json: &Value) -> Option<u64> {
        match self {
            Self::Integer { .. } => self.exactly(integer(json)?),
            Self::Float(format) => match json {
                Value::String(text) => named(format, text),
                number => {
                    let Float::Finite(binary) = Format::BINARY64.split(number.as_f64()?.to_bits()) else {
                        return None;
                    };
                    format.round(binary, Rounding::NearestEven)
                }
            },
        }
    }

    /// Formats an element for a message.
    pub(crate) fn describe(self, element: u64) -> String {
        let Self::Float(format) = self else { return self.integer(element).to_string() };
        match format.split(element) {
            Float::Nan { .. } => "NaN".to_owned(),
            Float::Infinite { negative: false } => "Infinity".to_owned(),
            Float::Infinite { negative: true } => "-Infinity".to_owned(),
            Float::Finite(binary) => {
                let wide = Format::BINARY64.round(binary, Rounding::NearestEven).unwrap_or_default();
                format!("{:?}", f64::from_bits(wide))
            }
        }
    }
}

/// Parses a whole number. JSON does not distinguish 5 from 5.0.
fn integer(json: &Value) -> Option<i128> {
    if let Some(exact) = json.as_i64().map(i128::from).or_else(|| json.as_u64().map(i128::from)) {
        return Some(exact);
    }
    let Float::Finite(binary) = Format::BINARY64.split(json.as_f64()?.to_bits()) else { return None };
    let whole = binary.whole(Rounding::TowardsZero);
    (whole == binary.whole(Rounding::TowardsPositive) && whole == binary.whole(Rounding::TowardsNegative))
        .then_some(whole)
}

/// Parses the names of numbers that JSON lacks, and all bits of a number in hexadecimal.
fn named(format: Format, text: &str) -> Option<u64> {
    match text {
        "NaN" => Some(format.canonical_nan()),
        "Infinity" | "+Infinity" => Some(format.infinity(false)),
        "-Infinity" => Some(format.infinity(true)),
        _ => {
            let digits = text.strip_prefix("0x")?;
            let whole = digits.len() * 4 == usize::try_from(format.bits()).ok()?;
            let hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            if whole && hexadecimal { u64::from_str_radix(digits, 16).ok() } else { None }
        }
    }
}

// Exact decomposition of binary floating-point numbers, and composition in any rounding mode (IEEE 754-2019, 3.4 and
// 4.3).

/// An interchange format of IEEE 754: a sign, an exponent and a fraction, from the most to the least significant bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Format {
    exponent_bits: u32,
    fraction_bits: u32,
}

/// A floating-point number, decomposed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Float {
    /// A number, or a zero with its sign.
    Finite(Binary),
    /// Infinity.
    Infinite {
        /// Whether it is −∞.
        negative: bool,
    },
    /// Not a number.
    Nan {
        /// Sign bit.
        negative: bool,
        /// Fraction, its most significant bit (the quiet bit) at bit 63.
        payload: u64,
    },
}

/// ± significand · 2^exponent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Binary {
    pub(crate) negative: bool,
    pub(crate) significand: u64,
    pub(crate) exponent: i32,
}

impl Format {
    /// `float16`.
    pub(crate) const BINARY16: Self = Self { exponent_bits: 5, fraction_bits: 10 };
    /// `float32`.
    pub(crate) const BINARY32: Self = Self { exponent_bits: 8, fraction_bits: 23 };
    /// `float64`.
    pub(crate) const BINARY64: Self = Self { exponent_bits: 11, fraction_bits: 52 };

    /// Returns the number of bits.
    pub(crate) fn bits(self) -> u32 {
        1 + self.exponent_bits + self.fraction_bits
    }

    /// Returns the number of significant binary digits. Every integer of so many digits is a number of the format.
    pub(crate) fn precision(self) -> u32 {
        self.fraction_bits + 1
    }

    /// Returns the quiet NaN without sign and payload, Zarr's "NaN".
    pub(crate) fn canonical_nan(self) -> u64 {
        self.infinity(false) | 1 << (self.fraction_bits - 1)
    }

    /// Returns ±∞.
    pub(crate) fn infinity(self, negative: bool) -> u64 {
        self.sign(negative) | self.exponent_mask() << self.fraction_bits
    }

    fn sign(self, negative: bool) -> u64 {
        u64::from(negative) << (self.bits() - 1)
    }

    fn exponent_mask(self) -> u64 {
        (1 << self.exponent_bits) - 1
    }

    /// Returns the exponent of the least significant digit of subnormal numbers.
    fn least_exponent(self) -> i32 {
        let bias = (1_i32 << (self.exponent_bits - 1)) - 1;
        1 - bias - self.fraction_bits.cast_signed()
    }

    /// Decomposes a number.
    pub(crate) fn split(self, bits: u64) -> Float {
        let negative = bits & self.sign(true) != 0;
        let fraction = bits & ((1 << self.fraction_bits) - 1);
        let exponent = bits >> self.fraction_bits & self.exponent_mask();
        if exponent == self.exponent_mask() {
            return match fraction {
                0 => Float::Infinite { negative },
                _ => Float::Nan { negative, payload: fraction << (64 - self.fraction_bits) },
            };
        }
        let hidden = u64::from(exponent != 0) << self.fraction_bits;
        let steps = i32::try_from(exponent.saturating_sub(1)).unwrap_or(i32::MAX);
        let exponent = self.least_exponent() + steps;
        Float::Finite(Binary { negative, significand: fraction | hidden, exponent })
    }

    /// Returns a quiet NaN with the upper bits of a payload, as many as fit.
    pub(crate) fn nan(self, negative: bool, payload: u64) -> u64 {
        self.sign(negative) | self.canonical_nan() | payload >> (64 - self.fraction_bits)
    }

    /// Rounds to a number of the format; `None` if its exponent is too large.
    ///
    /// The exponent after rounding decides (IEEE 754, 7.4), so a value that rounds down to the largest number is within
    /// range.
    pub(crate) fn round(self, number: Binary, rounding: Rounding) -> Option<u64> {
        let Binary { negative, significand, exponent } = number;
        if significand == 0 {
            return Some(self.sign(negative));
        }
        let digits = (u64::BITS - significand.leading_zeros()).cast_signed();
        let least = (exponent + digits - self.precision().cast_signed()).max(self.least_exponent());
        let kept = match least - exponent {
            shift @ ..=0 => significand << shift.unsigned_abs(),
            shift => shift_right(negative, significand, shift.unsigned_abs(), rounding),
        };
        let steps = u64::from((least - self.least_exponent()).unsigned_abs());
        // The hidden bit of the significand adds one to the exponent, and a significand that was rounded up to the next
        // power of two adds two: exactly their exponents.
        let magnitude = (steps << self.fraction_bits) + kept;
        (magnitude < self.infinity(false)).then_some(self.sign(negative) | magnitude)
    }
}

impl Binary {
    /// Converts an integer.
    pub(crate) fn of_integer(number: i128) -> Self {
        let significand = u64::try_from(number.unsigned_abs()).unwrap_or(u64::MAX);
        Self { negative: number < 0, significand, exponent: 0 }
    }

    /// Rounds to an integer. Numbers above 2¹²⁶ become 2¹²⁶, which is outside every range as well and, like them, 0
    /// modulo 2⁶⁴.
    pub(crate) fn whole(self, rounding: Rounding) -> i128 {
        let magnitude = match self.exponent {
            shift @ ..=0 => {
                i128::from(shift_right(self.negative, self.significand, shift.unsigned_abs(), rounding))
            }
            // A significand has at most 53 digits here.
            shift @ 1..=73 => i128::from(self.significand) << shift,
            _ => 1 << 126,
        };
        if self.negative { -magnitude } else { magnitude }
    }
}

/// Returns the bits of the nearest `float16`, infinite outside the range; NaN becomes the canonical one. (The crate
/// `half` uses conversions of the processor where available, which go through `float32` and round twice.)
pub(crate) fn binary16(number: f64) -> u16 {
    let bits = match Format::BINARY64.split(number.to_bits()) {
        Float::Nan { .. } => Format::BINARY16.canonical_nan(),
        Float::Infinite { negative } => Format::BINARY16.infinity(negative),
        Float::Finite(binary) => Format::BINARY16
            .round(binary, Rounding::NearestEven)
            .unwrap_or_else(|| Format::BINARY16.infinity(binary.negative)),
    };
    u16::try_from(bits).unwrap_or_default()
}

/// Rounds ± significand / 2^shift to an integer, and returns its magnitude.
fn shift_right(negative: bool, significand: u64, shift: u32, rounding: Rounding) -> u64 {
    if shift == 0 {
        return significand;
    }
    // Past 100 places nothing is left of 64 digits, and what is lost is less than a half.
    let shift = shift.min(100);
    let wide = u128::from(significand);
    let kept = wide >> shift;
    let lost = wide - (kept << shift);
    let half = 1 << (shift - 1);
    let up = match rounding {
        Rounding::NearestEven => lost > half || lost == half && kept & 1 == 1,
        Rounding::NearestAway => lost >= half,
        Rounding::TowardsZero => false,
        Rounding::TowardsPositive => lost > 0 && !negative,
        Rounding::TowardsNegative => lost > 0 && negative,
    };
    u64::try_from(kept).unwrap_or(u64::MAX) + u64::from(up)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary64(number: f64) -> Binary {
        match Format::BINARY64.split(number.to_bits()) {
            Float::Finite(binary) => binary,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers_round_trip() {
        for number in [0.0, -0.0, 1.0, -1.5, f64::MIN_POSITIVE, 5e-324, f64::MAX, 0.1] {
            let back = Format::BINARY64.round(binary64(number), Rounding::NearestEven);
            assert_eq!(back, Some(number.to_bits()), "{number}");
        }
        for bits in 0..=u64::from(u16::MAX) {
            let back = match Format::BINARY16.split(bits) {
                Float::Finite(binary) => Format::BINARY16.round(binary, Rounding::TowardsNegative),
                Float::Infinite { negative } => Some(Format::BINARY16.infinity(negative)),
                Float::Nan { negative, payload } => Some(Format::BINARY16.nan(negative, payload)),
            };
            let quiet = if bits & 0x7fff > 0x7c00 { bits | 0x200 } else { bits };
            assert_eq!(back, Some(quiet), "{bits:#x}");
        }
    }

    /// Widths and nearest-even rounding as the processor has them.
    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "what is tested")]
    fn narrowing_is_that_of_the_processor() {
        let numbers =
            [0.1, 1.0 + 2f64.powi(-24), 1.0 + 3.0 * 2f64.powi(-24), 1e-40, 2f64.powi(-149), 2f64.powi(-150)];
        for number in numbers.into_iter().chain(numbers.map(|n| n * 1.000_000_1)) {
            let expected = u64::from((number as f32).to_bits());
            assert_eq!(
                Format::BINARY32.round(binary64(number), Rounding::NearestEven),
                Some(expected),
                "{number:e}"
            );
        }
    }

    #[test]
    fn five_ways_to_round() {
        use Rounding::*;
        let cases = [
            (NearestEven, [2, 2, 4, -2, -4]),
            (TowardsZero, [1, 2, 3, -2, -3]),
            (TowardsPositive, [2, 3, 4, -2, -3]),
            (TowardsNegative, [1, 2, 3, -3, -4]),
            (NearestAway, [2, 3, 4, -3, -4]),
        ];
        for (rounding, expected) in cases {
            let found = [1.75, 2.5, 3.5, -2.5, -3.5].map(|number| binary64(number).whole(rounding));
            assert_eq!(found, expected, "{rounding:?}");
        }
        assert_eq!(binary64(1e300).whole(NearestEven), 1 << 126);
        assert_eq!(binary64(-2f64.powi(125)).whole(NearestEven), -(1 << 125));
        assert_eq!(binary64(1e-300).whole(TowardsPositive), 1);
        assert_eq!(binary64(2.0).whole(TowardsPositive), 2);
        assert_eq!(binary64(-2.0).whole(TowardsNegative), -2);
    }

    /// Rounded to binary32 first, it would be halfway and go down.
    #[test]
    fn numbers_are_rounded_once() {
        let number = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(Format::BINARY16.round(binary64(number), Rounding::NearestEven), Some(0x3c01));
    }

    /// 65519 rounds to 65504, the largest; 65520 to 65536, which there is not.
    #[test]
    fn the_range_ends_after_rounding() {
        let round = |number, rounding| Format::BINARY16.round(binary64(number), rounding);
        assert_eq!(round(65519.0, Rounding::NearestEven), Some(0x7bff));
        assert_eq!(round(65520.0, Rounding::NearestEven), None);
        assert_eq!(round(65535.9, Rounding::TowardsZero), Some(0x7bff));
        assert_eq!(round(65536.0, Rounding::TowardsZero), None);
        assert_eq!(round(-65505.0, Rounding::TowardsNegative), None);
    }
}
