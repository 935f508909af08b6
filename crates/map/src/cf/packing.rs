//! Packed numbers by the attributes of CF (section 8.1), and their unpacking by the Zarr v3 codecs `scale_offset` and
//! `cast_value` ([`crate::MapOptions::unpack`]).
//!
//! An unpacked array gets the type that xarray would unpack to, and its fill value is decoded through the codecs. Arrays that
//! the codecs cannot unpack exactly keep their attributes; [`UnpackRefusal`] lists the reasons.

use serde_json::{Map, Value};
use virtualize_hdf5::model::Element;
use virtualize_remedy::{Code, OptionName, Remedy};
use virtualize_zarr::{
    Arithmetic, ArithmeticError, Array, Codec, DataType, FillValue, OutOfRange, Rounding, ScalarMap,
};

use super::fill::{cast, wrapped};
use super::{CfAttributes, FACTORS};
use crate::report::float_json;
use crate::{ArrayReport, Diagnostic, Error, Result, Severity};

/// Turns packed numbers into floats by codecs. `is_time` says that other variables make them times.
///
/// # Errors
/// The array cannot be unpacked exactly, and stays as it is.
pub(crate) fn unpack(
    attributes: &CfAttributes,
    is_time: bool,
    array: &mut Array,
    report: &mut ArrayReport,
) -> Result<(), UnpackRefusal> {
    if !array.data_type.is_integer() && !array.data_type.is_float() {
        return Ok(());
    }
    let is_time = is_time || attributes.text("units").is_some_and(is_time_unit);
    let stored = attributes.shown_type(&array.data_type);
    let packing = Packing {
        scale: factor(attributes, "scale_factor")?,
        offset: factor(attributes, "add_offset")?,
        sentinels: sentinels(attributes, &array.data_type, &stored),
        stored,
        is_time,
    };
    packing.unpack(array, report)
}

/// Refuses a `scale_factor` or `add_offset` that JSON cannot represent: without it, readers would take packed numbers for
/// values. Text stays, because xarray fails with it on the file itself.
///
/// # Errors
/// There is such an attribute.
pub(crate) fn check_factors(attributes: &CfAttributes) -> Result<()> {
    let is_lost = |value: &Element| match value {
        Element::Float(number) => !number.is_finite(),
        Element::Integer(_) | Element::Text(_) => false,
        _ => true,
    };
    let mut factors = FACTORS.iter().filter_map(|name| attributes.get(name));
    match factors.find(|attribute| attribute.values.iter().any(is_lost)) {
        Some(attribute) => Err(Error::not_json(&format!(
            "a {} that is not a finite number of at most 64 bits",
            attribute.name
        ))),
        None => Ok(()),
    }
}

/// Returns why xarray decodes an array to another data type than the original's; `None` if it does not. xarray chooses by the
/// types of `scale_factor` and `add_offset`, and JSON keeps only whether a number is an integer. `written` are the attributes
/// of the array.
pub(crate) fn widened_packing(
    attributes: &CfAttributes,
    data_type: &DataType,
    written: &Map<String, Value>,
) -> Option<String> {
    let mut stored = [None, None];
    for (name, stored) in FACTORS.iter().zip(&mut stored) {
        let Some(attribute) = attributes.get(name).filter(|_| written.contains_key(*name)) else { continue };
        if attribute.data_type.is_none() && matches!(attribute.values.as_slice(), [Element::Float(_)]) {
            // A long double. With an offset, xarray decodes to float64.
            return (!written.contains_key("add_offset"))
                .then(|| widening(DataType::Float64, "a longer type"));
        }
        let factor = attribute.data_type.clone().filter(|one| one.is_float() || one.is_integer())?;
        *stored = (attribute.values.len() == 1).then_some(Some(factor))?;
    }
    let in_json = stored.clone().map(|factor| {
        factor.map(|factor| if factor.is_float() { DataType::Float64 } else { DataType::Int64 })
    });
    let is_time = attributes.text("units").is_some_and(is_time_unit);
    if data_type.is_float() && !is_time && attributes.masks_only_nan() {
        return None;
    }
    let original = decoded_type(data_type, &stored, is_time)?;
    let found = decoded_type(data_type, &in_json, is_time)?;
    (original != found).then(|| widening(found, original))
}

