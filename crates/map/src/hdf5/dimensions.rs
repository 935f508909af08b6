//! Dimension names with the rules of h5netcdf: `_Netcdf4Coordinates`, dimension scales (HDF5 Dimension Scale Specification),
//! and phony dimensions for axes without a scale, numbered as by its default `phony_dims="access"`.

use std::collections::BTreeMap;
use std::rc::Rc;

use virtualize_bytes::Address;
use virtualize_hdf5::model::{Attribute, Dataset, Dataspace, Element, File, Object};

use super::names::ObjectNames;

/// Prefix of the attribute `NAME` by which netCDF-C marks a dimension without a variable.
const NOT_A_VARIABLE: &str = "This is a netCDF dimension but not a netCDF variable.";

/// Prefix by which netCDF-C distinguishes a variable from a dimension of the same name that it is no coordinate of.
pub(super) const NON_COORDINATE: &str = "_nc4_non_coord_";

/// A dimension of one group.
#[derive(Clone, PartialEq, Debug)]
struct Dimension {
    name: String,
    size: u64,
    unlimited: bool,
    /// NetCDF-4's number of the dimension (`_Netcdf4Dimid`); `None` for phony dimensions.
    id: Option<i128>,
    /// Address of the dimension scale.
    scale: Option<Address>,
}

/// The dimension along one axis of a dataset.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct AxisDimension {
    /// Name, if the axis has one.
    pub(super) name: Option<String>,
    /// Length of the dimension, if a dimension scale defines it.
    pub(super) length: Option<u64>,
    /// Whether it is unlimited, so that variables may be shorter.
    pub(super) unlimited: bool,
    /// Number of groups between that of the dataset and the one that defines the dimension.
    pub(super) distance: usize,
}

/// The dimensions that a group defines.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Dimensions {
    all: Rc<Vec<Dimension>>,
}

/// Numbers given to dimensions on the path from the root to a group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    scales: i128,
    phony: u64,
}

impl Dimensions {
    /// Finds the dimensions that a group with these children defines, and advances the counters.
    pub(super) fn new(file: &File, children: &[(String, Address)], counters: &mut Counters) -> Self {
        let mut found = Self::default();
        let mut unlabeled = Unlabeled::default();
        for (name, address) in children {
            let Some(Object::Dataset(dataset)) = file.objects.get(address) else { continue };
            if is_scale(dataset) {
                Rc::make_mut(&mut found.all).push(scale(file, name, *address, dataset, counters));
            } else if labels(dataset).is_none() {
                count_sizes(dataset, &mut unlabeled);
            }
        }
        found.add_phony(&unlabeled.sizes, counters);
        found
    }

    /// Whether the group defines a dimension of this name.
    pub(super) fn defines(&self, name: &str) -> bool {
        self.all.iter().any(|dimension| dimension.name == name)
    }

    /// Returns the number of dimensions that a search through all scopes compares.
    pub(super) fn steps(scopes: &[Self]) -> u64 {
        scopes.iter().map(|scope| scope.all.len()).sum::<usize>() as u64
    }

    /// Returns the names of unlimited dimensions.
    pub(super) fn unlimited(&self) -> impl Iterator<Item = &str> {
        self.all.iter().filter(|dimension| dimension.unlimited).map(|dimension| dimension.name.as_str())
    }

    fn add_phony(&mut self, unlabeled: &[(u64, usize)], counters: &mut Counters) {
        let mut labeled: BTreeMap<u64, usize> = BTreeMap::new();
        for dimension in self.all.iter().filter(|dimension| !dimension.unlimited) {
            *labeled.entry(dimension.size).or_default() += 1;
        }
        for (size, count) in unlabeled {
            for _ in labeled.get(size).copied().unwrap_or(0)..*count {
                let name = format!("phony_dim_{}", counters.phony);
                counters.phony += 1;
                Rc::make_mut(&mut self.all).push(Dimension {
                    name,
                    size: *size,
                    unlimited: false,
                    id: None,
                    scale: None,
                });
            }
        }
    }
}

