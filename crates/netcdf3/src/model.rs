//! The contents of a file's header as plain data.

use std::fmt;

use bytes::Bytes;

/// A NetCDF classic file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct File {
    /// Variant of the format.
    pub version: Version,
    /// Dimensions, in the order of their ids.
    pub dimensions: Vec<Dimension>,
    /// Global attributes.
    pub attributes: Vec<Attribute>,
    /// Variables, in the order of their ids.
    pub variables: Vec<Variable>,
    /// Records.
    pub records: Records,
}

/// Variant of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// CDF-1: classic, with offsets of 32 bits.
    Classic,
    /// CDF-2: offsets of 64 bits.
    Offset64,
    /// CDF-5: offsets, counts and lengths of 64 bits, and further types.
    Data64,
}

/// A dimension.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dimension {
    /// Name.
    pub name: String,
    /// Length; `None` for the record dimension.
    pub length: Option<u64>,
}

/// An attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attribute {
    /// Name.
    pub name: String,
    /// Type of a value.
    pub data_type: DataType,
    /// Values in big-endian byte order, without padding.
    pub values: Bytes,
}

/// A variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variable {
    /// Name.
    pub name: String,
    /// Ids of the dimensions, slowest first.
    pub dimensions: Vec<usize>,
    /// Attributes.
    pub attributes: Vec<Attribute>,
    /// Type of an element. Elements are big-endian.
    pub data_type: DataType,
    /// Offset of the data; of the first record for a record variable.
    pub begin: u64,
    /// Bytes of the data without padding; of one record for a record variable.
    pub size: u64,
    /// Whether the first dimension is the record dimension.
    pub is_record: bool,
}

/// The records of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Records {
    /// Number of records.
    pub count: u64,
    /// Bytes from a record to the next.
    pub stride: u64,
    /// Whether the header does not state the count, which then follows from the size of the file.
    pub is_streamed: bool,
}

/// An external data type (`nc_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataType {
    /// 8-bit signed integer.
    Byte,
    /// 8-bit character.
    Char,
    /// 16-bit signed integer.
    Short,
    /// 32-bit signed integer.
    Int,
    /// 32-bit float.
    Float,
    /// 64-bit float.
    Double,
    /// 8-bit unsigned integer.
    UByte,
    /// 16-bit unsigned integer.
    UShort,
    /// 32-bit unsigned integer.
    UInt,
    /// 64-bit signed integer.
    Int64,
    /// 64-bit unsigned integer.
    UInt64,
}

impl File {
    /// Returns the shape of a variable, slowest axis first.
    pub fn shape(&self, variable: &Variable) -> Vec<u64> {
        let dimensions = variable.dimensions.iter().filter_map(|id| self.dimensions.get(*id));
        dimensions.map(|dimension| dimension.length.unwrap_or(self.records.count)).collect()
    }
}

impl DataType {
    /// Returns the bytes of an element.
    pub const fn size(self) -> u64 {
        match self {
            Self::Byte | Self::Char | Self::UByte => 1,
            Self::Short | Self::UShort => 2,
            Self::Int | Self::Float | Self::UInt => 4,
            Self::Double | Self::Int64 | Self::UInt64 => 8,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Classic => "CDF-1",
            Self::Offset64 => "CDF-2",
            Self::Data64 => "CDF-5",
        })
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Byte => "NC_BYTE",
            Self::Char => "NC_CHAR",
            Self::Short => "NC_SHORT",
            Self::Int => "NC_INT",
            Self::Float => "NC_FLOAT",
            Self::Double => "NC_DOUBLE",
            Self::UByte => "NC_UBYTE",
            Self::UShort => "NC_USHORT",
            Self::UInt => "NC_UINT",
            Self::Int64 => "NC_INT64",
            Self::UInt64 => "NC_UINT64",
        })
    }
}
