//! Attributes as JSON, with their types, and in the terms of CF.

use std::collections::BTreeSet;

use half::f16;
use serde_json::{Map, Value};
use virtualize_hdf5::model::{
    Attribute, ByteOrder, CharacterSet, Dataset, Dataspace, Datatype, Element, File, Member, Object,
    Selection,
};
use virtualize_remedy::Code;
use virtualize_zarr::{DataType, Endian, ZarrFormat};

use super::datatype::{element_type, endian_of, integer_data_type, is_boolean, numpy_time};
use super::tree::{reference_part, reference_path};
use super::{Mapper, chunks};
use crate::cf::packing::is_time_unit;
use crate::cf::{CfAttribute, CfAttributes, FillPlan, write_sentinels};
use crate::report::{
    NumpyField, NumpyType, SourceAttribute, SourceValue, float_json, integer_json, numpy_name,
};
use crate::task::{significant, unsigned};
use crate::{Diagnostic, Error, Result};

/// Bookkeeping of NetCDF-4 and dimension scales, which h5netcdf and netCDF4 hide (`h5netcdf.attrs._HIDDEN_ATTRS`).
pub(super) const HIDDEN: [&str; 8] = [
    "REFERENCE_LIST",
    "CLASS",
    "DIMENSION_LIST",
    "NAME",
    "_Netcdf4Dimid",
    "_Netcdf4Coordinates",
    "_nc3_strict",
    "_NCProperties",
];

/// Bytes of memory for an attribute, without its name and values.
const ATTRIBUTE: u64 = 128;

/// Bytes of memory for a JSON value.
const VALUE: u64 = 48;

fn is_text(datatype: &Datatype) -> bool {
    matches!(datatype, Datatype::String { .. } | Datatype::VariableString { .. })
}

/// Nests a flat list in row-major order by a shape; without axes, returns its only element.
fn nest(mut values: Vec<Value>, shape: &[u64]) -> Value {
    let Some((_, inner)) = shape.split_first() else { return values.pop().unwrap_or_default() };
    for length in inner.iter().rev() {
        let length = usize::try_from(*length).unwrap_or(0);
        if length == 0 {
            return Value::Array(Vec::new());
        }
        values = values.chunks(length).map(|items| Value::Array(items.to_vec())).collect();
    }
    Value::Array(values)
}

