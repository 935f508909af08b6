//! `virtualize.integers`: integers that are stored with unused bits, or in a size that Zarr lacks. HDF5's datatypes have a
//! precision and a bit offset, and its nbit filter is used with them.

use serde_json::{Value, json};

use super::{Codec, Definition, EncodedLength, Implementation, OwnName, definition::Encoded};
use crate::Endian;

pub(super) const DEFINITION: Definition = Definition {
    own: Some(OwnName {
        name: "virtualize.integers",
        configuration: |codec| match codec {
            Codec::Integers { size, endian, stored } => Some(json!({
                "size": size, "byte_order": order(*endian), "stored_size": stored.size,
                "stored_byte_order": order(stored.endian), "offset": stored.offset, "precision": stored.precision,
                "signed": stored.signed,
            })),
            _ => None,
        },
        parse: |encoded| {
            Some(Codec::Integers {
                size: encoded.number("size")?,
                endian: endian(encoded, "byte_order")?,
                stored: StoredInteger {
                    size: encoded.number("stored_size")?,
                    endian: endian(encoded, "stored_byte_order")?,
                    offset: encoded.number("offset")?,
                    precision: encoded.number("precision")?,
                    signed: encoded.get("signed")?.as_bool()?,
                },
            })
        },
    }),
    implementation: Implementation::Complete,
    encoded_length: EncodedLength::Computed(|codec, decoded| match codec {
        Codec::Integers { size, stored, .. } => {
            decoded.checked_div(u64::from(*size))?.checked_mul(u64::from(stored.size))
        }
        _ => None,
    }),
    describe: |_| "integers with unused bits".to_owned(),
    examples: || {
        let stored = |size, offset, precision, endian, signed| Codec::Integers {
            size: 2,
            endian: Endian::Little,
            stored: StoredInteger { size, endian, offset, precision, signed },
        };
        vec![stored(4, 3, 16, Endian::Big, false), stored(3, 0, 15, Endian::Little, true)]
    },
    ..Definition::internal()
};

/// An integer as it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredInteger {
    /// Bytes, at most 16.
    pub size: u32,
    /// Byte order.
    pub endian: Endian,
    /// First significant bit, from the least significant one.
    pub offset: u16,
    /// Significant bits.
    pub precision: u16,
    /// Whether the significant bits are in two's complement.
    pub signed: bool,
}

fn order(endian: Endian) -> &'static str {
    if endian == Endian::Big { "big" } else { "little" }
}

fn endian(encoded: &Encoded<'_>, member: &str) -> Option<Endian> {
    match encoded.get(member).and_then(Value::as_str)? {
        "big" => Some(Endian::Big),
        "little" => Some(Endian::Little),
        _ => None,
    }
}
