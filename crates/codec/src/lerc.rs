//! LERC2 (Limited Error Raster Compression) as libtiff reads and writes it. <https://github.com/Esri/lerc>
//!
//! Libtiff stores NaN as a mask, and so the alpha channel of 8-bit images if it is 0 or 255 throughout. Zarr readers
//! ignore masks. Chunks with a mask are therefore decoded here, by the crate `lerc-rs`, and re-encoded as a blob
//! without one.

use lerc::{LercInfo, Sample};
use virtualize_zarr::{Codec, DataType, Endian, FillValue};

use crate::{
    CodecFailure, bounded,
    codecs::{reversed_bits, streams},
    corrupt,
    image::Header,
    parameters, size,
};

/// Bytes of a blob that its checksum does not cover: key, version and the checksum.
const UNCHECKED: usize = 14;

/// Shape of a strip or tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Rows of pixels.
    pub rows: u64,
    /// Columns of pixels.
    pub columns: u64,
    /// Samples per pixel, the last axis.
    pub samples: u64,
    /// Whether the last sample is unassociated alpha of 8 bits, which may be stored as the mask.
    pub has_alpha: bool,
}

impl Layout {
    /// Returns the number of samples.
    pub fn elements(&self) -> Option<u64> {
        self.rows.checked_mul(self.columns)?.checked_mul(self.samples)
    }

    fn pixels(&self) -> Option<usize> {
        usize::try_from(self.rows.checked_mul(self.columns)?).ok()
    }
}

/// Header of a blob.
#[derive(Clone, Debug)]
pub struct Head(LercInfo);

impl Head {
    /// Greatest length in bytes.
    pub const BYTES: usize = 96;

    /// Reads the header of the first blob from the start of a strip or tile.
    ///
    /// # Errors
    /// See [`CodecFailure`].
    pub fn read(outer: &[Codec], bytes: &[u8]) -> Result<Self, CodecFailure> {
        match outer {
            [] => Self::parse(bytes),
            [Codec::Zlib { .. }] => Self::parse(&streams::decode_zlib_start(bytes, Self::BYTES as u64)?),
            [Codec::Zstd { .. }] => Self::parse(&streams::decode_zstd_start(bytes, Self::BYTES as u64)?),
            [other, ..] => Err(CodecFailure::NoDecoder(other.describe())),
        }
    }

    /// Parses the header of the first blob.
    ///
    /// # Errors
    /// Bytes that are not a blob.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, CodecFailure> {
        let mut front: Vec<u8> = bytes.iter().take(Self::BYTES).copied().collect();
        // The number of blobs that follow (version 6), which need not be in these bytes.
        if bytes.get(6).is_some_and(|version| *version >= 6) {
            front.iter_mut().skip(42).take(4).for_each(|byte| *byte = 0);
        }
        lerc::decode_info(&front).map(Self).map_err(broken)
    }

    pub(crate) fn header(&self) -> Header {
        let info = &self.0;
        let bytes = match info.data_type {
            lerc::DataType::Char | lerc::DataType::Byte => 1,
            lerc::DataType::Short | lerc::DataType::UShort => 2,
            lerc::DataType::Double => 8,
            _ => 4,
        };
        Header {
            rows: info.height.into(),
            columns: info.width.into(),
            samples: Some(info.depth.into()),
            bytes: Some(bytes),
        }
    }

    /// Whether readers that ignore masks, and concatenate blobs, decode the same values as libtiff.
    ///
    /// # Errors
    /// Blobs of another type or size, which libtiff rejects.
    pub fn is_plain(&self, data_type: &DataType, layout: &Layout) -> Result<bool, CodecFailure> {
        let info = &self.0;
        if Some(info.data_type) != type_of(data_type) {
            return Err(corrupt(
                "lerc",
                format!("a blob of type {:?}, expected {data_type}", info.data_type),
            ));
        }
        let (rows, columns) = (u64::from(info.height), u64::from(info.width));
        if (rows, columns) != (layout.rows, layout.columns) {
            let expected = format!("expected {} of {}", layout.rows, layout.columns);
            return Err(corrupt("lerc", format!("a blob of {rows} rows of {columns} pixels, {expected}")));
        }
        let is_float = data_type.is_float();
        match u64::from(info.depth) {
            depth if depth == layout.samples => {
                let valid = rows.checked_mul(columns) == Some(info.valid_pixels.into());
                Ok(!is_float || valid && info.no_data_value.is_none())
            }
            1 if is_float => Ok(false),
            depth if layout.has_alpha && depth.checked_add(1) == Some(layout.samples) => Ok(false),
            depth => {
                let samples = layout.samples;
                Err(corrupt("lerc", format!("a blob with {depth} values a pixel, expected {samples}")))
            }
        }
    }
}