/// Returns the attributes `flag_values` and `flag_meanings` of an enumeration (CF conventions, section 3.5), with underscores
/// for the whitespace in its names; `None` for booleans, and if a value has more than 64 bits.
pub(super) fn flags(datatype: &Datatype) -> Option<[(&'static str, Value); 2]> {
    let Datatype::Enum { base, members } = chunks::item_type(datatype) else { return None };
    let Datatype::Integer(integer) = base.as_ref() else { return None };
    if members.is_empty() || is_boolean(base, members) {
        return None;
    }
    let mut values = Vec::with_capacity(members.len());
    let mut meanings = Vec::with_capacity(members.len());
    for (name, bytes) in members {
        meanings.push(if name.is_empty() { "_".to_owned() } else { name.replace(char::is_whitespace, "_") });
        let is_sound = (1..=8).contains(&bytes.len()) && integer.order != ByteOrder::Vax;
        let bits = u16::try_from(bytes.len()).ok().filter(|_| is_sound)? * 8;
        let raw = unsigned(bytes, integer.order == ByteOrder::Big)?;
        values.push(integer_json(significant(raw, 0, bits, integer.signed)?.cast_signed()));
    }
    Some([("flag_values", values.into()), ("flag_meanings", meanings.join(" ").into())])
}

impl Mapper<'_> {
    /// Converts an attribute.
    fn attribute_json(&self, attribute: &Attribute) -> Result<Value> {
        let shape = match &attribute.dataspace {
            Dataspace::Null if is_text(&attribute.datatype) => return Ok("".into()),
            Dataspace::Null => return Ok(Value::Array(Vec::new())),
            Dataspace::Scalar => &[][..],
            // h5netcdf flattens arrays of text.
            Dataspace::Simple { .. } if is_text(&attribute.datatype) => {
                &[attribute.elements.len() as u64][..]
            }
            Dataspace::Simple { shape, .. } => shape,
        };
        let convert = |element: &Element| self.element_json(element, &attribute.datatype);
        let values = attribute.elements.iter().map(convert).collect::<Result<Vec<_>>>()?;
        let count = shape.iter().try_fold(1u64, |product, n| product.checked_mul(*n));
        if count != Some(values.len() as u64) {
            return Err(Error::malformed(
                "attribute",
                format!("{} values for the shape {shape:?}", values.len()),
            ));
        }
        Ok(match nest(values, shape) {
            // h5netcdf returns the only element of a list of one.
            Value::Array(mut items) if items.len() == 1 => items.pop().unwrap_or_default(),
            other => other,
        })
    }

    /// Converts an element. Elements inside take memory when they are converted.
    fn element_json(&self, element: &Element, datatype: &Datatype) -> Result<Value> {
        let bytes = match element {
            Element::Text(text) => text.len() as u64,
            Element::Region(_, Selection::Points(points)) => (points.len() as u64).saturating_mul(VALUE * 4),
            Element::Region(_, Selection::Blocks(blocks)) => (blocks.len() as u64).saturating_mul(VALUE * 8),
            _ => 0,
        };
        self.take("attributes", bytes.saturating_add(VALUE))?;
        Ok(match element {
            Element::Integer(value) => match datatype {
                Datatype::Enum { base, members } if is_boolean(base, members) => Value::Bool(*value != 0),
                _ => integer_json(*value),
            },
            Element::Float(value) => float_json(*value),
            Element::Complex(real, imaginary) => vec![float_json(*real), float_json(*imaginary)].into(),
            Element::Text(text) => text.as_str().into(),
            Element::Bytes(bytes) => {
                return Err(Error::not_json(&format!("{} bytes that are not text", bytes.len())));
            }
            Element::Compound(members) => {
                let types: &[_] = match datatype {
                    Datatype::Compound { members, .. } => members,
                    _ => &[],
                };
                let mut object = Map::new();
                // Members are in the order of their types.
                for (at, (name, element)) in members.iter().enumerate() {
                    let member = types.get(at).map_or(datatype, |member| &member.datatype);
                    self.take("attributes", name.len() as u64)?;
                    object.insert(name.clone(), self.element_json(element, member)?);
                }
                Value::Object(object)
            }
            Element::List(items) => {
                let item_type = match datatype {
                    Datatype::Array { base, .. } | Datatype::Sequence { base, .. } => base,
                    other => other,
                };
                let items = items.iter().map(|item| self.element_json(item, item_type));
                let items = items.collect::<Result<Vec<_>>>()?;
                match datatype {
                    Datatype::Array { shape, .. } => nest(items, shape),
                    _ => Value::Array(items),
                }
            }
            Element::Object(None) => Value::Null,
            Element::Object(Some(_)) => self.path(element)?.into(),
            Element::Region(..) | Element::Attribute(..) => {
                let mut reference = Map::from_iter([("path".to_owned(), self.path(element)?.into())]);
                reference.extend(reference_part(element).unwrap_or_default());
                Value::Object(reference)
            }
            Element::Unknown(name) => return Err(Error::not_json(&format!("a {name}"))),
        })
    }

    /// Returns the path of the object that an element refers to.
    fn path(&self, element: &Element) -> Result<String> {
        let path = reference_path(element, &self.names)?;
        self.take("paths of references", path.len() as u64)?;
        Ok(path)
    }

    /// Returns the attributes of an array: those of the dataset, the fill values in the notation of the Zarr format, and
    /// what follows from its datatype.
    pub(super) fn array_attributes(
        &mut self,
        path: &str,
        dataset: &Dataset,
        meanings: &CfAttributes,
        data_type: &DataType,
        fill: &FillPlan,
    ) -> Map<String, Value> {
        let mut attributes = self.attributes(path, &dataset.attributes, &dataset.unreadable_attributes, true);
        for (severity, code, message) in write_sentinels(meanings, data_type, fill, &mut attributes) {
            self.report.diagnostics.push(Diagnostic::new(severity, code, path, message));
        }
        if let Some(flags) = flags(&dataset.datatype)
            && !flags.iter().any(|(name, _)| attributes.contains_key(*name))
        {
            attributes.extend(flags.map(|(name, value)| (name.to_owned(), value)));
        }
        if let Datatype::Opaque { tag, .. } = chunks::item_type(&dataset.datatype)
            && let Some(time) = numpy_time(tag)
        {
            let dtype = time.duration.map(|dtype| ("dtype", dtype));
            for (name, value) in [("units", time.units)].into_iter().chain(dtype) {
                attributes.entry(name).or_insert_with(|| value.as_str().into());
                if let Some(kept) = self.report.attributes.get_mut(path)
                    && kept.iter().all(|attribute| attribute.name != name)
                {
                    kept.push(SourceAttribute {
                        name: name.to_owned(),
                        value: SourceValue::Json(value.into()),
                    });
                };
            }
        }
        attributes
    }

    /// Converts the attributes of a node to JSON, and keeps them with their types if the options ask for it. Reports those
    /// that are omitted, except for the `_FillValue` of an array, which its fill value reports.
    pub(super) fn attributes(
        &mut self,
        path: &str,
        attributes: &[Attribute],
        unreadable: &[virtualize_hdf5::Error],
        is_array: bool,
    ) -> Map<String, Value> {
        let mut shown: Vec<&Attribute> = attributes.iter().collect();
        if self.own.file.classic.is_none() {
            // CLASS and NAME are those of HDF5 images and tables if they do not describe a dimension scale.
            let is_scale = |attribute: &Attribute| matches!(attribute.elements.as_slice(), [Element::Text(class)] if class == "DIMENSION_SCALE");
            let mut of_scales =
                attributes.iter().filter(|attribute| matches!(attribute.name.as_str(), "CLASS" | "NAME"));
            if !of_scales.clone().any(is_scale)
                && let Some(attribute) = of_scales.next()
            {
                let first = || (0, format!("{} of /{path}", attribute.name));
                self.hidden.get_or_insert_with(first).0 += 1;
            }
            shown.retain(|attribute| !HIDDEN.contains(&attribute.name.as_str()));
        }
        let mut names = BTreeSet::new();
        shown.retain(|attribute| {
            let is_first = names.insert(attribute.name.as_str());
            if !is_first {
                // netCDF4-python shows the first of several.
                let message = format!("attribute \"{}\" omitted: another one has this name", attribute.name);
                self.report.warn(Code::NameCollision, path, message);
            }
            is_first
        });
        if self.options.source_attributes {
            // An attribute that has no value is omitted, and for a spent budget the file is refused.
            let with_type = |attribute: &&Attribute| {
                let json = || self.attribute_json(attribute).ok().map(SourceValue::Json);
                let value = source_value(attribute).or_else(json)?;
                let kept = SourceAttribute { name: attribute.name.clone(), value };
                self.take("attributes", kept.weight()).ok().map(|()| kept)
            };
            let kept = shown.iter().filter_map(with_type).collect();
            self.report.attributes.insert(path.to_owned(), kept);
        }
        let mut converted = Map::new();
        for attribute in shown {
            let name = attribute.name.as_str();
            let value = if name == "_ARRAY_DIMENSIONS" {
                Err(Error::name(name, "is reserved for the names of dimensions"))
            } else {
                let taken = self.take("attributes", ATTRIBUTE.saturating_add(name.len() as u64));
                taken.and_then(|()| self.attribute_json(attribute))
            };
            match value {
                Ok(value) => drop(converted.insert(name.to_owned(), value)),
                Err(_) if name == "_FillValue" && is_array => {}
                Err(why) => {
                    let message = format!("attribute \"{name}\" omitted: {why}");
                    self.report.warn(Code::AttributeOmitted, path, message);
                }
            }
        }
        for error in unreadable {
            self.report.warn(Code::AttributeUnreadable, path, format!("attribute omitted: {error}"));
        }
        converted
    }

    /// Reports the objects with hidden attributes.
    pub(super) fn report_hidden(&mut self) {
        if let Some((count, first)) = self.hidden.take() {
            let message = format!(
                "h5netcdf and netCDF4 hide the attributes CLASS and NAME, and so do the references: {count} objects, the first is {first}"
            );
            self.report.info(Code::AttributeOmitted, "", message);
        }
    }
}

