//! Parsing of nodata values, which TIFF files store as text, to numbers of an array's type.

use bytes::Bytes;
use half::f16;
use virtualize_zarr::{DataType, Field, FillValue};

/// Why a text is not a value of a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NotAValue {
    /// It is not a number.
    NotANumber,
    /// It is a number outside of the type's range, or not one of its values.
    OutOfRange,
}

/// Parses a value: exactly for integers, to the nearest value for floats. The text of a complex number is its real part, and
/// that of a structure its first field.
///
/// # Errors
/// See [`NotAValue`].
pub(super) fn parse(text: &str, data_type: &DataType) -> Result<FillValue, NotAValue> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    let bytes = match data_type {
        DataType::Complex64 => complex64_bytes(text)?,
        DataType::Complex128 => float_bytes(text, &DataType::Float64)?.into_iter().chain([0; 8]).collect(),
        DataType::Struct(fields) => structure_bytes(text, fields)?,
        float if float.is_float() => float_bytes(text, float)?,
        integer => integer_bytes(text, integer)?,
    };
    Ok(FillValue::Fixed(Bytes::from(bytes)))
}

/// Whether GDAL fills missing tiles with the value of a text. It takes `-nan` for 0 and `1.#IND` for 1, knows no exponents of
/// 64-bit integers, and rounds and limits the parts of complex integers.
pub(super) fn is_plain(text: &str, data_type: &DataType, has_integer_parts: bool) -> bool {
    let text = text.trim();
    match data_type {
        DataType::Complex64 if has_integer_parts => text.parse::<i16>().is_ok(),
        DataType::Complex128 if has_integer_parts => text.parse::<i32>().is_ok(),
        DataType::Int64 => text.parse::<i64>().is_ok(),
        DataType::UInt64 => text.parse::<u64>().is_ok(),
        _ => text.parse::<f64>().is_ok_and(|number| !number.is_nan() || !text.starts_with('-')),
    }
}

/// Returns the value that GDAL, as rioxarray shows it, uses for a text that [`parse`] refuses; `None` if it uses none.
///
/// GDAL reads the number at the start of the text, or 0 if there is none. Fractions lose their digits after the point. Values
/// outside of the type's range are ignored, but 64-bit integers are read as in C: up to the first character that is no
/// digit, limited to the range, and negative ones of an unsigned type count down from its end.
pub(super) fn parse_as_gdal(text: &str, data_type: &DataType) -> Option<FillValue> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    let bytes = match data_type {
        DataType::Int64 => saturated(text)
            .clamp(i64::MIN.into(), i64::MAX.into())
            .to_le_bytes()
            .into_iter()
            .take(8)
            .collect(),
        DataType::UInt64 => wrapped(saturated(text)).to_le_bytes().to_vec(),
        _ if special(text).is_some() => return None,
        DataType::Struct(_) => return None,
        integer if integer.is_integer() => {
            return truncated(leading_decimal(text).parse().ok()?, integer);
        }
        _ => return parse(&leading_decimal(text), data_type).ok(),
    };
    Some(FillValue::Fixed(Bytes::from(bytes)))
}

/// Returns the part of a value before its decimal point, if the value itself is within the type's range.
fn truncated(value: f64, data_type: &DataType) -> Option<FillValue> {
    let whole = |value: f64| FillValue::from_f64(data_type, value).exact();
    whole(value.floor()).and(whole(value.ceil()))?;
    whole(value.trunc())
}

/// Returns the decimal number at the start of a text, whose decimal point may be a comma; "0" if there is none.
fn leading_decimal(text: &str) -> String {
    let digits_from = |start: usize| {
        let rest = text.as_bytes().get(start..).unwrap_or_default();
        start + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let is_at = |place: usize, any: &[u8]| text.as_bytes().get(place).is_some_and(|byte| any.contains(byte));
    let first = usize::from(is_at(0, b"+-"));
    let whole = digits_from(first);
    let fraction = if is_at(whole, b".,") { digits_from(whole + 1) } else { whole };
    if whole == first && fraction <= whole + 1 {
        return "0".to_owned();
    }
    let power = fraction + 1 + usize::from(is_at(fraction + 1, b"+-"));
    let has_exponent = is_at(fraction, b"eE") && digits_from(power) > power;
    let end = if has_exponent { digits_from(power) } else { fraction };
    text.get(..end).unwrap_or("0").replace(',', ".")
}

/// Returns the integer at the start of a text, up to the ends of 65 bits; 0 if there is none.
fn saturated(text: &str) -> i128 {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit);
    let value = digits.fold(0_i128, |value, digit| (value * 10 + i128::from(digit - b'0')).min(1 << 64));
    sign * value
}

