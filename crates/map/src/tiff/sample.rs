//! Samples: BitsPerSample and SampleFormat as a data type, and how stored bits become elements.

use serde_json::Value;
use virtualize_tiff::model::{Image, SampleFormat};
use virtualize_zarr::{Array, DataType, Endian, Field, FillValue};

use crate::cf::packing::{Factor, Packing, UnpackRefusal, refusal_diagnostic};
use crate::report::numpy_name;
use crate::{ArrayReport, ComplexIntegers, Error, Mapped, Result};

/// The samples of an image, as elements of the array and as stored.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Sample {
    /// Type of an element of the array.
    pub(super) data_type: DataType,
    /// Bits of a stored sample.
    pub(super) bits: u16,
    /// Conversion of stored bits to an element.
    pub(super) storage: Storage,
}

/// Conversion of stored bits to an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Storage {
    /// None but for byte order.
    Whole,
    /// Unsigned integers are packed without gaps, most significant bit first; each row starts at a byte.
    Packed,
    /// 24-bit integers, least significant byte first. GDAL writes packed integers most significant byte first, and libtiff
    /// reverses the bytes of 24-bit ones in big-endian files.
    Reversed24,
    /// 24-bit floats (Adobe Photoshop TIFF Technical Note 3).
    Float24,
    /// Two signed integers are a structure, or become two floats of twice their size, which hold all their values.
    ComplexInteger,
}

impl Sample {
    /// Determines the type of an image's samples.
    ///
    /// # Errors
    /// The samples of a pixel differ in type, or Zarr has no such type.
    pub(super) fn of(image: &Image, endian: Endian, complex_integers: ComplexIntegers) -> Result<Self> {
        let bits = common("BitsPerSample", &image.bits_per_sample)?;
        let format = common("SampleFormat", &image.sample_format)?;
        use SampleFormat::{ComplexFloat, ComplexInteger, Float, Signed, Unsigned, Void};
        let (data_type, storage) = match (format, bits) {
            (Unsigned, 1..=7) => (DataType::UInt8, Storage::Packed),
            (Unsigned, 9..=15) => (DataType::UInt16, Storage::Packed),
            (Unsigned, 24) if endian == Endian::Big => (DataType::UInt32, Storage::Reversed24),
            (Unsigned, 17..=31) => (DataType::UInt32, Storage::Packed),
            // GDAL reads no other undefined samples.
            (Void, 1) => (DataType::UInt8, Storage::Packed),
            (Unsigned | Void, 8) => (DataType::UInt8, Storage::Whole),
            (Unsigned | Void, 16) => (DataType::UInt16, Storage::Whole),
            (Unsigned | Void, 32) => (DataType::UInt32, Storage::Whole),
            (Unsigned | Void, 64) => (DataType::UInt64, Storage::Whole),
            (Signed, 8) => (DataType::Int8, Storage::Whole),
            (Signed, 16) => (DataType::Int16, Storage::Whole),
            (Signed, 32) => (DataType::Int32, Storage::Whole),
            (Signed, 64) => (DataType::Int64, Storage::Whole),
            (Float, 16) => (DataType::Float16, Storage::Whole),
            (Float, 24) => (DataType::Float32, Storage::Float24),
            (Float, 32) => (DataType::Float32, Storage::Whole),
            (Float, 64) => (DataType::Float64, Storage::Whole),
            (ComplexFloat, 64) => (DataType::Complex64, Storage::Whole),
            (ComplexFloat, 128) => (DataType::Complex128, Storage::Whole),
            (ComplexInteger, 32 | 64) => {
                let (complex, part) = if bits == 32 {
                    (DataType::Complex64, DataType::Int16)
                } else {
                    (DataType::Complex128, DataType::Int32)
                };
                let fields = ["r", "i"].map(|name| Field {
                    name: name.to_owned(),
                    data_type: part.clone(),
                    endian,
                    shape: Vec::new(),
                });
                let data_type = match complex_integers {
                    ComplexIntegers::Complex => complex,
                    ComplexIntegers::Structure => DataType::Struct(fields.into()),
                };
                (data_type, Storage::ComplexInteger)
            }
            _ => return Err(Error::no_data_type(format!("samples of type {}", describe(format, bits)))),
        };
        Ok(Self { data_type, bits, storage })
    }

