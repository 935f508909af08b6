//! Unpacking of images ([`crate::MapOptions::unpack`]): nodata, and the scales and offsets that GDAL gives bands.

use serde_json::Value;
use virtualize_zarr::{Array, DataType, FillValue};

use crate::unpack::{Factor, Packing, UnpackRefusal, refusal_diagnostic};
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
        // Units of times are not the attribute `units` of an image.
        is_time: false,
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

#[cfg(test)]
mod tests {
    use virtualize_remedy::Code;
    use virtualize_tiff::model::{GdalItem, SampleFormat};
    use virtualize_zarr::ZarrFormat;

    use super::*;
    use crate::MapOptions;
    use crate::tiff::tests::{ifd, image, item, map_ifds};

    /// Maps an image of two bands with these scales, and returns its type and diagnostics.
    fn unpacked(
        format: SampleFormat,
        bits: u16,
        scales: [&str; 2],
        nodata: Option<&str>,
    ) -> (DataType, Vec<Code>) {
        let mut image = image(4, 4, 2, 2);
        (image.sample_format, image.bits_per_sample) = (vec![format; 2], vec![bits; 2]);
        let mut ifd = ifd(image);
        ifd.gdal_nodata = nodata.map(Into::into);
        let scale = |(sample, text): (u32, &&str)| GdalItem {
            sample: Some(sample),
            role: Some("scale".into()),
            ..item("scale", text)
        };
        ifd.gdal_metadata = (0..).zip(&scales).map(scale).collect();
        let options = MapOptions { format: ZarrFormat::V3, unpack: true, ..MapOptions::default() };
        let mapped = map_ifds(vec![ifd], &options);
        let codes = mapped.report.diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
        (mapped.hierarchy.array("band_data").unwrap().data_type.clone(), codes)
    }

    /// rioxarray 0.23 with `mask_and_scale=True`.
    #[test]
    fn images_get_the_type_of_rioxarray() {
        use SampleFormat::{Float, Signed, Unsigned};
        for (format, bits, nodata, expected) in [
            (Unsigned, 16, None, DataType::Float32),
            (Unsigned, 16, Some("65535"), DataType::Float32),
            (Signed, 32, None, DataType::Float64),
            (Float, 32, Some("nan"), DataType::Float32),
            (Float, 32, Some("-9999"), DataType::Float32),
            (Float, 64, None, DataType::Float64),
        ] {
            let found = unpacked(format, bits, ["0.5", "0.5"], nodata);
            assert_eq!(found, (expected, vec![]), "{format:?} {bits} {nodata:?}");
        }
        let bands = unpacked(Unsigned, 16, ["0.5", "0.25"], None);
        assert_eq!(bands, (DataType::UInt16, vec![Code::NotUnpacked]));
    }
}
