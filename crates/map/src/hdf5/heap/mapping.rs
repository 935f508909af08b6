//! Mapping of flattened datasets.

use virtualize_bytes::Address;
use virtualize_hdf5::model::{
    Attribute, CharacterSet, Dataset, Dataspace, Datatype, Element, Object, StringPadding,
};
use virtualize_remedy::Code;
use virtualize_zarr::{Array, Group, Node, node::join};

use super::Flattened;
use crate::hdf5::Mapper;
use crate::hdf5::describe::{describe_filter, describe_layout, describe_type};
use crate::hdf5::dimensions::{AxisDimension, NON_COORDINATE};
use crate::hdf5::lengths::Lengths;
use crate::hdf5::tree::Place;
use crate::{Result, Severity};

/// Suffix of the array with the number of items of each sequence.
const ROW_SIZE: &str = "_row_size";

/// Suffix of the dimension of all items.
const SAMPLE: &str = "_sample";

/// Attribute of the row sizes: the dimension of the items (CF conventions, section 9.3.3).
pub(in crate::hdf5) const SAMPLE_DIMENSION: &str = "sample_dimension";

impl<'a> Mapper<'a> {
    /// Returns what represents a dataset whose values were read before; `None` for other datasets.
    pub(in crate::hdf5) fn flattened(&self, address: Address) -> Option<&'a Result<Flattened>> {
        let flattened = &self.shared.others.flattened;
        match flattened.is_empty() {
            true => None,
            false => flattened.get(&(self.own.source.url.clone(), address)),
        }
    }

    /// Maps a dataset as a single array.
    pub(in crate::hdf5) fn flattened_array(
        &mut self,
        place: &Place<'_>,
        name: &str,
        dataset: &Dataset,
        flattened: &Result<Flattened>,
        dimensions: (Vec<AxisDimension>, &mut Lengths),
    ) -> Option<Array> {
        let path = join(place.path, name);
        match flattened {
            Ok(Flattened::Structures(flat)) => {
                let array = self.child_array(place, name, flat, dimensions)?;
                let message = "its chunks are put inline: text of variable length lies in the global heap";
                self.diagnose(Severity::Info, Code::ChunksInlined, &path, message.to_owned());
                self.describe_as(&path, dataset);
                Some(array)
            }
            Ok(Flattened::Ragged { .. }) => None,
            Err(error) => {
                self.array_left_out(&path, error);
                self.describe_as(&path, dataset);
                self.report.arrays.entry(path).or_default().left_out = Some(error.to_string());
                None
            }
        }
    }

    /// Maps sequences to their items, which it returns, and to their row sizes, which it adds to the group.
    pub(in crate::hdf5) fn ragged(
        &mut self,
        group: &mut Group,
        place: &Place<'_>,
        (name, address): (&str, Address),
        (values, row_sizes): (&Dataset, &Dataset),
        (axes, lengths): (Vec<AxisDimension>, &mut Lengths),
    ) -> Option<Node> {
        let shown = name.strip_prefix(NON_COORDINATE).filter(|name| !name.is_empty()).unwrap_or(name);
        let is_taken = |name: &str| {
            lengths.has(name)
                || group.children.contains_key(name)
                || place.scopes.iter().any(|scope| scope.defines(name))
        };
        let free = |suffix: &str| {
            let mut name = format!("{shown}{suffix}");
            while is_taken(&name) {
                name.push('_');
            }
            name
        };
        let (sample, size_name) = (free(SAMPLE), free(ROW_SIZE));
        let axis = AxisDimension { name: Some(sample.clone()), ..AxisDimension::default() };
        let array = self.child_array(place, name, values, (vec![axis], lengths))?;
        let row_sizes = Dataset { attributes: vec![text(SAMPLE_DIMENSION, &sample)], ..row_sizes.clone() };
        let sizes = self.child_array(place, &size_name, &row_sizes, (axes, lengths))?;
        let (path, size_path) = (join(place.path, shown), join(place.path, &size_name));
        if let Some(Object::Dataset(dataset)) = self.own.file.objects.get(&address) {
            self.describe_as(&path, dataset);
            self.describe_as(&size_path, dataset);
        }
        let message =
            format!("\"{shown}\" holds the items of all sequences, \"{size_name}\" their number in each");
        self.diagnose(Severity::Info, Code::RaggedArray, &path, message);
        group.children.insert(size_name, Node::Array(Box::new(sizes)));
        Some(Node::Array(Box::new(array)))
    }

    /// Reports the source of an array as the dataset that it represents.
    fn describe_as(&mut self, path: &str, dataset: &Dataset) {
        let report = self.report.arrays.entry(path.to_owned()).or_default();
        report.source_type = describe_type(&dataset.datatype);
        report.source_layout = describe_layout(&dataset.layout);
        report.source_filters = dataset.filters.iter().map(describe_filter).collect();
    }
}

fn text(name: &str, value: &str) -> Attribute {
    let (padding, charset) = (StringPadding::NullTerminated, CharacterSet::Utf8);
    Attribute {
        name: name.to_owned(),
        datatype: Datatype::VariableString { size: 16, padding, charset },
        dataspace: Dataspace::Scalar,
        elements: vec![Element::Text(value.to_owned())],
    }
}
