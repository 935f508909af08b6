//! Attributes with the types that h5py gives them.

use half::f16;
use virtualize_hdf5::model::{
    Attribute, ByteOrder, CharacterSet, Dataspace, Datatype, Element, Integer, Member,
};
use virtualize_remedy::Code;
use virtualize_zarr::{DataType, Endian, ZarrFormat};

use super::Mapper;
use super::attributes::{HIDDEN, Shown, attribute_json};
use super::dimensions::Dimensions;
use super::types::{element_type, is_boolean, numpy_time};
use crate::Severity;
use crate::source_attribute::{NumpyField, NumpyType, SourceAttribute, SourceValue};

impl Mapper<'_> {
    /// Keeps the attributes of a node with their types, if the options ask for it. Attributes without a value are left
    /// out, which the conversion to JSON has reported.
    pub(super) fn keep_attributes(&mut self, path: &str, attributes: &[Attribute]) {
        self.note_hidden(path, attributes);
        if !self.options.source_attributes {
            return;
        }
        let shown = attributes.iter().filter(|attribute| !HIDDEN.contains(&attribute.name.as_str()));
        let kept = shown.filter_map(|attribute| source_attribute(attribute, self.shown())).collect();
        self.report.attributes.insert(path.to_owned(), kept);
    }

    /// Notes an object whose attributes CLASS and NAME, as of HDF5 images and tables, are hidden although they do not
    /// describe a dimension scale.
    fn note_hidden(&mut self, path: &str, attributes: &[Attribute]) {
        let is_scale = |attribute: &Attribute| matches!(attribute.elements.as_slice(), [Element::Text(class)] if class == "DIMENSION_SCALE");
        let mut of_scales =
            attributes.iter().filter(|attribute| matches!(attribute.name.as_str(), "CLASS" | "NAME"));
        if of_scales.clone().any(is_scale) {
            return;
        }
        if let Some(attribute) = of_scales.next() {
            let (count, _) = self.hidden.get_or_insert_with(|| (0, format!("{} of /{path}", attribute.name)));
            *count += 1;
        }
    }

    /// Reports the objects with hidden attributes.
    pub(super) fn report_hidden(&mut self) {
        if let Some((count, first)) = self.hidden.take() {
            let message = format!(
                "h5netcdf and netCDF4 hide the attributes CLASS and NAME, and so do the references: {count} objects, the first is {first}"
            );
            self.diagnose(Severity::Info, Code::AttributeLeftOut, "", message);
        }
    }

    /// Adds an attribute without which the numbers of an array have no meaning, unless the file has it.
    pub(super) fn keep_text(&mut self, path: &str, name: &str, text: &str) {
        if let Some(kept) = self.report.attributes.get_mut(path)
            && kept.iter().all(|attribute| attribute.name != name)
        {
            kept.push(SourceAttribute { name: name.to_owned(), value: SourceValue::Json(text.into()) });
        }
    }

    /// Keeps the names of the unlimited dimensions that a group defines, if the options ask for attributes.
    pub(super) fn keep_unlimited(&mut self, path: &str, dimensions: &Dimensions) {
        let names: Vec<String> = dimensions.unlimited().map(str::to_owned).collect();
        if self.options.source_attributes && !names.is_empty() {
            self.report.unlimited.insert(path.to_owned(), names);
        }
    }
}