    /// Returns the stored parts of complex integers that become complex numbers, in NumPy's notation.
    pub(super) fn complex_parts(&self, endian: Endian) -> Option<&'static str> {
        Some(match (self.storage, &self.data_type, endian) {
            (Storage::ComplexInteger, DataType::Complex64, Endian::Little) => "<i2",
            (Storage::ComplexInteger, DataType::Complex64, Endian::Big) => ">i2",
            (Storage::ComplexInteger, DataType::Complex128, Endian::Little) => "<i4",
            (Storage::ComplexInteger, DataType::Complex128, Endian::Big) => ">i4",
            _ => return None,
        })
    }

    /// Returns the numbers of which predictor 2 stores differences: those of the array, or unsigned integers of both parts
    /// of a complex integer.
    pub(super) fn predicted_name(&self, endian: Endian) -> String {
        match self.storage {
            Storage::ComplexInteger if self.bits == 32 => numpy_name(&DataType::UInt32, endian),
            Storage::ComplexInteger => numpy_name(&DataType::UInt64, endian),
            _ => numpy_name(&self.data_type, endian),
        }
    }
}

/// Describes a sample type in the words of the specification.
pub(super) fn describe(format: SampleFormat, bits: u16) -> String {
    let name = match format {
        SampleFormat::Unsigned => "unsigned integer",
        SampleFormat::Signed => "signed integer",
        SampleFormat::Float => "floating point",
        SampleFormat::Void => "undefined",
        SampleFormat::ComplexInteger => "complex integer",
        SampleFormat::ComplexFloat => "complex floating point",
        SampleFormat::Unknown(code) => return format!("SampleFormat {code} of {bits} bits"),
    };
    format!("{bits}-bit {name}")
}

fn common<T: Copy + PartialEq + std::fmt::Debug>(tag: &str, values: &[T]) -> Result<T> {
    let first = values.first().copied().ok_or_else(|| Error::malformed(tag.to_owned(), "no value"))?;
    match values.iter().find(|value| **value != first) {
        None => Ok(first),
        Some(_) => Err(Error::no_data_type(format!("samples of different types ({tag} {values:?})"))),
    }
}

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
    let single = f64::from(value as f32);
    Some(if is_small { (DataType::Float32, single) } else { (DataType::Float64, value) })
}

#[cfg(test)]
mod sample_tests {
    use super::*;

    /// NumPy: `np.dtype('>u2').str`, `np.dtype('u1').str`, `np.dtype('<c8').str`.
    #[test]
    fn names_are_those_of_numpy() {
        assert_eq!(numpy_name(&DataType::UInt16, Endian::Big), ">u2");
        assert_eq!(numpy_name(&DataType::UInt8, Endian::Big), "|u1");
        assert_eq!(numpy_name(&DataType::Complex64, Endian::Little), "<c8");
        assert_eq!(numpy_name(&DataType::Int64, Endian::Little), "<i8");
    }

    /// tifffile's TIFF.SAMPLE_DTYPES: 12 bits are read as uint16, 24 bits as uint32, 24-bit floats as float32.
    #[test]
    fn odd_bits_are_packed_in_the_next_larger_type() {
        let of = |format, bits| {
            let sample = of(format, bits, Endian::Little, ComplexIntegers::Complex)?;
            Some((sample.data_type, sample.storage))
        };
        assert_eq!(of(SampleFormat::Unsigned, 12), Some((DataType::UInt16, Storage::Packed)));
        assert_eq!(of(SampleFormat::Unsigned, 24), Some((DataType::UInt32, Storage::Packed)));
        assert_eq!(of(SampleFormat::Unsigned, 1), Some((DataType::UInt8, Storage::Packed)));
        assert_eq!(of(SampleFormat::Void, 1), Some((DataType::UInt8, Storage::Packed)));
        assert_eq!(of(SampleFormat::Float, 24), Some((DataType::Float32, Storage::Float24)));
        assert_eq!(of(SampleFormat::Unsigned, 33), None);
        assert_eq!(of(SampleFormat::Signed, 12), None);
    }

