use bytes::Bytes;

/// A scalar of an array's data type, exact to the bit: an array's fill value, or a sentinel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FillValue {
    /// The bytes of one element, little-endian (each member of a structure, each half of a complex number by itself),
    /// as many as [`crate::DataType::size`] says.
    Fixed(Bytes),
    /// A scalar of [`crate::DataType::String`].
    Text(String),
    /// A scalar of [`crate::DataType::VariableBytes`].
    Variable(Bytes),
}
