use std::sync::Arc;

use crate::{
    Layout, Member,
    error::CombineError,
    values::{Scalar, calendar::TimeUnits, scalar::Key},
};

mod measure;
mod text;

pub(crate) use measure::coordinates;

/// The extent of a file along each dimension of the layout: what decides its place among the others.
#[derive(Clone, PartialEq, Debug)]
pub struct FileExtent(Extents);

/// One extent needs no allocation, since most layouts have one dimension.
#[derive(Clone, PartialEq, Debug)]
enum Extents {
    One([Extent; 1]),
    Several(Box<[Extent]>),
}

/// Elements of a file that are selected along a dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selection {
    /// Start, in elements.
    pub start: u64,
    /// End, exclusive, in elements.
    pub end: u64,
    /// Number of elements of the file.
    pub of: u64,
}

/// The extent of a file along a dimension.
#[derive(Clone, PartialEq, Debug)]
pub struct Extent {
    /// Number of elements; 1 along a new dimension.
    pub size: u64,
    /// The range of its coordinates, if it has any.
    pub range: Option<Range>,
}

/// The coordinates of a file along a dimension.
#[derive(Clone, PartialEq, Debug)]
pub struct Range {
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
}

/// Units of a coordinate.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Units {
    /// Units, if the coordinate has any.
    pub units: Option<String>,
    /// Calendar, if the coordinate has one.
    pub calendar: Option<String>,
}

/// The order of the coordinates of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// There is only one.
    Single,
    /// Each is greater than the one before.
    Increasing,
    /// Each is less than the one before.
    Decreasing,
    /// Neither, or some are equal.
    Neither,
}

impl FileExtent {
    /// Returns the extent of a file.
    ///
    /// # Errors
    /// A file that lacks a dimension of the layout, or already has one that is to be new; coordinates that were not read.
    pub fn of(member: &Member, layout: &Layout) -> Result<Self, CombineError> {
        let extent = |along| {
            measure::extent(member, along, layout)
                .map_err(|problem| CombineError::file(&member.item.url, problem))
        };
        Ok(Self::new(layout.along.iter().map(extent).collect::<Result<_, _>>()?))
    }

    /// Puts extents together, in the order of the layout's dimensions.
    pub fn new(extents: Vec<Extent>) -> Self {
        Self(match <[Extent; 1]>::try_from(extents) {
            Ok(one) => Extents::One(one),
            Err(several) => Extents::Several(several.into()),
        })
    }

    /// Returns the extents, in the order of the layout's dimensions.
    pub fn extents(&self) -> &[Extent] {
        match &self.0 {
            Extents::One(one) => one,
            Extents::Several(several) => several,
        }
    }

    pub(super) fn extents_mut(&mut self) -> &mut [Extent] {
        match &mut self.0 {
            Extents::One(one) => one,
            Extents::Several(several) => several,
        }
    }

    /// Returns the range of the coordinates along a dimension, by its number.
    pub(super) fn range(&self, dimension: usize) -> Option<&Range> {
        self.extents().get(dimension)?.range.as_ref()
    }

    /// Returns the number of elements along a dimension, by its number.
    pub(super) fn size(&self, dimension: usize) -> u64 {
        self.extents().get(dimension).map_or(0, |extent| extent.size)
    }
}

impl Range {
    /// Returns the range of coordinates, of which the missing ones are left out; `None` without any.
    pub(super) fn of(scalars: &[Scalar], digest: u64, units: Option<Arc<Units>>) -> Option<Self> {
        let (first, last) = (scalars.first()?.clone(), scalars.last()?.clone());
        Some(Self { first, last, direction: direction(scalars), digest, units })
    }

    /// Returns the range of some of its coordinates.
    pub(super) fn part(&self, scalars: &[Scalar]) -> Option<Self> {
        let digest = digest(scalars.iter().map(Some), self.units.as_deref());
        Self::of(scalars, digest, self.units.clone())
    }

    /// Returns the units of the coordinates.
    pub fn units(&self) -> Option<&str> {
        self.units.as_ref()?.units.as_deref()
    }

    /// Returns the calendar of the coordinates.
    pub fn calendar(&self) -> Option<&str> {
        self.units.as_ref()?.calendar.as_deref()
    }
}

impl Units {
    /// Returns units to share; `None` if there are neither units nor a calendar.
    pub fn of(units: Option<&str>, calendar: Option<&str>) -> Option<Arc<Self>> {
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

impl Direction {
    pub(super) fn is_monotone(self) -> bool {
        self != Self::Neither
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
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