fn scale(file: &File, name: &str, address: Address, dataset: &Dataset, counters: &mut Counters) -> Dimension {
    let number = match attribute(dataset, "_Netcdf4Dimid").map(|attribute| attribute.elements.as_slice()) {
        Some([Element::Integer(id)]) => *id,
        _ => counters.scales,
    };
    counters.scales += 1;
    let (size, unlimited) = scale_length(file, dataset);
    Dimension { name: name.to_owned(), size, unlimited, id: Some(number), scale: Some(address) }
}

/// Returns the length of a scale's dimension, and whether it is unlimited. An unlimited dimension is as long as the longest
/// variable along it.
fn scale_length(file: &File, scale: &Dataset) -> (u64, bool) {
    let unlimited =
        matches!(&scale.dataspace, Dataspace::Simple { max_shape: Some(max), .. } if *max == [None]);
    let own = scale.dataspace.shape().and_then(<[u64]>::first).copied().unwrap_or(0);
    (if unlimited { own.max(longest_user(file, scale)) } else { own }, unlimited)
}

/// Returns the length of the longest variable along a scale, by the scale's `REFERENCE_LIST`.
fn longest_user(file: &File, scale: &Dataset) -> u64 {
    let Some(list) = attribute(scale, "REFERENCE_LIST") else { return 0 };
    let sizes = list.elements.iter().filter_map(|element| {
        let Element::Compound(members) = element else { return None };
        let [(_, Element::Object(Some(user))), (_, Element::Integer(axis))] = members.as_slice() else {
            return None;
        };
        let Some(Object::Dataset(user)) = file.objects.get(user) else { return None };
        user.dataspace.shape()?.get(usize::try_from(*axis).ok()?).copied()
    });
    sizes.max().unwrap_or(0)
}

/// For each size, in the order of appearance, the largest number of axes of that size in one variable without scales.
#[derive(Default)]
struct Unlabeled {
    sizes: Vec<(u64, usize)>,
    /// Index into `sizes` by size.
    places: BTreeMap<u64, usize>,
}

fn count_sizes(dataset: &Dataset, unlabeled: &mut Unlabeled) {
    let shape = dataset.dataspace.shape().unwrap_or_default();
    for size in shape {
        let count = shape.iter().filter(|n| *n == size).count();
        let place = *unlabeled.places.entry(*size).or_insert(unlabeled.sizes.len());
        match unlabeled.sizes.get_mut(place) {
            Some((_, most)) => *most = (*most).max(count),
            None => unlabeled.sizes.push((*size, count)),
        }
    }
}

fn attribute<'a>(dataset: &'a Dataset, name: &str) -> Option<&'a Attribute> {
    dataset.attributes.iter().find(|attribute| attribute.name == name)
}

fn text_of<'a>(dataset: &'a Dataset, name: &str) -> Option<&'a str> {
    match attribute(dataset, name)?.elements.first()? {
        Element::Text(text) => Some(text),
        _ => None,
    }
}

/// Whether the dataset is a dimension scale.
pub(super) fn is_scale(dataset: &Dataset) -> bool {
    text_of(dataset, "CLASS") == Some("DIMENSION_SCALE")
}

/// Whether the dataset is a NetCDF dimension without a variable, which is not shown.
pub(super) fn is_dimension_only(dataset: &Dataset) -> bool {
    text_of(dataset, "NAME").is_some_and(|name| name.contains(NOT_A_VARIABLE))
}

/// Returns the last scale of each axis; `None` if an axis has none.
fn labels(dataset: &Dataset) -> Option<Vec<Address>> {
    let list = attribute(dataset, "DIMENSION_LIST")?;
    let last = |element: &Element| match element {
        Element::List(scales) => match scales.last()? {
            Element::Object(address) => *address,
            _ => None,
        },
        Element::Object(address) => *address,
        _ => None,
    };
    let labels = list.elements.iter().map(last).collect::<Option<Vec<_>>>()?;
    (!labels.is_empty() && Some(labels.len()) == dataset.dataspace.shape().map(<[u64]>::len))
        .then_some(labels)
}