fn widening(found: DataType, original: impl std::fmt::Display) -> String {
    let factors = FACTORS.join(" and ");
    format!(
        "xarray decodes to {found}, but from the file itself to {original}: JSON does not keep the data types of {factors}"
    )
}

/// Returns the data type to which xarray decodes packed numbers (`_choose_float_dtype` of xarray 2026.9). `factors` are the
/// types of `scale_factor` and `add_offset`.
fn decoded_type(stored: &DataType, factors: &[Option<DataType>; 2], is_time: bool) -> Option<DataType> {
    let is_long = matches!(stored, DataType::Int32 | DataType::UInt32);
    match factors {
        // Masked times are floats already when the type is chosen.
        [Some(scale), Some(offset)] if scale == offset && *scale == DataType::Float32 => {
            Some(if is_long && !is_time { DataType::Float64 } else { DataType::Float32 })
        }
        [_, Some(_)] => Some(DataType::Float64),
        [scale, None] => scale.clone(),
    }
}

fn factor(attributes: &CfAttributes, name: &'static str) -> Result<Option<Factor>, UnpackRefusal> {
    let Some(attribute) = attributes.get(name) else { return Ok(None) };
    match (attribute.values.as_slice(), &attribute.data_type) {
        ([Element::Float(value)], Some(data_type @ (DataType::Float32 | DataType::Float64))) => {
            Ok(Some((data_type.clone(), *value)))
        }
        ([Element::Integer(value)], Some(data_type)) if data_type.is_integer() => {
            Ok(Some((data_type.clone(), *value as f64)))
        }
        _ => Err(UnpackRefusal::Factor(name)),
    }
}

/// Returns all stored numbers that xarray masks, without NaN. `stored` is the type that xarray shows.
fn sentinels(attributes: &CfAttributes, data_type: &DataType, stored: &DataType) -> Vec<FillValue> {
    let values = |name| attributes.get(name).into_iter().flat_map(|attribute| &attribute.values);
    let fill_values = values("_FillValue").filter_map(|value| {
        if stored == data_type { cast(value, stored) } else { wrapped(value, data_type) }.ok()
    });
    let others = values("missing_value").filter_map(|value| cast(value, stored).ok());
    let mut found: Vec<FillValue> = Vec::new();
    for value in fill_values.chain(others) {
        let same = |other: &FillValue| other == &value || other.to_f64(stored) == value.to_f64(stored);
        let is_nan = value.to_f64(stored).is_some_and(f64::is_nan);
        let is_known = if stored.is_float() { found.iter().any(same) } else { found.contains(&value) };
        if !is_nan && !is_known {
            found.push(value);
        }
    }
    found
}

/// Attributes of packing, which are removed from an unpacked array.
const ATTRIBUTES: [&str; 5] = ["_FillValue", "_Unsigned", "add_offset", "missing_value", "scale_factor"];

/// Units of durations.
const DURATIONS: [&str; 7] =
    ["days", "hours", "minutes", "seconds", "milliseconds", "microseconds", "nanoseconds"];

/// `scale_factor` or `add_offset`, after its stored type, which determines the type that xarray unpacks to.
pub(crate) type Factor = (DataType, f64);

/// The packing of an array.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Packing {
    /// Type of the stored numbers, with the sign of `_Unsigned`.
    pub(crate) stored: DataType,
    /// Factor of the stored numbers.
    pub(crate) scale: Option<Factor>,
    /// Summand after multiplication.
    pub(crate) offset: Option<Factor>,
    /// Stored numbers that mean "no data", each once and none NaN.
    pub(crate) sentinels: Vec<FillValue>,
    /// Whether the numbers are times or durations. Clients decode these to dates, so nothing may be rounded.
    pub(crate) is_time: bool,
}

