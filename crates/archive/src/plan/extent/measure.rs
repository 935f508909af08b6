//! Finds the extents of a file that was read.

use std::sync::Arc;

use virtualize::ArrayValues;
use virtualize::zarr::{Array, Hierarchy, NodePath};
use virtualize_remedy::alternatives;

use super::{Direction, Extent, Range, Units, digest};
use crate::{
    Along, Layout, Member,
    compat::{is_coordinate, times::text},
    error::Problem,
    values::{
        Scalar,
        scalar::{Given, elements},
        sentinel::Sentinels,
    },
};

/// Returns the extent of a file along a dimension.
pub(super) fn extent(member: &Member, along: &Along, layout: &Layout) -> Result<Extent, Problem> {
    match along {
        Along::Concat(name) => existing(member, name),
        Along::Stack(name) => Ok(Extent { size: 1, range: stacked(member, name, layout)? }),
    }
}

fn existing(member: &Member, name: &str) -> Result<Extent, Problem> {
    let Some((path, array, axis)) = bearer(&member.hierarchy, name) else {
        let existing = dimensions(&member.hierarchy);
        let existing = alternatives("dimensions", name, existing.iter().map(String::as_str));
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

/// Returns the names of the global attributes that are single values.
fn scalars(hierarchy: &Hierarchy) -> impl Iterator<Item = &str> {
    let attributes = hierarchy.root.attributes.iter();
    attributes.filter(|(_, value)| Scalar::of_json(value).is_some()).map(|(name, _)| name.as_str())
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
            let scalar = scalar.ok_or_else(|| Problem::NoAttribute {
                attribute: attribute.clone(),
                existing: alternatives("attributes", attribute, scalars(&member.hierarchy)),
            })?;
            Ok(Some(of_one(scalar, None)))
        }
        None => given(member, name),
    }
}

fn given(member: &Member, name: &str) -> Result<Option<Range>, Problem> {
    let Some(value) = member.given.get(name) else { return Ok(None) };
    let given = Given::of(value)
        .ok_or_else(|| Problem::NotScalar { name: name.to_owned(), value: value.to_string() })?;
    let units = Units::of(given.units, given.calendar());
    Ok(Some(of_one(given.value, units)))
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

/// Returns the range of a single coordinate.
fn of_one(scalar: Scalar, units: Option<Arc<Units>>) -> Range {
    let digest = digest([Some(&scalar)], units.as_deref());
    Range { first: scalar.clone(), last: scalar, direction: Direction::Single, digest, units }
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
