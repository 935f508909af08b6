//! Converts times in several units to one unit, exactly.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde_json::Value;
use virtualize::zarr::{DataType, FillValue, NodePath, ZarrFormat};

use super::accumulate::Growing;
use crate::compat::times::text;
use crate::error::Problem;
use crate::values::{
    calendar::{TimeUnits, UNITS, Unit},
    convert::{converted, packing},
    scalar::{Dyadic, shift},
    sentinel::{Sentinels, fill_attribute},
};

/// Converts an array of times, and the bounds that share its units, to one unit if files have several. Returns a note
/// on the conversion.
///
/// # Errors
/// Units that cannot be converted, and values that have no exact equivalent in any unit.
pub(super) fn unify(
    arrays: &mut BTreeMap<NodePath, Growing>,
    path: &str,
    followers: &[NodePath],
    format: ZarrFormat,
) -> Result<Option<String>, Problem> {
    let Some(parent) = arrays.get(path) else { return Ok(None) };
    let Some(units) = PartUnits::of(parent)? else { return Ok(None) };
    let follow = followers.iter().filter_map(|name| arrays.get(name));
    let mut parts_of_followers = follow.flat_map(|growing| growing.pieces.values());
    if units.are_equal() && parts_of_followers.all(|piece| piece.units.is_none()) {
        return Ok(None);
    }
    if let Some(attribute) = packing(&parent.first.attributes) {
        return Err(Problem::PackedTimes { attribute });
    }
    let converted = units.converted(arrays, path, followers, format)?;
    let target = &units.target;
    let mut candidates = UNITS.iter().copied().filter(|unit| unit.nanoseconds <= target.unit.nanoseconds);
    let whole = candidates.find(|unit| converted.iter().all(|(_, times)| times.are_whole(*unit)));
    let unit = whole.unwrap_or(target.unit);
    let text = match unit == target.unit {
        true => units.text.clone(),
        false => format!("{} since {}", unit.name, target.since),
    };
    for (name, times) in &converted {
        let Some(growing) = arrays.get_mut(name) else { continue };
        write(growing, times, unit, format, whole.is_some())?;
        for attributes in [&mut growing.attributes.kept, &mut growing.first.attributes] {
            if let Some(units) = attributes.get_mut("units") {
                *units = text.clone().into();
            }
        }
    }
    Ok(Some(format!("files count in several units: converted to \"{text}\"")))
}

/// The units of an array of times in each file.
struct PartUnits {
    calendar: Option<String>,
    /// Units of the first file.
    text: String,
    /// The same, parsed: the target of the conversion.
    target: TimeUnits,
    /// Units of each part.
    parts: BTreeMap<Vec<usize>, TimeUnits>,
}

impl PartUnits {
    /// Returns `None` if all files have the same units.
    fn of(parent: &Growing) -> Result<Option<Self>, Problem> {
        if parent.pieces.values().all(|piece| piece.units.is_none()) {
            return Ok(None);
        }
        let calendar = text(&parent.first.attributes, "calendar").map(str::to_owned);
        let first = text(&parent.first.attributes, "units").unwrap_or_default().to_owned();
        let target = parse(&first, calendar.as_deref(), &first)?;
        let mut units = Self { calendar, text: first, target, parts: BTreeMap::new() };
        for (key, piece) in &parent.pieces {
            let own = piece.units.as_deref().map_or(Ok(units.target.clone()), |own| units.parse(own))?;
            units.parts.insert(key.clone(), own);
        }
        Ok(Some(units))
    }

    fn parse(&self, units: &str) -> Result<TimeUnits, Problem> {
        parse(units, self.calendar.as_deref(), &self.text)
    }

    /// Returns whether the units of all files are equivalent, even if they are spelled differently.
    fn are_equal(&self) -> bool {
        let target = &self.target;
        self.parts.values().all(|units| units.unit == target.unit && units.reference == target.reference)
    }

    /// Returns the times of the array and of its followers, relative to the target's reference time.
    fn converted(
        &self,
        arrays: &BTreeMap<NodePath, Growing>,
        path: &str,
        followers: &[NodePath],
        format: ZarrFormat,
    ) -> Result<Vec<(String, Times)>, Problem> {
        let mut converted = Vec::new();
        for name in std::iter::once(path).chain(followers.iter().map(String::as_str)) {
            let Some(growing) = arrays.get(name) else { continue };
            if let Some(attribute) = packing(&growing.first.attributes) {
                return Err(Problem::PackedBounds { attribute, path: name.to_owned() });
            }
            let units = |key: &Vec<usize>, growing: &Growing| match own_units(growing, key) {
                Some(units) if name != path => self.parse(units).map(Some),
                _ => Ok(self.parts.get(key).cloned()),
            };
            converted.push((name.to_owned(), times(growing, &units, &self.target, format)?));
        }
        Ok(converted)
    }
}