/// Reason why an array stays packed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub(crate) enum UnpackRefusal {
    /// If more than one number became NaN, encoding could not restore them.
    #[error("{0} sentinels, but the codec cast_value maps only one")]
    SeveralSentinels(usize),
    /// The bands of an image have different scales or offsets.
    #[error("scales or offsets differ between bands")]
    Bands,
    /// xarray unpacks to integers, which the codec scale_offset cannot multiply.
    #[error("the result would be integers")]
    IntegerResult,
    /// Times are integers, or their last bit matters.
    #[error("they are times, which would lose precision")]
    Times,
    /// No float holds all stored numbers.
    #[error("{result} does not hold all numbers of type {stored}")]
    Precision {
        /// Type of the stored numbers.
        stored: DataType,
        /// Type that they would get.
        result: DataType,
    },
    /// It is not a single number, is zero or not finite, or its reciprocal is not finite.
    #[error("{0} is not a number to unpack by")]
    Factor(&'static str),
    /// The codecs refuse the array, or its fill value does not survive them.
    #[error(transparent)]
    Arithmetic(#[from] ArithmeticError),
}

impl Packing {
    /// Unpacks an array: data type, fill value, codecs and attributes, and the fill value in its report.
    ///
    /// # Errors
    /// The codecs cannot unpack the array exactly; it is unchanged then.
    pub(crate) fn unpack(&self, array: &mut Array, report: &mut ArrayReport) -> Result<(), UnpackRefusal> {
        if self.scale.is_none() && self.offset.is_none() && self.sentinels.is_empty() {
            if self.stored != array.data_type {
                // `_Unsigned` alone only changes the type.
                array.data_type = self.stored.clone();
                clear(&mut array.attributes);
            }
            return Ok(());
        }
        let transform = UnpackTransform::of(self)?;
        let nan =
            self.sentinels.first().and_then(|_| FillValue::from_f64(&transform.result, f64::NAN).exact());
        let scalar_map = match (self.sentinels.first(), &nan) {
            (Some(sentinel), Some(nan)) => {
                ScalarMap::both_ways((&transform.result, nan), (&self.stored, sentinel))
                    .map_err(|_| UnpackRefusal::Factor("_FillValue"))?
            }
            _ => ScalarMap::default(),
        };
        let mut codecs = transform.codecs(scalar_map);
        codecs.extend(array.codecs.iter().cloned());
        let arithmetic = Arithmetic::new(&transform.result, &codecs)?;
        let stored_fill = array.fill_value.clone().unwrap_or_else(|| FillValue::zero(&self.stored));
        let fill = arithmetic.decode_scalar(&stored_fill)?;
        arithmetic.check(&fill)?;
        array.codecs = codecs;
        array.data_type = transform.result;
        array.fill_value = Some(fill.clone());
        clear(&mut array.attributes);
        if let Some(decision) = &mut report.fill {
            decision.fill_value = Some(fill);
            decision.sentinel = nan;
        }
        Ok(())
    }

    /// Returns the type that xarray 2026.9 would unpack to (`_choose_float_dtype`, or `maybe_promote` if there is only a
    /// sentinel).
    fn result(&self) -> Result<DataType, UnpackRefusal> {
        let types = [&self.scale, &self.offset].map(|factor| Some(factor.as_ref()?.0.clone()));
        match &types {
            [None, None] if self.stored.is_float() => Ok(self.stored.clone()),
            [None, None] if self.is_time => Err(UnpackRefusal::Times),
            [None, None] if self.stored.size() <= Some(2) => Ok(DataType::Float32),
            [None, None] => Ok(DataType::Float64),
            _ => decoded_type(&self.stored, &types, false)
                .filter(DataType::is_float)
                .ok_or(UnpackRefusal::IntegerResult),
        }
    }
}

/// Returns whether xarray may decode numbers in these units to dates or durations (`_is_time_like`, and more).
pub(crate) fn is_time_unit(units: &str) -> bool {
    units.contains("since") || DURATIONS.contains(&units)
}

fn clear(attributes: &mut Map<String, Value>) {
    attributes.retain(|name, _| !ATTRIBUTES.contains(&name.as_str()));
}

/// Linear map from stored to unpacked values: x / `divisor` + `offset`.
///
/// CF multiplies, the codec divides. In 64 bits, the quotient equals the product but for its last bits. For an array of
/// 32-bit floats, the division is done in 64 bits and its result rounded to 32, which equals CF's rounded product; the
/// offset is then added in 32 bits.
struct UnpackTransform {
    stored: DataType,
    result: DataType,
    divisor: f64,
    offset: f64,
}

impl UnpackTransform {
    fn of(packing: &Packing) -> Result<Self, UnpackRefusal> {
        if packing.sentinels.len() > 1 {
            return Err(UnpackRefusal::SeveralSentinels(packing.sentinels.len()));
        }
        let (stored, result) = (packing.stored.clone(), packing.result()?);
        if mantissa(&stored) > mantissa(&result) {
            return Err(UnpackRefusal::Precision { stored, result });
        }
        let offset = packing.offset.as_ref().map_or(0.0, |(_, offset)| *offset);
        if !offset.is_finite() {
            return Err(UnpackRefusal::Factor("add_offset"));
        }
        let scale = packing.scale.as_ref().map_or(1.0, |(_, scale)| *scale);
        let divisor = scale.recip();
        if !scale.is_normal() || !divisor.is_normal() {
            return Err(UnpackRefusal::Factor("scale_factor"));
        }
        let transform = Self { stored, result, divisor, offset };
        if packing.is_time && !transform.is_exact() {
            return Err(UnpackRefusal::Times);
        }
        Ok(transform)
    }

    /// Returns whether the quotient equals the product to the last bit, as it does for powers of 2.
    fn is_exact(&self) -> bool {
        self.divisor.to_bits().trailing_zeros() >= f64::MANTISSA_DIGITS - 1
    }

    fn codecs(&self, scalar_map: ScalarMap) -> Vec<Codec> {
        let offset = (self.offset != 0.0).then(|| float_json(self.offset));
        let scale = (self.divisor != 1.0).then(|| float_json(self.divisor));
        let last = cast_value(self.stored.clone(), None, scalar_map);
        let steps = |offset: Option<Value>, scale: Option<Value>| {
            (offset.is_some() || scale.is_some()).then_some(Codec::ScaleOffset { offset, scale })
        };
        if self.result != DataType::Float32 || self.is_exact() {
            return steps(offset, scale).into_iter().chain([last]).collect();
        }
        // As in IEEE 754, numbers beyond the largest 32-bit float become infinity.
        let clamp = self.stored.is_float().then_some(OutOfRange::Clamp);
        let wide = cast_value(DataType::Float64, clamp, ScalarMap::default());
        steps(offset, None).into_iter().chain([wide]).chain(steps(None, scale)).chain([last]).collect()
    }
}

fn cast_value(data_type: DataType, out_of_range: Option<OutOfRange>, scalar_map: ScalarMap) -> Codec {
    Codec::CastValue { data_type, rounding: Rounding::NearestEven, out_of_range, scalar_map }
}

/// Returns the bits of precision of a type: without sign and exponent for floats, all bits for integers.
fn mantissa(data_type: &DataType) -> u64 {
    match data_type {
        DataType::Float16 => 11,
        DataType::Float32 => 24,
        DataType::Float64 => 53,
        integer => integer.size().unwrap_or(u64::MAX).saturating_mul(8),
    }
}

/// Returns the diagnostic of an array that stays packed: information for times, which read the same either way, else a
/// warning.
pub(crate) fn refusal_diagnostic(why: &UnpackRefusal, path: &str) -> Diagnostic {
    let severity = if matches!(why, UnpackRefusal::Times) { Severity::Info } else { Severity::Warning };
    let message = format!("not unpacked: {why}");
    Diagnostic::new(severity, Code::NotUnpacked, path, message)
}

/// Returns the error of a Zarr format without these codecs.
pub(crate) fn needs_v3() -> Diagnostic {
    Diagnostic::error(Code::UnpackNeedsV3, "", "Zarr v2 has no codecs that unpack numbers").with(Remedy::set(
        OptionName::Format,
        "zarr3-json",
        "write Zarr v3",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::Float16;
    use DataType::Float32;
    use DataType::Float64;
    use DataType::Int8;
    use DataType::Int16;
    use DataType::Int32;
    use DataType::Int64;
    use DataType::UInt16;

    fn packing(stored: DataType, scale: Option<Factor>, offset: Option<Factor>) -> Packing {
        Packing { stored, scale, offset, sentinels: Vec::new(), is_time: false }
    }

    /// `_choose_float_dtype` and `maybe_promote` of xarray 2026.9.
    #[test]
    fn the_result_has_the_type_that_xarray_chooses() {
        let (single, double, integer) = ((Float32, 0.5), (Float64, 0.5), (Int16, 2.0));
        let result = |stored, scale: Option<&Factor>, offset: Option<&Factor>| {
            packing(stored, scale.cloned(), offset.cloned()).result()
        };
        assert_eq!(result(Int16, Some(&single), Some(&single)), Ok(Float32));
        assert_eq!(result(Int32, Some(&single), Some(&single)), Ok(Float64));
        assert_eq!(result(Float32, Some(&single), Some(&single)), Ok(Float32));
        assert_eq!(result(Int16, Some(&single), Some(&double)), Ok(Float64));
        assert_eq!(result(Int16, Some(&single), None), Ok(Float32));
        assert_eq!(result(Int16, None, Some(&single)), Ok(Float64));
        assert_eq!(result(Int16, Some(&double), None), Ok(Float64));
        assert_eq!(result(Int16, Some(&integer), Some(&integer)), Ok(Float64));
        assert_eq!(result(Int16, Some(&integer), None), Err(UnpackRefusal::IntegerResult));
        assert_eq!(result(UInt16, None, None), Ok(Float32));
        assert_eq!(result(Int32, None, None), Ok(Float64));
        assert_eq!(result(Float16, None, None), Ok(Float16));
    }

    /// Decoded in turn: divided or added to, and cast.
    #[test]
    fn rounded_quotients_of_32_bits_are_divided_in_64() {
        let codecs = |stored, scale, offset| {
            let transform = UnpackTransform::of(&packing(stored, scale, offset)).unwrap();
            let name = |codec: &Codec| match codec {
                Codec::ScaleOffset { offset, scale } => (offset.is_some(), scale.is_some(), None),
                Codec::CastValue { data_type, out_of_range, .. } => {
                    (false, false, Some((data_type.clone(), *out_of_range)))
                }
                other => panic!("{other:?}"),
            };
            transform.codecs(ScalarMap::default()).iter().map(name).collect::<Vec<_>>()
        };
        let cast = |data_type| (false, false, Some((data_type, None)));
        let (tenth, half) = (|| Some((Float32, f64::from(0.1_f32))), || Some((Float32, 0.5)));
        let both = (true, true, None);
        assert_eq!(codecs(Int16, half(), half()), [both.clone(), cast(Int16)], "an exact quotient");
        assert_eq!(codecs(Int16, Some((Float64, 0.1)), half()), [both, cast(Int16)], "64 bits");
        let (add, divide) = ((true, false, None), (false, true, None));
        assert_eq!(codecs(Int16, tenth(), half()), [add.clone(), cast(Float64), divide.clone(), cast(Int16)]);
        let clamped = (false, false, Some((Float64, Some(OutOfRange::Clamp))));
        assert_eq!(codecs(Float32, tenth(), half()), [add, clamped, divide, cast(Float32)]);
        let time = Packing { is_time: true, ..packing(Int16, None, None) };
        assert_eq!(time.result(), Err(UnpackRefusal::Times));
    }

    #[test]
    fn what_would_be_rounded_is_kept() {
        let transform = |packing: &Packing| UnpackTransform::of(packing).map(|transform| transform.divisor);
        let tenth = Some((Float32, f64::from(0.1_f32)));
        let refused = UnpackTransform::of(&packing(Int32, tenth, None)).err();
        assert_eq!(refused, Some(UnpackRefusal::Precision { stored: Int32, result: Float32 }));
        assert!(matches!(
            transform(&packing(Int64, Some((Float64, 0.1)), None)),
            Err(UnpackRefusal::Precision { .. })
        ));
        let hours = |scale| Packing { is_time: true, ..packing(Int32, Some((Float64, scale)), None) };
        assert_eq!(transform(&hours(0.25)), Ok(4.0));
        assert_eq!(transform(&hours(0.1)), Err(UnpackRefusal::Times));
        for scale in [0.0, f64::NAN, f64::INFINITY, 1e-320, f64::MAX] {
            assert_eq!(
                transform(&packing(Int8, Some((Float64, scale)), None)),
                Err(UnpackRefusal::Factor("scale_factor"))
            );
        }
        let offset = packing(Int8, None, Some((Float64, f64::NAN)));
        assert_eq!(transform(&offset), Err(UnpackRefusal::Factor("add_offset")));
    }
}
