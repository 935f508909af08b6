//! The text of extents in journals: a JSON array with an element for each dimension.
//!
//! ```text
//! [[24,[0,23,"+",12638153115695167455,"hours since 2000-01-01",null]]]
//!   │   │ │   │  │                    │                        └ calendar
//!   │   │ │   │  │                    └ units
//!   │   │ │   │  └ hash of the coordinates
//!   │   │ │   └ their order
//!   │   └─┴ first and last coordinate
//!   └ number of elements; null follows if there are no coordinates
//! ```

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Direction, Extent, FileExtent, Range, Units};
use crate::values::Scalar;

type ExtentText<'a> = (u64, Option<RangeText<'a>>);

/// First and last coordinate, order, hash, units, calendar.
type RangeText<'a> = (ScalarText<'a>, ScalarText<'a>, char, u64, Option<Cow<'a, str>>, Option<Cow<'a, str>>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ScalarText<'a> {
    Int(i64),
    Unsigned(u64),
    Float(f64),
    Text(Cow<'a, str>),
    /// A float that is not finite, as its bits.
    Bits([u64; 1]),
}

impl Serialize for FileExtent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.extents().iter().map(|extent| {
            let range = extent.range.as_ref().map(range_text);
            (extent.size, range)
        }))
    }
}

impl<'de> Deserialize<'de> for FileExtent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = Vec::<ExtentText<'de>>::deserialize(deserializer)?;
        let extent = |(size, range): ExtentText<'de>| {
            let range = range.map(|text| range_of(text).ok_or("order of coordinates")).transpose();
            Ok(Extent { size, range: range.map_err(de::Error::custom)? })
        };
        Ok(Self::new(texts.into_iter().map(extent).collect::<Result<_, D::Error>>()?))
    }
}

fn range_text(range: &Range) -> RangeText<'_> {
    let Range { first, last, direction, digest, .. } = range;
    let direction = match direction {
        Direction::Single => '=',
        Direction::Increasing => '+',
        Direction::Decreasing => '-',
        Direction::Neither => '?',
    };
    let units = [range.units(), range.calendar()].map(|text| text.map(Cow::Borrowed));
    let [units, calendar] = units;
    (scalar_text(first), scalar_text(last), direction, *digest, units, calendar)
}

fn range_of((first, last, direction, digest, units, calendar): RangeText<'_>) -> Option<Range> {
    let direction = match direction {
        '=' => Direction::Single,
        '+' => Direction::Increasing,
        '-' => Direction::Decreasing,
        '?' => Direction::Neither,
        _ => return None,
    };
    let [first, last] = [first, last].map(scalar_of);
    let units = (units.is_some() || calendar.is_some()).then(|| {
        let [units, calendar] = [units, calendar].map(|text| text.map(Cow::into_owned));
        Arc::new(Units { units, calendar })
    });
    Some(Range { first, last, direction, digest, units })
}

fn scalar_text(scalar: &Scalar) -> ScalarText<'_> {
    match scalar {
        Scalar::Int(int) => ScalarText::Int(*int),
        Scalar::Unsigned(int) => ScalarText::Unsigned(*int),
        Scalar::Float(float) if float.is_finite() => ScalarText::Float(*float),
        Scalar::Float(float) => ScalarText::Bits([float.to_bits()]),
        Scalar::Text(text) => ScalarText::Text(Cow::Borrowed(text)),
    }
}

fn scalar_of(text: ScalarText<'_>) -> Scalar {
    match text {
        ScalarText::Int(int) => Scalar::Int(int),
        ScalarText::Unsigned(int) => Scalar::Unsigned(int),
        ScalarText::Float(float) => Scalar::Float(float),
        ScalarText::Bits([bits]) => Scalar::Float(f64::from_bits(bits)),
        ScalarText::Text(text) => Scalar::Text(Arc::new(text.into_owned())),
    }
}
