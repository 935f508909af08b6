//! HDF5 compound datatypes as Zarr structures, whose fields follow each other without gaps.

use std::collections::BTreeSet;

use virtualize_hdf5::model::{Datatype, Member};
use virtualize_zarr::{DataType, Endian, Field, ZarrFormat};

use super::describe::describe_type;
use super::element::{ElementType, field};
use crate::{ConvertedPart, ElementTransform, Error, PaddedString, Result};

/// Maximum number of items of an array type in a compound. NumPy and zarr-python need quadratic time for more fields.
const ARRAY_ITEMS: u64 = 2000;

const TOO_LARGE: Error = Error::Overflow("the compound datatype");

/// Maps the datatype of a member.
type ElementTypeOf = fn(&Datatype, ZarrFormat) -> Result<ElementType>;

/// Returns the structure of a compound. Members with gaps between them, or in another order than their offsets, are copied
/// together when chunks are made.
///
/// # Errors
/// The compound is malformed, or a member cannot be a field.
pub(super) fn structure_type(
    size: u32,
    members: &[Member],
    format: ZarrFormat,
    element_type: ElementTypeOf,
) -> Result<ElementType> {
    if members.is_empty() {
        return Err(malformed("no members"));
    }
    if members.iter().map(|member| &member.name).collect::<BTreeSet<_>>().len() != members.len() {
        return Err(malformed("two members of the same name"));
    }
    let mut structure = Packed { size, ..Packed::default() };
    for member in members {
        structure.push(member, &member_type(member, format, element_type)?)?;
    }
    structure.element(format)
}

/// A structure under construction.
#[derive(Default)]
struct Packed {
    /// Bytes of the stored compound.
    size: u32,
    fields: Vec<Field>,
    /// Bytes of the fields so far.
    length: u32,
    /// Parts to copy: (offset in the compound, offset in the structure, bytes).
    parts: Vec<(u32, u32, u32)>,
    strings: Vec<PaddedString>,
    converted: Vec<ConvertedPart>,
    reversed: Vec<(u32, u32)>,
}

impl Packed {
    fn push(&mut self, member: &Member, element: &ElementType) -> Result<()> {
        let start = self.length;
        let stored = u32::try_from(element.stored_size).map_err(|_| TOO_LARGE)?;
        let size = element.data_type.size().and_then(|size| u32::try_from(size).ok()).ok_or(TOO_LARGE)?;
        let end = start.checked_add(size).ok_or(TOO_LARGE)?;
        if member.offset.checked_add(stored).is_none_or(|end| end > self.size) {
            let problem = format!("a member of {stored} bytes at {}, in {} bytes", member.offset, self.size);
            return Err(malformed(problem));
        }
        match &element.transform {
            ElementTransform::None => self.copy((member.offset, start, stored)),
            ElementTransform::Repack { parts, strings, converted, reversed, .. } => {
                for (from, to, length) in parts {
                    self.copy((member.offset + from, start + to, *length));
                }
                let moved = |string: &PaddedString| PaddedString { offset: start + string.offset, ..*string };
                self.strings.extend(strings.iter().map(moved));
                self.converted.extend(converted.iter().map(|part| ConvertedPart {
                    from: member.offset + part.from,
                    to: start + part.to,
                    ..part.clone()
                }));
                self.reversed.extend(reversed.iter().map(|(offset, size)| (start + offset, *size)));
            }
            transform => {
                let transform = transform.clone();
                self.converted.push(ConvertedPart { from: member.offset, to: start, size, transform });
            }
        }
        self.length = end;
        self.fields.push(field(&member.name, element));
        Ok(())
    }

    /// Copies bytes of the compound. Bytes that follow those of the last part extend it.
    fn copy(&mut self, (from, to, length): (u32, u32, u32)) {
        match self.parts.last_mut() {
            Some((last_from, last_to, bytes)) if *last_from + *bytes == from && *last_to + *bytes == to => {
                *bytes += length;
            }
            _ => self.parts.push((from, to, length)),
        }
    }

