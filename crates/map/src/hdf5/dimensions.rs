//! Dimension names with the rules of h5netcdf: `_Netcdf4Coordinates`, dimension scales (HDF5 Dimension Scale Specification),
//! and phony dimensions for axes without a scale, numbered as by its default `phony_dims="access"`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use virtualize_bytes::Address;
use virtualize_hdf5::model::{Attribute, Dataset, Dataspace, Element, File, Object};
use virtualize_remedy::Code;
use virtualize_zarr::Array;

use super::Mapper;
use super::eos_grid::Grid;
use super::tree::ObjectNames;

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
    /// Returns the length of a scale's dimension. An unlimited dimension is as long as the longest variable along it, by the
    /// scale's `REFERENCE_LIST`.
    fn of(&self, file: &File, address: Address, scale: &Dataset) -> (u64, bool) {
        *self.0.borrow_mut().entry(address).or_insert_with(|| {
            let unlimited =
                matches!(&scale.dataspace, Dataspace::Simple { max_shape: Some(max), .. } if *max == [None]);
            let own = scale.dataspace.shape().and_then(<[u64]>::first).copied().unwrap_or(0);
            let list = attribute(scale, "REFERENCE_LIST").filter(|_| unlimited);
            let of_variable = |element: &Element| {
                let Element::Compound(members) = element else { return None };
                let [(_, Element::Object(Some(user))), (_, Element::Integer(axis))] = members.as_slice()
                else {
                    return None;
                };
                let Some(Object::Dataset(user)) = file.objects.get(user) else { return None };
                user.dataspace.shape()?.get(usize::try_from(*axis).ok()?).copied()
            };
            let longest = list.into_iter().flat_map(|list| &list.elements).filter_map(of_variable).max();
            (own.max(longest.unwrap_or(0)), unlimited)
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
        // For each size, in the order of appearance, the largest number of axes of that size in one variable without scales.
        let mut unlabeled: Vec<(u64, usize)> = Vec::new();
        let mut places = BTreeMap::new();
        for (name, address) in children {
            let Some(Object::Dataset(dataset)) = file.objects.get(address) else { continue };
            if dataset.dimensions.is_some() {
                continue;
            }
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
                let shape = dataset.dataspace.shape().unwrap_or_default();
                for size in shape {
                    let count = shape.iter().filter(|n| *n == size).count();
                    let place = *places.entry(*size).or_insert(unlabeled.len());
                    match unlabeled.get_mut(place) {
                        Some((_, most)) => *most = (*most).max(count),
                        None => unlabeled.push((*size, count)),
                    }
                }
            }
        }
        let is_limited = |at: &&usize| found.all.get(**at).is_some_and(|dimension| !dimension.unlimited);
        let missing: Vec<_> = unlabeled
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
    dataset.dimensions.is_none() && text_of(dataset, "NAME").is_some_and(|name| name.contains(NOT_A_VARIABLE))
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
    if let (Some(ids), Some(classic)) = (&dataset.dimensions, &others.0.classic) {
        let declared = |id: &usize| {
            let name = classic.dimensions.get(*id)?.name.clone();
            Some(AxisDimension { name: Some(name), ..AxisDimension::default() })
        };
        return ids.iter().filter_map(declared).collect();
    }
    let by_coordinates = || -> Option<Vec<_>> {
        let ids = attribute(dataset, "_Netcdf4Coordinates").filter(|_| is_scale(dataset))?;
        let dimension = |element: &Element| match element {
            Element::Integer(id) => find(scopes, |scope| scope.by_id.get(id)),
            _ => None,
        };
        ids.elements.iter().map(dimension).collect()
    };
    let (file, names, lengths) = others;
    let elsewhere = |address: Address| {
        let name = names.path(address)?.rsplit('/').next()?.to_owned();
        let Some(Object::Dataset(dataset)) = file.objects.get(&address) else { return Some(named(name)) };
        let (length, unlimited) = lengths.of(file, address, dataset);
        Some(AxisDimension { length: Some(length), unlimited, ..named(name) })
    };
    let by_labels = || -> Option<Vec<_>> {
        let of_scale = |address: Address| find(scopes, |scope| scope.by_scale.get(&address));
        labels(dataset)?.into_iter().map(|address| of_scale(address).or_else(|| elsewhere(address))).collect()
    };
    let found = by_coordinates()
        .or_else(by_labels)
        .or_else(|| match shape.len() {
            1 => Some(vec![find(scopes, |scope| scope.by_name.get(name))?]),
            _ => None,
        })
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

/// The length of each dimension of a group, and the substitute names of dimensions at other lengths.
#[derive(Default)]
pub(super) struct Lengths {
    /// (Distance of the group that defines it, length) by name.
    lengths: BTreeMap<String, (usize, u64)>,
    /// Substitute names by (name, length).
    renamed: BTreeMap<(String, u64), String>,
    /// Names that no substitute may have.
    pub(super) taken: BTreeSet<String>,
}

impl Lengths {
    /// `taken` are names of the group's objects.
    pub(super) fn new(taken: impl IntoIterator<Item = String>) -> Self {
        Self { taken: taken.into_iter().collect(), ..Self::default() }
    }

    /// Records the dimensions of a dataset. Of several with one name, that of the nearest group counts, and of equally near
    /// ones the longest, so that the result does not depend on the order of datasets.
    pub(super) fn note(&mut self, axes: &[AxisDimension], shape: &[u64]) {
        for (axis, size) in axes.iter().zip(shape) {
            let Some(name) = &axis.name else { continue };
            let new = (axis.distance, axis.length.unwrap_or(*size));
            let known = self.lengths.entry(name.clone()).or_insert(new);
            if new.0 < known.0 || (new.0 == known.0 && new.1 > known.1) {
                *known = new;
            }
        }
    }

    /// Records the dimensions of an array that is mapped already.
    pub(super) fn note_array(&mut self, array: &Array) {
        let axis = |name: &Option<String>| AxisDimension { name: name.clone(), ..AxisDimension::default() };
        let axes: Vec<_> = array.dimension_names.iter().map(axis).collect();
        self.note(&axes, &array.shape);
    }

    /// Whether the group has an object or a dimension of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.lengths.contains_key(name) || self.taken.contains(name)
    }

    /// Returns the length of a dimension, which is `size` for a new one.
    fn length(&mut self, name: &str, size: u64) -> u64 {
        self.lengths.entry(name.to_owned()).or_insert((usize::MAX, size)).1
    }

    /// Returns the substitute name of a dimension at this length. It is unique in the group and its ancestors.
    fn rename(&mut self, name: &str, size: u64, scopes: &[Dimensions]) -> String {
        let key = (name.to_owned(), size);
        if let Some(renamed) = self.renamed.get(&key) {
            return renamed.clone();
        }
        let mut new = format!("{name}_{size}");
        while self.has(&new) || scopes.iter().any(|scope| scope.defines(&new)) {
            new.push('_');
        }
        self.taken.insert(new.clone());
        self.renamed.insert(key, new.clone());
        new
    }
}

impl Mapper<'_> {
    /// Renames the dimensions of an array whose length differs from the group's. `scopes` are the dimensions of the groups
    /// from the root to its own.
    pub(super) fn rename_dimensions(
        &mut self,
        path: &str,
        array: &mut Array,
        lengths: &mut Lengths,
        scopes: &[Dimensions],
    ) {
        for (name, size) in array.dimension_names.iter_mut().zip(&array.shape) {
            let Some(name) = name else { continue };
            let known = lengths.length(name, *size);
            if known != *size {
                let renamed = lengths.rename(name, *size, scopes);
                let message = format!(
                    "dimension \"{name}\" has length {known}, the array {size}: its dimension is renamed to \"{renamed}\""
                );
                self.report.warn(Code::DimensionRenamed, path, message);
                *name = renamed;
            }
        }
    }
}