/// Converts the elements of an attribute. Returns `None` for types that NumPy has not.
fn source_value(attribute: &Attribute) -> Option<SourceValue> {
    let mut elements: Vec<&Element> = attribute.elements.iter().collect();
    let mut shape = attribute.dataspace.shape().map(<[u64]>::to_vec);
    let mut datatype = &attribute.datatype;
    while let Datatype::Array { base, shape: inner } = datatype {
        elements = elements.into_iter().map(items).collect::<Option<Vec<_>>>()?.concat();
        shape = shape.map(|shape| [&shape, inner.as_slice()].concat());
        datatype = base;
    }
    let count = shape
        .as_ref()
        .map_or(Some(0), |shape| shape.iter().try_fold(1_u64, |count, length| count.checked_mul(*length)));
    if count != Some(elements.len() as u64) || (shape.is_none() && attribute.dataspace != Dataspace::Null) {
        return None;
    }
    Some(match datatype {
        Datatype::String { charset, .. } | Datatype::VariableString { charset, .. } => SourceValue::Text {
            length: match datatype {
                Datatype::String { size, .. } => Some(*size),
                _ => None,
            },
            is_utf8: *charset == CharacterSet::Utf8,
            shape,
            elements: elements
                .into_iter()
                .map(|element| match element {
                    Element::Text(text) => Some(text.as_bytes().to_vec()),
                    Element::Bytes(bytes) => Some(bytes.clone()),
                    _ => None,
                })
                .collect::<Option<_>>()?,
        },
        Datatype::Sequence { base, .. } => SourceValue::Sequences {
            data_type: numpy_type(base)?,
            shape,
            elements: elements
                .into_iter()
                .map(|element| pack(items(element)?, base))
                .collect::<Option<_>>()?,
        },
        _ => SourceValue::Fixed { data_type: numpy_type(datatype)?, shape, bytes: pack(elements, datatype)? },
    })
}

