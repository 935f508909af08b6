//! Single values of coordinates.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use virtualize::{
    ArrayValues,
    zarr::{DataType, FillValue},
};

use super::{
    calendar::{self, TimeUnits},
    variable,
};

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
