//! Decision on fill values and sentinels, and the attributes `_FillValue` and `missing_value` that express it.

use bytes::Bytes;
use half::f16;
use serde_json::{Map, Value};
use virtualize_hdf5::model::Element;
use virtualize_remedy::Code;
use virtualize_zarr::cf::fill_value_attribute;
use virtualize_zarr::{Conversion, DataType, FillValue, ZarrFormat};

use super::{CfAttribute, CfAttributes};
use crate::report::{float_json, number_json};
use crate::{Error, FillDecision, FillPolicy, FillSource, Outcome, Result, Severity};

/// Result of the policy for one array.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct FillPlan {
    /// Zarr's `fill_value`, and the sources for the report.
    pub(crate) decision: FillDecision,
    /// The `_FillValue` attribute to write.
    pub(crate) attribute: Option<Value>,
    /// Whether missing chunks have to be written, filled with what they read as.
    pub(crate) constant_chunks: bool,
    /// Warnings as (diagnostic code, message).
    pub(crate) warnings: Vec<(Code, String)>,
}

/// Input of the policy.
pub(crate) struct FillQuestion<'a> {
    /// The Zarr format.
    pub(crate) format: ZarrFormat,
    /// Type of the array.
    pub(crate) data_type: &'a DataType,
    /// The policy, for the report.
    pub(crate) policy: FillPolicy,
    /// The place that declares `header`, for the report.
    pub(crate) origin: String,
    /// The file's fill value, as a scalar.
    pub(crate) header: &'a FillValue,
    /// What missing elements read as: `header`, or zero if the library never writes it.
    pub(crate) missing_reads: &'a FillValue,
    /// Attributes of the array.
    pub(crate) attributes: &'a CfAttributes,
    /// Whether a chunk is missing.
    pub(crate) missing: bool,
    /// Whether missing chunks may be written as constant ones.
    pub(crate) constant_chunks_allowed: bool,
}

