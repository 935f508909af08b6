//! Attributes of an array that follow from its type and fill value: fill values, flags of enumerations, units of NumPy times.

use serde_json::{Map, Value};
use virtualize_hdf5::model::{Attribute, Dataset, Datatype};
use virtualize_remedy::Code;
use virtualize_zarr::{Array, FillValue};

use super::Mapper;
use super::attributes::{attributes_json, flags};
use super::cast::shown_type;
use super::element::ElementType;
use super::fill::{FillPlan, missing_value};
use super::types::numpy_time;
use crate::Severity;
use crate::json_numbers::number_json;

impl Mapper<'_> {
    /// Returns the attributes of an array: those of the dataset, the fill values in the notation of the Zarr format, and
    /// what follows from its datatype.
    pub(super) fn array_attributes(
        &mut self,
        path: &str,
        dataset: &Dataset,
        element: &ElementType,
        fill: &FillPlan,
    ) -> Map<String, Value> {
        self.keep_attributes(path, &dataset.attributes);
        let (mut attributes, left_out) = attributes_json(&dataset.attributes, self.shown());
        for (name, why) in left_out.iter().filter(|(name, _)| name != "_FillValue") {
            self.attribute_left_out(path, name, why);
        }
        for error in &dataset.unreadable_attributes {
            self.diagnose(
                Severity::Warning,
                Code::AttributeUnreadable,
                path,
                format!("an attribute is left out: {error}"),
            );
        }
        attributes.remove("_FillValue");
        attributes.extend(fill.attribute.clone().map(|value| ("_FillValue".to_owned(), value)));
        self.missing_value_attribute(path, dataset, element, fill, &mut attributes);
        if let Some(flags) = flags(&dataset.datatype) {
            for (name, value) in flags {
                attributes.entry(name).or_insert(value);
            }
        }
        if let Datatype::Opaque { tag, .. } = &dataset.datatype
            && let Some(time) = numpy_time(tag)
        {
            let dtype = time.duration.map(|dtype| ("dtype", dtype));
            for (name, value) in [("units", time.units)].into_iter().chain(dtype) {
                attributes.entry(name).or_insert_with(|| value.into());
                self.keep_text(path, name, value);
            }
        }
        attributes
    }

    /// Reports that xarray unpacks to float64 where it would unpack the original to float32: it computes in the type of `scale_factor` and `add_offset`, and JSON numbers are binary64.
    pub(super) fn warn_of_widened_packing(&mut self, path: &str, dataset: &Dataset, array: &Array) {
        let narrow = |attribute: &&Attribute| {
            matches!(attribute.name.as_str(), "scale_factor" | "add_offset")
                && array.attributes.contains_key(&attribute.name)
                && matches!(&attribute.datatype, Datatype::Float(float) if float.size < 8)
        };
        if let Some(attribute) = dataset.attributes.iter().find(narrow) {
            let message = format!(
                "{} is a float of less than 64 bits, which JSON cannot express: xarray unpacks to float64, not float32",
                attribute.name
            );
            self.diagnose(Severity::Info, Code::PackingWidened, path, message);
        }
    }

    fn missing_value_attribute(
        &mut self,
        path: &str,
        dataset: &Dataset,
        element: &ElementType,
        fill: &FillPlan,
        attributes: &mut Map<String, Value>,
    ) {
        let named = |name: &str| dataset.attributes.iter().find(|attribute| attribute.name == name);
        // Several sentinels mask nothing as _FillValue, but as missing_value they do.
        let several = || named("_FillValue").filter(|attribute| attribute.elements.len() > 1);
        let Some(attribute) = named("missing_value").or_else(several) else { return };
        if !super::fill::is_plain(&element.data_type) {
            return;
        }
        let shown = shown_type(&element.data_type, &dataset.attributes);
        let (mut kept, dropped) = missing_value(attribute, &shown);
        for value in dropped {
            let message = format!("missing_value {value} is dropped: no value of type {shown} equals it");
            self.diagnose(Severity::Warning, Code::MissingValueDropped, path, message);
        }
        if element.data_type.is_float() {
            self.remove_infinities(path, &mut kept, element, fill);
        }
        attributes.remove("missing_value");
        match kept.len() {
            0 => None,
            1 => attributes.insert("missing_value".to_owned(), kept.remove(0)),
            _ => attributes.insert("missing_value".to_owned(), kept.into()),
        };
    }

    /// Removes texts such as "Infinity" from the values of `missing_value`: they mask nothing and, among several values, keep
    /// xarray from masking by the others. NaN needs no mask, and one infinity can be the `_FillValue`.
    fn remove_infinities(
        &mut self,
        path: &str,
        kept: &mut Vec<Value>,
        element: &ElementType,
        fill: &FillPlan,
    ) {
        let decision = &fill.decision;
        let is_written = fill.attribute.is_some() || decision.fill_value == decision.sentinel;
        let sentinel = decision.sentinel.as_ref().filter(|_| is_written).and_then(|value| match value {
            FillValue::Fixed(bytes) => number_json(&element.data_type, bytes),
            _ => None,
        });
        let alone = kept.len() == 1;
        let (finite, others) = std::mem::take(kept).into_iter().partition(|value| !value.is_string());
        *kept = finite;
        let others: Vec<Value> = others;
        for value in others {
            match value.as_str() {
                Some("NaN") if alone => kept.push(value),
                Some("NaN") => {}
                _ if sentinel.as_ref() == Some(&value) => {
                    let message = format!("missing_value {value} is written as _FillValue");
                    self.diagnose(Severity::Info, Code::MissingValueAsFillValue, path, message);
                }
                _ => {
                    let message = format!("missing_value {value} is dropped: JSON has no such number");
                    self.diagnose(Severity::Warning, Code::MissingValueDropped, path, message);
                }
            }
        }
    }
}
