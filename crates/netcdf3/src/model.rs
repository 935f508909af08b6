//! The structures of a header, and their conversion to the model of array files.

use std::collections::BTreeMap;

use bytes::Bytes;
use virtualize_bytes::{Address, ByteRange};
use virtualize_hdf5::decode_element;
use virtualize_hdf5::model::{
    self, ByteOrder, CharacterSet, Classic, Dataset, Dataspace, Datatype, Element, FillMessage, FillTime,
    FillValue, Float, Integer, Layout, Link, LinkTarget, Object, StringPadding,
};

/// A header.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Header {
    pub(crate) classic: Classic,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) variables: Vec<Variable>,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    /// Type of a value.
    pub(crate) datatype: Datatype,
    /// Values in big-endian byte order, without padding.
    pub(crate) values: Bytes,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    /// Ids of the dimensions, slowest first.
    pub(crate) dimensions: Vec<usize>,
    pub(crate) attributes: Vec<Attribute>,
    /// Type of an element.
    pub(crate) datatype: Datatype,
    /// Offset of the data; of the first record for a record variable.
    pub(crate) begin: u64,
    /// Bytes of the data without padding; of one record for a record variable.
    pub(crate) size: u64,
    /// Whether the first dimension is the record dimension.
    pub(crate) is_record: bool,
}

/// The type `NC_CHAR`.
pub(crate) const CHAR: Datatype =
    Datatype::String { size: 1, padding: StringPadding::NullPadded, charset: CharacterSet::Ascii };

impl Header {
    /// Estimates the memory of the header and of the file that it becomes, in bytes. Does not count values of attributes as
    /// stored, which are those of the file.
    pub(crate) fn weight(&self) -> u64 {
        const ITEM: u64 = 512;
        let named = |name: &str| ITEM.saturating_add(name.len() as u64);
        let of_attributes = |attributes: &[Attribute]| {
            let values = |one: &Attribute| match one.datatype {
                Datatype::String { .. } => one.values.len() as u64,
                _ => one.count().saturating_mul(size_of::<Element>() as u64),
            };
            let weights = attributes.iter().map(|one| named(&one.name).saturating_add(values(one)));
            weights.fold(0, u64::saturating_add)
        };
        let dimensions = self.classic.dimensions.iter().map(|one| named(&one.name));
        let variables = self.variables.iter().map(|one| {
            let ids = (one.dimensions.len() as u64).saturating_mul(16);
            named(&one.name).saturating_add(ids).saturating_add(of_attributes(&one.attributes))
        });
        dimensions.chain(variables).fold(of_attributes(&self.attributes), u64::saturating_add)
    }

    /// Converts the header to a root group with a dataset for each variable.
    pub(crate) fn into_file(self) -> model::File {
        let Self { classic, attributes, variables } = self;
        let mut root = model::Group { attributes: converted(attributes), ..model::Group::default() };
        let mut objects = BTreeMap::new();
        for (address, variable) in (1..).map(Address).zip(variables) {
            let range = ByteRange::new(variable.begin, variable.size);
            let dimensions = variable.dimensions.iter().filter_map(|id| classic.dimensions.get(*id));
            let shape = dimensions.map(|dimension| dimension.length).collect();
            let dataset = Dataset {
                fill: fill(&variable),
                datatype: variable.datatype,
                committed_datatype: None,
                dataspace: Dataspace::Simple { shape, max_shape: None },
                dimensions: Some(variable.dimensions),
                filters: Vec::new(),
                layout: if variable.is_record {
                    Layout::Records(range)
                } else {
                    Layout::Contiguous(Some(range))
                },
                attributes: converted(variable.attributes),
                unreadable_attributes: Vec::new(),
            };
            objects.insert(address, Object::Dataset(Box::new(dataset)));
            root.links.push(Link { name: variable.name, target: LinkTarget::Hard(address) });
        }
        objects.insert(Address(0), Object::Group(root));
        model::File { classic: Some(classic), ..model::File::of_objects(objects) }
    }
}

impl Attribute {
    /// Returns the number of values.
    fn count(&self) -> u64 {
        (self.values.len() as u64).checked_div(self.datatype.size()).unwrap_or(0)
    }
}

