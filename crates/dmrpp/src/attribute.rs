//! `<Attribute name="…" type="…">` with one `<Value>` for each element.

use virtualize_hdf5::model::{Attribute, ByteOrder, Dataspace, Datatype, Element as Value};

use crate::error::Problem;
use crate::types::{self, Number};
use crate::xml::{Element, Xml};

/// Attributes that Hyrax adds to renamed or linked objects.
const ADDED: &[&str] = &["fullnamepath", "origname", "orig_datatype", "HDF5_HARDLINK", "HDF5_GLOBAL"];

/// Attributes that mask values, if their type fits.
const SENTINELS: &[&str] = &["_FillValue", "missing_value"];

/// The container in which Hyrax lists the unlimited dimensions of a group.
pub(crate) const EXTRA: &str = "DODS_EXTRA";

/// The container in which `build_dmrpp` describes itself.
const METADATA: &str = "build_dmrpp_metadata";

/// Reads an attribute; `None` for those that describe the sidecar.
pub(crate) fn read(xml: &mut Xml<'_>, start: &Element<'_>) -> Result<Option<Attribute>, Problem> {
    let (name, kind) = (start.required("name")?, start.required("type")?);
    match kind.as_str() {
        "Container" if name == METADATA => return check_configuration(xml).map(|()| None),
        _ if kind == "Container" || ADDED.contains(&name.as_str()) => {
            let problem = format!("attribute {name}: objects were renamed, linked or added");
            return Err(Problem::incomplete(problem));
        }
        _ => {}
    }
    let number = Number::named(&kind);
    if number.is_none() && kind != "String" {
        return Err(Problem::incomplete(format!("attribute {name}: type {kind}")));
    }
    if number.is_none() && SENTINELS.contains(&name.as_str()) {
        return Err(Problem::incomplete(format!("attribute {name}: text of fixed or of variable length")));
    }
    let mut elements = Vec::new();
    while let Some(child) = xml.child()? {
        if !child.is("Value") {
            return Err(Problem::incomplete(format!("attribute {name}: element {}", child.name())));
        }
        xml.hold("attributes", size_of::<Value>())?;
        let text = xml.text()?;
        elements.push(value(&text, number).map_err(|what| what.within(&name))?);
    }
    if elements.is_empty() {
        return Err(Problem::incomplete(format!("attribute {name}: no value")));
    }
    xml.hold("attributes", size_of::<Attribute>().saturating_add(name.len()))?;
    let datatype = number.map_or_else(types::text, |number| number.datatype(ByteOrder::Little));
    Ok(Some(of(name, datatype, elements)))
}

/// Returns an attribute: a scalar if it has one element.
pub(crate) fn of(name: impl Into<String>, datatype: Datatype, elements: Vec<Value>) -> Attribute {
    let dataspace = match elements.len() {
        1 => Dataspace::Scalar,
        count => Dataspace::Simple { shape: vec![count as u64], max_shape: None },
    };
    Attribute { name: name.into(), datatype, dataspace, elements }
}

/// Reads the names of unlimited dimensions from the container that was opened last.
pub(crate) fn read_unlimited(xml: &mut Xml<'_>) -> Result<Vec<String>, Problem> {
    let mut names = Vec::new();
    while let Some(item) = xml.child()? {
        if !item.is("Attribute") || item.attribute("name")?.as_deref() != Some("Unlimited_Dimension") {
            return Err(Problem::incomplete(format!("container {EXTRA} with other content")));
        }
        while let Some(value) = xml.child()? {
            if !value.is("Value") {
                return Err(Problem::malformed(format!("element {}, expected Value", value.name())));
            }
            names.push(xml.text()?);
        }
    }
    Ok(names)
}

/// Reads the description of the sidecar, which must not be made with Hyrax's CF option: it renames objects and changes
/// attributes.
fn check_configuration(xml: &mut Xml<'_>) -> Result<(), Problem> {
    while let Some(item) = xml.child()? {
        let name = item.attribute("name")?.unwrap_or_default();
        while let Some(value) = xml.child()? {
            if !value.is("Value") {
                xml.skip()?;
            } else if xml.text()?.to_ascii_lowercase().contains("h5.enablecf=true") {
                return Err(Problem::incomplete(format!(
                    "{name}: made with H5.EnableCF, which renames objects"
                )));
            }
        }
    }
    Ok(())
}

fn value(text: &str, number: Option<Number>) -> Result<Value, Problem> {
    let invalid = || Problem::malformed(format!("\"{}\" is not a number of its type", short(text)));
    match number {
        None => check_text(text).map(|()| Value::Text(text.to_owned())),
        Some(number @ Number::Integer(..)) => number.integer(text).map(Value::Integer).ok_or_else(invalid),
        Some(Number::Float(4)) => {
            text.parse::<f32>().map(|value| Value::Float(value.into())).map_err(|_| invalid())
        }
        Some(Number::Float(_)) => text.parse().map(Value::Float).map_err(|_| invalid()),
    }
}

/// Refuses text that Hyrax may have changed: it writes some bytes as a backslash and three octal digits without escaping
/// the backslash, and keeps blanks that pad fixed-length text.
fn check_text(text: &str) -> Result<(), Problem> {
    let is_octal = |bytes: &[u8]| bytes.iter().all(|byte| matches!(byte, b'0'..=b'7'));
    let has_escape = text.as_bytes().windows(4).any(|part| match part {
        [b'\\', digits @ ..] => is_octal(digits),
        _ => false,
    });
    match (has_escape, text.ends_with(' ')) {
        (true, _) => Err(Problem::incomplete("text with an octal escape, or with a backslash before digits")),
        (_, true) => Err(Problem::incomplete("text that ends with a blank, which may be padding")),
        _ => Ok(()),
    }
}

/// Returns the start of a text for a message.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

impl Problem {
    /// Prefixes the name of an attribute.
    fn within(self, name: &str) -> Self {
        match self {
            Self::Malformed(problem) => Self::Malformed(format!("attribute {name}: {problem}")),
            Self::Incomplete(problem) => Self::Incomplete(format!("attribute {name}: {problem}")),
            other => other,
        }
    }
}
