//! Converts times in several units to one unit, exactly.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde_json::Value;
use virtualize::{
    Remedy,
    zarr::{
        DataType, FillValue, NodePath, ZarrFormat,
        cf::missing::{Sentinels, fill_attribute},
    },
};

use super::{Result, metadata::Growing, values::size_of};
use crate::{
    compat::roles::text,
    error::Problem,
    values::{
        Dyadic,
        calendar::{TimeUnits, UNITS, Unit},
        converted, index, packing, shift,
    },
};

/// Converts an array of times, and the bounds that share its units, to one unit if files have several. Returns a note
/// on the conversion.
///
/// # Errors
/// Units that cannot be converted, and values that have no exact equivalent in any unit.
pub(super) fn unify(
    arrays: &mut BTreeMap<NodePath, Growing<'_>>,
    path: &str,
    followers: &[NodePath],
    format: ZarrFormat,
) -> Result<Option<String>> {
    let Some(parent) = arrays.get(path) else { return Ok(None) };
    let Some(units) = FileUnits::of(parent)? else { return Ok(None) };
    let mut follow = followers.iter().filter_map(|name| arrays.get(name));
    if units.are_equal() && follow.all(|growing| !growing.pieces.have_other_units()) {
        return Ok(None);
    }
    if let Some(attribute) = packing(&parent.first.attributes) {
        return Err(Problem::new(format!("time units differ and the values are packed ({attribute})")));
    }
    let names = || std::iter::once(path).chain(followers.iter().map(String::as_str));
    let mut facts = Vec::new();
    for name in names() {
        let Some(growing) = arrays.get(name) else { continue };
        if let Some(attribute) = packing(&growing.first.attributes).filter(|_| name != path) {
            return Err(Problem::new(format!(
                "{name} is packed ({attribute}); packed times cannot be converted"
            )));
        }
        let times = Times { growing, parent, units: &units, is_parent: name == path, format };
        facts.push((name, Facts::of(&times)?));
    }
    let target = &units.target;
    let mut candidates = UNITS.iter().copied().filter(|unit| unit.nanoseconds <= target.unit.nanoseconds);
    let whole = candidates.find(|unit| facts.iter().all(|(_, facts)| facts.whole.contains(unit)));
    let unit = whole.unwrap_or(target.unit);
    // xarray knows fewer spellings of units than cftime.
    let text = format!("{} since {}", unit.name, target.since);
    let mut converted = Vec::new();
    for (name, facts) in facts {
        let Some(growing) = arrays.get(name) else { continue };
        let times = Times { growing, parent, units: &units, is_parent: name == path, format };
        let any_missing = facts.missing.is_some();
        converted.push((name, times.converted(&facts, unit, whole.is_some())?, any_missing));
    }
    let mut dropped = BTreeSet::new();
    for (name, (values, starts), any_missing) in converted {
        let Some(growing) = arrays.get_mut(name) else { continue };
        let size = size_of(&growing.first.data_type) as u64;
        let pieces = &mut growing.pieces;
        pieces.set_values(values, starts, |form| form.values = form.values.map(|bytes| bytes / size * 8));
        pieces.list.iter_mut().for_each(|piece| piece.units = 0);
        let data_type = if whole.is_some() { DataType::Int64 } else { DataType::Float64 };
        retype(growing, data_type, any_missing, format);
        for attributes in [&mut growing.attributes.kept, &mut growing.first.attributes] {
            if let Some(units) = attributes.get_mut("units") {
                *units = text.clone().into();
            }
            // They count in the units of each file.
            for name in ["valid_min", "valid_max", "valid_range", "actual_range"] {
                if attributes.remove(name).is_some() {
                    dropped.insert(name);
                }
            }
        }
    }
    let mut note = format!("files count in several units: converted to \"{text}\"");
    if !dropped.is_empty() {
        let names = dropped.into_iter().collect::<Vec<_>>().join(", ");
        note.push_str(&format!("; {names} omitted"));
    }
    Ok(Some(note))
}

/// The units of an array of times in all files.
struct FileUnits {
    calendar: Option<String>,
    /// Units of the first file.
    text: String,
    /// The same, parsed: the target of the conversion.
    target: TimeUnits,
    /// Other units, by their text.
    others: HashMap<String, TimeUnits>,
}

impl FileUnits {
    /// Returns `None` if all files have the same units.
    fn of(parent: &Growing<'_>) -> Result<Option<Self>> {
        if !parent.pieces.have_other_units() {
            return Ok(None);
        }
        let calendar = text(&parent.first.attributes, "calendar").map(str::to_owned);
        let first = text(&parent.first.attributes, "units").unwrap_or_default().to_owned();
        let target = parse(&first, calendar.as_deref(), &first)?;
        let mut units = Self { calendar, text: first, target, others: HashMap::new() };
        for own in parent.pieces.iter().filter_map(|n| parent.pieces.units(n)) {
            if !units.others.contains_key(own) {
                units.others.insert(own.to_owned(), units.parse(own)?);
            }
        }
        Ok(Some(units))
    }

    fn parse(&self, units: &str) -> Result<TimeUnits> {
        parse(units, self.calendar.as_deref(), &self.text)
    }

    /// Returns whether the units of all files are equivalent, even if their texts differ.
    fn are_equal(&self) -> bool {
        let target = &self.target;
        self.others.values().all(|units| units.unit == target.unit && units.reference == target.reference)
    }
}

fn parse(units: &str, calendar: Option<&str>, first: &str) -> Result<TimeUnits> {
    TimeUnits::parse(units, calendar).ok_or_else(|| {
        Problem::new(format!("units \"{units}\" cannot be converted to those of other files, \"{first}\""))
    })
}

/// Receives a part, and its times relative to the target's reference time.
type EachPart<'a> = dyn FnMut(u32, &[Time]) -> Result<()> + 'a;

