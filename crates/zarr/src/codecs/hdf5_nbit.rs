//! HDF5's nbit filter (5), which no released client decodes.
//! <https://github.com/HDFGroup/hdf5/blob/develop/src/H5Znbit.c>

use serde_json::{Value, json};

use super::{Codec, Definition, OwnName};

const BYTE_ORDERS: [&str; 2] = ["little", "big"];

/// Greatest depth of nested types.
const DEPTH: usize = 32;

pub(super) const DEFINITION: Definition = Definition {
    own: Some(OwnName {
        name: "virtualize.nbit",
        configuration: |codec| match codec {
            Codec::Hdf5Nbit(client_data) => configuration(client_data),
            _ => None,
        },
        parse: |encoded| {
            let mut client_data = vec![0, 0, encoded.number("elements")?];
            push_type(encoded.get("type")?, DEPTH, &mut client_data)?;
            if let (Ok(count), Some(first)) = (u32::try_from(client_data.len()), client_data.first_mut()) {
                *first = count;
            }
            Some(Codec::Hdf5Nbit(client_data))
        },
    }),
    describe: |_| "the HDF5 filter nbit".to_owned(),
    examples: || {
        vec![
            Codec::Hdf5Nbit(vec![8, 0, 1200, 1, 2, 0, 10, 3]),
            Codec::Hdf5Nbit(vec![19, 0, 300, 3, 8, 2, 0, 2, 4, 1, 2, 1, 12, 4, 4, 4, 4]),
        ]
    },
    ..Definition::internal()
};

/// Encodes client data: number of values, whether chunks are stored unchanged, elements per chunk, the type.
fn configuration(client_data: &[u32]) -> Option<Value> {
    let [_, 0, elements, description @ ..] = client_data else { return None };
    let kind = take_type(&mut description.iter().copied(), DEPTH)?;
    Some(json!({"elements": elements, "type": kind}))
}

/// Decodes a type: 1 atomic (size, byte order, precision, bit offset), 2 array (size, base type), 3 compound (size,
/// number of members, then offset and type of each), 4 any other (size), stored unchanged.
fn take_type(values: &mut dyn Iterator<Item = u32>, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let (class, size) = (values.next()?, values.next()?);
    Some(match class {
        1 => {
            let (order, precision, offset) = (values.next()?, values.next()?, values.next()?);
            let order = BYTE_ORDERS.get(usize::try_from(order).ok()?)?;
            json!({"class": "atomic", "size": size, "byte_order": order, "precision": precision, "offset": offset})
        }
        2 => json!({"class": "array", "size": size, "base": take_type(values, depth)?}),
        3 => {
            let count = values.next()?;
            let mut members = Vec::new();
            for _ in 0..count {
                members.push(json!({"at": values.next()?, "type": take_type(values, depth)?}));
            }
            json!({"class": "compound", "size": size, "members": members})
        }
        4 => json!({"class": "unchanged", "size": size}),
        _ => return None,
    })
}

fn push_type(kind: &Value, depth: usize, out: &mut Vec<u32>) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    let number = |member| u32::try_from(kind.get(member)?.as_u64()?).ok();
    let size = number("size")?;
    match kind.get("class")?.as_str()? {
        "atomic" => {
            let order = kind.get("byte_order")?.as_str()?;
            let order = u32::try_from(BYTE_ORDERS.iter().position(|known| *known == order)?).ok()?;
            out.extend([1, size, order, number("precision")?, number("offset")?]);
        }
        "array" => {
            out.extend([2, size]);
            push_type(kind.get("base")?, depth, out)?;
        }
        "compound" => {
            let members = kind.get("members")?.as_array()?;
            out.extend([3, size, u32::try_from(members.len()).ok()?]);
            for member in members {
                out.push(u32::try_from(member.get("at")?.as_u64()?).ok()?);
                push_type(member.get("type")?, depth, out)?;
            }
        }
        "unchanged" => out.extend([4, size]),
        _ => return None,
    }
    Some(())
}