impl FillQuestion<'_> {
    /// Applies the policy.
    pub(crate) fn decide(&self) -> FillPlan {
        let mut plan = FillPlan {
            decision: FillDecision {
                policy: self.policy,
                sources: vec![FillSource {
                    origin: self.origin.clone(),
                    text: show_scalar(self.data_type, self.header),
                    outcome: Outcome::Used,
                }],
                fill_value: Some(self.header.clone()),
                sentinel: None,
            },
            attribute: None,
            constant_chunks: false,
            warnings: Vec::new(),
        };
        self.read_sentinel(&mut plan);
        if self.format == ZarrFormat::V2 {
            self.write_v2(&mut plan);
            return plan;
        }
        self.write_missing(&mut plan, self.missing_reads == self.header);
        if let Some(sentinel) = &plan.decision.sentinel {
            let data_type = self.sentinel_type();
            plan.attribute = fill_value_attribute::encode(sentinel, &data_type);
            if plan.attribute.is_none() {
                self.drop_sentinel(
                    &mut plan,
                    &format!("xarray cannot decode _FillValue for arrays of type {data_type}"),
                );
            }
        }
        plan
    }

    /// Reads `_FillValue`, or else a `missing_value` that JSON has no number for, but `_FillValue` has: an infinity, or NaN, on
    /// which the type of unpacked floats depends.
    fn read_sentinel(&self, plan: &mut FillPlan) {
        let Some(attribute) = self.attributes.get("_FillValue") else {
            let missing = self.attributes.get("missing_value").filter(|_| self.data_type.is_float());
            let takes_nan = self.attributes.is_packed() && self.attributes.masks_only_nan();
            let is_read = |element: &&Element| match element {
                Element::Float(value) => value.is_infinite() || takes_nan,
                _ => false,
            };
            let element = missing.and_then(|missing| missing.values.iter().find(is_read));
            if let Some(element) = element
                && let Ok(value) = cast(element, self.data_type)
            {
                plan.decision.sentinel = Some(value);
                let (origin, text) = ("attribute missing_value".to_owned(), show(element));
                plan.decision.sources.push(FillSource { origin, text, outcome: Outcome::Kept });
            }
            return;
        };
        let text = attribute.values.iter().map(show).collect::<Vec<_>>().join(", ");
        let sentinel = match attribute.values.as_slice() {
            [] => Err(Error::inexact("an empty attribute", self.data_type)),
            [_] if *self.data_type == DataType::String
                && attribute.data_type == Some(DataType::FixedBytes(1)) =>
            {
                Err(Error::unsupported("a single byte", "h5netcdf reads it as bytes, which equal no text"))
            }
            [element] if self.shown_type() != *self.data_type => wrapped(element, self.data_type),
            [element] => cast(element, self.data_type),
            others => {
                let feature = format!("{} values", others.len());
                Err(Error::unsupported(
                    feature,
                    "_FillValue must be a single value; missing_value may have several",
                ))
            }
        };
        let outcome = match sentinel {
            Ok(value) => {
                plan.decision.sentinel = Some(value);
                Outcome::Kept
            }
            Err(error) => {
                let warning = match text.as_str() {
                    "" => format!("_FillValue is dropped: {error}"),
                    text => {
                        format!("_FillValue {text} is dropped for an array of {}: {error}", self.data_type)
                    }
                };
                plan.warnings.push((Code::FillValueDropped, warning));
                Outcome::Dropped(error.to_string())
            }
        };
        plan.decision.sources.push(FillSource { origin: "attribute _FillValue".to_owned(), text, outcome });
    }

    /// Returns the type with the sign that NetCDF's attribute `_Unsigned` gives it.
    fn shown_type(&self) -> DataType {
        self.attributes.shown_type(self.data_type)
    }

    /// Returns the type in which `_FillValue` is written: the shown type if that is signed, since xarray converts to it.
    fn sentinel_type(&self) -> DataType {
        Some(self.shown_type()).filter(DataType::is_signed_integer).unwrap_or_else(|| self.data_type.clone())
    }

    fn write_v2(&self, plan: &mut FillPlan) {
        let is_bytes = matches!(self.data_type, DataType::FixedBytes(_));
        // h5netcdf shows text of one byte as bytes.
        let stored = self.attributes.get("_FillValue").and_then(|attribute| attribute.data_type.as_ref());
        plan.attribute = match plan.decision.sentinel.clone() {
            None => None,
            Some(sentinel) if is_bytes && stored != Some(&DataType::FixedBytes(1)) => {
                // On the original, h5netcdf shows such a sentinel as text. That equals no bytes, so it masks nothing.
                Some(match &sentinel {
                    FillValue::Fixed(bytes) | FillValue::Variable(bytes) => {
                        String::from_utf8_lossy(bytes).trim_end_matches('\0').into()
                    }
                    FillValue::Text(text) => text.as_str().into(),
                })
            }
            Some(_) if !is_bytes && !is_plain(self.data_type) => {
                self.drop_sentinel(plan, "xarray cannot mask elements of this type");
                None
            }
            Some(sentinel) => {
                let is_header = sentinel == *self.header;
                let attribute = plain(&self.sentinel_type(), &sentinel).filter(|_| !is_header);
                if attribute.is_none() {
                    plan.decision.fill_value = Some(sentinel);
                    return self.write_missing(plan, is_header && self.missing_reads == self.header);
                }
                attribute
            }
        };
        plan.decision.fill_value = None;
        let reads_zero = match self.missing_reads {
            FillValue::Fixed(bytes) | FillValue::Variable(bytes) => bytes.iter().all(|byte| *byte == 0),
            FillValue::Text(text) => text.is_empty(),
        };
        self.write_missing(plan, reads_zero);
    }

    fn drop_sentinel(&self, plan: &mut FillPlan, why: &str) {
        plan.decision.sentinel = None;
        plan.warnings.push((Code::FillValueDropped, format!("_FillValue is dropped: {why}")));
        if let Some(source) = plan.decision.sources.last_mut() {
            source.outcome = Outcome::Dropped(why.to_owned());
        }
    }

    /// Makes missing chunks read as [`Self::missing_reads`]. `reads_right` says that they do already.
    fn write_missing(&self, plan: &mut FillPlan, reads_right: bool) {
        if reads_right || !self.missing {
            return;
        }
        if self.constant_chunks_allowed {
            plan.constant_chunks = true;
            return;
        }
        plan.decision.fill_value = Some(self.missing_reads.clone());
        if self.format == ZarrFormat::V3 {
            return;
        }
        let data_type = self.sentinel_type();
        plan.attribute = plan.decision.sentinel.as_ref().and_then(|value| plain(&data_type, value));
        let header = show_scalar(self.data_type, self.missing_reads);
        plan.warnings.push((
            Code::FillValueMasked,
            format!(
                "Zarr v2 cannot express that missing chunks read as {header} without masking it; use zarr3-json"
            ),
        ));
    }
}