/// Removes the compression around the blobs (Deflate, Zstandard or none), up to `limit` bytes.
///
/// # Errors
/// See [`CodecFailure`].
pub fn unwrap(outer: &[Codec], bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    match outer {
        [] => Ok(bytes.iter().take(limit).copied().collect()),
        [Codec::Zlib { .. }] => streams::decode_zlib(bytes, limit),
        [Codec::Zstd { .. }] => streams::decode_zstd(bytes, limit),
        [outer @ .., Codec::BitOrder] => unwrap(outer, &reversed_bits(bytes), limit),
        [other, ..] => Err(CodecFailure::NoDecoder(other.describe())),
    }
}

/// Decodes the blobs of a strip or tile as libtiff does: one blob, or one per sample, with samples as the last axis.
/// Masked floating-point numbers are NaN; the mask of an image with alpha becomes 255 or 0. Numbers are little-endian.
///
/// # Errors
/// See [`CodecFailure`].
pub fn decode(bytes: &[u8], data_type: &DataType, layout: &Layout) -> Result<Vec<u8>, CodecFailure> {
    let decode = match data_type {
        DataType::Int8 => decode_as::<i8>,
        DataType::UInt8 => decode_as::<u8>,
        DataType::Int16 => decode_as::<i16>,
        DataType::UInt16 => decode_as::<u16>,
        DataType::Int32 => decode_as::<i32>,
        DataType::UInt32 => decode_as::<u32>,
        DataType::Float32 => decode_as::<f32>,
        DataType::Float64 => decode_as::<f64>,
        other => return Err(no_type(other)),
    };
    decode(bytes, data_type, layout)
}

/// Decodes numbers of a type, and returns them pixel by pixel, as libtiff does.
fn decode_as<T: Sample>(
    bytes: &[u8],
    data_type: &DataType,
    layout: &Layout,
) -> Result<Vec<u8>, CodecFailure> {
    Head::parse(bytes)?.is_plain(data_type, layout)?;
    let info = lerc::decode_info(bytes).map_err(broken)?;
    if info.no_data_value.is_some() {
        return Err(CodecFailure::NoDecoder("LERC with a no-data value".into()));
    }
    let (depth, blobs) = (u64::from(info.depth), u64::from(info.bands));
    // One blob with all samples, one per sample, or one with the mask for alpha.
    let fits = match blobs {
        1 => depth == layout.samples || layout.has_alpha && depth.checked_add(1) == Some(layout.samples),
        many => depth == 1 && many == layout.samples && data_type.is_float(),
    };
    let count = layout.pixels().zip(usize::try_from(depth.saturating_mul(blobs)).ok());
    let count = count.and_then(|(pixels, each)| pixels.checked_mul(each)).filter(|_| fits);
    let count = count.ok_or_else(|| {
        corrupt("lerc", format!("{blobs} blobs of {depth} values a pixel, expected {}", layout.samples))
    })?;
    let mut values = vec![T::default(); count];
    let result = lerc::decode_into(bytes, &mut values).map_err(broken)?;
    let fail = || corrupt("lerc", "its blobs have other sizes than the chunk");
    let (pixels, samples) = layout.pixels().zip(usize::try_from(layout.samples).ok()).ok_or_else(fail)?;
    let (depth, blobs) = (size(result.depth), size(result.bands));
    let masked = (!T::is_integer()).then(|| T::from_f64(f64::NAN));
    let mut out = Vec::with_capacity(pixels.saturating_mul(samples).saturating_mul(T::BYTES));
    for pixel in 0..pixels {
        for sample in 0..samples {
            let (blob, place) = if blobs > 1 { (sample, 0) } else { (0, sample) };
            let is_valid = result.valid_masks.get(blob).is_none_or(|mask| mask.is_valid(pixel));
            let at = (blob * pixels + pixel) * depth + place;
            let value = match (place < depth, masked) {
                (false, _) => T::from_f64(if is_valid { 255.0 } else { 0.0 }),
                (true, Some(nan)) if !is_valid => nan,
                _ => values.get(at).copied().ok_or_else(fail)?,
            };
            value.extend_le_bytes(&mut out);
        }
    }
    Ok(out)
}

