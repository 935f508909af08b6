//! Single values of arrays and coordinates: numbers, times and text, and which of them mean "missing".

pub(crate) mod calendar;
#[cfg(test)]
mod tests;
pub(crate) mod variable;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use virtualize::{
    ArrayValues,
    zarr::{DataType, FillValue},
};

use calendar::TimeUnits;

/// Converts an index.
pub(crate) fn index(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// A value of a coordinate. Plans hold two of them per file.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Scalar {
    /// A whole number.
    Int(i64),
    /// A whole number beyond `i64`.
    Unsigned(u64),
    /// A real number.
    Float(f64),
    /// Text, behind a single pointer to keep the others small.
    Text(Arc<String>),
}

/// Units of times, and their nanoseconds. A time is a JSON object whose only member is named by the longest unit in which it is
/// a whole number (proleptic Gregorian).
const TIMES: [(&str, i64); 4] = [
    ("seconds since 1970-01-01", 1_000_000_000),
    ("milliseconds since 1970-01-01", 1_000_000),
    ("microseconds since 1970-01-01", 1_000),
    ("nanoseconds since 1970-01-01", 1),
];

/// Returns a time as JSON, as [`crate::Member::given`] holds coordinates from names; `seconds` since 1970-01-01T00:00:00Z.
pub(crate) fn time_value(seconds: i64) -> Value {
    let [(name, _), ..] = TIMES;
    json!({ name: seconds })
}

/// Returns text that is a time as JSON, and any other value unchanged.
pub(crate) fn value_or_time(value: &Value) -> Value {
    let time = value.as_str().and_then(calendar::parse_time).and_then(|time| {
        let (name, unit) = TIMES.into_iter().find(|(_, unit)| time % i128::from(*unit) == 0)?;
        Some(json!({ name: i64::try_from(time / i128::from(unit)).ok()? }))
    });
    time.unwrap_or_else(|| value.clone())
}

/// Returns the midnight before a time as JSON; `None` for other values.
pub(crate) fn day(value: &Value) -> Option<Value> {
    let Given { value: Scalar::Int(number), units: Some(units) } = Given::of(value)? else { return None };
    let (_, unit) = TIMES.into_iter().find(|(name, _)| *name == units)?;
    Some(time_value(number.div_euclid(86_400 * (1_000_000_000 / unit)) * 86_400))
}

/// A coordinate from a name or catalogue; with units if it is a time.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Given {
    pub(crate) value: Scalar,
    pub(crate) units: Option<&'static str>,
}

impl Given {
    /// Parses a coordinate from a name or catalogue.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        let time = TIMES.iter().find_map(|(name, _)| Some((*name, value.get(*name)?)));
        if let Some((name, number)) = time {
            return Some(Self { value: Scalar::Int(number.as_i64()?), units: Some(name) });
        }
        Some(Self { value: Scalar::of_json(value)?, units: None })
    }

    /// Converts times to the shortest of their units; `None` if only some values are times, or one exceeds 64 bits.
    pub(crate) fn unify(all: &mut [Self]) -> Option<()> {
        let unit = |given: &Self| TIMES.into_iter().find(|(name, _)| given.units == Some(*name));
        let units: Vec<_> = all.iter().map(unit).collect();
        let Some((name, shortest)) = units.iter().flatten().min_by_key(|(_, unit)| *unit).copied() else {
            return Some(());
        };
        for (given, unit) in all.iter_mut().zip(units) {
            let Scalar::Int(number) = given.value else { return None };
            *given = Self { value: Scalar::Int(number.checked_mul(unit?.1 / shortest)?), units: Some(name) };
        }
        Some(())
    }

    pub(crate) fn calendar(&self) -> Option<&'static str> {
        self.units.map(|_| "proleptic_gregorian")
    }
}