/// Dimensions of the fields of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Fields {
    /// Names of each field's axes, slowest first, by (group of the structure, field).
    names: BTreeMap<(String, String), Vec<String>>,
    /// Fixed sizes by (group of the structure, dimension).
    sizes: BTreeMap<(String, String), u64>,
    /// Definitions of grids by group of the structure.
    pub(super) grids: BTreeMap<String, Grid>,
}

impl Fields {
    /// Parses the text. Unknown keys and incomplete objects are skipped.
    pub(super) fn new(text: &str) -> Self {
        let mut fields = Self::default();
        let (mut kind, mut structure, mut field, mut dimension) = ("", String::new(), None, None);
        for (key, value) in text.lines().filter_map(|line| line.trim().split_once('=')) {
            match key {
                "GROUP" => {
                    kind = match value {
                        "SwathStructure" => Some("SWATHS"),
                        "GridStructure" => Some("GRIDS"),
                        "ZaStructure" => Some("ZAS"),
                        _ => None,
                    }
                    .unwrap_or(kind)
                }
                "SwathName" | "GridName" | "ZaName" => {
                    structure = format!("HDFEOS/{kind}/{}", value.trim_matches('"'));
                }
                "OBJECT" => (field, dimension) = (None, None),
                "DimensionName" => dimension = Some(value.trim_matches('"').to_owned()),
                "Size" | "XDim" | "YDim" => {
                    let name = if key == "Size" { dimension.take() } else { Some(key.to_owned()) };
                    if let (Some(name), Ok(size)) = (name, value.parse()) {
                        fields.sizes.insert((structure.clone(), name), size);
                    }
                }
                "GeoFieldName" | "DataFieldName" | "ProfileFieldName" => {
                    field = Some(value.trim_matches('"').to_owned());
                }
                "DimList" => {
                    if let Some(field) = field.take() {
                        // A list such as `("YDim","XDim")`.
                        let list = value.trim().trim_start_matches('(').trim_end_matches(')').split(',');
                        let names = list.map(|name| name.trim().trim_matches('"').to_owned()).collect();
                        fields.names.insert((structure.clone(), field), names);
                    }
                }
                key if Grid::KEYS.contains(&key) && kind == "GRIDS" => {
                    let grid = fields.grids.entry(structure.clone()).or_default();
                    grid.0.insert(key.to_owned(), value.trim().to_owned());
                }
                _ => {}
            }
        }
        let all = fields.names.clone();
        let clashes = |structure: &str, name: &String| {
            let field = all.get(&(structure.to_owned(), name.clone()));
            field.is_some_and(|names| names.as_slice() != [name.clone()])
        };
        fields.names.retain(|(structure, _), names| !names.iter().any(|name| clashes(structure, name)));
        fields
    }