/// Converts attributes. Like netCDF-C, which decodes them, states the byte order of the machine.
fn converted(attributes: Vec<Attribute>) -> Vec<model::Attribute> {
    let converted = attributes.into_iter().map(|attribute| {
        let count = attribute.count();
        let Attribute { name, datatype, values } = attribute;
        let size = usize::try_from(datatype.size()).unwrap_or(1).max(1);
        let elements = || values.chunks_exact(size).map(|value| decode_element(&datatype, value)).collect();
        let list = Dataspace::Simple { shape: vec![count], max_shape: None };
        let (datatype, dataspace, elements) = match &datatype {
            // xarray compares it with characters, which are bytes.
            Datatype::String { .. } if name == "_FillValue" && count == 1 => (CHAR, list, elements()),
            Datatype::String { .. } => {
                let (padding, charset) = (StringPadding::NullTerminated, CharacterSet::Utf8);
                // netCDF4-python drops all NULs.
                let text = String::from_utf8_lossy(&values).replace('\0', "");
                let datatype = Datatype::VariableString { size: 16, padding, charset };
                (datatype, Dataspace::Scalar, vec![Element::Text(text)])
            }
            Datatype::Integer(number) => {
                let number = Integer::new(number.size, number.signed, ByteOrder::Little);
                (Datatype::Integer(number), list, elements())
            }
            Datatype::Float(number) => {
                (Datatype::Float(Float::ieee(number.size == 4, ByteOrder::Little)), list, elements())
            }
            other => (other.clone(), list, elements()),
        };
        model::Attribute { name, datatype, dataspace, elements }
    });
    converted.collect()
}

/// Returns the fill value of a variable. Like netCDF-C, uses an attribute `_FillValue` of one value in the type of the
/// variable, else the default of the type. Bytes past the end of the file read as zero.
fn fill(variable: &Variable) -> FillMessage {
    let declared = variable.attributes.iter().find(|attribute| attribute.name == "_FillValue");
    let declared = declared.filter(|one| one.datatype == variable.datatype && one.count() == 1);
    let value = declared.map_or(FillValue::NetcdfDefault, |one| FillValue::User(one.values.clone()));
    FillMessage { version: None, write_time: FillTime::Never, allocation_time: 0, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(name: &str, datatype: Datatype, values: &'static [u8]) -> Vec<Element> {
        let attribute = Attribute { name: name.to_owned(), datatype, values: Bytes::from_static(values) };
        converted(vec![attribute]).remove(0).elements
    }

    #[test]
    fn values_are_big_endian() {
        let of = |datatype, values| elements("a", datatype, values);
        let short = Datatype::Integer(Integer::new(2, true, ByteOrder::Big));
        assert_eq!(of(short, &[0xff, 0xfe, 0, 1]), [Element::Integer(-2), Element::Integer(1)]);
        assert_eq!(
            of(Datatype::Integer(Integer::new(1, false, ByteOrder::Big)), &[0xff]),
            [Element::Integer(255)]
        );
        assert_eq!(
            of(Datatype::Float(Float::ieee(true, ByteOrder::Big)), &[0x3f, 0, 0, 0]),
            [Element::Float(0.5)]
        );
    }

    /// What netCDF4-python 1.7 shows.
    #[test]
    fn text_is_one_value_without_nuls() {
        for (stored, expected) in
            [(&b"a\0b\0\0"[..], "ab"), (b"\xff\xe9 \xc3\xbc", "\u{fffd}\u{fffd} \u{fc}"), (b"", "")]
        {
            assert_eq!(elements("a", CHAR, stored), [Element::Text(expected.to_owned())]);
            assert_eq!(elements("_FillValue", CHAR, stored), [Element::Text(expected.to_owned())]);
        }
    }

    /// netCDF-C 4.10 ignores an attribute of another type or number: `NC_FILL_SHORT` is -32767.
    #[test]
    fn a_fill_value_has_the_type_of_its_variable() {
        let short = || Datatype::Integer(Integer::new(2, true, ByteOrder::Big));
        let fill = |datatype, values| {
            let values = Bytes::from_static(values);
            let attributes = vec![Attribute { name: "_FillValue".to_owned(), datatype, values }];
            let (name, dimensions) = ("v".to_owned(), Vec::new());
            let datatype = short();
            let (begin, size, is_record) = (0, 2, false);
            fill(&Variable { name, dimensions, attributes, datatype, begin, size, is_record }).value
        };
        assert_eq!(fill(short(), &[0, 5]), FillValue::User(Bytes::from_static(&[0, 5])));
        assert_eq!(fill(short(), &[0, 5, 0, 6]), FillValue::NetcdfDefault);
        assert_eq!(fill(CHAR, b"ab"), FillValue::NetcdfDefault);
        assert_eq!(
            fill(Datatype::Integer(Integer::new(2, false, ByteOrder::Big)), &[0, 5]),
            FillValue::NetcdfDefault
        );
    }
}