    fn of(format: SampleFormat, bits: u16, endian: Endian, kind: ComplexIntegers) -> Option<Sample> {
        let (sample_format, bits_per_sample) = (vec![format], vec![bits]);
        let image = Image { sample_format, bits_per_sample, ..crate::tiff::tests::image(4, 4, 1, 4) };
        Sample::of(&image, endian, kind).ok()
    }

    #[test]
    fn types_follow_from_format_bits_and_byte_order() {
        use SampleFormat::{ComplexFloat, ComplexInteger, Float, Signed, Unknown, Unsigned, Void};
        let little =
            |format, bits| Some(of(format, bits, Endian::Little, ComplexIntegers::Complex)?.data_type);
        for (format, bits, expected) in [
            (Signed, 8, DataType::Int8),
            (Signed, 16, DataType::Int16),
            (Signed, 32, DataType::Int32),
            (Signed, 64, DataType::Int64),
            (Void, 16, DataType::UInt16),
            (Unsigned, 64, DataType::UInt64),
            (Float, 16, DataType::Float16),
            (Float, 32, DataType::Float32),
            (Float, 64, DataType::Float64),
            (ComplexFloat, 64, DataType::Complex64),
            (ComplexFloat, 128, DataType::Complex128),
            (ComplexInteger, 32, DataType::Complex64),
            (ComplexInteger, 64, DataType::Complex128),
        ] {
            assert_eq!(little(format, bits), Some(expected), "{format:?} {bits}");
        }
        for (format, bits) in
            [(ComplexFloat, 32), (ComplexInteger, 16), (Unknown(9), 8), (Float, 8), (Void, 17)]
        {
            assert_eq!(little(format, bits), None, "{format:?} {bits}");
        }
        let storage = |bits, endian| of(Unsigned, bits, endian, ComplexIntegers::Complex).unwrap().storage;
        assert_eq!(storage(24, Endian::Little), Storage::Packed);
        assert_eq!(storage(24, Endian::Big), Storage::Reversed24);
        assert_eq!(storage(12, Endian::Big), Storage::Packed);
    }

    #[test]
    fn complex_integers_are_complex_or_structures() {
        let parts = |bits, endian, kind| {
            let sample = of(SampleFormat::ComplexInteger, bits, endian, kind).unwrap();
            (sample.complex_parts(endian), sample.predicted_name(endian))
        };
        for (bits, endian, expected, predicted) in [
            (32, Endian::Little, "<i2", "<u4"),
            (32, Endian::Big, ">i2", ">u4"),
            (64, Endian::Little, "<i4", "<u8"),
            (64, Endian::Big, ">i4", ">u8"),
        ] {
            let found = parts(bits, endian, ComplexIntegers::Complex);
            assert_eq!(found, (Some(expected), predicted.to_owned()));
            assert_eq!(parts(bits, endian, ComplexIntegers::Structure).0, None);
        }
        for (bits, part) in [(32, DataType::Int16), (64, DataType::Int32)] {
            let kind = ComplexIntegers::Structure;
            let found = of(SampleFormat::ComplexInteger, bits, Endian::Big, kind).unwrap().data_type;
            let DataType::Struct(fields) = found else { panic!("{found:?}") };
            let fields: Vec<_> =
                fields.into_iter().map(|field| (field.name, field.data_type, field.endian)).collect();
            assert_eq!(fields, ["r", "i"].map(|name| (name.to_owned(), part.clone(), Endian::Big)));
        }
        assert_eq!(numpy_name(&DataType::Float16, Endian::Little), "<f2");
    }
}

#[cfg(test)]
mod packing_tests {
    use virtualize_remedy::Code;
    use virtualize_tiff::model::GdalItem;
    use virtualize_tiff::model::SampleFormat;
    use virtualize_zarr::ZarrFormat;

    use super::*;
    use crate::MapOptions;
    use crate::tiff::tests::ifd;
    use crate::tiff::tests::image;
    use crate::tiff::tests::item;
    use crate::tiff::tests::map_ifds;

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