impl Scalar {
    pub(crate) fn of_json(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(int), _) => Self::Int(int),
                (None, Some(int)) => Self::Unsigned(int),
                (None, None) => Self::Float(number.as_f64()?),
            },
            Value::String(text) => Self::Text(Arc::new(text.clone())),
            _ => return None,
        })
    }

    /// Returns an element of an array as a scalar; `None` if its type has no order.
    pub(crate) fn of_element(bytes: &[u8], data_type: &DataType) -> Option<Self> {
        if *data_type == DataType::String {
            return String::from_utf8(bytes.to_vec()).ok().map(|text| Self::Text(Arc::new(text)));
        }
        if let DataType::FixedBytes(_) = data_type {
            let text = String::from_utf8_lossy(bytes);
            return Some(Self::Text(Arc::new(text.trim_end_matches('\0').to_owned())));
        }
        let element = FillValue::Fixed(Bytes::copy_from_slice(bytes));
        if data_type.is_integer() {
            let int = element.to_i128(data_type)?;
            let signed = i64::try_from(int).map(Self::Int);
            return signed.or_else(|_| u64::try_from(int).map(Self::Unsigned)).ok();
        }
        element.to_f64(data_type).map(Self::Float)
    }

    pub(crate) fn to_i128(&self) -> Option<i128> {
        match self {
            Self::Int(int) => Some((*int).into()),
            Self::Unsigned(int) => Some((*int).into()),
            Self::Float(_) | Self::Text(_) => None,
        }
    }

    /// Returns the key by which the value is ordered along its dimension; `None` for NaN.
    pub(crate) fn key(&self) -> Option<Key> {
        Some(match self {
            Self::Int(_) | Self::Unsigned(_) => Key::Int(self.to_i128()?),
            Self::Float(number) if number.is_nan() => return None,
            Self::Float(number) => Key::Float(*number + 0.0),
            Self::Text(text) => Key::Text(Arc::clone(text)),
        })
    }

    /// Returns the key among numbers of which some are floats; `None` for integers that no float equals.
    pub(crate) fn float_key(&self) -> Option<Key> {
        match self.key()? {
            Key::Int(int) => {
                let float = FillValue::from_i128(&DataType::Float64, int).exact()?;
                float.to_f64(&DataType::Float64).map(Key::Float)
            }
            other => Some(other),
        }
    }

    /// Returns the key among whole numbers; `None` unless it is a whole number of 64 bits.
    pub(crate) fn whole_key(&self) -> Option<Key> {
        match self.key()? {
            Key::Float(float) => {
                let whole = FillValue::from_f64(&DataType::Int64, float).exact()?;
                whole.to_i128(&DataType::Int64).map(Key::Int)
            }
            other => Some(other),
        }
    }

    /// Returns the key among times in any units.
    pub(crate) fn time_key(&self, units: &TimeUnits) -> Option<Key> {
        let exact = match self {
            Self::Int(_) | Self::Unsigned(_) => Dyadic { mantissa: self.to_i128()?, exponent: 0 },
            Self::Float(number) => Dyadic::of(*number)?,
            Self::Text(_) => return None,
        };
        let product = Dyadic { mantissa: exact.mantissa.checked_mul(units.unit.nanoseconds)?, ..exact };
        let reference = shift(units.reference, FRACTION)?;
        let scaled = shift(product.mantissa, product.exponent.checked_add(FRACTION)?)?;
        Some(Key::Int(scaled.checked_add(reference)?))
    }
}

/// Number of binary digits of a nanosecond that the order of times considers.
const FRACTION: i32 = 24;

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(int) => int.fmt(f),
            Self::Unsigned(int) => int.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Text(text) => write!(f, "\"{text}\""),
        }
    }
}

/// A key by which the coordinates of a dimension are ordered.
#[derive(Clone, PartialEq, PartialOrd, Debug)]
pub(crate) enum Key {
    Int(i128),
    Float(f64),
    Text(Arc<String>),
}

