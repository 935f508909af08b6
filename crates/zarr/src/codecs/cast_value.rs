//! Parameters of `cast_value`, an extension of Zarr v3.
//! <https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/cast_value>
//!
//! The arithmetic is in [`crate::Arithmetic`].

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{DataType, FillValue, FillValueError, ZarrFormat};

/// Rounding of numbers that the target type cannot represent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rounding {
    /// To the nearest, ties to even.
    #[default]
    NearestEven,
    /// Towards zero.
    TowardsZero,
    /// Towards +∞.
    TowardsPositive,
    /// Towards −∞.
    TowardsNegative,
    /// To the nearest, ties away from zero.
    NearestAway,
}

/// Treatment of numbers outside the range of the target type. Without one they are an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutOfRange {
    /// The nearest end of the range; an infinity where the target type has one.
    Clamp,
    /// Modulo 2ⁿ, for targets that are integers of n bits.
    Wrap,
}

/// Scalars that are replaced before any other step. Of two entries for the same scalar the first applies.
///
/// Each scalar is encoded as a fill value of its type in Zarr v3 ([`FillValue::to_json`]): integers exact to 64 bits,
/// NaNs other than the canonical one as `0x…`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ScalarMap {
    /// Replacements when encoding: array scalar, stored scalar.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub encode: Vec<(Value, Value)>,
    /// Replacements when decoding: stored scalar, array scalar.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decode: Vec<(Value, Value)>,
}

impl ScalarMap {
    /// Replaces an array scalar (such as NaN) by a stored scalar (a sentinel), and back.
    ///
    /// # Errors
    /// A scalar that does not belong to its type.
    pub fn both_ways(
        (array_type, array): (&DataType, &FillValue),
        (stored_type, stored): (&DataType, &FillValue),
    ) -> Result<Self, FillValueError> {
        let array = array.to_json(array_type, ZarrFormat::V3)?;
        let stored = stored.to_json(stored_type, ZarrFormat::V3)?;
        Ok(Self { encode: vec![(array.clone(), stored.clone())], decode: vec![(stored, array)] })
    }
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A data type as Zarr v3 encodes it.
pub(super) mod data_type {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
    use serde_json::Value;

    use crate::{DataType, read::data_type_from_v3};

    pub(in super::super) fn serialize<S: Serializer>(
        data_type: &DataType,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        data_type.to_v3().map_err(S::Error::custom)?.serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<DataType, D::Error> {
        data_type_from_v3(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
