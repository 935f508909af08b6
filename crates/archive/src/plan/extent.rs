use serde::{Deserialize, Serialize};
use virtualize::ArrayValues;
use virtualize::zarr::{Array, Hierarchy, NodePath};

use crate::{
    Along, Layout, Member,
    compat::{Signature, is_coordinate, times::text},
    error::{CombineError, Problem},
    values::{
        Scalar,
        scalar::{Given, elements},
        sentinel::Sentinels,
    },
};

/// What must be known of a file to find its place among the others.
///
/// Journals hold it as JSON.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FileExtent {
    /// The file's row in the journal.
    pub row: u64,
    /// Its url.
    pub url: String,
    /// [`Signature::digest`]: files of equal signatures are compatible.
    #[serde(rename = "era")]
    pub signature: String,
    /// [`Signature::storage_digest`]: how the file stores its arrays decides whether files of different signatures are
    /// compatible.
    #[serde(default, rename = "kind")]
    pub storage: String,
    /// Its extent along each dimension, in the layout's order.
    pub extents: Vec<Extent>,
    /// The elements that are selected along the only dimension; `None` for all.
    #[serde(default, rename = "taken", skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
}

/// Elements of a file that are selected along a dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Selection {
    /// Start, in elements.
    pub start: u64,
    /// End, exclusive, in elements.
    pub end: u64,
    /// Number of elements of the file.
    pub of: u64,
}

/// The extent of a file along a dimension.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Extent {
    /// Number of elements; 1 along a new dimension.
    pub size: u64,
    /// The range of its coordinates, if it has any.
    pub range: Option<Range>,
}

/// The coordinates of a file along a dimension.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Range {
    /// The first one that is not missing.
    pub first: Scalar,
    /// The last one that is not missing.
    pub last: Scalar,
    /// Their order.
    pub direction: Direction,
    /// Hash that distinguishes coordinates with the same ends.
    pub digest: u64,
    /// Units, if the coordinate has any.
    pub units: Option<String>,
    /// Calendar, if the coordinate has one.
    pub calendar: Option<String>,
}

/// The order of the coordinates of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
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
    pub fn of(
        row: u64,
        member: &Member,
        signature: &Signature,
        layout: &Layout,
    ) -> Result<Self, CombineError> {
        let url = member.item.url.clone();
        let extent = |along| {
            extent(member, along, layout).map_err(|problem| CombineError::file(&member.item.url, problem))
        };
        let extents = layout.along.iter().map(extent).collect::<Result<_, _>>()?;
        Ok(Self {
            row,
            url,
            signature: signature.digest(),
            storage: signature.storage_digest(),
            extents,
            selection: None,
        })
    }
}

fn extent(member: &Member, along: &Along, layout: &Layout) -> Result<Extent, Problem> {
    match along {
        Along::Concat(name) => existing(member, name),
        Along::Stack(name) => Ok(Extent { size: 1, range: stacked(member, name, layout)? }),
    }
}

fn existing(member: &Member, name: &str) -> Result<Extent, Problem> {
    let Some((path, array, axis)) = bearer(&member.hierarchy, name) else {
        let existing = dimensions(&member.hierarchy).join(", ");
        return Err(Problem::NoDimension { name: name.to_owned(), existing });
    };
    let size = array.shape.get(axis).copied().unwrap_or(0);
    if is_coordinate(&path, array) && !member.given.contains_key(name) {
        if size == 0 {
            return Ok(Extent { size, range: None });
        }
        let values = member.values.get(&path).ok_or_else(|| match array.data_type.size() {
            Some(_) => Problem::ValuesNotRead { path: path.clone() },
            None => Problem::VariableLengthNotRead { path: path.clone() },
        })?;
        return Ok(Extent { size, range: range(array, values, member.hierarchy.format) });
    }
    Ok(Extent { size, range: given(member, name)? })
}

