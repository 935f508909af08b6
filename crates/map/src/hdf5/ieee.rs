//! The formats of IEEE 754 among HDF5's floating-point datatypes.

use virtualize_hdf5::model::Float;
use virtualize_zarr::DataType;

/// One of the formats of IEEE 754, as the fields of HDF5's floating-point datatype.
pub(super) struct IeeeFormat {
    /// Bytes.
    size: u32,
    /// Position of the sign bit.
    sign_location: u8,
    /// Position of the first exponent bit.
    exponent_location: u8,
    /// Bits of the exponent.
    pub(super) exponent_size: u8,
    /// Bits of the mantissa, the implied one not counted. They start at bit 0.
    pub(super) mantissa_size: u8,
    exponent_bias: u32,
    pub(super) data_type: DataType,
}

/// binary16, binary32 and binary64, in this order.
#[rustfmt::skip]
pub(super) static IEEE: [IeeeFormat; 3] = [
    IeeeFormat {
        size: 2, sign_location: 15, exponent_location: 10, exponent_size: 5, mantissa_size: 10, exponent_bias: 15,
        data_type: DataType::Float16,
    },
    IeeeFormat {
        size: 4, sign_location: 31, exponent_location: 23, exponent_size: 8, mantissa_size: 23, exponent_bias: 127,
        data_type: DataType::Float32,
    },
    IeeeFormat {
        size: 8, sign_location: 63, exponent_location: 52, exponent_size: 11, mantissa_size: 52, exponent_bias: 1023,
        data_type: DataType::Float64,
    },
];

impl IeeeFormat {
    /// Whether a datatype is this format. The normalization "most significant bit not stored" is number 2.
    fn is(&self, float: &Float) -> bool {
        self.size == float.size
            && self.sign_location == float.sign_location
            && self.exponent_location == float.exponent_location
            && self.exponent_size == float.exponent_size
            && self.mantissa_size == float.mantissa_size
            && self.exponent_bias == float.exponent_bias
            && u32::from(float.precision) == self.size * 8
            && (float.bit_offset, float.mantissa_location, float.normalization) == (0, 0, 2)
    }

    /// Whether the format has every value of another one whose largest exponent field is `highest`.
    pub(super) fn holds(&self, float: &Float, highest: i64) -> bool {
        let (bias, own_bias) = (i64::from(float.exponent_bias), i64::from(self.exponent_bias));
        let own_highest = (1_i64 << self.exponent_size) - 1;
        self.size >= float.size
            && float.mantissa_size <= self.mantissa_size
            && highest - bias <= own_highest - own_bias
            && 1 - bias >= 1 - own_bias
    }
}

/// Returns the data type of a float that is in an IEEE 754 format.
pub(super) fn ieee_type(float: &Float) -> Option<&'static DataType> {
    IEEE.iter().find(|format| format.is(float)).map(|format| &format.data_type)
}
