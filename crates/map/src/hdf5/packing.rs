//! Packed numbers by the attributes of CF (section 8.1): unpacking with codecs ([`crate::MapOptions::unpack`]).

use std::collections::BTreeSet;

use virtualize_hdf5::model::{Attribute, Dataset, Datatype, Element, File, Object};
use virtualize_zarr::{Array, DataType, FillValue, ZarrFormat};

use super::Mapper;
use super::cast::{cast, shown_type, wrapped};
use super::ieee::ieee_type;
use crate::ArrayReport;
use crate::unpack::{Factor, Packing, UnpackRefusal, is_time_unit, refusal_diagnostic};

/// Returns the names of the variables that hold the bounds of times. xarray decodes them with the units of the times.
pub(super) fn time_bounds(file: &File) -> BTreeSet<String> {
    let datasets = file.objects.values().filter_map(|object| match object {
        Object::Dataset(dataset) if has_time_units(dataset) => Some(dataset),
        _ => None,
    });
    datasets.filter_map(|dataset| Some(text(dataset, "bounds")?.to_owned())).collect()
}

impl Mapper<'_> {
    /// Turns packed numbers into floats by codecs, if the options ask for it. An array that cannot be unpacked exactly stays
    /// packed, with a diagnostic.
    pub(super) fn unpack(
        &mut self,
        path: &str,
        dataset: &Dataset,
        array: &mut Array,
        report: &mut ArrayReport,
    ) {
        let is_wanted = self.options.unpack && self.options.format == ZarrFormat::V3;
        let is_number = array.data_type.is_integer() || array.data_type.is_float();
        if !is_wanted || !is_number || is_enumeration(&dataset.datatype) {
            return;
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        let is_time = has_time_units(dataset) || self.time_bounds.contains(name);
        let unpacked =
            packing(dataset, &array.data_type, is_time).and_then(|packing| packing.unpack(array, report));
        if let Err(why) = unpacked {
            self.report.diagnostics.push(refusal_diagnostic(&why, path));
        }
    }
}

fn is_enumeration(datatype: &Datatype) -> bool {
    match datatype {
        Datatype::Enum { .. } => true,
        Datatype::Array { base, .. } => is_enumeration(base),
        _ => false,
    }
}

fn packing(dataset: &Dataset, data_type: &DataType, is_time: bool) -> Result<Packing, UnpackRefusal> {
    let stored = shown_type(data_type, &dataset.attributes);
    Ok(Packing {
        scale: factor(dataset, "scale_factor")?,
        offset: factor(dataset, "add_offset")?,
        sentinels: sentinels(dataset, data_type, &stored),
        stored,
        is_time,
    })
}

fn attribute<'a>(dataset: &'a Dataset, name: &str) -> Option<&'a Attribute> {
    dataset.attributes.iter().find(|attribute| attribute.name == name)
}

fn text<'a>(dataset: &'a Dataset, name: &str) -> Option<&'a str> {
    match attribute(dataset, name)?.elements.as_slice() {
        [Element::Text(text)] => Some(text),
        _ => None,
    }
}

fn has_time_units(dataset: &Dataset) -> bool {
    text(dataset, "units").is_some_and(is_time_unit)
}

fn factor(dataset: &Dataset, name: &'static str) -> Result<Option<Factor>, UnpackRefusal> {
    let Some(attribute) = attribute(dataset, name) else { return Ok(None) };
    match (attribute.elements.as_slice(), &attribute.datatype) {
        ([Element::Float(value)], Datatype::Float(float)) => match ieee_type(float) {
            #[expect(clippy::cast_possible_truncation, reason = "a 32-bit float was read as 64 bits")]
            Some(DataType::Float32) => Ok(Some(Factor::Single(*value as f32))),
            Some(DataType::Float64) => Ok(Some(Factor::Double(*value))),
            _ => Err(UnpackRefusal::Factor(name)),
        },
        ([Element::Integer(value)], Datatype::Integer(_)) => Ok(Some(Factor::Integer(*value as f64))),
        _ => Err(UnpackRefusal::Factor(name)),
    }
}

/// Returns all stored numbers that xarray masks, without NaN. `stored` is the type that xarray shows.
fn sentinels(dataset: &Dataset, data_type: &DataType, stored: &DataType) -> Vec<FillValue> {
    let elements = |name| attribute(dataset, name).into_iter().flat_map(|attribute| &attribute.elements);
    let fill_values = elements("_FillValue").filter_map(|element| {
        if stored == data_type { cast(element, stored) } else { wrapped(element, data_type) }.ok()
    });
    let others = elements("missing_value").filter_map(|element| cast(element, stored).ok());
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