/// Encodes little-endian numbers as a blob of version 4 without mask and compression.
///
/// ```text
/// | "Lerc2 " | version i32 | checksum u32 | rows i32 | columns i32 | depth i32 | valid pixels i32 | micro block i32
/// | blob size i32 | data type i32 | greatest error f64 | least f64 | greatest f64
/// | size of the mask i32 | least and greatest of each depth | one sweep u8 | values
/// ```
///
/// # Errors
/// [`CodecFailure::Parameters`] where the sizes do not fit.
pub fn encode(data_type: &DataType, layout: &Layout, bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    let refuse = || parameters("lerc", format!("{} bytes do not make {layout:?}", bytes.len()));
    let kind = type_of(data_type).ok_or_else(|| no_type(data_type))?;
    let size = layout.elements().and_then(|elements| elements.checked_mul(kind.size() as u64));
    if size != Some(bytes.len() as u64) {
        return Err(refuse());
    }
    let int = |number: u64| i32::try_from(number).map_err(|_| refuse());
    let (rows, columns, depth) = (int(layout.rows)?, int(layout.columns)?, int(layout.samples)?);
    let pixels = int(layout.rows.saturating_mul(layout.columns))?;
    let mut after = Vec::with_capacity(bytes.len());
    after.extend([0.0_f64, 0.0, 1.0].into_iter().flat_map(f64::to_le_bytes));
    after.extend(0_i32.to_le_bytes());
    // The range of each depth: readers only test whether it is a single value.
    for bound in [0, 1] {
        let bound = FillValue::from_i128(data_type, bound).value();
        let bound = bound.and_then(|bound| bound.to_stored(data_type, Endian::Little)).ok_or_else(refuse)?;
        (0..depth).for_each(|_| after.extend(&bound));
    }
    after.push(1);
    after.extend(bytes);
    let length = int((UNCHECKED + 7 * 4 + after.len()) as u64)?;
    let middle = [rows, columns, depth, pixels, 8, length, kind as i32];
    let checked: Vec<u8> = middle.into_iter().flat_map(i32::to_le_bytes).chain(after).collect();
    let mut blob = b"Lerc2 ".to_vec();
    blob.extend(4_i32.to_le_bytes());
    blob.extend(lerc::checksum::fletcher32(&checked).to_le_bytes());
    blob.extend(checked);
    Ok(blob)
}

/// Types of LERC, as data types and as NumPy strings.
static TYPES: [(lerc::DataType, DataType, &str); 8] = [
    (lerc::DataType::Char, DataType::Int8, "|i1"),
    (lerc::DataType::Byte, DataType::UInt8, "|u1"),
    (lerc::DataType::Short, DataType::Int16, "<i2"),
    (lerc::DataType::UShort, DataType::UInt16, "<u2"),
    (lerc::DataType::Int, DataType::Int32, "<i4"),
    (lerc::DataType::UInt, DataType::UInt32, "<u4"),
    (lerc::DataType::Float, DataType::Float32, "<f4"),
    (lerc::DataType::Double, DataType::Float64, "<f8"),
];

