//! Attributes of an array that follow from its type and fill value: fill values, flags of enumerations, units of NumPy times.

use serde_json::{Map, Value};
use virtualize_hdf5::model::{Dataset, Datatype};
use virtualize_remedy::Code;
use virtualize_zarr::DataType;

use super::Mapper;
use super::attributes::{attributes_json, flags};
use super::types::numpy_time;
use crate::Severity;
use crate::cf::{CfAttributes, FillPlan, write_sentinels};

impl Mapper<'_> {
    /// Returns the attributes of an array: those of the dataset, the fill values in the notation of the Zarr format, and
    /// what follows from its datatype.
    pub(super) fn array_attributes(
        &mut self,
        path: &str,
        (dataset, meanings): (&Dataset, &CfAttributes),
        data_type: &DataType,
        fill: &FillPlan,
    ) -> Map<String, Value> {
        self.keep_attributes(path, &dataset.attributes);
        let (mut attributes, left_out) = attributes_json(&dataset.attributes, self.shown());
        for (name, why) in left_out.iter().filter(|(name, _)| name != "_FillValue") {
            self.attribute_left_out(path, name, why);
        }
        for error in &dataset.unreadable_attributes {
            self.diagnose(
                Severity::Warning,
                Code::AttributeUnreadable,
                path,
                format!("an attribute is left out: {error}"),
            );
        }
        for (severity, code, message) in write_sentinels(meanings, data_type, fill, &mut attributes) {
            self.diagnose(severity, code, path, message);
        }
        if let Some(flags) = flags(&dataset.datatype) {
            for (name, value) in flags {
                attributes.entry(name).or_insert(value);
            }
        }
        if let Datatype::Opaque { tag, .. } = &dataset.datatype
            && let Some(time) = numpy_time(tag)
        {
            let dtype = time.duration.map(|dtype| ("dtype", dtype));
            for (name, value) in [("units", time.units)].into_iter().chain(dtype) {
                attributes.entry(name).or_insert_with(|| value.into());
                self.keep_text(path, name, value);
            }
        }
        attributes
    }
}
