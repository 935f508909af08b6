//! Lengths of the dimensions of a group. xarray opens no group whose arrays differ in the length of a dimension, so arrays
//! of another length get a dimension of another name.

use std::collections::{BTreeMap, BTreeSet};

use virtualize_hdf5::model::Dataset;
use virtualize_remedy::Code;
use virtualize_zarr::Array;

use super::Mapper;
use super::dimensions::{AxisDimension, Dimensions};
use crate::Severity;

/// The length of each dimension of a group, and the substitute names of dimensions at other lengths.
#[derive(Default)]
pub(super) struct Lengths {
    /// (Distance of the group that defines it, length) by name.
    lengths: BTreeMap<String, (usize, u64)>,
    /// Substitute names by (name, length).
    renamed: BTreeMap<(String, u64), String>,
    /// Names that no substitute may have.
    taken: BTreeSet<String>,
}

impl Lengths {
    /// `taken` are names of the group's objects.
    pub(super) fn new(taken: impl IntoIterator<Item = String>) -> Self {
        Self { taken: taken.into_iter().collect(), ..Self::default() }
    }

    /// Adds the name of an object.
    pub(super) fn take_name(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }

    /// Records the dimensions of a dataset. Of several with one name, that of the nearest group counts, and of equally near
    /// ones the longest, so that the result does not depend on the order of datasets.
    pub(super) fn note(&mut self, axes: &[AxisDimension], dataset: &Dataset) {
        let shape = dataset.dataspace.shape().unwrap_or_default();
        for (axis, size) in axes.iter().zip(shape) {
            self.note_one(axis, *size);
        }
    }

    /// Records the dimensions of an array that is mapped already.
    pub(super) fn note_array(&mut self, array: &Array) {
        for (name, size) in array.dimension_names.iter().zip(&array.shape) {
            let axis = AxisDimension { name: name.clone(), ..AxisDimension::default() };
            self.note_one(&axis, *size);
        }
    }

    fn note_one(&mut self, axis: &AxisDimension, size: u64) {
        let Some(name) = &axis.name else { return };
        let new = (axis.distance, axis.length.unwrap_or(size));
        let known = self.lengths.entry(name.clone()).or_insert(new);
        if new.0 < known.0 || (new.0 == known.0 && new.1 > known.1) {
            *known = new;
        }
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
        let is_defined = |name: &str| scopes.iter().any(|scope| scope.defines(name));
        while self.lengths.contains_key(&new) || self.taken.contains(&new) || is_defined(&new) {
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
                    "dimension \"{name}\" has length {known}, the array {size}: its dimension is called \"{renamed}\""
                );
                self.diagnose(Severity::Warning, Code::DimensionRenamed, path, message);
                *name = renamed;
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
            noted.iter().for_each(|(distance, length)| lengths.note_one(&axis(*distance, *length), 1));
            assert_eq!(lengths.length("d", 1), expected, "{noted:?}");
        }
        let mut lengths = Lengths::default();
        lengths.note_one(&AxisDimension { length: None, ..axis(0, 0) }, 4);
        assert_eq!((lengths.length("d", 1), lengths.length("new", 6), lengths.length("new", 7)), (4, 6, 6));
    }

    #[test]
    fn substitutes_are_new_names() {
        let mut lengths = Lengths::new(["d_3".to_owned()]);
        lengths.note_one(&AxisDimension { name: Some("d_4".to_owned()), ..axis(0, 4) }, 4);
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