/// The times of an array in all files.
struct Times<'a, 'b> {
    growing: &'a Growing<'b>,
    /// The array whose units it shares.
    parent: &'a Growing<'b>,
    units: &'a FileUnits,
    is_parent: bool,
    format: ZarrFormat,
}

impl Times<'_, '_> {
    /// Calls `each` with each part, in order of place.
    fn each(&self, each: &mut EachPart<'_>) -> Result<()> {
        let Self { growing, units: FileUnits { target, .. }, .. } = self;
        let sentinels = Sentinels::of(&growing.first, self.format);
        let data_type = &growing.first.data_type;
        let mut parsed = HashMap::new();
        for n in growing.pieces.iter() {
            let units = self
                .units_of(n, &mut parsed)?
                .ok_or(Problem::of("bounds variable present in files that lack its time coordinate"))?;
            let values = growing.pieces.values(n).ok_or(Problem::NOT_READ)?;
            let one = |element: &[u8]| {
                time(element, data_type, &sentinels, &units, target).ok_or_else(|| {
                    Problem::new(format!("a value of {} cannot be converted exactly", growing.url_of(n)))
                })
            };
            let times: Vec<Time> =
                values.chunks_exact(size_of(data_type)).map(one).collect::<Result<_, _>>()?;
            each(n, &times)?;
        }
        Ok(())
    }

    /// Returns the units of a part: its own, or else those of the array whose units it shares. `parsed` caches them.
    fn units_of<'c>(&'c self, n: u32, parsed: &mut HashMap<&'c str, TimeUnits>) -> Result<Option<TimeUnits>> {
        let own = self.growing.pieces.units(n).or_else(|| text(&self.growing.first.attributes, "units"));
        if let Some(own) = own.filter(|_| !self.is_parent) {
            if !parsed.contains_key(own) {
                parsed.insert(own, self.units.parse(own)?);
            }
            return Ok(parsed.get(own).cloned());
        }
        let there = if self.is_parent { Some(n) } else { self.parent.find(&self.growing.place_of(n)) };
        let Some(there) = there else { return Ok(None) };
        Ok(match self.parent.pieces.units(there) {
            Some(other) => self.units.others.get(other).cloned(),
            None => Some(self.units.target.clone()),
        })
    }

    /// Returns the times in a unit, as `int64` if `whole`, else as `float64`, and where those of each part start.
    fn converted(&self, facts: &Facts, unit: Unit, whole: bool) -> Result<(Vec<u8>, Vec<u64>)> {
        let (mut bytes, mut starts) = (Vec::new(), vec![0; self.growing.pieces.len()]);
        self.each(&mut |n, times| {
            if let Some(start) = starts.get_mut(index(n)) {
                *start = bytes.len() as u64;
            }
            for time in times {
                let (element, float) = element(*time, unit, whole).ok_or_else(|| {
                    Problem::of("times in several units have no exact value in one unit")
                        .with(Remedy::advice("write the files again"))
                })?;
                let is_missing = || facts.missing.as_ref().is_some_and(|missing| missing.contains(&float));
                if matches!(time, Time::At(_)) && is_missing() {
                    let unit = unit.name;
                    return Err(Problem::new(format!(
                        "a time converted to {unit} is the value that means \"missing\""
                    )));
                }
                bytes.extend(element);
            }
            Ok(())
        })?;
        Ok((bytes, starts))
    }
}

/// Facts about the times of an array.
struct Facts {
    /// Units in which all times are whole.
    whole: Vec<Unit>,
    /// All values that mean missing, if one of them occurs.
    missing: Option<Vec<f64>>,
}

impl Facts {
    fn of(times: &Times<'_, '_>) -> Result<Self> {
        let (mut whole, mut any_missing) = (UNITS.to_vec(), false);
        times.each(&mut |_, times| {
            whole.retain(|unit| times.iter().all(|time| time.whole(*unit).is_some()));
            any_missing |= times.iter().any(|time| matches!(time, Time::Missing(..)));
            Ok(())
        })?;
        let first = &times.growing.first;
        let sentinels = || Sentinels::of(first, times.format).elements.into_iter();
        let float = |element| FillValue::Fixed(element).to_f64(&first.data_type);
        Ok(Self { whole, missing: any_missing.then(|| sentinels().filter_map(float).collect()) })
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Time {
    /// Nanoseconds since the target's reference time.
    At(Dyadic),
    /// A missing value as stored: as a float, and as an integer if it is one.
    Missing(f64, Option<i64>),
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

/// Changes the type of an array, and converts its missing values to that type. If no value is missing, it removes them: a
/// converted time may equal one.
fn retype(growing: &mut Growing<'_>, data_type: DataType, any_missing: bool, format: ZarrFormat) {
    let old = std::mem::replace(&mut growing.first.data_type, data_type.clone());
    let attributes = &mut growing.attributes.kept;
    if any_missing {
        for name in ["_FillValue", "missing_value"] {
            if let Some(value) = attributes.get(name).cloned() {
                let one = |value: &Value| {
                    let bytes = fill_attribute(value, &old)?;
                    encode_missing(name, &converted(&FillValue::Fixed(bytes), &old, &data_type)?, &data_type)
                };
                let value = match &value {
                    Value::Array(values) => Some(values.iter().filter_map(one).collect()),
                    value => one(value),
                };
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
fn encode_missing(name: &str, fill: &FillValue, data_type: &DataType) -> Option<Value> {
    let FillValue::Fixed(bytes) = fill else { return None };
    match (name, data_type) {
        ("_FillValue", DataType::Float64) => Some(BASE64_STANDARD.encode(bytes).into()),
        _ => fill.to_json(data_type, ZarrFormat::V3).ok(),
    }
}