/// Returns the name and value of netCDF's default fill value of a number (`NC_FILL_INT` and so on in `netcdf.h`).
pub fn netcdf_default_fill(data_type: &DataType) -> Option<(&'static str, FillValue)> {
    const FLOAT: f32 = 9.969_21e36;
    let (name, bytes): (_, Vec<u8>) = match data_type {
        DataType::Int8 => ("BYTE", vec![0x81]),
        DataType::UInt8 => ("UBYTE", vec![u8::MAX]),
        DataType::Int16 => ("SHORT", (-32_767_i16).to_le_bytes().into()),
        DataType::UInt16 => ("USHORT", u16::MAX.to_le_bytes().into()),
        DataType::Int32 => ("INT", (-2_147_483_647_i32).to_le_bytes().into()),
        DataType::UInt32 => ("UINT", u32::MAX.to_le_bytes().into()),
        DataType::Int64 => ("INT64", (i64::MIN + 2).to_le_bytes().into()),
        DataType::UInt64 => ("UINT64", (u64::MAX - 1).to_le_bytes().into()),
        DataType::Float32 => ("FLOAT", FLOAT.to_le_bytes().into()),
        DataType::Float64 => ("DOUBLE", f64::from(FLOAT).to_le_bytes().into()),
        _ => return None,
    };
    Some((name, FillValue::Fixed(bytes.into())))
}

/// Whether xarray can mask elements of the type in Zarr v2.
pub(super) fn is_plain(data_type: &DataType) -> bool {
    data_type.is_integer()
        || data_type.is_float()
        || data_type.is_complex()
        || matches!(data_type, DataType::Bool | DataType::String)
}

/// Returns a sentinel as plain JSON that xarray compares with the data; `None` for NaN, infinities and complex numbers.
fn plain(data_type: &DataType, sentinel: &FillValue) -> Option<Value> {
    match sentinel {
        FillValue::Text(text) => Some(text.as_str().into()),
        _ if data_type.is_complex() => None,
        number => number_json(data_type, number).filter(|value| !value.is_string()),
    }
}

/// Formats a scalar for messages.
fn show_scalar(data_type: &DataType, value: &FillValue) -> String {
    match value {
        FillValue::Text(text) => format!("{text:?}"),
        FillValue::Variable(bytes) => format!("{} bytes", bytes.len()),
        FillValue::Fixed(bytes) => {
            number_json(data_type, value).map_or_else(|| format!("{bytes:?}"), |number| number.to_string())
        }
    }
}

/// A remark for a diagnostic of the array.
type Remark = (Severity, Code, String);

