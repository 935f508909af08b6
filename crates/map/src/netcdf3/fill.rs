//! Fill values. netCDF writes `_FillValue`, or the default of the type, to what a program leaves out, unless the program
//! turns that off (`NC_NOFILL`). The file contains the result, so that nothing is missing, unless the file is too short.

use virtualize_netcdf3::model::Variable;
use virtualize_zarr::FillValue;

use super::types::{default_fill, little_endian};

/// The fill value of a variable.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct VariableFill {
    /// The value.
    pub(super) value: FillValue,
    /// Where it is declared, for the report.
    pub(super) origin: String,
}

impl VariableFill {
    /// Like netCDF-C, uses an attribute `_FillValue` of one value in the type of the variable, else the default.
    pub(super) fn of(variable: &Variable) -> Self {
        let declared = variable.attributes.iter().find(|attribute| attribute.name == "_FillValue");
        let fits = |values: &[u8]| values.len() as u64 == variable.data_type.size();
        match declared.filter(|one| one.data_type == variable.data_type && fits(&one.values)) {
            Some(attribute) => Self {
                value: FillValue::Fixed(little_endian(variable.data_type, &attribute.values).into()),
                origin: "fill value of the variable".to_owned(),
            },
            None => {
                let (name, value) = default_fill(variable.data_type);
                Self { value, origin: format!("default fill value, {name}") }
            }
        }
    }
}