/// Returns the number of variables that the scales of a dataset list, which bounds the cost of finding their lengths.
pub(super) fn users(file: &File, dataset: &Dataset) -> u64 {
    let scales = labels(dataset).unwrap_or_default();
    let lists = scales.iter().filter_map(|scale| match file.objects.get(scale)? {
        Object::Dataset(scale) => Some(attribute(scale, "REFERENCE_LIST")?.elements.len()),
        _ => None,
    });
    lists.sum::<usize>() as u64
}

/// Returns the dimensions of a dataset's axes. `scopes` are those of the groups from the root to its own, `fields` the names
/// from HDF-EOS5 metadata.
pub(super) fn axis_dimensions(
    name: &str,
    dataset: &Dataset,
    scopes: &[Dimensions],
    (file, names): (&File, &ObjectNames),
    fields: Option<&[String]>,
) -> Vec<AxisDimension> {
    let shape = dataset.dataspace.shape().unwrap_or_default();
    let found = by_coordinates(dataset, scopes)
        .or_else(|| by_labels(dataset, scopes, (file, names)))
        .or_else(|| by_own_name(name, shape, scopes))
        .or_else(|| fields.map(|names| names.iter().map(|name| named(name.clone())).collect()));
    match found {
        Some(found) if found.len() == shape.len() => found,
        _ => phony(shape, scopes.last()),
    }
}

/// Returns a dimension that no group on the path from the root defines.
fn named(name: String) -> AxisDimension {
    AxisDimension { name: Some(name), length: None, unlimited: false, distance: usize::MAX }
}

fn by_coordinates(dataset: &Dataset, scopes: &[Dimensions]) -> Option<Vec<AxisDimension>> {
    let ids = attribute(dataset, "_Netcdf4Coordinates").filter(|_| is_scale(dataset))?;
    let dimension = |element: &Element| match element {
        Element::Integer(id) => find(scopes, |dimension| dimension.id == Some(*id)),
        _ => None,
    };
    ids.elements.iter().map(dimension).collect()
}

fn by_labels(
    dataset: &Dataset,
    scopes: &[Dimensions],
    (file, names): (&File, &ObjectNames),
) -> Option<Vec<AxisDimension>> {
    let elsewhere = |address: Address| {
        let name = names.path(address)?.rsplit('/').next()?.to_owned();
        let Some(Object::Dataset(dataset)) = file.objects.get(&address) else { return Some(named(name)) };
        let (length, unlimited) = scale_length(file, dataset);
        Some(AxisDimension { length: Some(length), unlimited, ..named(name) })
    };
    let dimension = |address: Address| {
        find(scopes, |dimension| dimension.scale == Some(address)).or_else(|| elsewhere(address))
    };
    labels(dataset)?.into_iter().map(dimension).collect()
}

fn by_own_name(name: &str, shape: &[u64], scopes: &[Dimensions]) -> Option<Vec<AxisDimension>> {
    match shape.len() {
        1 => Some(vec![find(scopes, |dimension| dimension.name == name)?]),
        _ => None,
    }
}

/// Finds the innermost dimension that fits.
fn find(scopes: &[Dimensions], fits: impl Fn(&Dimension) -> bool) -> Option<AxisDimension> {
    let scopes = scopes.iter().rev().enumerate();
    let mut innermost = scopes.flat_map(|(distance, scope)| scope.all.iter().map(move |all| (distance, all)));
    innermost.find(|(_, dimension)| fits(dimension)).map(|(distance, dimension)| AxisDimension {
        name: Some(dimension.name.clone()),
        length: Some(dimension.size),
        unlimited: dimension.unlimited,
        distance,
    })
}

/// Assigns to each axis the next dimension of its size in the group.
fn phony(shape: &[u64], scope: Option<&Dimensions>) -> Vec<AxisDimension> {
    let mut used: BTreeMap<u64, usize> = BTreeMap::new();
    shape
        .iter()
        .map(|size| {
            let next = used.entry(*size).or_default();
            let mut fitting = scope
                .into_iter()
                .flat_map(|scope| scope.all.iter())
                .filter(|dimension| dimension.size == *size);
            let name = fitting.nth(*next).map(|dimension| dimension.name.clone());
            *next += 1;
            AxisDimension { name, length: Some(*size), ..AxisDimension::default() }
        })
        .collect()
}
