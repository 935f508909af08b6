//! Integer and floating-point types, and their elements as bits.

use serde_json::Value;

use super::float::{Binary, Float, Format};
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