fn items(element: &Element) -> Option<Vec<&Element>> {
    match element {
        Element::List(items) => Some(items.iter().collect()),
        _ => None,
    }
}

/// Returns the NumPy type that h5py gives elements of fixed size.
fn numpy_type(datatype: &Datatype) -> Option<NumpyType> {
    let plain = |text: String| Some(NumpyType::Plain(text));
    match datatype {
        Datatype::Enum { base, members } if is_boolean(base, members) => plain("|b1".to_owned()),
        Datatype::Enum { base, .. } => numpy_type(base),
        Datatype::Integer(integer) | Datatype::Bitfield(integer) => {
            let order = endian_of(integer.order).ok().or((integer.size == 1).then_some(Endian::Little))?;
            plain(numpy_name(&integer_data_type(integer.size, integer.signed)?, order))
        }
        Datatype::String { size, .. } => plain(format!("|S{size}")),
        Datatype::Opaque { size, tag } => match (numpy_time(tag), tag.strip_prefix("NUMPY:")) {
            (Some(_), Some(time)) if *size == 8 => plain(time.to_owned()),
            _ => plain(format!("|V{size}")),
        },
        Datatype::Float(_) | Datatype::Complex { .. } => plain(number_type(datatype)?),
        Datatype::Compound { size, members } => match number_type(datatype) {
            Some(complex) => plain(complex),
            None => {
                let field = |member: &Member| {
                    let (item, shape) = match &member.datatype {
                        Datatype::Array { base, shape } => (base.as_ref(), shape.clone()),
                        other => (other, Vec::new()),
                    };
                    let data_type = numpy_type(item)?;
                    Some(NumpyField { name: member.name.clone(), offset: member.offset, data_type, shape })
                };
                let fields = members.iter().map(field).collect::<Option<_>>()?;
                Some(NumpyType::Struct { size: *size, fields })
            }
        },
        _ => None,
    }
}

/// Returns the type of a real or complex floating-point number that is stored in a format of IEEE 754.
fn number_type(datatype: &Datatype) -> Option<String> {
    let element = element_type(datatype, ZarrFormat::V3).ok()?;
    let is_float = element.data_type.is_float() || element.data_type.is_complex();
    (is_float && element.is_stored_as_it_is()).then(|| numpy_name(&element.data_type, element.endian))
}

