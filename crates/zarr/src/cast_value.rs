//! Parameters of the codec `cast_value` (extension of Zarr v3, `codecs/cast_value` of zarr-extensions).

use serde_json::{Map, Value, json};

use crate::{CodecError, DataType, FillValue, FillValueError, ZarrFormat};

/// How a number that the target type does not have becomes one that it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rounding {
    /// To the nearest, halves to the even one.
    #[default]
    NearestEven,
    /// To the next one towards zero.
    TowardsZero,
    /// To the next larger one.
    TowardsPositive,
    /// To the next smaller one.
    TowardsNegative,
    /// To the nearest, halves away from zero.
    NearestAway,
}

/// What becomes of numbers past the ends of the target type. Without one they are an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutOfRange {
    /// The nearest end; an infinity where the target type has it.
    Clamp,
    /// Modulo 2ⁿ, for targets that are integers of n bits.
    Wrap,
}

/// Scalars that are replaced before anything else is done with them; of two entries for the same scalar the first holds.
///
/// Each scalar is spelled as a fill value of its type in Zarr v3 ([`FillValue::to_json`]): integers exact to 64 bits,
/// NaNs other than the plain one as `0x…`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ScalarMap {
    /// From the array's side to the stored side.
    pub encode: Vec<(Value, Value)>,
    /// From the stored side to the array's side.
    pub decode: Vec<(Value, Value)>,
}

impl Rounding {
    /// All, in the order of the specification.
    pub const ALL: [Self; 5] = [
        Self::NearestEven,
        Self::TowardsZero,
        Self::TowardsPositive,
        Self::TowardsNegative,
        Self::NearestAway,
    ];

    /// The name in metadata.
    pub fn name(self) -> &'static str {
        match self {
            Self::NearestEven => "nearest-even",
            Self::TowardsZero => "towards-zero",
            Self::TowardsPositive => "towards-positive",
            Self::TowardsNegative => "towards-negative",
            Self::NearestAway => "nearest-away",
        }
    }
}

impl OutOfRange {
    /// The name in metadata.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clamp => "clamp",
            Self::Wrap => "wrap",
        }
    }
}

impl ScalarMap {
    /// One scalar of the array's side (NaN, say) for one of the stored side (a sentinel), both ways.
    ///
    /// # Errors
    /// A scalar that is not one of its type.
    pub fn both_ways(
        (array_type, array): (&DataType, &FillValue),
        (stored_type, stored): (&DataType, &FillValue),
    ) -> Result<Self, FillValueError> {
        let array = array.to_json(array_type, ZarrFormat::V3)?;
        let stored = stored.to_json(stored_type, ZarrFormat::V3)?;
        Ok(Self { encode: vec![(array.clone(), stored.clone())], decode: vec![(stored, array)] })
    }

    /// Whether nothing is replaced.
    pub fn is_empty(&self) -> bool {
        self.encode.is_empty() && self.decode.is_empty()
    }

    fn to_v3(&self) -> Value {
        let given = [("encode", &self.encode), ("decode", &self.decode)];
        let spell = |entries: &[(Value, Value)]| entries.iter().map(|(from, to)| json!([from, to])).collect();
        given
            .into_iter()
            .filter(|(_, entries)| !entries.is_empty())
            .map(|(name, entries)| (name.to_owned(), Value::Array(spell(entries))))
            .collect::<Map<_, _>>()
            .into()
    }
}

/// The codec as an entry of `codecs`: only what is not the default is written.
pub(crate) fn to_v3(
    data_type: &DataType,
    rounding: Rounding,
    out_of_range: Option<OutOfRange>,
    scalar_map: &ScalarMap,
) -> Result<Value, CodecError> {
    let mut configuration = Map::new();
    configuration.insert("data_type".to_owned(), data_type.to_v3()?);
    if rounding != Rounding::default() {
        configuration.insert("rounding".to_owned(), rounding.name().into());
    }
    if let Some(mode) = out_of_range {
        configuration.insert("out_of_range".to_owned(), mode.name().into());
    }
    if !scalar_map.is_empty() {
        configuration.insert("scalar_map".to_owned(), scalar_map.to_v3());
    }
    Ok(json!({"name": "cast_value", "configuration": configuration}))
}