fn type_of(data_type: &DataType) -> Option<lerc::DataType> {
    TYPES.iter().find(|(_, known, _)| known == data_type).map(|(kind, ..)| *kind)
}

fn no_type(data_type: &DataType) -> CodecFailure {
    parameters("lerc", format!("no LERC type for {data_type}"))
}

fn broken(reason: impl ToString) -> CodecFailure {
    corrupt("lerc", reason)
}

/// Decodes a single blob of at most `limit` bytes, whose header gives its type and size. Masked integers read as stored.
///
/// # Errors
/// Several blobs, and floating-point numbers with a mask, which readers ignore.
pub(crate) fn decode_image(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let head = Head::parse(bytes)?;
    let info = &head.0;
    let known = TYPES.iter().find(|(kind, ..)| *kind == info.data_type);
    let (_, data_type, _) = known.ok_or_else(|| broken("unknown type"))?;
    let (rows, columns, samples) = (info.height.into(), info.width.into(), info.depth.into());
    let layout = Layout { rows, columns, samples, has_alpha: false };
    let length = layout.elements().and_then(|elements| elements.checked_mul(data_type.number_size()));
    bounded("lerc", length.map(size), limit)?;
    if head.is_plain(data_type, &layout)? {
        decode(bytes, data_type, &layout)
    } else {
        Err(CodecFailure::NoDecoder("LERC with a mask".to_owned()))
    }
}

// LERC with masks as a codec.