/// Returns elements of a type that [`numpy_type`] converts, in its byte order.
fn pack<'a>(elements: impl IntoIterator<Item = &'a Element>, datatype: &Datatype) -> Option<Vec<u8>> {
    let mut packed = Vec::new();
    for element in elements {
        pack_one(element, datatype, &mut packed)?;
    }
    Some(packed)
}

fn pack_one(element: &Element, datatype: &Datatype, packed: &mut Vec<u8>) -> Option<()> {
    match (element, datatype) {
        (Element::Integer(value), Datatype::Enum { base, members }) if is_boolean(base, members) => {
            packed.push(u8::from(*value != 0));
        }
        (_, Datatype::Enum { base, .. }) => pack_one(element, base, packed)?,
        (Element::Integer(value), Datatype::Integer(integer) | Datatype::Bitfield(integer)) => {
            let size = usize::try_from(integer.size).ok()?;
            push_number(value.to_le_bytes().get(..size)?, integer.order, packed);
        }
        (Element::Float(value), Datatype::Float(float)) => match float.size {
            2 => push_number(&f16::from_f64(*value).to_le_bytes(), float.order, packed),
            #[expect(clippy::cast_possible_truncation, reason = "a 32-bit float was read as 64 bits")]
            4 => push_number(&(*value as f32).to_le_bytes(), float.order, packed),
            8 => push_number(&value.to_le_bytes(), float.order, packed),
            _ => return None,
        },
        (Element::Complex(real, imaginary), Datatype::Complex { base }) => {
            pack_one(&Element::Float(*real), base, packed)?;
            pack_one(&Element::Float(*imaginary), base, packed)?;
        }
        (Element::Text(text), Datatype::String { size, .. }) => push_padded(text.as_bytes(), *size, packed)?,
        (Element::Bytes(bytes), Datatype::String { size, .. } | Datatype::Opaque { size, .. }) => {
            push_padded(bytes, *size, packed)?;
        }
        (Element::Compound(values), Datatype::Compound { size, members }) => {
            let mut compound = vec![0; usize::try_from(*size).ok()?];
            for ((_, value), member) in values.iter().zip(members) {
                let field = pack([value], &member.datatype)?;
                let start = usize::try_from(member.offset).ok()?;
                compound.get_mut(start..start.checked_add(field.len())?)?.copy_from_slice(&field);
            }
            packed.extend(compound);
        }
        (Element::List(items), Datatype::Array { base, .. }) => packed.extend(pack(items, base)?),
        _ => return None,
    }
    Some(())
}

/// Appends a little-endian number in a byte order.
fn push_number(bytes: &[u8], order: ByteOrder, packed: &mut Vec<u8>) {
    match order {
        ByteOrder::Big => packed.extend(bytes.iter().rev()),
        ByteOrder::Little | ByteOrder::Vax => packed.extend(bytes),
    }
}

fn push_padded(bytes: &[u8], size: u32, packed: &mut Vec<u8>) -> Option<()> {
    let padding = usize::try_from(size).ok()?.checked_sub(bytes.len())?;
    packed.extend(bytes);
    packed.extend(std::iter::repeat_n(0, padding));
    Some(())
}

/// Returns the names of the variables that hold the bounds of times. xarray decodes them with the units of the times.
pub(super) fn time_bounds(file: &File) -> BTreeSet<String> {
    let datasets = file.objects.values().filter_map(|object| match object {
        Object::Dataset(dataset) if text_attribute(dataset, "units").is_some_and(is_time_unit) => {
            Some(dataset)
        }
        _ => None,
    });
    datasets.filter_map(|dataset| Some(text_attribute(dataset, "bounds")?.to_owned())).collect()
}

/// Converts the attributes of a dataset that have a meaning in CF.
pub(super) fn cf_attributes(dataset: &Dataset) -> CfAttributes {
    let known = dataset.attributes.iter().filter(|attribute| CfAttributes::has_meaning(&attribute.name));
    known
        .map(|attribute| CfAttribute {
            name: attribute.name.clone(),
            data_type: data_type(&attribute.datatype),
            values: attribute.elements.clone(),
        })
        .collect()
}