/// Writes `_FillValue` and `missing_value` to the attributes of an array, in the notation of the Zarr format. Returns what
/// the user has to know of them.
pub(crate) fn write_sentinels(
    source: &CfAttributes,
    data_type: &DataType,
    fill: &FillPlan,
    attributes: &mut Map<String, Value>,
) -> Vec<Remark> {
    attributes.remove("_FillValue");
    attributes.extend(fill.attribute.clone().map(|value| ("_FillValue".to_owned(), value)));
    // Several sentinels mask nothing as _FillValue, but as missing_value they do.
    let several = || source.get("_FillValue").filter(|attribute| attribute.values.len() > 1);
    let Some(attribute) = source.get("missing_value").or_else(several) else { return Vec::new() };
    if !is_plain(data_type) {
        if !matches!(
            (data_type, &attribute.data_type),
            (DataType::FixedBytes(_), Some(DataType::FixedBytes(1)))
        ) {
            return Vec::new();
        }
        let message =
            "missing_value masks nothing: in JSON it is text. h5netcdf reads it as bytes, which mask";
        return vec![(Severity::Warning, Code::MissingValueDropped, message.to_owned())];
    }
    let shown = source.shown_type(data_type);
    let (mut kept, dropped) = convert(attribute, &shown);
    let mut remarks: Vec<Remark> = Vec::new();
    for value in dropped {
        let message = format!("missing_value {value} is dropped: no value of type {shown} equals it");
        remarks.push((Severity::Warning, Code::MissingValueDropped, message));
    }
    // Texts such as "Infinity" mask nothing and, among several values, keep xarray from masking by the others. One of them can
    // be the `_FillValue`, and NaN needs no mask.
    if data_type.is_float() {
        let decision = &fill.decision;
        let is_written = fill.attribute.is_some() || decision.fill_value == decision.sentinel;
        let sentinel = decision.sentinel.as_ref().filter(|_| is_written);
        let sentinel = sentinel.and_then(|value| number_json(data_type, value));
        let (is_packed, alone) = (source.is_packed(), kept.len() == 1);
        let (finite, others): (Vec<_>, Vec<_>) = kept.into_iter().partition(|value| !value.is_string());
        kept = finite;
        for value in others {
            match value.as_str() {
                Some("NaN") if !is_packed => kept.extend(alone.then_some(value)),
                _ if sentinel.as_ref() == Some(&value) => {
                    let message = format!("missing_value {value} is written as _FillValue");
                    remarks.push((Severity::Info, Code::MissingValueAsFillValue, message));
                }
                Some("NaN") => {}
                _ => {
                    let message = format!("missing_value {value} is dropped: JSON has no such number");
                    remarks.push((Severity::Warning, Code::MissingValueDropped, message));
                }
            }
        }
    }
    attributes.remove("missing_value");
    match kept.len() {
        0 => None,
        1 => attributes.insert("missing_value".to_owned(), kept.remove(0)),
        _ => attributes.insert("missing_value".to_owned(), kept.into()),
    };
    remarks
}

fn nearest(value: &Element) -> Option<f64> {
    match value {
        Element::Integer(value) => Some(*value as f64),
        Element::Float(value) => Some(*value),
        _ => None,
    }
}

/// Converts the values of a `missing_value` attribute to the type that xarray shows. Returns them as plain JSON, and those
/// that the type does not have as text.
fn convert(attribute: &CfAttribute, data_type: &DataType) -> (Vec<Value>, Vec<String>) {
    let mut kept = Vec::new();
    let mut dropped = Vec::new();
    for value in &attribute.values {
        match cast(value, data_type) {
            // xarray would read the two parts as two values.
            Ok(_) if data_type.is_complex() => dropped.push(show(value)),
            Ok(FillValue::Text(text)) => kept.push(text.into()),
            Ok(number) => match number_json(data_type, &number) {
                Some(number) => kept.push(number),
                None => dropped.push(show(value)),
            },
            Err(_) if nearest(value).is_some_and(|value| is_rounded_end(value, data_type)) => {
                kept.extend(nearest(value).map(float_json));
            }
            _ => dropped.push(show(value)),
        }
    }
    (kept, dropped)
}