/// Decodes a strip or tile of at most `limit` bytes. Rows that the last strip of an image lacks are zeros.
pub(crate) fn decode_chunk(bytes: &[u8], codec: &Codec, limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let Codec::Lerc { dtype, rows, columns, samples, has_alpha } = codec else {
        return Err(parameters("lerc", "no parameters"));
    };
    let known = TYPES.iter().find(|(_, _, name)| name == dtype);
    let (_, data_type, _) = known.ok_or_else(|| parameters("lerc", format!("numbers of type {dtype}")))?;
    let whole = Layout { rows: *rows, columns: *columns, samples: *samples, has_alpha: *has_alpha };
    let length = whole.elements().and_then(|elements| elements.checked_mul(data_type.number_size()));
    let length = bounded("lerc", length.map(size), limit)?;
    let stored = Layout { rows: Head::parse(bytes)?.header().rows.min(*rows), ..whole };
    let mut values = decode(bytes, data_type, &stored)?;
    values.resize(length, 0);
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn layout(rows: u64, columns: u64, samples: u64) -> Layout {
        Layout { rows, columns, samples, has_alpha: false }
    }

    /// `rasterio` 1.5 wrote 1.5, NaN, 3.25 and 4, 5, NaN with `compress="LERC"`.
    #[rustfmt::skip]
    const BLOB: &[u8] = &[
        76, 101, 114, 99, 50, 32, 4, 0, 0, 0, 228, 122, 114, 26, 2, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0,
        100, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 248, 63, 0, 0, 0, 0, 0, 0, 20, 64, 5, 0, 0, 0,
        1, 0, 187, 0, 128, 0, 0, 192, 63, 0, 0, 160, 64, 1, 0, 0, 192, 63, 0, 0, 80, 64, 0, 0, 128, 64, 0, 0, 160, 64,
    ];

    fn floats(bytes: &[u8]) -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
    }

    #[test]
    fn masked_pixels_are_nan() {
        let values = floats(&decode(BLOB, &DataType::Float32, &layout(2, 3, 1)).unwrap());
        assert!(values[1].is_nan() && values[5].is_nan());
        assert_eq!([values[0], values[2], values[3], values[4]], [1.5, 3.25, 4.0, 5.0]);
        let head = Head::parse(&BLOB[..Head::BYTES]).unwrap();
        assert_eq!(head.is_plain(&DataType::Float32, &layout(2, 3, 1)), Ok(false));
        for (data_type, rows, samples) in
            [(DataType::Float64, 2, 1), (DataType::Float32, 3, 1), (DataType::UInt8, 2, 2)]
        {
            assert!(head.is_plain(&data_type, &layout(rows, 3, samples)).is_err(), "{data_type} {rows}");
        }
    }

    #[test]
    fn a_blob_is_written_without_a_mask() {
        let shape = layout(2, 3, 1);
        let values = decode(BLOB, &DataType::Float32, &shape).unwrap();
        let blob = encode(&DataType::Float32, &shape, &values).unwrap();
        assert_eq!(Head::parse(&blob).unwrap().is_plain(&DataType::Float32, &shape), Ok(true));
        assert_eq!(decode(&blob, &DataType::Float32, &shape).unwrap(), values);
        assert!(encode(&DataType::Float32, &layout(2, 2, 1), &values).is_err());
        assert!(encode(&DataType::Complex64, &shape, &[0; 48]).is_err());
    }

    #[test]
    fn numbers_of_every_type_round_trip() {
        use DataType::{Float32, Float64, Int8, Int16, Int32, UInt8, UInt16, UInt32};
        for (data_type, size) in [
            (Int8, 1),
            (UInt8, 1),
            (Int16, 2),
            (UInt16, 2),
            (Int32, 4),
            (UInt32, 4),
            (Float32, 4),
            (Float64, 8),
        ] {
            let bytes: Vec<u8> = (0..3 * 5 * 2 * size).map(|n| u8::try_from(n % 120).unwrap()).collect();
            let blob = encode(&data_type, &layout(3, 5, 2), &bytes).unwrap();
            assert_eq!(decode(&blob, &data_type, &layout(3, 5, 2)).unwrap(), bytes, "{data_type}");
        }
    }

    #[test]
    fn blobs_of_several_samples_are_interleaved() {
        let values = floats(&decode(&[BLOB, BLOB].concat(), &DataType::Float32, &layout(2, 3, 2)).unwrap());
        assert_eq!([values[0], values[1], values[4], values[5]], [1.5, 1.5, 3.25, 3.25]);
    }

    #[test]
    fn damage_is_found() {
        for length in 0..BLOB.len() {
            assert!(decode(&BLOB[..length], &DataType::Float32, &layout(2, 3, 1)).is_err(), "{length} bytes");
        }
        for at in 14..BLOB.len() {
            let mut damaged = BLOB.to_vec();
            damaged[at] ^= 0x20;
            assert!(decode(&damaged, &DataType::Float32, &layout(2, 3, 1)).is_err(), "byte {at}");
        }
    }

    /// `rasterio` 1.5: two samples of 24 × 20 pixels, `max_z_error=0.01`, and what GDAL reads of them.
    const BLOCKS: &[u8] = include_bytes!("../tests/data/lerc.bin");
    const VALUES: &[u8] = include_bytes!("../tests/data/lerc.f32");

    #[test]
    fn blocks_are_those_of_gdal() {
        assert_eq!(decode(BLOCKS, &DataType::Float32, &layout(24, 20, 2)).unwrap(), VALUES);
    }

    /// Whatever is behind a checksum that fits: no panic.
    #[test]
    fn damage_behind_the_checksum_does_no_harm() {
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for _ in 0..20_000 {
            let (source, shape) =
                if random(2) == 0 { (BLOCKS, layout(24, 20, 2)) } else { (BLOB, layout(2, 3, 1)) };
            let mut blob = source.to_vec();
            for _ in 0..=random(4) {
                let at = 14 + random(blob.len() - 14);
                blob[at] = u8::try_from(random(256)).unwrap();
            }
            let checksum = lerc::checksum::fletcher32(&blob[14..]);
            blob[10..14].copy_from_slice(&checksum.to_le_bytes());
            drop(decode(&blob, &DataType::Float32, &shape));
        }
    }
}
