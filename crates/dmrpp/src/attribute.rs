//! `<Attribute name="…" type="…">` with one `<Value>` for each element. DAP4 types of variables and attributes (DAP4
//! specification, volume 1, "Types") become HDF5 datatypes.

use virtualize_hdf5::model::{
    Attribute, ByteOrder, CharacterSet, Dataspace, Datatype, Element as Value, Float, Integer, StringPadding,
};

use crate::xml::{Element, Xml};
use crate::{Error, Result};

/// Attributes that Hyrax adds to renamed or linked objects.
const ADDED: &[&str] = &["fullnamepath", "origname", "orig_datatype", "HDF5_HARDLINK", "HDF5_GLOBAL"];

/// The container in which `build_dmrpp` describes itself.
const METADATA: &str = "build_dmrpp_metadata";

/// Type of text in attributes.
pub(crate) const TEXT: Datatype = Datatype::VariableString {
    size: 16,
    padding: StringPadding::NullTerminated,
    charset: CharacterSet::Utf8,
};

/// Returns the number type with this name.
pub(crate) fn number(name: &str, order: ByteOrder) -> Option<Datatype> {
    Some(Datatype::Integer(match name {
        "Byte" | "UInt8" => Integer::new(1, false, order),
        "Int8" => Integer::new(1, true, order),
        "Int16" => Integer::new(2, true, order),
        "UInt16" => Integer::new(2, false, order),
        "Int32" => Integer::new(4, true, order),
        "UInt32" => Integer::new(4, false, order),
        "Int64" => Integer::new(8, true, order),
        "UInt64" => Integer::new(8, false, order),
        "Float32" | "Float64" => return Some(Datatype::Float(Float::ieee(name == "Float32", order))),
        _ => return None,
    }))
}

/// Parses an element; `None` if the text is not a number of the type.
pub(crate) fn value(text: &str, datatype: &Datatype) -> Option<Value> {
    match datatype {
        Datatype::Integer(Integer { precision, signed, .. }) => {
            let value: i128 = text.parse().ok()?;
            let high_bits = value >> precision.saturating_sub((*signed).into());
            (high_bits == 0 || *signed && high_bits == -1).then_some(Value::Integer(value))
        }
        Datatype::Float(Float { size: 4, .. }) => {
            text.parse().ok().map(|value: f32| Value::Float(value.into()))
        }
        Datatype::Float(_) => text.parse().ok().map(Value::Float),
        _ => Some(Value::Text(text.to_owned())),
    }
}

/// Reads an attribute and adds it to `attributes`, unless it describes the sidecar.
pub(crate) fn read(xml: &mut Xml<'_>, start: &Element<'_>, attributes: &mut Vec<Attribute>) -> Result<()> {
    let (name, kind) = (start.required("name")?, start.required("type")?);
    let problem = |what: &str| Error::new(format!("attribute {name}: {what}"));
    if kind == "Container" && name == METADATA {
        // The sidecar must not be made with Hyrax's CF option: it renames objects and changes attributes.
        while let Some(item) = xml.child()? {
            let name = item.attribute("name")?.unwrap_or_default();
            while let Some(value) = xml.child()? {
                if !value.is("Value") {
                    xml.skip()?;
                } else if xml.text()?.to_ascii_lowercase().contains("h5.enablecf=true") {
                    return Err(Error::new(format!("{name}: made with H5.EnableCF, which renames objects")));
                }
            }
        }
        return Ok(());
    } else if kind == "Container" || ADDED.contains(&name.as_str()) {
        return Err(problem("objects were renamed, linked or added"));
    }
    let datatype = match number(&kind, ByteOrder::Little) {
        Some(number) => number,
        // They mask values, if their type fits.
        None if kind == "String" && matches!(name.as_str(), "_FillValue" | "missing_value") => {
            return Err(problem("text of fixed or of variable length"));
        }
        None if kind == "String" => TEXT,
        None => return Err(problem(&format!("type {kind}"))),
    };
    let mut elements = Vec::new();
    for text in values(xml, |element| problem(&format!("element {element}")))? {
        // Hyrax writes some bytes of text as a backslash and three octal digits without escaping the backslash, and keeps
        // blanks that pad fixed-length text.
        let is_escape = |part: &[u8]| matches!(part, [b'\\', b'0'..=b'7', b'0'..=b'7', b'0'..=b'7']);
        if datatype == TEXT && text.as_bytes().windows(4).any(is_escape) {
            return Err(problem("text with an octal escape, or with a backslash before digits"));
        }
        if datatype == TEXT && text.ends_with(' ') {
            return Err(problem("text that ends with a blank, which may be padding"));
        }
        let invalid = || {
            let start: String = text.chars().take(40).collect();
            problem(&format!("\"{start}\" is not a number of its type"))
        };
        elements.push(value(&text, &datatype).ok_or_else(invalid)?);
    }
    if elements.is_empty() {
        return Err(problem("no value"));
    }
    if attributes.len() as u64 >= xml.limits.attributes {
        return Err(Error::new(format!("more than {} attributes", xml.limits.attributes)));
    }
    xml.hold("attributes", size_of::<Attribute>().saturating_add(name.len()))?;
    attributes.push(of(name, datatype, elements));
    Ok(())
}

/// Returns an attribute: a scalar if it has one element.
pub(crate) fn of(name: impl Into<String>, datatype: Datatype, elements: Vec<Value>) -> Attribute {
    let dataspace = match elements.len() {
        1 => Dataspace::Scalar,
        count => Dataspace::Simple { shape: vec![count as u64], max_shape: None },
    };
    Attribute { name: name.into(), datatype, dataspace, elements }
}

/// Reads the texts of the `<Value>` elements in the element that was opened last.
pub(crate) fn values(xml: &mut Xml<'_>, unexpected: impl Fn(String) -> Error) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    while let Some(child) = xml.child()? {
        if !child.is("Value") {
            return Err(unexpected(child.name()));
        }
        xml.hold("attributes", size_of::<Value>())?;
        texts.push(xml.text()?);
    }
    Ok(texts)
}
