//! Values of entries by field type (TIFF 6.0, section 2; BigTIFF adds LONG8, SLONG8 and IFD8).

use tiff::tags::Type;
use virtualize_bytes::Endian;

use crate::model::Value;

/// Limit on the number of strings in a value. The last one contains the rest.
const MAX_STRINGS: usize = 10_000;

/// Decodes all complete values in `bytes`.
pub(crate) fn decode(kind: Type, bytes: &[u8], endian: Endian) -> Value {
    /// Converts every value of the array with `$to`.
    macro_rules! numbers {
        ($type:ty, $to:expr) => {
            match endian {
                Endian::Little => each(bytes, |value| $to(<$type>::from_le_bytes(value))),
                Endian::Big => each(bytes, |value| $to(<$type>::from_be_bytes(value))),
            }
        };
    }
    match kind {
        Type::BYTE => Value::Unsigned(bytes.iter().map(|&byte| u64::from(byte)).collect()),
        Type::SHORT => Value::Unsigned(numbers!(u16, u64::from)),
        Type::LONG | Type::IFD => Value::Unsigned(numbers!(u32, u64::from)),
        Type::LONG8 | Type::IFD8 => Value::Unsigned(numbers!(u64, u64::from)),
        Type::SBYTE => Value::Signed(bytes.iter().map(|&byte| i64::from(byte.cast_signed())).collect()),
        Type::SSHORT => Value::Signed(numbers!(i16, i64::from)),
        Type::SLONG => Value::Signed(numbers!(i32, i64::from)),
        Type::SLONG8 => Value::Signed(numbers!(i64, i64::from)),
        Type::FLOAT => Value::Float(numbers!(f32, f64::from)),
        Type::DOUBLE => Value::Float(numbers!(f64, f64::from)),
        Type::RATIONAL => Value::Rational(pairs(numbers!(u32, u32::from))),
        Type::SRATIONAL => Value::SignedRational(pairs(numbers!(i32, i32::from))),
        Type::ASCII => Value::Text(strings(bytes)),
        // UNDEFINED. Other variants cannot occur, because `Directory` skips unknown types.
        _ => Value::Bytes(bytes.to_vec()),
    }
}

fn each<const N: usize, T>(bytes: &[u8], convert: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (values, _) = bytes.as_chunks::<N>();
    values.iter().map(|value| convert(*value)).collect()
}

fn pairs<T: Copy>(numbers: Vec<T>) -> Vec<(T, T)> {
    let (pairs, _) = numbers.as_chunks::<2>();
    pairs.iter().map(|&[numerator, denominator]| (numerator, denominator)).collect()
}

/// Returns the NUL-terminated strings of an ASCII value. Padding NULs at the end are ignored.
fn strings(bytes: &[u8]) -> Vec<String> {
    let padding = bytes.iter().rev().take_while(|&&byte| byte == 0).count();
    let text = bytes.get(..bytes.len().saturating_sub(padding)).unwrap_or_default();
    if bytes.is_empty() {
        return Vec::new();
    }
    to_utf8(text).splitn(MAX_STRINGS, '\0').map(str::to_owned).collect()
}

/// Decodes UTF-8 or, if it is invalid, Latin-1.
pub(crate) fn to_utf8(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_each_type_in_both_byte_orders() {
        let bytes = [0x80, 1, 2, 3, 4, 5, 6, 0xff];
        let little = |kind| decode(kind, &bytes, Endian::Little);
        let big = |kind| decode(kind, &bytes, Endian::Big);
        assert_eq!(little(Type::SHORT), Value::Unsigned(vec![0x180, 0x302, 0x504, 0xff06]));
        assert_eq!(big(Type::SSHORT), Value::Signed(vec![-0x7fff, 0x203, 0x405, 0x6ff]));
        assert_eq!(big(Type::SBYTE), Value::Signed(vec![-128, 1, 2, 3, 4, 5, 6, -1]));
        assert_eq!(big(Type::LONG), Value::Unsigned(vec![0x8001_0203, 0x0405_06ff]));
        assert_eq!(little(Type::LONG8), Value::Unsigned(vec![0xff06_0504_0302_0180]));
        assert_eq!(big(Type::RATIONAL), Value::Rational(vec![(0x8001_0203, 0x0405_06ff)]));
        assert_eq!(little(Type::SRATIONAL), Value::SignedRational(vec![(0x0302_0180, -0x00f9_fafc)]));
        assert_eq!(decode(Type::FLOAT, &[0x3f, 0x80, 0, 0], Endian::Big), Value::Float(vec![1.0]));
        assert_eq!(decode(Type::DOUBLE, &1.5_f64.to_le_bytes(), Endian::Little), Value::Float(vec![1.5]));
        assert_eq!(little(Type::UNDEFINED), Value::Bytes(bytes.to_vec()));
    }

    #[test]
    fn incomplete_numbers_are_omitted() {
        assert_eq!(decode(Type::SHORT, &[1, 0, 2], Endian::Little), Value::Unsigned(vec![1]));
    }

    #[test]
    fn text_is_split_at_nuls() {
        let text = |bytes: &[u8]| decode(Type::ASCII, bytes, Endian::Little);
        let strings = |parts: &[&str]| Value::Text(parts.iter().map(|part| (*part).to_owned()).collect());
        assert_eq!(text(b"one\0two\0"), strings(&["one", "two"]));
        assert_eq!(text(b"no end"), strings(&["no end"]));
        assert_eq!(text(b"padded\0\0\0"), strings(&["padded"]));
        assert_eq!(text(b"\xe9t\xe9\0"), strings(&["été"]), "Latin-1");
        assert_eq!(text("été\0".as_bytes()), strings(&["été"]));
        assert_eq!(text(b""), strings(&[]));
    }
}