    /// Returns the names of a field's axes; `None` if the sizes differ from its shape. `group` is the path of its group, such
    /// as `HDFEOS/SWATHS/Swath1/Data Fields`.
    pub(super) fn of(&self, group: &str, field: &str, shape: &[u64]) -> Option<&[String]> {
        if self.names.is_empty() {
            return None;
        }
        let (structure, _) = group.rsplit_once('/')?;
        let names = self.names.get(&(structure.to_owned(), field.to_owned()))?;
        let fits = |(name, size): (&String, &u64)| {
            self.sizes.get(&(structure.to_owned(), name.clone())).is_none_or(|known| known == size)
        };
        (names.len() == shape.len() && names.iter().zip(shape).all(fits)).then_some(names)
    }
}

#[cfg(test)]
mod lengths_tests {
    use super::*;

    /// A dimension at a distance, with a length that the group defines.
    fn axis(distance: usize, length: u64) -> AxisDimension {
        AxisDimension { name: Some("d".to_owned()), length: Some(length), unlimited: false, distance }
    }

    #[test]
    fn the_nearest_and_then_the_longest_dimension_counts() {
        for (noted, expected) in [
            (&[(0, 3), (1, 9)][..], 3),
            (&[(1, 9), (0, 3)], 3),
            (&[(1, 3), (0, 9)], 9),
            (&[(0, 3), (0, 5)], 5),
            (&[(0, 5), (0, 3)], 5),
            (&[(1, 5), (2, 9), (1, 7), (1, 6)], 7),
        ] {
            let mut lengths = Lengths::default();
            noted.iter().for_each(|(distance, length)| lengths.note(&[axis(*distance, *length)], &[1]));
            assert_eq!(lengths.length("d", 1), expected, "{noted:?}");
        }
        let mut lengths = Lengths::default();
        lengths.note(&[AxisDimension { length: None, ..axis(0, 0) }], &[4]);
        assert_eq!((lengths.length("d", 1), lengths.length("new", 6), lengths.length("new", 7)), (4, 6, 6));
    }