impl Key {
    pub(crate) fn as_f64(&self) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "steps are compared roughly")]
            Self::Int(int) => Some(*int as f64),
            Self::Float(number) => Some(*number),
            Self::Text(_) => None,
        }
    }

    /// Compares two keys of one dimension, which are of one kind and not NaN.
    pub(crate) fn order(&self, other: &Self) -> std::cmp::Ordering {
        self.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal)
    }

    pub(crate) fn same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// A whole number times a power of two, as every finite float is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dyadic {
    pub(crate) mantissa: i128,
    pub(crate) exponent: i32,
}

impl Dyadic {
    /// Returns the exact value of a finite float, with a mantissa that is odd or 0.
    pub(crate) fn of(number: f64) -> Option<Self> {
        if !number.is_finite() {
            return None;
        }
        let bits = number.to_bits();
        let biased = i32::try_from((bits >> 52) & 0x7ff).ok()?;
        let fraction = i128::from(bits & 0x000f_ffff_ffff_ffff);
        let (whole, exponent) =
            if biased == 0 { (fraction, -1074) } else { (fraction | (1 << 52), biased - 1075) };
        if whole == 0 {
            return Some(Self { mantissa: 0, exponent: 0 });
        }
        let zeros = whole.trailing_zeros();
        let magnitude = whole >> zeros;
        let mantissa = if number < 0.0 { -magnitude } else { magnitude };
        Some(Self { mantissa, exponent: exponent + i32::try_from(zeros).ok()? })
    }
}

/// Returns a number times 2^`digits`, rounded down; `None` on overflow.
pub(crate) fn shift(number: i128, digits: i32) -> Option<i128> {
    if digits <= 0 {
        return Some(number >> digits.unsigned_abs().min(127));
    }
    let factor = 1_i128.checked_shl(digits.unsigned_abs()).filter(|factor| *factor > 0);
    if number == 0 { Some(0) } else { number.checked_mul(factor?) }
}

/// Returns the elements of an array.
pub(crate) fn elements(values: &ArrayValues) -> Option<Box<dyn Iterator<Item = &[u8]> + '_>> {
    if variable::is_variable(&values.data_type) {
        return Some(Box::new(variable::split(&values.bytes)));
    }
    let size = usize::try_from(values.data_type.size()?).ok().filter(|size| *size > 0)?;
    Some(Box::new(values.bytes.chunks_exact(size)))
}

/// Whether elements are integers or floats.
pub(crate) fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_float()
}

/// Returns the same number in another type, or nothing if that type does not hold it exactly.
pub(crate) fn converted(value: &FillValue, old: &DataType, new: &DataType) -> Option<FillValue> {
    match value.to_i128(old).filter(|_| old.is_integer()) {
        Some(int) => FillValue::from_i128(new, int).exact(),
        None => FillValue::from_f64(new, value.to_f64(old)?).exact(),
    }
}

/// Returns the attribute that makes decoded numbers differ from the stored ones, if the array has one.
pub(crate) fn packing(attributes: &Map<String, Value>) -> Option<&'static str> {
    ["scale_factor", "add_offset", "_Unsigned"].into_iter().find(|name| attributes.contains_key(*name))
}

/// Scale factor and offset of an array's stored numbers (CF conventions, 8.1).
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Packing {
    scale_factor: Option<f64>,
    add_offset: Option<f64>,
}

impl Packing {
    /// The attributes, and the numbers that change nothing.
    pub(crate) const ATTRIBUTES: [(&str, f64); 2] = [("scale_factor", 1.0), ("add_offset", 0.0)];

    /// Returns the packing of an array with these attributes; `None` if they are not finite numbers.
    pub(crate) fn of(attributes: &Map<String, Value>) -> Option<Self> {
        let number = |name: &str| match attributes.get(name) {
            None => Some(None),
            Some(value) => value.as_f64().filter(|number| number.is_finite()).map(Some),
        };
        Some(Self { scale_factor: number("scale_factor")?, add_offset: number("add_offset")? })
    }