fn data_type(datatype: &Datatype) -> Option<DataType> {
    match datatype {
        // No data type holds all numbers of more than 64 bits.
        Datatype::Float(float) if float.size > 8 => None,
        Datatype::String { size, .. } => Some(DataType::FixedBytes(*size)),
        Datatype::Integer(_) | Datatype::Float(_) => {
            element_type(datatype, ZarrFormat::V3).ok().map(|element| element.data_type)
        }
        _ => None,
    }
}

fn text_attribute<'a>(dataset: &'a Dataset, name: &str) -> Option<&'a str> {
    let attribute = dataset.attributes.iter().find(|attribute| attribute.name == name)?;
    match attribute.elements.as_slice() {
        [Element::Text(text)] => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod source_attributes_tests {
    use virtualize_zarr::Source;

    use super::*;
    use crate::MapOptions;
    use crate::hdf5::map_file;
    use crate::hdf5::tests::attribute;
    use crate::hdf5::tests::dataset;
    use crate::hdf5::tests::file;
    use crate::hdf5::tests::float32;
    use crate::hdf5::tests::int;

    fn kept(attributes: Vec<Attribute>, source_attributes: bool) -> Option<Vec<SourceAttribute>> {
        let mut one = dataset(int(2, true), &[3]);
        one.attributes = attributes;
        let options = MapOptions { source_attributes, ..MapOptions::default() };
        let mapped =
            map_file(&file(vec![("v", one)]), Source { size: 1 << 20, ..Source::default() }, &options);
        mapped.report.attributes.get("v").cloned()
    }

    fn value(datatype: Datatype, elements: Vec<Element>) -> SourceValue {
        let kept = kept(vec![attribute("a", datatype, elements)], true).unwrap();
        let [SourceAttribute { name, value }] = kept.as_slice() else { panic!("{kept:?}") };
        assert_eq!(name, "a");
        value.clone()
    }

    #[test]
    fn attributes_are_kept_on_request_only() {
        let one = || vec![attribute("a", int(2, true), vec![Element::Integer(1)])];
        assert_eq!(kept(one(), false), None);
        assert_eq!(kept(one(), true).unwrap().len(), 1);
    }

    /// Expected: `np.array([0.5, -2], ">f4").tobytes()` and `np.array([-2], "<i2").tobytes()`.
    #[test]
    fn numbers_keep_their_type_and_byte_order() {
        let plain = |text: &str| NumpyType::Plain(text.to_owned());
        let floats = vec![Element::Float(0.5), Element::Float(-2.0)];
        assert_eq!(
            value(float32(ByteOrder::Big), floats),
            SourceValue::Fixed {
                data_type: plain(">f4"),
                shape: Some(vec![2]),
                bytes: vec![0x3f, 0, 0, 0, 0xc0, 0, 0, 0],
            }
        );
        assert_eq!(
            value(int(2, true), vec![Element::Integer(-2)]),
            SourceValue::Fixed { data_type: plain("<i2"), shape: Some(vec![1]), bytes: vec![0xfe, 0xff] }
        );
    }

    #[test]
    fn bookkeeping_is_hidden_and_contradictions_are_omitted() {
        let hidden = attribute("_Netcdf4Dimid", int(4, true), vec![Element::Integer(1)]);
        let mut short = attribute("short", int(2, true), vec![Element::Integer(1)]);
        short.dataspace = Dataspace::Simple { shape: vec![u64::MAX, 2], max_shape: None };
        assert_eq!(kept(vec![hidden, short], true).unwrap(), []);
    }
}

#[cfg(test)]
mod cf_attributes_tests {
    use super::*;
    use crate::hdf5::tests::attribute;
    use crate::hdf5::tests::dataset;
    use crate::hdf5::tests::file;
    use crate::hdf5::tests::int;
    use crate::hdf5::tests::text as text_value;

    /// xarray decodes bounds with the units of their times (`_update_bounds_attributes`).
    #[test]
    fn bounds_of_times_are_times() {
        let variable = |units: &[&str], bounds: &str| {
            let text_type = text_value("", "").datatype;
            let units = units.iter().map(|units| Element::Text((*units).to_owned())).collect();
            let attributes = vec![attribute("units", text_type, units), text_value("bounds", bounds)];
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
}
