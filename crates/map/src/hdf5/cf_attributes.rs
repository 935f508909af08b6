//! The attributes of a dataset in the terms of [`crate::cf`].

use std::collections::BTreeSet;

use virtualize_hdf5::model::{Attribute, Dataset, Datatype, Element, File, FillMessage, FillValue, Object};
use virtualize_zarr::{Array, DataType, ZarrFormat};

use super::Mapper;
use super::types::element_type;
use crate::ArrayReport;
use crate::cf::{CfAttribute, CfAttributes, CfValue, unpack};
use crate::unpack::{is_time_unit, refusal_diagnostic};

/// Returns the names of the variables that hold the bounds of times. xarray decodes them with the units of the times.
pub(super) fn time_bounds(file: &File) -> BTreeSet<String> {
    let datasets = file.objects.values().filter_map(|object| match object {
        Object::Dataset(dataset) if text(dataset, "units").is_some_and(is_time_unit) => Some(dataset),
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
        (dataset, attributes): (&Dataset, &CfAttributes),
        array: &mut Array,
        report: &mut ArrayReport,
    ) {
        let is_wanted = self.options.unpack && self.options.format == ZarrFormat::V3;
        if !is_wanted || is_enumeration(&dataset.datatype) {
            return;
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        if let Err(why) = unpack(attributes, self.time_bounds.contains(name), array, report) {
            self.report.diagnostics.push(refusal_diagnostic(&why, path));
        }
    }
}

/// Converts the attributes of a dataset that have a meaning in CF.
pub(super) fn cf_attributes(dataset: &Dataset) -> CfAttributes {
    let known = dataset.attributes.iter().filter(|attribute| CfAttributes::has_meaning(&attribute.name));
    known.map(cf_attribute).collect()
}

/// Returns the place that declares the fill value of a dataset, for the report.
pub(super) fn fill_origin(message: &FillMessage) -> String {
    let state = match &message.value {
        FillValue::Undefined => "undefined",
        FillValue::Default => "library default",
        FillValue::User(_) => "user-defined",
    };
    match message.version {
        Some(0) => format!("old fill value message (0x0004), {state}"),
        Some(version) => format!("fill value message, version {version}, {state}"),
        None => format!("no fill value message, {state}"),
    }
}

fn cf_attribute(attribute: &Attribute) -> CfAttribute {
    CfAttribute {
        name: attribute.name.clone(),
        data_type: data_type(&attribute.datatype),
        values: attribute.elements.iter().map(cf_value).collect(),
    }
}

fn data_type(datatype: &Datatype) -> Option<DataType> {
    match datatype {
        Datatype::String { size, .. } => Some(DataType::FixedBytes(*size)),
        Datatype::Integer(_) | Datatype::Float(_) => {
            element_type(datatype, ZarrFormat::V3).ok().map(|element| element.data_type)
        }
        _ => None,
    }
}

fn cf_value(element: &Element) -> CfValue {
    let other = |description: &str| CfValue::Other(description.to_owned());
    match element {
        Element::Integer(value) => CfValue::Integer(*value),
        Element::Float(value) => CfValue::Float(*value),
        Element::Complex(real, imaginary) => CfValue::Complex(*real, *imaginary),
        Element::Text(text) => CfValue::Text(text.clone()),
        Element::Bytes(bytes) => CfValue::Bytes(bytes.clone()),
        Element::Compound(members) => match members.as_slice() {
            [(_, Element::Float(real)), (_, Element::Float(imaginary))] => {
                CfValue::Complex(*real, *imaginary)
            }
            _ => other("a compound"),
        },
        Element::List(items) => CfValue::Other(format!("a list of {}", items.len())),
        Element::Object(_) | Element::Region(..) | Element::Attribute(..) => other("a reference"),
        Element::Unknown(name) => CfValue::Other(format!("a {name}")),
    }
}

fn text<'a>(dataset: &'a Dataset, name: &str) -> Option<&'a str> {
    let attribute = dataset.attributes.iter().find(|attribute| attribute.name == name)?;
    match attribute.elements.as_slice() {
        [Element::Text(text)] => Some(text),
        _ => None,
    }
}

fn is_enumeration(datatype: &Datatype) -> bool {
    match datatype {
        Datatype::Enum { .. } => true,
        Datatype::Array { base, .. } => is_enumeration(base),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hdf5::tests::{attribute, dataset, file, int, text as text_attribute};

    /// xarray decodes bounds with the units of their times (`_update_bounds_attributes`).
    #[test]
    fn bounds_of_times_are_times() {
        let variable = |units: &[&str], bounds: &str| {
            let text_type = text_attribute("", "").datatype;
            let units = units.iter().map(|units| Element::Text((*units).to_owned())).collect();
            let attributes = vec![attribute("units", text_type, units), text_attribute("bounds", bounds)];
            Dataset { attributes, ..dataset(int(4, true), &[2]) }
        };
        let found = time_bounds(&file(vec![
            ("time", variable(&["days since 2000-01-01"], "time_bounds")),
            ("x", variable(&["m"], "x_bounds")),
            ("y", variable(&[], "y_bounds")),
            ("z", variable(&["days", "days"], "z_bounds")),
        ]));
        assert_eq!(found, BTreeSet::from(["time_bounds".to_owned()]));
    }

    #[test]
    fn enumerations_are_not_unpacked() {
        let enumeration = || Datatype::Enum { base: Box::new(int(1, true)), members: Vec::new() };
        let array = |base| Datatype::Array { base: Box::new(base), shape: vec![2] };
        let found = [int(1, true), enumeration(), array(int(1, true)), array(enumeration())];
        assert_eq!(found.map(|datatype| is_enumeration(&datatype)), [false, true, false, true]);
    }
}
