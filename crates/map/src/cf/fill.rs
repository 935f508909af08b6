//! The fill value policy of HDF5 and NetCDF: missing chunks read as the file's fill value; the attribute `_FillValue` only masks.
//!
//! Zarr v3 has a place for both: `fill_value`, and the attribute `_FillValue`. In Zarr v2, xarray masks by a `fill_value` that
//! is not null; if it is null, missing chunks read as zero and a plain attribute `_FillValue` masks. The policy therefore
//! writes null in v2, unless both values are equal or the sentinel has no plain JSON number. Missing chunks that must read
//! as neither zero nor the sentinel are written as constant chunks.

use serde_json::Value;
use virtualize_remedy::Code;
use virtualize_zarr::{DataType, FillValue, ZarrFormat, cf::fill_value_attribute};

use super::cast::{cast, show, wrapped};
use super::{CfAttribute, CfAttributes, CfValue};
use crate::json_numbers::number_json;
use crate::{Error, FillDecision, FillPolicy, FillSource, Outcome, Result};

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
                sources: vec![self.header_source()],
                fill_value: Some(self.header.clone()),
                sentinel: None,
            },
            attribute: None,
            constant_chunks: false,
            warnings: Vec::new(),
        };
        self.read_sentinel(&mut plan);
        match self.format {
            ZarrFormat::V3 => self.write_v3(&mut plan),
            ZarrFormat::V2 => self.write_v2(&mut plan),
        }
        plan
    }

    fn header_source(&self) -> FillSource {
        let origin = self.origin.clone();
        FillSource { origin, text: show_scalar(self.data_type, self.header), outcome: Outcome::Used }
    }

    fn read_sentinel(&self, plan: &mut FillPlan) {
        let Some(attribute) = self.attributes.get("_FillValue") else { return self.read_infinite(plan) };
        let text = attribute.values.iter().map(show).collect::<Vec<_>>().join(", ");
        let outcome = match self.cast_sentinel(attribute) {
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

    /// Makes an infinite `missing_value` the sentinel. JSON has no such number, but `_FillValue` masks the same elements.
    fn read_infinite(&self, plan: &mut FillPlan) {
        let Some(attribute) = self.attributes.get("missing_value").filter(|_| self.data_type.is_float())
        else {
            return;
        };
        let infinite = |element: &&CfValue| matches!(element, CfValue::Float(value) if value.is_infinite());
        let Some(element) = attribute.values.iter().find(infinite) else { return };
        if let Ok(value) = cast(element, self.data_type) {
            plan.decision.sentinel = Some(value);
            let (origin, text) = ("attribute missing_value".to_owned(), show(element));
            plan.decision.sources.push(FillSource { origin, text, outcome: Outcome::Kept });
        }
    }

    fn cast_sentinel(&self, attribute: &CfAttribute) -> Result<FillValue> {
        match attribute.values.as_slice() {
            [] => Err(Error::Inexact {
                value: "an empty attribute".to_owned(),
                data_type: self.data_type.clone(),
            }),
            [element] if self.shown_type() != *self.data_type => wrapped(element, self.data_type),
            [element] => cast(element, self.data_type),
            others => {
                let feature = format!("{} values", others.len());
                Err(Error::unsupported(feature, "_FillValue has one; missing_value may have several"))
            }
        }
    }

    /// Whether `_FillValue` is text of one byte, which h5netcdf shows as bytes.
    fn is_one_character(&self) -> bool {
        self.attributes
            .get("_FillValue")
            .is_some_and(|attribute| attribute.data_type == Some(DataType::FixedBytes(1)))
    }

    /// Returns the type with the sign that NetCDF's attribute `_Unsigned` gives it.
    fn shown_type(&self) -> DataType {
        self.attributes.shown_type(self.data_type)
    }

    /// Returns the type in which `_FillValue` is written: the shown type if that is signed, since xarray converts to it.
    fn sentinel_type(&self) -> DataType {
        Some(self.shown_type()).filter(DataType::is_signed_integer).unwrap_or_else(|| self.data_type.clone())
    }

    fn write_v3(&self, plan: &mut FillPlan) {
        self.write_missing(plan, self.missing_reads == self.header);
        let Some(sentinel) = &plan.decision.sentinel else { return };
        plan.attribute = fill_value_attribute::encode(sentinel, &self.sentinel_type());
        if plan.attribute.is_none() {
            let why = format!("xarray cannot decode _FillValue for arrays of type {}", self.sentinel_type());
            self.drop_sentinel(plan, &why);
        }
    }

    fn write_v2(&self, plan: &mut FillPlan) {
        let Some(sentinel) = plan.decision.sentinel.clone() else {
            plan.decision.fill_value = None;
            return self.write_missing(plan, is_zero(self.missing_reads));
        };
        if matches!(self.data_type, DataType::FixedBytes(_)) && !self.is_one_character() {
            // On the original, h5netcdf shows such a sentinel as text. That equals no bytes, so it masks nothing.
            plan.decision.fill_value = None;
            plan.attribute = Some(plain_text(&sentinel));
            return self.write_missing(plan, is_zero(self.missing_reads));
        }
        if !is_plain(self.data_type) && !matches!(self.data_type, DataType::FixedBytes(_)) {
            self.drop_sentinel(plan, "xarray cannot mask elements of this type");
            plan.decision.fill_value = None;
            return self.write_missing(plan, is_zero(self.missing_reads));
        }
        if sentinel == *self.header {
            plan.decision.fill_value = Some(sentinel);
            return self.write_missing(plan, self.missing_reads == self.header);
        }
        match plain(&self.sentinel_type(), &sentinel) {
            Some(attribute) => {
                plan.attribute = Some(attribute);
                plan.decision.fill_value = None;
                self.write_missing(plan, is_zero(self.missing_reads));
            }
            None => {
                plan.decision.fill_value = Some(sentinel);
                self.write_missing(plan, false);
            }
        }
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
        FillValue::Fixed(bytes) if !data_type.is_complex() => {
            number_json(data_type, bytes).filter(|value| !value.is_string())
        }
        _ => None,
    }
}

fn plain_text(sentinel: &FillValue) -> Value {
    match sentinel {
        FillValue::Fixed(bytes) | FillValue::Variable(bytes) => {
            String::from_utf8_lossy(bytes).trim_end_matches('\0').into()
        }
        FillValue::Text(text) => text.as_str().into(),
    }
}

/// Formats a scalar for messages.
fn show_scalar(data_type: &DataType, value: &FillValue) -> String {
    match value {
        FillValue::Text(text) => format!("{text:?}"),
        FillValue::Variable(bytes) => format!("{} bytes", bytes.len()),
        FillValue::Fixed(bytes) => match number_json(data_type, bytes) {
            Some(number) => number.to_string(),
            None => format!("{bytes:?}"),
        },
    }
}

/// Whether all bits of a scalar are zero.
fn is_zero(value: &FillValue) -> bool {
    match value {
        FillValue::Fixed(bytes) | FillValue::Variable(bytes) => bytes.iter().all(|byte| *byte == 0),
        FillValue::Text(text) => text.is_empty(),
    }
}
