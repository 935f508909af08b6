//! `cast_value`, an extension of Zarr v3, and its parameters.
//! <https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/cast_value>
//!
//! The arithmetic is in [`crate::Arithmetic`].

use serde_json::{Map, Value, json};

use super::{Codec, Definition, EncodedLength, Registry, definition::Encoded};
use crate::{
    DataType, FillValue, FillValueError, ZarrFormat,
    chunk_reader::{Need, Reader},
    read::data_type_from_v3,
};

pub(super) const DEFINITION: Definition = Definition {
    is_arithmetic: true,
    decodes_prefixes: false,
    configuration: |codec, format| match (codec, format) {
        (Codec::CastValue { .. }, ZarrFormat::V3) => parameters(codec),
        _ => None,
    },
    parse,
    encoded_length: EncodedLength::Varies,
    readers: &[Reader::Zarrita],
    zarr_python_needs: Some(Need::CastValueRs),
    describe: |codec| match codec {
        Codec::CastValue { data_type, .. } => format!("a cast to {data_type}"),
        _ => String::new(),
    },
    examples: || {
        vec![Codec::CastValue {
            data_type: DataType::Int16,
            rounding: Rounding::TowardsZero,
            out_of_range: Some(OutOfRange::Clamp),
            scalar_map: ScalarMap { encode: vec![(json!("NaN"), json!(-1))], decode: Vec::new() },
        }]
    },
    ..Definition::array_to_array(Registry::Core, &["cast_value"])
};

/// Returns the configuration without parameters that have their defaults.
fn parameters(codec: &Codec) -> Option<Value> {
    let Codec::CastValue { data_type, rounding, out_of_range, scalar_map } = codec else { return None };
    let mut configuration = Map::new();
    configuration.insert("data_type".to_owned(), data_type.to_v3().ok()?);
    if *rounding != Rounding::default() {
        configuration.insert("rounding".to_owned(), rounding.name().into());
    }
    if let Some(mode) = out_of_range {
        configuration.insert("out_of_range".to_owned(), mode.name().into());
    }
    if !scalar_map.is_empty() {
        configuration.insert("scalar_map".to_owned(), scalar_map.to_v3());
    }
    Some(Value::Object(configuration))
}

fn parse(encoded: &Encoded<'_>) -> Option<Codec> {
    let rounding = match encoded.get("rounding") {
        None => Rounding::default(),
        Some(name) => Rounding::ALL.into_iter().find(|mode| Some(mode.name()) == name.as_str())?,
    };
    let out_of_range = match encoded.get("out_of_range").map(|name| name.as_str()) {
        None => None,
        Some(Some("clamp")) => Some(OutOfRange::Clamp),
        Some(Some("wrap")) => Some(OutOfRange::Wrap),
        Some(_) => return None,
    };
    let pairs = |name: &str| match encoded.get("scalar_map").and_then(|map| map.get(name)) {
        None => Some(Vec::new()),
        Some(pairs) => pairs.as_array()?.iter().map(pair).collect::<Option<Vec<_>>>(),
    };
    Some(Codec::CastValue {
        data_type: data_type_from_v3(encoded.get("data_type")?).ok()?,
        rounding,
        out_of_range,
        scalar_map: ScalarMap { encode: pairs("encode")?, decode: pairs("decode")? },
    })
}

fn pair(pair: &Value) -> Option<(Value, Value)> {
    match pair.as_array()?.as_slice() {
        [from, to] => Some((from.clone(), to.clone())),
        _ => None,
    }
}

/// Rounding of numbers that the target type cannot represent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ScalarMap {
    /// Replacements when encoding: array scalar, stored scalar.
    pub encode: Vec<(Value, Value)>,
    /// Replacements when decoding: stored scalar, array scalar.
    pub decode: Vec<(Value, Value)>,
}

impl Rounding {
    /// All modes, in the order of the specification.
    pub const ALL: [Self; 5] = [
        Self::NearestEven,
        Self::TowardsZero,
        Self::TowardsPositive,
        Self::TowardsNegative,
        Self::NearestAway,
    ];

    /// Returns the name in metadata.
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
    /// Returns the name in metadata.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clamp => "clamp",
            Self::Wrap => "wrap",
        }
    }
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

    /// Whether no scalar is replaced.
    pub fn is_empty(&self) -> bool {
        self.encode.is_empty() && self.decode.is_empty()
    }

    fn to_v3(&self) -> Value {
        let given = [("encode", &self.encode), ("decode", &self.decode)];
        let encode =
            |entries: &[(Value, Value)]| entries.iter().map(|(from, to)| json!([from, to])).collect();
        given
            .into_iter()
            .filter(|(_, entries)| !entries.is_empty())
            .map(|(name, entries)| (name.to_owned(), Value::Array(encode(entries))))
            .collect::<Map<_, _>>()
            .into()
    }
}
