//! Unpacking of images ([`crate::MapOptions::unpack`]): nodata, and the scales and offsets that GDAL gives bands.

use serde_json::Value;
use virtualize_zarr::{Array, DataType, FillValue};

use crate::unpack::{Factor, Packing, UnpackRefusal, is_time_unit, refusal_diagnostic};
use crate::{ArrayReport, Mapped};

/// Unpacks all images that codecs can unpack exactly; the others stay packed, with a diagnostic.
pub(super) fn unpack_all(mapped: &mut Mapped) {
    for (path, report) in &mut mapped.report.arrays {
        let Some(array) = mapped.hierarchy.array_mut(path) else { continue };
        if let Err(why) = unpack(array, report) {
            mapped.report.diagnostics.push(refusal_diagnostic(&why, path));
        }
    }
}

fn unpack(array: &mut Array, report: &mut ArrayReport) -> Result<(), UnpackRefusal> {
    let stored = array.data_type.clone();
    if !stored.is_integer() && !stored.is_float() {
        return Ok(());
    }
    if ["scales", "offsets"].iter().any(|name| array.attributes.get(*name).is_some_and(Value::is_array)) {
        return Err(UnpackRefusal::Bands);
    }
    let sentinel = report.fill.as_ref().and_then(|fill| fill.sentinel.clone());
    let is_nan = |value: &FillValue| value.to_f64(&stored).is_some_and(f64::is_nan);
    let packing = Packing {
        scale: factor(array, "scale_factor"),
        offset: factor(array, "add_offset"),
        sentinels: sentinel.into_iter().filter(|value| !is_nan(value)).collect(),
        is_time: array.attributes.get("units").and_then(Value::as_str).is_some_and(is_time_unit),
        stored: stored.clone(),
    };
    packing.unpack(array, report)
}

/// Returns a factor in the precision in which rioxarray computes: 32 bits for numbers that 32-bit floats hold.
fn factor(array: &Array, name: &str) -> Option<Factor> {
    let value = array.attributes.get(name)?.as_f64()?;
    let is_small = array.data_type.size() <= Some(2) || array.data_type == DataType::Float32;
    #[expect(clippy::cast_possible_truncation, reason = "rounds as rioxarray does")]
    let factor = if is_small { Factor::Single(value as f32) } else { Factor::Double(value) };
    Some(factor)
}