    fn element(mut self, format: ZarrFormat) -> Result<ElementType> {
        let mut numbers = Vec::new();
        collect_numbers(&self.fields, 0, &mut numbers);
        let endian = numbers.first().map_or(Endian::Little, |(_, _, endian)| *endian);
        if format == ZarrFormat::V3 {
            // Zarr v3 has one byte order for the whole array, so numbers in the other one are reversed.
            let others = numbers.iter().filter(|(.., order)| *order != endian);
            self.reversed.extend(others.map(|(offset, size, _)| (*offset, *size)));
            set_order(&mut self.fields, endian);
        }
        let Self { size, parts, strings, converted, reversed, .. } = self;
        let is_stored_as_it_is =
            parts == [(0, 0, size)] && strings.is_empty() && converted.is_empty() && reversed.is_empty();
        Ok(ElementType {
            data_type: DataType::Struct(self.fields),
            endian,
            axes: Vec::new(),
            stored_size: size.into(),
            transform: match is_stored_as_it_is {
                true => ElementTransform::None,
                false => ElementTransform::Repack { stored_size: size, parts, strings, converted, reversed },
            },
        })
    }
}

fn malformed(problem: impl Into<String>) -> Error {
    Error::malformed("compound datatype", problem)
}

fn member_type(member: &Member, format: ZarrFormat, element_type: ElementTypeOf) -> Result<ElementType> {
    let refuse = |error: Error| Error::Member { member: member.name.clone(), error: Box::new(error) };
    let unsupported =
        |feature: &'static str, problem: &'static str| refuse(Error::unsupported(feature, problem));
    if let reference @ Datatype::Reference { .. } = &member.datatype {
        return Err(refuse(Error::NoDataType(describe_type(reference))));
    }
    let element = match &member.datatype {
        Datatype::Array { base, shape } => array_as_compound(base, shape)
            .and_then(|compound| element_type(&compound, format))
            .map_err(refuse)?,
        other => element_type(other, format).map_err(refuse)?,
    };
    if element.data_type.size().is_none() {
        return Err(unsupported("text of variable length", "zarr-python opens no structures that hold it"));
    }
    Ok(element)
}

/// Returns the number of items of an array type in a compound.
///
/// # Errors
/// There are too many.
pub(super) fn array_items(shape: &[u64]) -> Result<u64> {
    let items = shape.iter().try_fold(1_u64, |product, length| product.checked_mul(*length));
    items
        .filter(|items| *items <= ARRAY_ITEMS)
        .ok_or(Error::Limit { what: "items of an array in a compound", limit: ARRAY_ITEMS })
}

/// Returns an array type as a compound with a member for each index along its first axis: no reader opens structures with
/// array members, and these bytes are the same.
pub(super) fn array_as_compound(base: &Datatype, shape: &[u64]) -> Result<Datatype> {
    array_items(shape)?;
    let Some((count, inner)) = shape.split_first() else { return Ok(base.clone()) };
    let item = match inner {
        [] => base.clone(),
        _ => Datatype::Array { base: Box::new(base.clone()), shape: inner.to_vec() },
    };
    let bytes = |count: u64| {
        item.size().checked_mul(count).and_then(|bytes| u32::try_from(bytes).ok()).ok_or(TOO_LARGE)
    };
    let member = |n: u64| Ok(Member { name: n.to_string(), offset: bytes(n)?, datatype: item.clone() });
    Ok(Datatype::Compound { size: bytes(*count)?, members: (0..*count).map(member).collect::<Result<_>>()? })
}

/// Returns the name of the first member of a compound, also a nested one, that is an array.
pub(super) fn array_member(datatype: &Datatype) -> Option<&str> {
    let Datatype::Compound { members, .. } = datatype else { return None };
    members.iter().find_map(|member| match &member.datatype {
        Datatype::Array { .. } => Some(member.name.as_str()),
        other => array_member(other),
    })
}

/// Collects the multi-byte numbers in packed fields, the first of which starts at `start`: (offset, bytes, byte order).
fn collect_numbers(fields: &[Field], start: u32, numbers: &mut Vec<(u32, u32, Endian)>) {
    let mut at = start;
    for field in fields {
        let size = field.size().and_then(|size| u32::try_from(size).ok()).unwrap_or(0);
        let number = u32::try_from(field.data_type.number_size()).unwrap_or(1);
        match &field.data_type {
            DataType::Struct(inner) => collect_numbers(inner, at, numbers),
            _ if number > 1 => {
                numbers.extend((0..size / number).map(|n| (at + n * number, number, field.endian)));
            }
            _ => {}
        }
        at = at.saturating_add(size);
    }
}

fn set_order(fields: &mut [Field], endian: Endian) {
    for field in fields {
        field.endian = endian;
        if let DataType::Struct(inner) = &mut field.data_type {
            set_order(inner, endian);
        }
    }
}
