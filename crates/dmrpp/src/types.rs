//! DAP4 types of variables and attributes (DAP4 specification, volume 1, "Types") as HDF5 datatypes.

use virtualize_hdf5::model::{
    ByteOrder, CharacterSet, Datatype, Float, Integer, ReferenceKind, StringPadding,
};

/// A number type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Number {
    /// Size in bytes, and whether the integer is signed.
    Integer(u32, bool),
    /// Size in bytes: 4 or 8.
    Float(u32),
}

impl Number {
    /// Returns the type with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "Byte" | "UInt8" => Self::Integer(1, false),
            "Int8" => Self::Integer(1, true),
            "Int16" => Self::Integer(2, true),
            "UInt16" => Self::Integer(2, false),
            "Int32" => Self::Integer(4, true),
            "UInt32" => Self::Integer(4, false),
            "Int64" => Self::Integer(8, true),
            "UInt64" => Self::Integer(8, false),
            "Float32" => Self::Float(4),
            "Float64" => Self::Float(8),
            _ => return None,
        })
    }

    pub(crate) fn size(self) -> u32 {
        match self {
            Self::Integer(size, _) | Self::Float(size) => size,
        }
    }

    /// Parses an integer of this type.
    pub(crate) fn integer(self, text: &str) -> Option<i128> {
        let Self::Integer(size, signed) = self else { return None };
        let bits = size.checked_mul(8)?;
        let (low, high) = if signed {
            (1_i128.checked_shl(bits.checked_sub(1)?)?.checked_neg()?, bits.checked_sub(1)?)
        } else {
            (0, bits)
        };
        let high = 1_i128.checked_shl(high)?;
        text.parse::<i128>().ok().filter(|value| (low..high).contains(value))
    }

    /// Returns the datatype.
    pub(crate) fn datatype(self, order: ByteOrder) -> Datatype {
        match self {
            Self::Integer(size, signed) => Datatype::Integer(Integer {
                size,
                order,
                signed,
                bit_offset: 0,
                precision: u16::try_from(size.saturating_mul(8)).unwrap_or(u16::MAX),
            }),
            Self::Float(4) => Datatype::Float(Float::ieee(true, order)),
            Self::Float(_) => Datatype::Float(Float::ieee(false, order)),
        }
    }
}

/// Returns the type of text in attributes.
pub(crate) fn text() -> Datatype {
    Datatype::VariableString { size: 16, padding: StringPadding::NullTerminated, charset: CharacterSet::Utf8 }
}

/// Returns the type of lists of object references, such as `DIMENSION_LIST`.
pub(crate) fn references() -> Datatype {
    let reference = Datatype::Reference { size: 8, kind: ReferenceKind::Object };
    Datatype::Sequence { size: 16, base: Box::new(reference) }
}
