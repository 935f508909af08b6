//! Finds the extents of a file that was read.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use virtualize::{
    ArrayValues, OptionName, Remedy,
    zarr::{Array, Hierarchy, NodePath, cf::missing::Sentinels},
};
use virtualize_remedy::alternatives;

use crate::{
    Along, Layout, Member,
    compat::{is_coordinate, roles::text},
    error::{CombineError, Problem},
    values::{
        Given, Key, Scalar,
        calendar::{TimeUnits, decode},
        elements, is_even,
    },
};

type Result<T, E = Problem> = std::result::Result<T, E>;

/// The extent of a file along each dimension of the layout: what decides its place among the others.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct FileExtent(pub(crate) Box<[Extent]>);

/// Elements of a file that are selected along a dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Selection {
    /// Start, in elements.
    pub start: u64,
    /// End, exclusive, in elements.
    pub end: u64,
    /// Number of elements of the file.
    pub of: u64,
}

/// The extent of a file along a dimension.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Extent {
    /// Number of elements; 1 along a new dimension.
    pub size: u64,
    /// The range of its coordinates, if it has any.
    pub range: Option<Range>,
}

/// The coordinates of a file along a dimension.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(from = "RangeText", into = "RangeText")]
pub(crate) struct Range {
    /// The first one that is not missing.
    pub first: Scalar,
    /// The last one that is not missing.
    pub last: Scalar,
    /// Their order.
    pub direction: Direction,
    /// Hash that distinguishes coordinates with the same ends. It does not depend on their type, nor on units of time.
    pub digest: u64,
    /// Units and calendar, if the coordinate has any. Files share them.
    pub units: Option<Arc<Units>>,
    /// Whether they are three or more floats, evenly spaced but for rounding.
    pub is_even: bool,
}

/// Units of a coordinate.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Units {
    /// Units, if the coordinate has any.
    pub units: Option<String>,
    /// Calendar, if the coordinate has one.
    pub calendar: Option<String>,
}

/// The order of the coordinates of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Direction {
    /// There is only one.
    #[serde(rename = "=")]
    Single,
    /// Each is greater than the one before.
    #[serde(rename = "+")]
    Increasing,
    /// Each is less than the one before.
    #[serde(rename = "-")]
    Decreasing,
    /// Neither, or some are equal.
    #[serde(rename = "?")]
    Neither,
}

impl FileExtent {
    /// Returns the extent of a file.
    ///
    /// # Errors
    /// A file that lacks a dimension of the layout, or already has one that is to be new; coordinates that were not read.
    pub(crate) fn of(member: &Member, layout: &Layout) -> Result<Self, CombineError> {
        let extent =
            |along| extent(member, along).map_err(|problem| CombineError::of(&member.item.url, problem));
        layout.along.iter().map(extent).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the range of the coordinates along a dimension, by its number.
    pub(super) fn range(&self, dimension: usize) -> Option<&Range> {
        self.0.get(dimension)?.range.as_ref()
    }

    /// Returns the extent with a coordinate from elsewhere along the only dimension.
    pub(super) fn placed_at(&self, value: &Value) -> Option<Self> {
        let [Extent { size, .. }] = *self.0 else { return None };
        Some(Self(Box::new([Extent { size, range: Some(of_one(Given::of(value)?)) }])))
    }

    /// Returns the number of elements along a dimension, by its number.
    pub(super) fn size(&self, dimension: usize) -> u64 {
        self.0.get(dimension).map_or(0, |extent| extent.size)
    }
}

impl Range {
    /// Returns the range of coordinates, without missing ones; `None` if all are missing.
    pub(super) fn of(scalars: &[Scalar], digest: u64, units: Option<Arc<Units>>) -> Option<Self> {
        let (first, last) = (scalars.first()?.clone(), scalars.last()?.clone());
        Some(Self { first, last, direction: direction(scalars), digest, units, is_even: are_even(scalars) })
    }