/// Returns the array that represents a dimension, and its axis: the coordinate in the highest group, else any array that has
/// the dimension.
pub(super) fn bearer<'a>(hierarchy: &'a Hierarchy, name: &str) -> Option<(NodePath, &'a Array, usize)> {
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

fn stacked(member: &Member, name: &str, layout: &Layout) -> Result<Option<Range>, Problem> {
    if bearer(&member.hierarchy, name).is_some_and(|(path, array, _)| path != name || array.shape != [1]) {
        return Err(Problem::DimensionExists { name: name.to_owned() });
    }
    if let Some(array) = member.hierarchy.array(name) {
        if member.given.contains_key(name) {
            return Err(Problem::TwoCoordinates { name: name.to_owned() });
        }
        let values =
            member.values.get(name).ok_or_else(|| Problem::ValuesNotRead { path: name.to_owned() })?;
        return Ok(range(array, values, member.hierarchy.format));
    }
    match layout.coordinate_attributes.get(name) {
        Some(attribute) => {
            let value = member.hierarchy.root.attributes.get(attribute);
            let scalar = value.and_then(Scalar::of_json);
            let scalar = scalar.ok_or_else(|| Problem::NoAttribute { attribute: attribute.clone() })?;
            Ok(Some(Range::of_one(scalar, None, None)))
        }
        None => given(member, name),
    }
}

fn given(member: &Member, name: &str) -> Result<Option<Range>, Problem> {
    let Some(value) = member.given.get(name) else { return Ok(None) };
    let given = Given::of(value)
        .ok_or_else(|| Problem::NotScalar { name: name.to_owned(), value: value.to_string() })?;
    let (units, calendar) = (given.units, given.calendar());
    Ok(Some(Range::of_one(given.value, units.map(str::to_owned), calendar.map(str::to_owned))))
}

fn range(array: &Array, values: &ArrayValues, format: virtualize::zarr::ZarrFormat) -> Option<Range> {
    let sentinels = Sentinels::of(array, format);
    let scalar = |element| Scalar::of_element(element, &values.data_type);
    let all: Vec<Option<Scalar>> = elements(values)?
        .map(|element| if sentinels.is_missing(element) { Some(None) } else { scalar(element).map(Some) })
        .collect::<Option<_>>()?;
    let shown = |one: &Option<Scalar>| one.as_ref().map(ToString::to_string).unwrap_or_default();
    let digest = digest(all.iter().map(shown));
    let scalars: Vec<Scalar> = all.into_iter().flatten().collect();
    let (first, last) = (scalars.first()?.clone(), scalars.last()?.clone());
    let own = |name| text(&array.attributes, name).map(str::to_owned);
    Some(Range {
        first,
        last,
        direction: direction(&scalars),
        digest,
        units: own("units"),
        calendar: own("calendar"),
    })
}

/// Returns all coordinates of a file along a dimension; `None` if some are missing, or were not read.
pub(crate) fn coordinates(member: &Member, name: &str) -> Option<Vec<Scalar>> {
    let (path, array, _) = bearer(&member.hierarchy, name)?;
    let values = member.values.get(&path).filter(|_| is_coordinate(&path, array))?;
    let sentinels = Sentinels::of(array, member.hierarchy.format);
    let known = |element: &&[u8]| !sentinels.is_missing(element);
    let scalar =
        |element| Some(element).filter(known).and_then(|one| Scalar::of_element(one, &values.data_type));
    elements(values)?.map(scalar).collect()
}

impl Range {
    /// Returns the range of some of its coordinates.
    pub(super) fn part(&self, scalars: &[Scalar]) -> Option<Self> {
        Some(Self {
            first: scalars.first()?.clone(),
            last: scalars.last()?.clone(),
            direction: direction(scalars),
            digest: digest(scalars.iter().map(ToString::to_string)),
            ..self.clone()
        })
    }

    fn of_one(scalar: Scalar, units: Option<String>, calendar: Option<String>) -> Self {
        let digest = digest([scalar.to_string()]);
        Self { first: scalar.clone(), last: scalar, direction: Direction::Single, digest, units, calendar }
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

/// Returns a hash (FNV-1a, 64 bits) of numbers and texts in decimal notation, which does not depend on their type.
fn digest(shown: impl IntoIterator<Item = String>) -> u64 {
    let bytes = shown.into_iter().flat_map(|text| text.into_bytes().into_iter().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Direction {
    pub(super) fn is_monotone(self) -> bool {
        self != Self::Neither
    }
}

/// Returns the error of two files that exclude each other.
pub(super) fn conflict(left: &FileExtent, right: &FileExtent, problem: Problem) -> CombineError {
    CombineError::Files { left: left.url.clone(), right: right.url.clone(), problem: Box::new(problem) }
}
