//! HDF5 compounds as Zarr structures of packed fields.

use std::collections::BTreeSet;

use virtualize_hdf5::model::{Datatype, Member};
use virtualize_zarr::{DataType, Endian, Field, ZarrFormat};

use super::describe::describe_type;
use super::types::{ElementType, element_type, field};
use crate::ElementTransform;

/// The structure of a compound; its members are moved together where they leave gaps or lie in another order.
pub(super) fn structure_type(
    size: u32,
    members: &[Member],
    format: ZarrFormat,
) -> Result<ElementType, String> {
    if members.is_empty() {
        return Err("the compound has no members".to_owned());
    }
    if members.iter().map(|member| &member.name).collect::<BTreeSet<_>>().len() != members.len() {
        return Err("two members of the compound have the same name".to_owned());
    }
    let mut fields = Vec::with_capacity(members.len());
    let mut parts = Vec::new();
    for member in members {
        let element = member_type(member, format)?;
        for (from, length) in member_parts(&element)? {
            let from = member.offset.checked_add(from).ok_or("a member leaves the compound")?;
            place(&mut parts, from, length, size)?;
        }
        fields.push(field(&member.name, &element));
    }
    let endian = endian_of_fields(&fields, format)?;
    let packed = parts == [(0, 0, size)];
    Ok(ElementType {
        data_type: DataType::Struct(fields),
        endian,
        axes: Vec::new(),
        stored_size: size.into(),
        transform: match packed {
            true => ElementTransform::None,
            false => ElementTransform::Repack { stored_size: size, parts },
        },
    })
}

fn member_type(member: &Member, format: ZarrFormat) -> Result<ElementType, String> {
    let refuse = |why: &str| format!("member \"{}\" of the compound: {why}", member.name);
    if let reference @ Datatype::Reference { .. } = &member.datatype {
        return Err(refuse(&format!("Zarr has no type for a {}", describe_type(reference))));
    }
    let element = element_type(&member.datatype, format).map_err(|why| refuse(&why))?;
    if element.data_type.size().is_none() {
        return Err(refuse("zarr-python opens no structures that hold text of variable length"));
    }
    if !element.axes.is_empty() {
        return Err(refuse("zarr-python opens no structures that hold arrays"));
    }
    match element.transform {
        ElementTransform::Integer { .. } => return Err(refuse("an integer has unused bits")),
        ElementTransform::Float { .. } => return Err(refuse("a float is in no IEEE 754 format")),
        ElementTransform::ComplexInteger { .. } => return Err(refuse("complex integers become floats")),
        ElementTransform::None | ElementTransform::Repack { .. } => {}
    }
    Ok(element)
}

/// The bytes of a member that count: (offset in the member, length), in the order of its fields.
fn member_parts(element: &ElementType) -> Result<Vec<(u32, u32)>, String> {
    match &element.transform {
        ElementTransform::Repack { parts, .. } => {
            Ok(parts.iter().map(|(from, _, length)| (*from, *length)).collect())
        }
        _ => {
            let size =
                u32::try_from(element.stored_size).map_err(|_| "the compound is too big".to_owned())?;
            Ok(vec![(0, size)])
        }
    }
}

/// Appends a member to the parts to copy; one that follows the last in both places lengthens it.
fn place(parts: &mut Vec<(u32, u32, u32)>, offset: u32, length: u32, size: u32) -> Result<(), String> {
    if offset.checked_add(length).is_none_or(|end| end > size) {
        return Err(format!("a member of {length} bytes at {offset} leaves the compound of {size} bytes"));
    }
    let to = parts.iter().map(|(_, _, length)| length).sum::<u32>();
    match parts.last_mut() {
        Some((from, _, bytes)) if *from + *bytes == offset => *bytes += length,
        _ => parts.push((offset, to, length)),
    }
    Ok(())
}

/// The byte order of all numbers of a structure. Zarr v3 has one for the whole array.
fn endian_of_fields(fields: &[Field], format: ZarrFormat) -> Result<Endian, String> {
    let mut orders = Vec::new();
    collect_orders(fields, &mut orders);
    let first = orders.first().copied().unwrap_or(Endian::Little);
    if format == ZarrFormat::V3 && orders.iter().any(|order| *order != first) {
        return Err("members of different byte order have no spelling in Zarr v3".to_owned());
    }
    Ok(first)
}

fn collect_orders(fields: &[Field], orders: &mut Vec<Endian>) {
    for field in fields {
        match &field.data_type {
            DataType::Struct(inner) => collect_orders(inner, orders),
            data_type if data_type.number_size() > 1 => orders.push(field.endian),
            _ => {}
        }
    }
}