    /// Returns the range of some of its coordinates.
    pub(super) fn part(&self, scalars: &[Scalar]) -> Option<Self> {
        let digest = digest(scalars.iter().map(Some), self.units.as_deref());
        Self::of(scalars, digest, self.units.clone())
    }

    /// Returns the units of the coordinates.
    pub(crate) fn units(&self) -> Option<&str> {
        self.units.as_ref()?.units.as_deref()
    }

    /// Returns the calendar of the coordinates.
    pub(crate) fn calendar(&self) -> Option<&str> {
        self.units.as_ref()?.calendar.as_deref()
    }

    /// Returns a coordinate as a date, if its units are those of times.
    pub(super) fn date(&self, value: &Scalar) -> Option<String> {
        Some(decode(value, self.units()?, self.calendar())?.1)
    }
}

impl Units {
    /// Returns units to share; `None` if there are neither units nor a calendar.
    pub(crate) fn of(units: Option<&str>, calendar: Option<&str>) -> Option<Arc<Self>> {
        if units.is_none() && calendar.is_none() {
            return None;
        }
        Some(Arc::new(Self { units: units.map(str::to_owned), calendar: calendar.map(str::to_owned) }))
    }

    /// Returns the units of times; `None` for other units.
    pub(super) fn of_times(&self) -> Option<TimeUnits> {
        TimeUnits::parse(self.units.as_deref()?, self.calendar.as_deref())
    }
}

fn direction(scalars: &[Scalar]) -> Direction {
    let keys: Vec<_> = scalars.iter().map(Scalar::key).collect();
    let all = |ordering| {
        keys.windows(2).all(|pair| match pair {
            [Some(left), Some(right)] => left.partial_cmp(right) == Some(ordering),
            _ => false,
        })
    };
    match keys.as_slice() {
        [_] => Direction::Single,
        _ if all(std::cmp::Ordering::Less) => Direction::Increasing,
        _ if all(std::cmp::Ordering::Greater) => Direction::Decreasing,
        _ => Direction::Neither,
    }
}

/// Returns whether coordinates are three or more floats, evenly spaced but for rounding to their type.
fn are_even(scalars: &[Scalar]) -> bool {
    let number = |scalar: &Scalar| if let Scalar::Float(number) = scalar { Some(*number) } else { None };
    let Some(numbers) = scalars.iter().map(number).collect::<Option<Vec<f64>>>() else { return false };
    let [first, _, .., last] = *numbers else { return false };
    let Ok(count) = u32::try_from(numbers.len()) else { return false };
    #[expect(clippy::cast_possible_truncation, reason = "finds out whether they are of type float32")]
    let is_single = numbers.iter().all(|number| f64::from(*number as f32) == *number);
    let epsilon = if is_single { f64::from(f32::EPSILON) } else { f64::EPSILON };
    let step = (last - first) / f64::from(count - 1);
    is_even(&numbers, step, epsilon * first.abs().max(last.abs()))
}

/// The factor of FNV-1a with 64 bits.
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// Returns a hash (FNV-1a, 64 bits) of coordinates, which does not depend on their type: of times in nanoseconds, of other
/// numbers and texts in decimal notation. Missing ones count as empty.
fn digest<'a>(scalars: impl IntoIterator<Item = Option<&'a Scalar>>, units: Option<&Units>) -> u64 {
    let units = units.and_then(Units::of_times);
    let shown = |scalar: &Scalar| match units.as_ref().and_then(|units| scalar.time_key(units)) {
        Some(Key::Int(time)) => time.to_string(),
        _ => scalar.to_string(),
    };
    let texts = scalars.into_iter().map(|scalar| scalar.map(shown).unwrap_or_default());
    let bytes = texts.flat_map(|text| text.into_bytes().into_iter().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// Returns the extent of a file along a dimension.
pub(super) fn extent(member: &Member, along: &Along) -> Result<Extent> {
    match along {
        Along::Concat(name) => existing(member, name),
        Along::Stack(name) => Ok(Extent { size: 1, range: stacked(member, name)? }),
    }
}

fn not_read(path: &str) -> Problem {
    Problem::new(format!("the values of {path} were not read"))
}

/// Returns what can be done about files without coordinates.
pub(super) fn order_by_name() -> Remedy {
    Remedy::set(OptionName::Coord, "DIM=name:PATTERN", "order files by their names")
}

fn existing(member: &Member, name: &str) -> Result<Extent> {
    let Some((path, array, axis)) = bearer(&member.hierarchy, name) else {
        let existing = dimensions(&member.hierarchy);
        let existing = alternatives("dimensions", name, existing.iter().map(String::as_str));
        let problem = Problem::new(format!("no array has a dimension {name}{existing}"));
        let remedy = Remedy::set(OptionName::StackDim, name.to_owned(), "add it as a new dimension");
        return Err(problem.with(remedy));
    };
    let size = array.shape.get(axis).copied().unwrap_or(0);
    if is_coordinate(&path, array) && !member.given.contains_key(name) {
        if size == 0 {
            return Ok(Extent { size, range: None });
        }
        let values = member.values.get(&path).ok_or_else(|| {
            if array.data_type.size().is_some() {
                return not_read(&path);
            }
            let text = format!("the values of {path}, which are of variable length, were not read");
            Problem::new(text).with(order_by_name())
        })?;
        let range = range(array, values, member.hierarchy.format);
        return Ok(Extent { size, range: range.map(|range| with_groups(range, member, &path, name)) });
    }
    Ok(Extent { size, range: given(member, name)? })
}

/// Returns the range of a coordinate with a digest that includes those of other groups along the dimension: files are
/// duplicates only if they agree in all of them.
fn with_groups(mut range: Range, member: &Member, path: &str, name: &str) -> Range {
    let is_along = |array: &Array| array.dimension_names.iter().flatten().eq([name]);
    for (other, array) in member.hierarchy.arrays() {
        if other != path
            && is_coordinate(&other, array)
            && is_along(array)
            && let Some(values) = member.values.get(&other)
            && let Some(of_group) = self::range(array, values, member.hierarchy.format)
        {
            range.digest = (range.digest ^ of_group.digest).wrapping_mul(PRIME);
        }
    }
    range
}

/// Returns the array that represents a dimension, and its axis: the coordinate in the highest group, else any array that has
/// the dimension.
fn bearer<'a>(hierarchy: &'a Hierarchy, name: &str) -> Option<(NodePath, &'a Array, usize)> {
    let axis = |array: &Array| array.dimension_names.iter().position(|own| own.as_deref() == Some(name));
    let having = hierarchy.arrays().into_iter().filter_map(|(path, array)| Some((path, array, axis(array)?)));
    having
        .min_by_key(|(path, array, _)| (!is_coordinate(path, array), path.matches('/').count(), path.clone()))
}

fn dimensions(hierarchy: &Hierarchy) -> Vec<String> {
    let arrays = hierarchy.arrays();
    let names = arrays.iter().flat_map(|(_, array)| array.dimension_names.iter().flatten().cloned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    names
}

fn stacked(member: &Member, name: &str) -> Result<Option<Range>> {
    if bearer(&member.hierarchy, name).is_some_and(|(path, array, _)| path != name || array.shape != [1]) {
        return Err(Problem::dimension_exists(name));
    }
    if let Some(array) = member.hierarchy.array(name) {
        if member.given.contains_key(name) {
            let text = format!("coordinate {name} is defined both by an array and by another source");
            return Err(Problem::new(text));
        }
        let values = member.values.get(name).ok_or_else(|| not_read(name))?;
        return Ok(range(array, values, member.hierarchy.format));
    }
    given(member, name)
}

fn given(member: &Member, name: &str) -> Result<Option<Range>> {
    let Some(value) = member.given.get(name) else { return Ok(None) };
    let given = Given::of(value)
        .ok_or_else(|| Problem::new(format!("coordinate {name} is {value}, which is not a single value")))?;
    Ok(Some(of_one(given)))
}

fn range(array: &Array, values: &ArrayValues, format: virtualize::zarr::ZarrFormat) -> Option<Range> {
    let sentinels = Sentinels::of(array, format);
    let scalar = |element| Scalar::of_element(element, &values.data_type);
    let all: Vec<Option<Scalar>> = elements(values)?
        .map(|element| if sentinels.is_missing(element) { Some(None) } else { scalar(element).map(Some) })
        .collect::<Option<_>>()?;
    let own = |name| text(&array.attributes, name);
    let units = Units::of(own("units"), own("calendar"));
    let digest = digest(all.iter().map(Option::as_ref), units.as_deref());
    let scalars: Vec<Scalar> = all.into_iter().flatten().collect();
    Range::of(&scalars, digest, units)
}

/// Returns the range of a coordinate from elsewhere.
fn of_one(given: Given) -> Range {
    let (units, scalar) = (Units::of(given.units, given.calendar()), given.value);
    let digest = digest([Some(&scalar)], units.as_deref());
    Range { first: scalar.clone(), last: scalar, direction: Direction::Single, digest, units, is_even: false }
}

/// Returns all coordinates of a file along a dimension; `None` if some are missing, or were not read. `values` returns those of
/// an array.
pub(crate) fn coordinates(
    hierarchy: &Hierarchy,
    name: &str,
    values: impl FnOnce(&str, &Array) -> Option<ArrayValues>,
) -> Option<Vec<Scalar>> {
    let (path, array, _) = bearer(hierarchy, name).filter(|(path, array, _)| is_coordinate(path, array))?;
    let values = values(&path, array)?;
    let sentinels = Sentinels::of(array, hierarchy.format);
    let scalar = |element: &[u8]| {
        if sentinels.is_missing(element) { None } else { Scalar::of_element(element, &values.data_type) }
    };
    elements(&values)?.map(scalar).collect()
}

/// A range as it is stored: first and last coordinate, order, hash, units, calendar, evenness.
type RangeText = (ScalarText, ScalarText, Direction, u64, Option<String>, Option<String>, bool);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ScalarText {
    Int(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    /// A float that is not finite, as its bits.
    Bits([u64; 1]),
}

impl From<Range> for RangeText {
    fn from(range: Range) -> Self {
        let [units, calendar] = [range.units(), range.calendar()].map(|text| text.map(str::to_owned));
        let [first, last] = [range.first, range.last].map(|scalar| match scalar {
            Scalar::Int(int) => ScalarText::Int(int),
            Scalar::Unsigned(int) => ScalarText::Unsigned(int),
            Scalar::Float(float) if float.is_finite() => ScalarText::Float(float),
            Scalar::Float(float) => ScalarText::Bits([float.to_bits()]),
            Scalar::Text(text) => ScalarText::Text(text.to_string()),
        });
        (first, last, range.direction, range.digest, units, calendar, range.is_even)
    }
}

impl From<RangeText> for Range {
    fn from((first, last, direction, digest, units, calendar, is_even): RangeText) -> Self {
        let [first, last] = [first, last].map(|text| match text {
            ScalarText::Int(int) => Scalar::Int(int),
            ScalarText::Unsigned(int) => Scalar::Unsigned(int),
            ScalarText::Float(float) => Scalar::Float(float),
            ScalarText::Bits([bits]) => Scalar::Float(f64::from_bits(bits)),
            ScalarText::Text(text) => Scalar::Text(Arc::new(text)),
        });
        let units = Units::of(units.as_deref(), calendar.as_deref());
        Self { first, last, direction, digest, units, is_even }
    }
}