/// Converts an element to a scalar of the type.
///
/// # Errors
/// The conversion would change the value. Such a sentinel masks nothing in xarray either: it compares binary32 data with a
/// binary64 1e20 as binary64.
pub(super) fn cast(element: &Element, data_type: &DataType) -> Result<FillValue> {
    let exact = |conversion: Conversion| conversion.exact().ok_or_else(|| inexact(element, data_type));
    let bytes = match (element, data_type) {
        (Element::Text(text), DataType::String) => return Ok(FillValue::Text(text.clone())),
        (Element::Text(text), DataType::FixedBytes(n)) => fixed(text.as_bytes(), *n),
        (Element::Bytes(bytes), DataType::FixedBytes(n) | DataType::RawBytes(n)) => fixed(bytes, *n),
        (Element::Integer(value), data_type) => return exact(FillValue::from_i128(data_type, *value)),
        (Element::Float(value), data_type) if data_type.is_integer() => {
            return exact(FillValue::from_f64(data_type, *value));
        }
        (Element::Float(value), data_type) => number(*value, data_type),
        (Element::Complex(real, imaginary), DataType::Complex64 | DataType::Complex128) => {
            complex(*real, *imaginary, data_type)
        }
        (Element::Compound(members), DataType::Complex64 | DataType::Complex128) => {
            parts(members).and_then(|(real, imaginary)| complex(real, imaginary, data_type))
        }
        _ => None,
    };
    bytes.map(|bytes| FillValue::Fixed(Bytes::from(bytes))).ok_or_else(|| inexact(element, data_type))
}

fn inexact(element: &Element, data_type: &DataType) -> Error {
    Error::inexact(&show(element), data_type)
}

/// Returns the stored number by which xarray masks if `_Unsigned` changes the sign of the type: NumPy keeps the low bits of
/// an integer and truncates a float.
///
/// # Errors
/// NumPy's conversion of the value is undefined.
pub(super) fn wrapped(element: &Element, data_type: &DataType) -> Result<FillValue> {
    let size = data_type.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
    let value = match element {
        Element::Integer(value) => Some(*value),
        // NumPy converts floats to small types through signed 32-bit integers.
        Element::Float(value) => whole(value.trunc()).filter(|value| match size {
            8 => i64::try_from(*value).is_ok(),
            _ => i32::try_from(*value).is_ok(),
        }),
        _ => None,
    };
    let bytes = value.and_then(|value| value.to_le_bytes().get(..size).map(Bytes::copy_from_slice));
    bytes.map(FillValue::Fixed).ok_or_else(|| inexact(element, data_type))
}

/// Whether a number is one past the largest of a 64-bit type. xarray masks in binary64, in which the largest values of the
/// type are rounded to it.
pub(super) fn is_rounded_end(value: f64, data_type: &DataType) -> bool {
    match data_type {
        DataType::Int64 => value == 9_223_372_036_854_775_808.0,
        DataType::UInt64 => value == 18_446_744_073_709_551_616.0,
        _ => false,
    }
}

fn fixed(bytes: &[u8], size: u32) -> Option<Vec<u8>> {
    let size = usize::try_from(size).ok()?;
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let mut padded = bytes.get(..end)?.to_vec();
    if padded.len() > size {
        return None;
    }
    padded.resize(size, 0);
    Some(padded)
}

fn whole(value: f64) -> Option<i128> {
    #[expect(clippy::cast_possible_truncation, reason = "2^64 bounds what any array type holds")]
    if value.fract() == 0.0 && value.abs() <= 18_446_744_073_709_551_616.0 {
        Some(value as i128)
    } else {
        None
    }
}

fn number(value: f64, data_type: &DataType) -> Option<Vec<u8>> {
    let same = |near: f64| near == value || (near.is_nan() && value.is_nan());
    match data_type {
        DataType::Float64 => Some(value.to_le_bytes().to_vec()),
        DataType::Float32 => {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the next line asks whether it lost anything"
            )]
            let near = value as f32;
            same(near.into()).then(|| near.to_le_bytes().to_vec())
        }
        DataType::Float16 => {
            let near = f16::from_f64(value);
            same(near.into()).then(|| near.to_le_bytes().to_vec())
        }
        DataType::Complex64 | DataType::Complex128 => complex(value, 0.0, data_type),
        _ => None,
    }
}

