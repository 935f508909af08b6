//! HDF5's scale-offset filter (6), which no released client decodes.
//! <https://github.com/HDFGroup/hdf5/blob/develop/src/H5Zscaleoffset.c>

use serde_json::{Value, json};

use super::{Codec, Definition, OwnName, definition::Encoded};

const BYTE_ORDERS: [&str; 2] = ["little", "big"];

pub(super) const DEFINITION: Definition = Definition {
    own: Some(OwnName {
        name: "virtualize.scaleoffset",
        configuration: |codec| match codec {
            Codec::Hdf5ScaleOffset(client_data) => configuration(client_data),
            _ => None,
        },
        parse: |encoded| parse(encoded).map(Codec::Hdf5ScaleOffset),
    }),
    describe: |_| "the HDF5 filter scale-offset".to_owned(),
    examples: || {
        vec![
            Codec::Hdf5ScaleOffset(vec![2, 0, 1200, 0, 2, 0, 0, 0]),
            Codec::Hdf5ScaleOffset(vec![2, 0, 300, 0, 8, 1, 1, 1, 7, u32::MAX]),
            Codec::Hdf5ScaleOffset(vec![0, 3, 600, 1, 4, 1, 0, 1, 7, 0]),
            Codec::Hdf5ScaleOffset(vec![0, u32::MAX, 600, 1, 4, 1, 0, 0]),
        ]
    },
    ..Definition::internal()
};

/// Encodes client data: scale type, scale factor, elements, class (0 integer, 1 float), size, sign, byte order, whether a
/// fill value is defined, the fill value in 4-byte words.
fn configuration(client_data: &[u32]) -> Option<Value> {
    let [scale_type, factor, elements, class, size, _sign, order, filled, fill @ ..] = client_data else {
        return None;
    };
    let order = BYTE_ORDERS.get(usize::try_from(*order).ok()?)?;
    let mut configuration = match (class, scale_type) {
        (0, 2) => json!({"type": "integer"}),
        (1, 0) => json!({"type": "float", "decimals": factor.cast_signed()}),
        _ => return None,
    };
    let members = configuration.as_object_mut()?;
    members.insert("size".to_owned(), (*size).into());
    members.insert("byte_order".to_owned(), (*order).into());
    members.insert("elements".to_owned(), (*elements).into());
    if *filled != 0 {
        let word = |at| u64::from(fill.get(at).copied().unwrap_or(0));
        members.insert("fill_value_bits".to_owned(), ((word(1) << 32) | word(0)).into());
    }
    Some(configuration)
}

fn parse(encoded: &Encoded<'_>) -> Option<Vec<u32>> {
    let (scale_type, factor, class) = match encoded.text("type")? {
        "integer" => (2, 0, 0),
        "float" => (0, encoded.number::<i32>("decimals")?.cast_unsigned(), 1),
        _ => return None,
    };
    let order = encoded.text("byte_order")?;
    let order = u32::try_from(BYTE_ORDERS.iter().position(|known| *known == order)?).ok()?;
    let mut client_data =
        vec![scale_type, factor, encoded.number("elements")?, class, encoded.number("size")?, 0, order];
    match encoded.get("fill_value_bits") {
        None => client_data.push(0),
        Some(bits) => {
            let bits = bits.as_u64()?;
            client_data.push(1);
            client_data.extend([u32::try_from(bits & 0xffff_ffff).ok()?, u32::try_from(bits >> 32).ok()?]);
        }
    }
    Some(client_data)
}