/// Returns an integer as C's `strtoull` does: its magnitude limited to 64 bits, and negated modulo 2⁶⁴.
fn wrapped(value: i128) -> u64 {
    let magnitude = u64::try_from(value.unsigned_abs());
    match magnitude {
        Ok(magnitude) if value < 0 => magnitude.wrapping_neg(),
        magnitude => magnitude.unwrap_or(u64::MAX),
    }
}

/// Encodes the real part of a complex number. Unlike those of float32, finite values past the range are not infinite.
fn complex64_bytes(text: &str) -> Result<Vec<u8>, NotAValue> {
    let real = float_bytes(text, &DataType::Float32)?;
    let is_beyond =
        text.parse::<f64>().is_ok_and(|wide| wide.is_finite() && wide.abs() > f64::from(f32::MAX));
    if is_beyond && special(text).is_none() {
        return Err(NotAValue::OutOfRange);
    }
    Ok(real.into_iter().chain([0; 4]).collect())
}

fn structure_bytes(text: &str, fields: &[Field]) -> Result<Vec<u8>, NotAValue> {
    let mut bytes = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        bytes.extend(integer_bytes(if index == 0 { text } else { "0" }, &field.data_type)?);
    }
    Ok(bytes)
}

fn float_bytes(text: &str, data_type: &DataType) -> Result<Vec<u8>, NotAValue> {
    if let Some(special) = special(text) {
        return Ok(encode_float(special, data_type));
    }
    let wide: f64 = text.parse().map_err(|_| NotAValue::NotANumber)?;
    let bytes = match data_type {
        DataType::Float32 => {
            let value: f32 = text.parse().map_err(|_| NotAValue::NotANumber)?;
            // As in GDAL, numbers beyond the largest one become infinity.
            Some(value.to_le_bytes().to_vec())
        }
        DataType::Float16 => {
            let value = FillValue::from_f64(data_type, wide).value();
            value.and_then(|value| match value {
                FillValue::Fixed(bytes) => Some(bytes.to_vec()),
                FillValue::Text(_) | FillValue::Variable(_) => None,
            })
        }
        _ => Some(wide.to_le_bytes().to_vec()),
    };
    bytes.ok_or(NotAValue::OutOfRange)
}

fn encode_float(value: f64, data_type: &DataType) -> Vec<u8> {
    match data_type {
        DataType::Float16 => f16::from_f64(value).to_le_bytes().to_vec(),
        #[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
        DataType::Float32 => (value as f32).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}

/// Parses NaN and the infinities, also in the notations of Microsoft's C runtimes (`-1.#IND`, `1.#QNAN00`, `-nan(ind)`).
fn special(text: &str) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    let (sign, word) = match lower.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, lower.strip_prefix('+').unwrap_or(&lower)),
    };
    let word = match word.strip_prefix("1.#") {
        Some(rest) => rest.trim_end_matches(|c: char| c.is_ascii_digit()),
        None => word.split('(').next().unwrap_or(word),
    };
    match word {
        "inf" | "infinity" => Some(sign * f64::INFINITY),
        "nan" | "ind" | "qnan" | "snan" => Some(f64::NAN),
        _ => None,
    }
}

fn integer_bytes(text: &str, data_type: &DataType) -> Result<Vec<u8>, NotAValue> {
    if special(text).is_some() {
        return Err(NotAValue::OutOfRange);
    }
    let value = exact_integer(text)?;
    let size = data_type.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(1);
    let bits = u32::try_from(size * 8).unwrap_or(8);
    let (least, greatest) = match data_type.is_signed_integer() {
        true => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
        false => (0, (1_i128 << bits) - 1),
    };
    if !(least..=greatest).contains(&value) {
        return Err(NotAValue::OutOfRange);
    }
    Ok(value.to_le_bytes().into_iter().take(size).collect())
}

/// Parses an integer in decimal notation without a detour through floats: `-9999.0` and `1e3` are integers, `0.5` is out of
/// range.
fn exact_integer(text: &str) -> Result<i128, NotAValue> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().map_err(|_| NotAValue::NotANumber)?),
        None => (text, 0),
    };
    let (negative, digits) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NotAValue::NotANumber);
    }
    let significant = all.trim_end_matches('0');
    let zeros = (all.len() - significant.len()) as u64;
    let power = exponent.saturating_sub_unsigned(fraction.len() as u64).saturating_add_unsigned(zeros);
    let magnitude = scaled(significant.trim_start_matches('0'), power)?;
    Ok(if negative { -magnitude } else { magnitude })
}