/// Converts an attribute. Returns `None` if it has no value, or the budget is spent, for which the file is refused.
fn source_attribute(attribute: &Attribute, shown: Shown<'_>) -> Option<SourceAttribute> {
    let value = source_value(attribute);
    let value = value.or_else(|| attribute_json(attribute, shown).ok().map(SourceValue::Json))?;
    let kept = SourceAttribute { name: attribute.name.clone(), value };
    shown.shared.take("attributes", kept.weight()).ok()?;
    Some(kept)
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
            elements: elements.into_iter().map(text).collect::<Option<_>>()?,
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

fn text(element: &Element) -> Option<Vec<u8>> {
    match element {
        Element::Text(text) => Some(text.as_bytes().to_vec()),
        Element::Bytes(bytes) => Some(bytes.clone()),
        _ => None,
    }
}

/// Returns the NumPy type that h5py gives elements of fixed size.
fn numpy_type(datatype: &Datatype) -> Option<NumpyType> {
    let plain = |text: String| Some(NumpyType::Plain(text));
    match datatype {
        Datatype::Enum { base, members } if is_boolean(base, members) => plain("|b1".to_owned()),
        Datatype::Enum { base, .. } => numpy_type(base),
        Datatype::Integer(integer) | Datatype::Bitfield(integer) => plain(integer_type(integer)?),
        Datatype::String { size, .. } => plain(format!("|S{size}")),
        Datatype::Opaque { size, tag } => match (numpy_time(tag), tag.strip_prefix("NUMPY:")) {
            (Some(_), Some(time)) if *size == 8 => plain(time.to_owned()),
            _ => plain(format!("|V{size}")),
        },
        Datatype::Float(_) | Datatype::Complex { .. } => plain(number_type(datatype)?),
        Datatype::Compound { size, members } => match number_type(datatype) {
            Some(complex) => plain(complex),
            None => {
                let fields = members.iter().map(field).collect::<Option<_>>()?;
                Some(NumpyType::Struct { size: *size, fields })
            }
        },
        _ => None,
    }
}

/// Returns the type of whole bytes that contains an integer.
fn integer_type(integer: &Integer) -> Option<String> {
    let order = match integer.order {
        _ if integer.size == 1 => '|',
        ByteOrder::Little => '<',
        ByteOrder::Big => '>',
        ByteOrder::Vax => return None,
    };
    let kind = if integer.signed { 'i' } else { 'u' };
    matches!(integer.size, 1 | 2 | 4 | 8).then(|| format!("{order}{kind}{}", integer.size))
}

/// Returns the type of a real or complex floating-point number that is stored in a format of IEEE 754.
fn number_type(datatype: &Datatype) -> Option<String> {
    let element = element_type(datatype, ZarrFormat::V3).ok()?;
    let (kind, size) = match element.data_type {
        DataType::Float16 => ('f', 2),
        DataType::Float32 => ('f', 4),
        DataType::Float64 => ('f', 8),
        DataType::Complex64 => ('c', 8),
        DataType::Complex128 => ('c', 16),
        _ => return None,
    };
    let order = if element.endian == Endian::Big { '>' } else { '<' };
    element.is_stored_as_it_is().then(|| format!("{order}{kind}{size}"))
}

fn field(member: &Member) -> Option<NumpyField> {
    let (data_type, shape) = match &member.datatype {
        Datatype::Array { base, shape } => (numpy_type(base)?, shape.clone()),
        other => (numpy_type(other)?, Vec::new()),
    };
    Some(NumpyField { name: member.name.clone(), offset: member.offset, data_type, shape })
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
        (Element::Float(value), Datatype::Float(float)) => {
            push_float(*value, float.size, float.order, packed)?
        }
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

fn push_float(value: f64, size: u32, order: ByteOrder, packed: &mut Vec<u8>) -> Option<()> {
    match size {
        2 => push_number(&f16::from_f64(value).to_le_bytes(), order, packed),
        #[expect(clippy::cast_possible_truncation, reason = "a 32-bit float was read as 64 bits")]
        4 => push_number(&(value as f32).to_le_bytes(), order, packed),
        8 => push_number(&value.to_le_bytes(), order, packed),
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

#[cfg(test)]
mod tests {
    use virtualize_zarr::Source;

    use super::super::map_file;
    use super::super::tests::{attribute, dataset, file, float32, int};
    use super::*;
    use crate::MapOptions;

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
    fn bookkeeping_is_hidden_and_contradictions_are_left_out() {
        let hidden = attribute("_Netcdf4Dimid", int(4, true), vec![Element::Integer(1)]);
        let mut short = attribute("short", int(2, true), vec![Element::Integer(1)]);
        short.dataspace = Dataspace::Simple { shape: vec![u64::MAX, 2], max_shape: None };
        assert_eq!(kept(vec![hidden, short], true).unwrap(), []);
    }
}