    /// Returns the number of one of the attributes.
    pub(crate) fn number(&self, attribute: &str) -> Option<f64> {
        if attribute == "scale_factor" { self.scale_factor } else { self.add_offset }
    }
}

/// Fraction of a pixel by which equal positions may differ.
const TOLERANCE: f64 = 1e-6;

/// Evenly spaced coordinates.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Grid {
    /// The first coordinate.
    pub first: f64,
    /// The last coordinate.
    pub last: f64,
    /// Number of coordinates, at least 2.
    pub count: u32,
}

impl Grid {
    /// Returns the grid of coordinates of type float64; `None` unless they are evenly spaced.
    pub(crate) fn of(values: &ArrayValues) -> Option<Self> {
        let ([_], DataType::Float64) = (values.shape.as_slice(), &values.data_type) else { return None };
        let number =
            |element: &[u8]| FillValue::Fixed(values.bytes.slice_ref(element)).to_f64(&DataType::Float64);
        let numbers: Vec<f64> = elements(values)?.map(number).collect::<Option<_>>()?;
        let (first, last) = (*numbers.first()?, *numbers.last()?);
        let grid = Self { first, last, count: u32::try_from(numbers.len()).ok().filter(|count| *count > 1)? };
        let step = grid.step();
        (step.is_finite() && step != 0.0 && is_even(&numbers, step, 0.0)).then_some(grid)
    }

    fn step(&self) -> f64 {
        (self.last - self.first) / f64::from(self.count - 1)
    }

    /// Returns whether the coordinates of two grids are equal but for rounding: to a fraction of a pixel, or of the size of
    /// pixels to binary32.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        let (step, limit) = (self.step(), TOLERANCE * self.step().abs());
        self.count == other.count
            && (self.first - other.first).abs() <= limit
            && ((self.last - other.last).abs() <= limit || is_rounded(step, other.step()))
    }
}

/// Returns whether numbers are `step` apart, but for a ten-millionth of it and for `rounding`.
pub(crate) fn is_even(numbers: &[f64], step: f64, rounding: f64) -> bool {
    let limit = TOLERANCE / 10.0 * step.abs() + rounding;
    let first = numbers.first().copied().unwrap_or(0.0);
    (0_u32..).zip(numbers).all(|(n, number)| (number - (first + f64::from(n) * step)).abs() <= limit)
}

/// Replaces numbers in ascending order that differ by rounding from the one before, where pixels have this size or more.
pub(crate) fn snap(numbers: &[f64], step: f64) -> Vec<f64> {
    let mut canonical: Vec<f64> = Vec::with_capacity(numbers.len());
    for number in numbers {
        let before = canonical.last().copied().filter(|before| number - before <= TOLERANCE * step);
        canonical.push(before.unwrap_or(*number));
    }
    canonical
}

/// Returns whether evenly spaced float64 elements are equal but for rounding.
pub(crate) fn values_agree(one: &[u8], other: &[u8]) -> bool {
    let numbers = |bytes: &[u8]| -> Vec<f64> {
        bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
    };
    let (one, other) = (numbers(one), numbers(other));
    let steps = one.windows(2).map(|pair| match pair {
        [left, right] => (right - left).abs(),
        _ => 0.0,
    });
    let limit = TOLERANCE * steps.fold(f64::INFINITY, f64::min);
    let near = |(one, other): (&f64, &f64)| (one - other).abs() <= limit;
    one.len() > 1 && limit.is_finite() && one.len() == other.len() && one.iter().zip(&other).all(near)
}

/// Returns whether a number may be another one that was rounded to binary32.
fn is_rounded(one: f64, other: f64) -> bool {
    (one - other).abs() <= one.abs() * f64::from(f32::EPSILON) / 2.0
}

