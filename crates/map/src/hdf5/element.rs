//! The elements of an array, and how they are stored.

use virtualize_zarr::{DataType, Endian, Field};

use crate::ElementTransform;

/// The element type of an array, and its relation to the stored elements of the dataset.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ElementType {
    /// Type of an element.
    pub(super) data_type: DataType,
    /// Byte order of the array's elements.
    pub(super) endian: Endian,
    /// Axes of an HDF5 array type, slowest first. They follow those of the dataspace.
    pub(super) axes: Vec<u64>,
    /// Bytes of one stored element; of an item, for an array type.
    pub(super) stored_size: u64,
    /// Conversion of a stored element to one of the array.
    pub(super) transform: ElementTransform,
}

impl ElementType {
    /// Returns an element type whose elements are stored as they are.
    pub(super) fn plain(data_type: DataType, endian: Endian, stored_size: u32) -> Self {
        let stored_size = stored_size.into();
        Self { data_type, endian, axes: Vec::new(), stored_size, transform: ElementTransform::None }
    }

    /// Whether chunks can be referenced as they are stored.
    pub(super) fn is_stored_as_it_is(&self) -> bool {
        self.transform == ElementTransform::None
    }
}

/// Returns the field of a structure for a member.
pub(super) fn field(name: &str, element: &ElementType) -> Field {
    Field {
        name: name.to_owned(),
        data_type: element.data_type.clone(),
        endian: element.endian,
        shape: element.axes.clone(),
    }
}