fn parse(units: &str, calendar: Option<&str>, first: &str) -> Result<TimeUnits, Problem> {
    TimeUnits::parse(units, calendar)
        .ok_or_else(|| Problem::Units { units: units.to_owned(), first: first.to_owned() })
}

/// Returns the array's own units in the file at a place.
fn own_units<'a>(growing: &'a Growing, key: &Vec<usize>) -> Option<&'a str> {
    let other = growing.pieces.get(key).and_then(|piece| piece.units.as_deref());
    other.or_else(|| text(&growing.first.attributes, "units"))
}

/// The times of each part of an array.
struct Times(BTreeMap<Vec<usize>, Vec<Time>>);

#[derive(Clone, Copy, PartialEq, Debug)]
enum Time {
    /// Nanoseconds since the target's reference time.
    At(Dyadic),
    /// A missing value as stored: as a float, and as an integer if it is one.
    Missing(f64, Option<i64>),
}

type UnitsOf<'a> = dyn Fn(&Vec<usize>, &Growing) -> Result<Option<TimeUnits>, Problem> + 'a;

/// Decodes the times in all parts of an array, relative to the target's reference time.
fn times(
    growing: &Growing,
    units: &UnitsOf<'_>,
    target: &TimeUnits,
    format: ZarrFormat,
) -> Result<Times, Problem> {
    let sentinels = Sentinels::of(&growing.first, format);
    let data_type = &growing.first.data_type;
    let size = data_type.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(1).max(1);
    let mut parts = BTreeMap::new();
    for (key, piece) in &growing.pieces {
        let units = units(key, growing)?.ok_or(Problem::BoundsWithoutTime)?;
        let values = piece.values.as_ref().ok_or(Problem::NotRead)?;
        let one = |element: &[u8]| {
            time(element, data_type, &sentinels, &units, target)
                .ok_or_else(|| Problem::InexactTime { url: piece.url.to_string() })
        };
        parts.insert(key.clone(), values.chunks_exact(size).map(one).collect::<Result<_, _>>()?);
    }
    Ok(Times(parts))
}

/// Decodes one element exactly; `None` if that is not possible.
fn time(
    element: &[u8],
    data_type: &DataType,
    sentinels: &Sentinels,
    units: &TimeUnits,
    target: &TimeUnits,
) -> Option<Time> {
    let scalar = FillValue::Fixed(Bytes::copy_from_slice(element));
    let int = scalar.to_i128(data_type);
    if sentinels.is_missing(element) {
        return Some(Time::Missing(scalar.to_f64(data_type)?, int.and_then(|int| i64::try_from(int).ok())));
    }
    let exact = match int.filter(|_| data_type.is_integer()) {
        Some(mantissa) => Dyadic { mantissa, exponent: 0 },
        None => Dyadic::of(scalar.to_f64(data_type)?)?,
    };
    let mantissa = exact.mantissa.checked_mul(units.unit.nanoseconds)?;
    let later = units.reference.checked_sub(target.reference)?;
    if exact.exponent >= 0 {
        let mantissa = shift(mantissa, exact.exponent)?.checked_add(later)?;
        return Some(Time::At(Dyadic { mantissa, exponent: 0 }));
    }
    let mantissa = mantissa.checked_add(shift(later, exact.exponent.checked_neg()?)?)?;
    Some(Time::At(reduced(mantissa, exact.exponent)))
}

/// Returns a number with exponent 0 or an odd mantissa.
fn reduced(mantissa: i128, exponent: i32) -> Dyadic {
    let zeros = i32::try_from(mantissa.trailing_zeros()).unwrap_or(0).min(exponent.saturating_neg());
    if mantissa == 0 {
        return Dyadic { mantissa, exponent: 0 };
    }
    Dyadic { mantissa: mantissa >> zeros, exponent: exponent.saturating_add(zeros) }
}

impl Time {
    /// Returns the time as a whole number of units.
    fn whole(self, unit: Unit) -> Option<i64> {
        match self {
            Self::At(Dyadic { mantissa, exponent: 0 }) if mantissa % unit.nanoseconds == 0 => {
                i64::try_from(mantissa / unit.nanoseconds).ok()
            }
            Self::At(_) => None,
            Self::Missing(_, int) => int,
        }
    }