fn complex(real: f64, imaginary: f64, data_type: &DataType) -> Option<Vec<u8>> {
    let part = if *data_type == DataType::Complex64 { DataType::Float32 } else { DataType::Float64 };
    Some([number(real, &part)?, number(imaginary, &part)?].concat())
}

/// Returns the parts of a complex number that is stored as a compound of two floats.
fn parts(members: &[(String, Element)]) -> Option<(f64, f64)> {
    match members {
        [(_, Element::Float(real)), (_, Element::Float(imaginary))] => Some((*real, *imaginary)),
        _ => None,
    }
}

/// Formats a value of an attribute for messages.
pub(super) fn show(element: &Element) -> String {
    match element {
        Element::Integer(value) => value.to_string(),
        Element::Float(value) => format!("{value:?}"),
        Element::Complex(real, imaginary) => format!("{real}+{imaginary}i"),
        Element::Text(text) => format!("{text:?}"),
        Element::Bytes(bytes) => format!("{} bytes", bytes.len()),
        Element::Compound(members) => match parts(members) {
            Some((real, imaginary)) => format!("{real}+{imaginary}i"),
            None => "a compound".to_owned(),
        },
        Element::List(items) => format!("a list of {}", items.len()),
        Element::Object(_) | Element::Region(..) | Element::Attribute(..) => "a reference".to_owned(),
        Element::Unknown(name) => format!("a {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(element: Element, data_type: DataType) -> Option<Vec<u8>> {
        match cast(&element, &data_type) {
            Ok(FillValue::Fixed(bytes)) => Some(bytes.to_vec()),
            _ => None,
        }
    }

    #[test]
    fn exact_values_are_cast_and_others_refused() {
        assert_eq!(bytes(Element::Float(-9999.0), DataType::Int16), Some((-9999i16).to_le_bytes().to_vec()));
        assert_eq!(bytes(Element::Integer(-1), DataType::UInt8), None);
        assert_eq!(bytes(Element::Float(1.5), DataType::Int16), None);
        assert_eq!(bytes(Element::Float(f64::NAN), DataType::Int16), None);
        assert_eq!(bytes(Element::Float(1e300), DataType::UInt64), None);
        assert_eq!(bytes(Element::Integer(u64::MAX.into()), DataType::UInt64), Some(vec![255; 8]));
        assert_eq!(bytes(Element::Integer((1 << 24) + 1), DataType::Float32), None);
    }

    /// xarray 2026.9 does not mask binary32 data by a binary64 `_FillValue` of 1e20, which no binary32 equals.
    #[test]
    fn floats_that_another_width_cannot_hold_are_refused() {
        assert_eq!(bytes(Element::Float(1e20), DataType::Float32), None);
        assert!(bytes(Element::Float(f64::from(1e20f32)), DataType::Float32).is_some());
        assert!(bytes(Element::Float(f64::NAN), DataType::Float32).is_some());
        assert!(bytes(Element::Float(f64::NEG_INFINITY), DataType::Float16).is_some());
    }

    /// `np.array(np.int32(70000), "i2")` and the like, of NumPy 2.5.
    #[test]
    fn scalars_are_wrapped_where_the_sign_changes() {
        let low = |element, data_type| match wrapped(&element, &data_type) {
            Ok(FillValue::Fixed(bytes)) => Some(bytes.to_vec()),
            _ => None,
        };
        assert_eq!(low(Element::Integer(255), DataType::Int8), Some(vec![255]));
        assert_eq!(low(Element::Integer(70000), DataType::Int16), Some(4464i16.to_le_bytes().to_vec()));
        assert_eq!(low(Element::Float(65535.0), DataType::Int16), Some(vec![255, 255]));
        assert_eq!(low(Element::Float(-1.5), DataType::UInt16), Some(vec![255, 255]));
        assert_eq!(low(Element::Float(4e9), DataType::Int32), None);
        assert_eq!(low(Element::Float(f64::NAN), DataType::Int32), None);
    }
}
