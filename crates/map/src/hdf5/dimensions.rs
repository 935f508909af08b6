//! Dimension names with the rules of h5netcdf: `_Netcdf4Coordinates`, dimension scales (HDF5 Dimension Scale Specification),
//! and phony dimensions for axes without a scale, numbered as by its default `phony_dims="access"`.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
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
#[derive(Clone, Debug, Default)]
pub(super) struct Dimensions(Rc<Defined>);

/// Dimensions in order, with the indices of the first one of each name, number and scale, and of all of each size.
#[derive(Debug, Default)]
struct Defined {
    all: Vec<Dimension>,
    by_name: HashMap<String, usize>,
    by_id: HashMap<i128, usize>,
    by_scale: HashMap<Address, usize>,
    by_size: HashMap<u64, Vec<usize>>,
}

impl Defined {
    fn push(&mut self, dimension: Dimension) {
        let at = self.all.len();
        self.by_name.entry(dimension.name.clone()).or_insert(at);
        if let Some(id) = dimension.id {
            self.by_id.entry(id).or_insert(at);
        }
        if let Some(scale) = dimension.scale {
            self.by_scale.entry(scale).or_insert(at);
        }
        self.by_size.entry(dimension.size).or_default().push(at);
        self.all.push(dimension);
    }
}

/// Lengths of the dimensions of scales, and whether these are unlimited, by address. Each scale may list many variables.
#[derive(Debug, Default)]
pub(super) struct ScaleLengths(RefCell<HashMap<Address, (u64, bool)>>);

impl ScaleLengths {
    /// Returns the length of a scale's dimension. An unlimited dimension is as long as the longest variable along it.
    fn of(&self, file: &File, address: Address, scale: &Dataset) -> (u64, bool) {
        *self.0.borrow_mut().entry(address).or_insert_with(|| {
            let unlimited =
                matches!(&scale.dataspace, Dataspace::Simple { max_shape: Some(max), .. } if *max == [None]);
            let own = scale.dataspace.shape().and_then(<[u64]>::first).copied().unwrap_or(0);
            (if unlimited { own.max(longest_user(file, scale)) } else { own }, unlimited)
        })
    }
}

/// Numbers given to dimensions on the path from the root to a group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    scales: i128,
    phony: u64,
}

impl Dimensions {
    /// Finds the dimensions that a group with these children defines, and advances the counters.
    pub(super) fn new(
        file: &File,
        children: &[(String, Address)],
        lengths: &ScaleLengths,
        counters: &mut Counters,
    ) -> Self {
        let mut found = Defined::default();
        let mut unlabeled = Unlabeled::default();
        for (name, address) in children {
            let Some(Object::Dataset(dataset)) = file.objects.get(address) else { continue };
            if is_scale(dataset) {
                let (size, unlimited) = lengths.of(file, *address, dataset);
                let id = match attribute(dataset, "_Netcdf4Dimid").map(|one| one.elements.as_slice()) {
                    Some([Element::Integer(id)]) => *id,
                    _ => counters.scales,
                };
                counters.scales += 1;
                let (name, id, scale) = (name.to_owned(), Some(id), Some(*address));
                found.push(Dimension { name, size, unlimited, id, scale });
            } else if labels(dataset).is_none() {
                count_sizes(dataset, &mut unlabeled);
            }
        }
        let is_limited = |at: &&usize| found.all.get(**at).is_some_and(|dimension| !dimension.unlimited);
        let missing: Vec<_> = unlabeled
            .sizes
            .iter()
            .flat_map(|(size, count)| {
                let labeled = found.by_size.get(size).into_iter().flatten().filter(is_limited).count();
                std::iter::repeat_n(*size, count.saturating_sub(labeled))
            })
            .collect();
        for size in missing {
            let name = format!("phony_dim_{}", counters.phony);
            counters.phony += 1;
            found.push(Dimension { name, size, unlimited: false, id: None, scale: None });
        }
        Self(Rc::new(found))
    }

    /// Whether the group defines a dimension of this name.
    pub(super) fn defines(&self, name: &str) -> bool {
        self.0.by_name.contains_key(name)
    }

    /// Returns the number of dimensions.
    pub(super) fn len(&self) -> usize {
        self.0.all.len()
    }

    /// Returns the names of unlimited dimensions.
    pub(super) fn unlimited(&self) -> impl Iterator<Item = &str> {
        self.0.all.iter().filter(|dimension| dimension.unlimited).map(|dimension| dimension.name.as_str())
    }
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

/// Returns the dimensions of a dataset's axes. `scopes` are those of the groups from the root to its own, `fields` the names
/// from HDF-EOS5 metadata.
pub(super) fn axis_dimensions(
    name: &str,
    dataset: &Dataset,
    scopes: &[Dimensions],
    others: (&File, &ObjectNames, &ScaleLengths),
    fields: Option<&[String]>,
) -> Vec<AxisDimension> {
    let shape = dataset.dataspace.shape().unwrap_or_default();
    let found = by_coordinates(dataset, scopes)
        .or_else(|| by_labels(dataset, scopes, others))
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
        Element::Integer(id) => find(scopes, |scope| scope.by_id.get(id)),
        _ => None,
    };
    ids.elements.iter().map(dimension).collect()
}

fn by_labels(
    dataset: &Dataset,
    scopes: &[Dimensions],
    (file, names, lengths): (&File, &ObjectNames, &ScaleLengths),
) -> Option<Vec<AxisDimension>> {
    let elsewhere = |address: Address| {
        let name = names.path(address)?.rsplit('/').next()?.to_owned();
        let Some(Object::Dataset(dataset)) = file.objects.get(&address) else { return Some(named(name)) };
        let (length, unlimited) = lengths.of(file, address, dataset);
        Some(AxisDimension { length: Some(length), unlimited, ..named(name) })
    };
    let dimension =
        |address: Address| find(scopes, |scope| scope.by_scale.get(&address)).or_else(|| elsewhere(address));
    labels(dataset)?.into_iter().map(dimension).collect()
}

fn by_own_name(name: &str, shape: &[u64], scopes: &[Dimensions]) -> Option<Vec<AxisDimension>> {
    match shape.len() {
        1 => Some(vec![find(scopes, |scope| scope.by_name.get(name))?]),
        _ => None,
    }
}

/// Finds the innermost dimension with the index that `at` returns.
fn find(scopes: &[Dimensions], at: impl Fn(&Defined) -> Option<&usize>) -> Option<AxisDimension> {
    let found = |scope: &Dimensions| scope.0.all.get(*at(&scope.0)?).cloned();
    let innermost = scopes.iter().rev().map(found).enumerate();
    innermost.filter_map(|(distance, found)| Some((distance, found?))).next().map(|(distance, dimension)| {
        let Dimension { name, size, unlimited, .. } = dimension;
        AxisDimension { name: Some(name), length: Some(size), unlimited, distance }
    })
}

/// Assigns to each axis the next dimension of its size in the group.
fn phony(shape: &[u64], scope: Option<&Dimensions>) -> Vec<AxisDimension> {
    let mut used: BTreeMap<u64, usize> = BTreeMap::new();
    let name = |size: &u64| {
        let next = used.entry(*size).or_default();
        *next += 1;
        let defined = &scope?.0;
        let at = defined.by_size.get(size)?.get(*next - 1)?;
        Some(defined.all.get(*at)?.name.clone())
    };
    let names: Vec<_> = shape.iter().map(name).collect();
    let axes = names.into_iter().zip(shape);
    axes.map(|(name, size)| AxisDimension { name, length: Some(*size), ..AxisDimension::default() }).collect()
}