/// Returns whether two affine transformations, of GDAL (text) or of Python (array), are equal but for rounding. Origins may be
/// null, and are then not compared.
pub(crate) fn transforms_agree(one: &Value, other: &Value) -> bool {
    if one == other {
        return true;
    }
    let number = |value: &Value| if value.is_null() { Some(0.0) } else { value.as_f64() };
    let numbers = |value: &Value| -> Option<Vec<f64>> {
        match value {
            Value::String(text) => text
                .split_whitespace()
                .map(|it| if it == "…" { Some(0.0) } else { it.parse().ok() })
                .collect(),
            Value::Array(numbers) => numbers.iter().map(number).collect(),
            _ => None,
        }
    };
    let (Some(left), Some(right)) = (numbers(one), numbers(other)) else { return false };
    let origin = if one.is_string() { 0 } else { 2 };
    let is_origin = |at: usize| at % 3 == origin;
    let sizes = left.iter().enumerate().filter(|(at, _)| !is_origin(*at)).map(|(_, number)| number.abs());
    let limit = TOLERANCE * sizes.fold(0.0, f64::max);
    let agrees = |(at, (one, other)): (usize, (&f64, &f64))| {
        if is_origin(at) { (one - other).abs() <= limit } else { is_rounded(*one, *other) }
    };
    left.len() == 6 && right.len() == 6 && left.iter().zip(&right).enumerate().all(agrees)
}

#[cfg(test)]
mod grid_tests {
    use serde_json::json;

    use super::*;

    fn grid(first: f64, step: f64, count: u32) -> ArrayValues {
        let bytes = (0..count).flat_map(|n| (first + f64::from(n) * step).to_le_bytes()).collect();
        ArrayValues { data_type: DataType::Float64, shape: vec![count.into()], bytes }
    }

    #[test]
    fn grids_agree_to_a_fraction_of_a_pixel() {
        let of = |first, step, count| Grid::of(&grid(first, step, count)).unwrap();
        let one = of(-20.0, 0.05, 70);
        assert!(one.agrees(&of(-20.0, 0.050_000_000_745_058_06, 70)), "0.05 as float32");
        assert!(one.agrees(&of(-20.0 + 4e-8, 0.05, 70)));
        for (first, step, count) in [(-20.0 + 1e-7, 0.05, 70), (-20.0, 0.05001, 70), (-20.0, 0.05, 71)] {
            assert!(!one.agrees(&of(first, step, count)), "{first} {step} {count}");
        }
        let mut uneven = grid(0.0, 1.0, 3);
        uneven.bytes = [0.0, 1.0, 3.0].iter().flat_map(|n: &f64| n.to_le_bytes()).collect();
        assert_eq!(Grid::of(&uneven), None);
        assert_eq!(Grid::of(&grid(0.0, 1.0, 1)), None);
    }

    #[test]
    fn transforms_agree_in_both_notations() {
        let text = |x: f64, size: f64| json!(format!("{x:?} {size:?} 0.0 5.0 0.0 -{size:?}"));
        let list = |x: f64, size: f64| json!([size, 0, x, 0, -size, 5]);
        for (x, size, agree) in [
            (1.0, 0.050_000_000_745_058_06, true),
            (1.0 + 4e-8, 0.05, true),
            (1.0 + 1e-7, 0.05, false),
            (1.0, 0.0501, false),
        ] {
            assert_eq!(transforms_agree(&text(1.0, 0.05), &text(x, size)), agree, "{x} {size}");
            assert_eq!(transforms_agree(&list(1.0, 0.05), &list(x, size)), agree, "{x} {size}");
        }
        assert!(transforms_agree(
            &json!([0.05, 0, null, 0, -0.05, null]),
            &json!([0.050_000_000_745_058_06, 0, null, 0, -0.05, null])
        ));
        assert!(!transforms_agree(&json!("a"), &json!("b")));
    }
}
