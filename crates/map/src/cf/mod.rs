//! Attributes by which CF and NetCDF give numbers their meaning, decided alike for every source format: fill values, missing
//! values, signs, packing.
//!
//! A format's mapping converts its attributes to [`CfAttributes`], and passes what its fill values say to [`FillQuestion`].

mod fill;
mod grids;
pub(crate) mod packing;
#[cfg(test)]
mod tests;

use virtualize_hdf5::model::Element;
use virtualize_zarr::DataType;

pub use crate::cf::fill::netcdf_default_fill;
pub(crate) use crate::cf::fill::{FillPlan, FillQuestion, write_sentinels};
pub use crate::cf::grids::{Axis, describe_grids, grid_axes, regular_axis};
pub(crate) use crate::cf::packing::{check_factors, unpack, widened_packing};

/// Names of the attributes that the rules of this module read.
const NAMES: [&str; 6] = ["_FillValue", "_Unsigned", "add_offset", "missing_value", "scale_factor", "units"];

/// Names of the attributes by which numbers are packed.
const FACTORS: [&str; 2] = ["scale_factor", "add_offset"];

/// The attributes of one array that have a meaning here.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct CfAttributes(Vec<CfAttribute>);

/// An attribute.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct CfAttribute {
    /// Name.
    pub(crate) name: String,
    /// Type of the values; `None` if it is neither a number of at most 64 bits nor text of fixed length.
    pub(crate) data_type: Option<DataType>,
    /// Values, in row-major order.
    pub(crate) values: Vec<Element>,
}

impl CfAttributes {
    /// Whether the rules read attributes of this name.
    pub(crate) fn has_meaning(name: &str) -> bool {
        NAMES.contains(&name)
    }

    /// Returns the attribute of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&CfAttribute> {
        self.0.iter().find(|attribute| attribute.name == name)
    }

    /// Returns the text of an attribute.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)?.values.as_slice() {
            [Element::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether xarray unpacks the numbers.
    pub(crate) fn is_packed(&self) -> bool {
        FACTORS.iter().any(|name| self.get(name).is_some())
    }

    /// Whether the array has sentinels, and all are NaN. xarray then unpacks floats to their own type.
    pub(crate) fn masks_only_nan(&self) -> bool {
        let mut values = ["_FillValue", "missing_value"]
            .iter()
            .filter_map(|name| self.get(name))
            .flat_map(|one| &one.values)
            .peekable();
        values.peek().is_some()
            && values.all(|value| matches!(value, Element::Float(value) if value.is_nan()))
    }

    /// Returns the type that xarray shows: the attribute `_Unsigned` changes the sign of integers.
    pub(crate) fn shown_type(&self, data_type: &DataType) -> DataType {
        match self.text("_Unsigned") {
            Some("true") => data_type.with_sign(false),
            Some("false") => data_type.with_sign(true),
            _ => data_type.clone(),
        }
    }
}

impl FromIterator<CfAttribute> for CfAttributes {
    fn from_iter<I: IntoIterator<Item = CfAttribute>>(attributes: I) -> Self {
        Self(attributes.into_iter().filter(|attribute| Self::has_meaning(&attribute.name)).collect())
    }
}