    /// Returns the time as a float that equals this number of units exactly.
    fn float(self, unit: Unit) -> Option<f64> {
        let Dyadic { mantissa, exponent } = match self {
            Self::At(exact) => exact,
            Self::Missing(float, _) => return Some(float),
        };
        let twos = unit.nanoseconds.trailing_zeros();
        let odd = unit.nanoseconds >> twos;
        if mantissa % odd != 0 {
            return None;
        }
        let quotient = mantissa / odd;
        if quotient == 0 {
            return Some(0.0);
        }
        let zeros = quotient.trailing_zeros();
        let digits = quotient >> zeros;
        let exponent =
            exponent.checked_add(i32::try_from(zeros).ok()?)?.checked_sub(i32::try_from(twos).ok()?)?;
        if digits.unsigned_abs() >> 53 != 0 || !(-1000..=900).contains(&exponent) {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "it has 53 digits at most")]
        let digits = digits as f64;
        Some(digits * 2f64.powi(exponent))
    }
}

impl Times {
    fn are_whole(&self, unit: Unit) -> bool {
        self.0.values().flatten().all(|time| time.whole(unit).is_some())
    }

    fn any_missing(&self) -> bool {
        self.0.values().flatten().any(|time| matches!(time, Time::Missing(..)))
    }
}

/// Replaces the values of an array by times in a unit, as `int64` if `whole`, else as `float64`.
fn write(
    growing: &mut Growing,
    times: &Times,
    unit: Unit,
    format: ZarrFormat,
    whole: bool,
) -> Result<(), Problem> {
    let data_type = if whole { DataType::Int64 } else { DataType::Float64 };
    let stored: Vec<f64> = missing(times);
    for (key, part) in &times.0 {
        let mut bytes = Vec::with_capacity(part.len() * 8);
        for time in part {
            let (element, float) = element(*time, unit, whole).ok_or(Problem::NoCommonUnit)?;
            if matches!(time, Time::At(_)) && stored.contains(&float) {
                return Err(Problem::TimeIsMissing { unit: unit.name });
            }
            bytes.extend(element);
        }
        if let Some(piece) = growing.pieces.get_mut(key) {
            piece.values = Some(bytes.into());
            piece.units = None;
        }
    }
    retype(growing, data_type, times.any_missing(), format);
    Ok(())
}

/// Returns an element in the new type, and its approximate value.
fn element(time: Time, unit: Unit, whole: bool) -> Option<([u8; 8], f64)> {
    if whole {
        let int = time.whole(unit)?;
        #[expect(
            clippy::cast_precision_loss,
            reason = "compared with values that mean missing, on the safe side"
        )]
        return Some((int.to_le_bytes(), int as f64));
    }
    let float = time.float(unit)?;
    Some((float.to_le_bytes(), float))
}

/// Returns the missing values that occur.
fn missing(times: &Times) -> Vec<f64> {
    let mut found: Vec<f64> = Vec::new();
    for time in times.0.values().flatten() {
        if let Time::Missing(float, _) = time
            && !found.contains(float)
        {
            found.push(*float);
        }
    }
    found
}

/// Changes the type of an array, and converts its missing values to that type.
fn retype(growing: &mut Growing, data_type: DataType, any_missing: bool, format: ZarrFormat) {
    let old = std::mem::replace(&mut growing.first.data_type, data_type.clone());
    if old == data_type {
        return;
    }
    let attributes = &mut growing.attributes.kept;
    if any_missing {
        for name in ["_FillValue", "missing_value"] {
            if let Some(value) = attributes.get(name).cloned() {
                let value = fill_attribute(&value, &old)
                    .and_then(|bytes| converted(&FillValue::Fixed(bytes), &old, &data_type))
                    .and_then(|fill| spelled(name, &fill, &data_type));
                match value {
                    Some(value) => attributes.insert(name.to_owned(), value),
                    None => attributes.remove(name),
                };
            }
        }
    } else {
        attributes.remove("_FillValue");
        attributes.remove("missing_value");
    }
    let fill = growing.first.fill_value.as_ref().and_then(|fill| converted(fill, &old, &data_type));
    growing.first.fill_value = match format {
        ZarrFormat::V2 => fill.filter(|_| any_missing),
        ZarrFormat::V3 => Some(fill.unwrap_or_else(|| FillValue::zero(&data_type))),
    };
}

/// Returns a missing value as an attribute: `_FillValue` of floats is base64 of a binary64.
fn spelled(name: &str, fill: &FillValue, data_type: &DataType) -> Option<Value> {
    let FillValue::Fixed(bytes) = fill else { return None };
    match (name, data_type) {
        ("_FillValue", DataType::Float64) => Some(BASE64_STANDARD.encode(bytes).into()),
        _ => fill.to_json(data_type, ZarrFormat::V3).ok(),
    }
}