    #[test]
    fn substitutes_are_new_names() {
        let mut lengths = Lengths::new(["d_3".to_owned()]);
        lengths.note(&[AxisDimension { name: Some("d_4".to_owned()), ..axis(0, 4) }], &[4]);
        let names = [2, 3, 4, 3].map(|size| lengths.rename("d", size, &[]));
        assert_eq!(names, ["d_2", "d_3_", "d_4_", "d_3_"]);
        assert!(lengths.has("d_2") && lengths.has("d_4") && !lengths.has("d"));
    }

    #[test]
    fn arrays_that_are_mapped_already_count() {
        let data = crate::hdf5::tests::dataset(crate::hdf5::tests::int(4, true), &[6]);
        let (array, _) = crate::hdf5::tests::one(data, virtualize_zarr::ZarrFormat::V3);
        let mut lengths = Lengths::default();
        lengths.note_array(&Array { dimension_names: vec![Some("d".to_owned())], ..array });
        assert_eq!(lengths.length("d", 1), 6);
    }
}

#[cfg(test)]
mod hdfeos_tests {
    use super::*;

    const TEXT: &str = r#"
GROUP=SwathStructure
	GROUP=SWATH_1
		SwathName="S"
		GROUP=Dimension
			OBJECT=Dimension_1
				DimensionName="GeoTrack"
				Size=20
			END_OBJECT=Dimension_1
			OBJECT=Dimension_2
				DimensionName="GeoXtrack"
				Size=-1
			END_OBJECT=Dimension_2
		END_GROUP=Dimension
		GROUP=GeoField
			OBJECT=GeoField_1
				GeoFieldName="Longitude"
				DimList=("GeoTrack","GeoXtrack")
				MaxdimList=("GeoTrack","GeoXtrack")
			END_OBJECT=GeoField_1
			OBJECT=GeoField_2
				GeoFieldName="Time"
				DimList=("GeoTrack")
			END_OBJECT=GeoField_2
		END_GROUP=GeoField
		GROUP=DataField
			OBJECT=DataField_1
				DataFieldName="Count"
				DimList=("Time","GeoTrack")
			END_OBJECT=DataField_1
		END_GROUP=DataField
	END_GROUP=SWATH_1
END_GROUP=SwathStructure
GROUP=GridStructure
	GROUP=GRID_1
		GridName="G"
		XDim=5
		YDim=7
		GROUP=DataField
			OBJECT=DataField_1
				DataFieldName="Voltage"
				DimList=("YDim","XDim")
			END_OBJECT=DataField_1
END
"#;

    #[test]
    fn fields_have_the_names_of_their_lists() {
        let fields = Fields::new(TEXT);
        let of = |group, field, shape: &[u64]| fields.of(group, field, shape).map(|names| names.join(" "));
        let geolocation = "HDFEOS/SWATHS/S/Geolocation Fields";
        assert_eq!(of(geolocation, "Longitude", &[20, 9]).as_deref(), Some("GeoTrack GeoXtrack"));
        assert_eq!(of(geolocation, "Longitude", &[32, 9]), None, "GeoTrack has 20");
        assert_eq!(of(geolocation, "Time", &[20, 1]), None, "one axis");
        assert_eq!(of("HDFEOS/GRIDS/G/Data Fields", "Voltage", &[7, 5]).as_deref(), Some("YDim XDim"));
        assert_eq!(of("HDFEOS/GRIDS/G/Data Fields", "Voltage", &[5, 7]), None);
        assert_eq!(of("HDFEOS/GRIDS/G/Data Fields", "Longitude", &[20, 9]), None);
        assert_eq!(
            of("HDFEOS/SWATHS/S/Data Fields", "Count", &[3, 20]),
            None,
            "Time is a field of another dimension"
        );
    }

    #[test]
    fn other_texts_name_nothing() {
        for text in ["", "GROUP", "DimList=(\"x\")", "OBJECT=a\nDimList=", "a=b\0=c"] {
            assert_eq!(Fields::new(text), Fields::default(), "{text}");
        }
    }
}