/// Multiplies digits by a power of ten.
fn scaled(digits: &str, power: i64) -> Result<i128, NotAValue> {
    if digits.is_empty() {
        return Ok(0);
    }
    let power = u32::try_from(power).map_err(|_| NotAValue::OutOfRange)?;
    let digits: i128 = digits.parse().map_err(|_| NotAValue::OutOfRange)?;
    let factor = 10_i128.checked_pow(power).ok_or(NotAValue::OutOfRange)?;
    digits.checked_mul(factor).ok_or(NotAValue::OutOfRange)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str, data_type: DataType) -> Result<Vec<u8>, NotAValue> {
        parse(text, &data_type).map(|value| match value {
            FillValue::Fixed(bytes) => bytes.to_vec(),
            other => panic!("{other:?}"),
        })
    }

    /// Expected values: GDAL 3.13 on files without some tiles.
    #[test]
    fn texts_that_gdal_reads_differently_are_not_plain() {
        let plain = |text, data_type, has_integer_parts| is_plain(text, &data_type, has_integer_parts);
        assert!(plain(" -7.5e1", DataType::Float32, false) && plain("nan", DataType::Float64, false));
        assert!(!plain("-nan", DataType::Float32, false) && !plain("1.#IND", DataType::Float32, false));
        assert!(plain("100", DataType::UInt64, false) && !plain("1e2", DataType::UInt64, false));
        assert!(plain("1e2", DataType::Int16, false) && !plain("1e2", DataType::Int64, false));
        assert!(plain("3.5", DataType::Complex64, false) && !plain("3.5", DataType::Complex64, true));
        assert!(plain("7", DataType::Complex64, true) && !plain("4294967296", DataType::Complex128, true));
    }

    #[test]
    fn integers_are_exact_to_64_bits() {
        assert_eq!(bytes("18446744073709551615", DataType::UInt64).unwrap(), u64::MAX.to_le_bytes());
        assert_eq!(bytes("-9223372036854775808", DataType::Int64).unwrap(), i64::MIN.to_le_bytes());
        assert_eq!(
            bytes("9007199254740993", DataType::Int64).unwrap(),
            9_007_199_254_740_993_i64.to_le_bytes()
        );
        assert_eq!(bytes(" -9999.0\0", DataType::Int16).unwrap(), (-9999_i16).to_le_bytes());
        assert_eq!(bytes("1.5e1", DataType::UInt8).unwrap(), [15]);
        assert_eq!(bytes("0.000", DataType::UInt8).unwrap(), [0]);
    }

    #[test]
    fn values_out_of_range_are_distinguished_from_text_that_is_no_number() {
        assert_eq!(bytes("-32768", DataType::UInt8), Err(NotAValue::OutOfRange));
        assert_eq!(bytes("256", DataType::UInt8), Err(NotAValue::OutOfRange));
        assert_eq!(bytes("0.5", DataType::Int16), Err(NotAValue::OutOfRange));
        assert_eq!(bytes("nan", DataType::Int16), Err(NotAValue::OutOfRange));
        assert_eq!(bytes("65520", DataType::Float16), Err(NotAValue::OutOfRange));
        assert_eq!(bytes("1e999999999999", DataType::UInt8), Err(NotAValue::OutOfRange));
        assert_eq!(bytes("none", DataType::UInt8), Err(NotAValue::NotANumber));
        assert_eq!(bytes("", DataType::UInt8), Err(NotAValue::NotANumber));
        assert_eq!(bytes("1-2", DataType::UInt8), Err(NotAValue::NotANumber));
    }

    #[test]
    fn ranges_end_at_their_ends() {
        for (text, is_value) in [("127", true), ("-128", true), ("128", false), ("-129", false)] {
            assert_eq!(bytes(text, DataType::Int8).is_ok(), is_value, "{text}");
        }
        assert!(bytes("3.4028234663852886e38", DataType::Complex64).is_ok());
        assert_eq!(bytes("3.5e38", DataType::Complex64), Err(NotAValue::OutOfRange));
    }

    /// The nearest float32 to the text itself, not to its binary64: `np.float32("-3.4028234663852886e+38")`.
    #[test]
    fn decimal_text_rounds_to_the_nearest_float() {
        assert_eq!(bytes("-3.4028234663852886e+38", DataType::Float32).unwrap(), f32::MIN.to_le_bytes());
        assert_eq!(bytes("0.1", DataType::Float32).unwrap(), 0.1_f32.to_le_bytes());
        assert_eq!(bytes("-9999", DataType::Complex64).unwrap(), [0, 0x3c, 0x1c, 0xc6, 0, 0, 0, 0]);
        assert_eq!(bytes("-9999", DataType::Float16).unwrap(), f16::from_f32(-9999.0).to_le_bytes());
    }

    /// rasterio 1.5: `-1.79e308` on float32 and `1e400` on float64 are infinities.
    #[test]
    fn numbers_beyond_the_largest_float_become_infinity() {
        assert_eq!(bytes("-1.79e308", DataType::Float32).unwrap(), f32::NEG_INFINITY.to_le_bytes());
        assert_eq!(bytes("1e40", DataType::Float32).unwrap(), f32::INFINITY.to_le_bytes());
        assert_eq!(bytes("1e400", DataType::Float16).unwrap(), f16::INFINITY.to_le_bytes());
        assert_eq!(bytes("1e400", DataType::Float64).unwrap(), f64::INFINITY.to_le_bytes());
    }

    /// rasterio 1.5 with GDAL 3.12 on files with these texts. 64-bit integers: the values that it masks.
    #[test]
    fn gdal_reads_the_start_of_a_text_truncates_and_ignores() {
        let fixed = |bytes: &[u8]| Some(FillValue::Fixed(Bytes::copy_from_slice(bytes)));
        for (text, value) in
            [("0.5", 0), ("3.9", 3), ("none", 0), ("12abc", 12), ("0x10", 0), ("1,5", 1), ("5 6", 5)]
        {
            assert_eq!(parse_as_gdal(text, &DataType::UInt8), fixed(&[value]), "{text}");
        }
        for text in ["nan", "inf", "256", "-1", "-0.5", "255.5", "1e40", "-9999, -9999"] {
            assert_eq!(parse_as_gdal(text, &DataType::UInt8), None, "{text}");
        }
        assert_eq!(parse_as_gdal("-0.5", &DataType::Int8), fixed(&[0]));
        assert_eq!(parse_as_gdal("65520", &DataType::Float16), None);
        assert_eq!(parse_as_gdal("none", &DataType::Float32), fixed(&[0; 4]));
        assert_eq!(parse_as_gdal("1,5", &DataType::Float32), fixed(&1.5_f32.to_le_bytes()));
        assert_eq!(parse_as_gdal("1e40", &DataType::Complex64), None);
        for (text, value) in
            [(" 5", 5), (".", 0), ("+.", 0), ("1ex", 1), ("15e-1x", 1), ("1e+2x", 100), ("1e2x", 100)]
        {
            assert_eq!(parse_as_gdal(text, &DataType::UInt8), fixed(&[value]), "{text}");
        }
        assert_eq!(parse_as_gdal("5", &DataType::Struct(Vec::new())), None);
        for (text, value) in [
            ("nan", 0),
            ("-1", u64::MAX),
            ("-9999", 9999_u64.wrapping_neg()),
            ("1e40", 1),
            ("18446744073709551616", u64::MAX),
            ("-9223372036854775809", (1 << 63) - 1),
        ] {
            assert_eq!(parse_as_gdal(text, &DataType::UInt64), fixed(&value.to_le_bytes()), "{text}");
        }
        assert_eq!(parse_as_gdal("9223372036854775808", &DataType::Int64), fixed(&i64::MAX.to_le_bytes()));
        assert_eq!(parse_as_gdal("-1e400", &DataType::Int64), fixed(&(-1_i64).to_le_bytes()));
    }

    #[test]
    fn all_notations_of_nan_and_the_infinities_are_parsed() {
        for text in
            ["nan", "NaN", "-nan", "-1.#IND", "1.#QNAN", "1.#QNAN00", "-1.#IND00", "1.#SNAN", "-nan(ind)"]
        {
            assert_eq!(bytes(text, DataType::Float32).unwrap(), f32::NAN.to_le_bytes(), "{text}");
        }
        assert_eq!(bytes("1.#INF", DataType::Float64).unwrap(), f64::INFINITY.to_le_bytes());
        assert_eq!(bytes("-1.#INF000", DataType::Float64).unwrap(), f64::NEG_INFINITY.to_le_bytes());
        assert_eq!(bytes("-Infinity", DataType::Float16).unwrap(), f16::NEG_INFINITY.to_le_bytes());
    }
}
