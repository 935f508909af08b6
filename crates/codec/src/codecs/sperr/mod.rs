//! SPERR: HDF5 filter 32028 (H5Z-SPERR). <https://github.com/NCAR/SPERR>, <https://github.com/NCAR/H5Z-SPERR>
//!
//! ```text
//! chunk    1  missing values: 0 none, 1 NaN, 2 one large value   mode 2: this value   modes 1, 2: a mask   stream
//! stream   volumes: 1 version   1 flags   4 size of each axis, the fastest first   4 length of what follows
//!          1 flags   8 mean   8 step of the quantizer   coefficients   outliers
//! ```
//!
//! Files of H5Z-SPERR 0.1 lack the first byte. Numbers are little-endian. Values are the inverse wavelet transform of
//! quantized coefficients, plus corrections of outliers, plus the mean. The operations are those of the C++ library in the
//! same order, so that values are those of the original decoder, bit by bit.

mod mask;
mod sets;
mod speck;
mod wavelet;

use self::{mask::Missing, speck::Speck};
use crate::{CodecFailure, corrupt, parameters};

const NAME: &str = "sperr";

/// Flag of a stream: all values are alike.
const CONSTANT: u8 = 1;
/// Flags of the header of volumes.
const VOLUME: u8 = 0x40;
const SINGLE: u8 = 0x20;

/// Axes of a chunk, the fastest first; the third one of an image has one value.
#[derive(Clone, Copy, Debug)]
struct Shape {
    sizes: [usize; 3],
    is_volume: bool,
}

impl Shape {
    /// Checks a shape whose slowest axis is first.
    fn new(shape: &[u64]) -> Option<Self> {
        // The library keeps positions in volumes in 16 bits.
        let most = if shape.len() > 2 { u64::from(u16::MAX) } else { u64::from(u32::MAX) };
        let size = |size: &u64| usize::try_from(*size).ok().filter(|_| (1..=most).contains(size));
        let sizes: Vec<usize> = shape.iter().rev().map(size).collect::<Option<_>>()?;
        Some(match *sizes.as_slice() {
            [x, y] => Self { sizes: [x, y, 1], is_volume: false },
            [x, y, z] => Self { sizes: [x, y, z], is_volume: true },
            _ => return None,
        })
    }

    fn elements(&self) -> Option<usize> {
        self.sizes.iter().try_fold(1_usize, |count, size| count.checked_mul(*size))
    }
}

/// Decodes a chunk of floats of `width` bytes and of a shape whose slowest axis is first. `has_mode` means that the chunk
/// starts with the mode of missing values.
pub(super) fn decode(
    bytes: &[u8],
    (width, shape): (usize, &[u64]),
    has_mode: bool,
    limit: usize,
) -> Result<Vec<u8>, CodecFailure> {
    let shape = Shape::new(shape).ok_or_else(|| parameters(NAME, format!("chunks of shape {shape:?}")))?;
    let size = shape.elements().and_then(|count| count.checked_mul(width)).filter(|size| *size <= limit);
    let size = size.ok_or_else(|| CodecFailure::TooLong { codec: NAME.to_owned(), limit })?;
    let (missing, stream) = match has_mode {
        true => Missing::parse(bytes, width, size / width)?,
        false => (Missing::default(), bytes),
    };
    let stream = if shape.is_volume { volume_stream(stream, &shape, width)? } else { stream };
    let values = values(stream, &shape)?;
    let mut out = Vec::with_capacity(size);
    for value in values {
        match width {
            #[expect(clippy::cast_possible_truncation, reason = "rounded to single precision")]
            4 => out.extend((value as f32).to_le_bytes()),
            _ => out.extend(value.to_le_bytes()),
        }
    }
    missing.restore(&mut out, width);
    Ok(out)
}

/// Checks the header of a volume, and returns what follows it.
fn volume_stream<'a>(bytes: &'a [u8], shape: &Shape, width: usize) -> Result<&'a [u8], CodecFailure> {
    let ([version, flags], rest) = bytes.split_first_chunk().ok_or_else(cut_off)?;
    let expected = VOLUME | if width == 4 { SINGLE } else { 0 };
    if (*version, *flags) != (0, expected) {
        return Err(corrupt(NAME, format!("a volume of version {version} with flags {flags:#x}")));
    }
    let (numbers, rest) = rest.split_at_checked(16).ok_or_else(cut_off)?;
    let mut numbers = numbers.as_chunks::<4>().0.iter().map(|n| usize::try_from(u32::from_le_bytes(*n)).ok());
    if !shape.sizes.iter().all(|size| numbers.next().flatten() == Some(*size)) {
        return Err(corrupt(NAME, format!("a volume of another size than {:?}", shape.sizes)));
    }
    let length = numbers.next().flatten();
    (length == Some(rest.len())).then_some(rest).ok_or_else(cut_off)
}

/// Restores the values of a stream.
fn values(bytes: &[u8], shape: &Shape) -> Result<Vec<f64>, CodecFailure> {
    let (head, rest) = bytes.split_first_chunk::<17>().ok_or_else(cut_off)?;
    let [flags, one @ .., _, _, _, _, _, _, _, _] = head;
    let [_, _, _, _, _, _, _, _, _, two @ ..] = head;
    let count = shape.elements().ok_or_else(cut_off)?;
    if flags & CONSTANT != 0 {
        let fits = rest.is_empty() && usize::try_from(u64::from_le_bytes(*one)) == Ok(count);
        return if fits { Ok(vec![f64::from_le_bytes(*two); count]) } else { Err(cut_off()) };
    }
    let (mean, step) = (f64::from_le_bytes(*one), f64::from_le_bytes(*two));
    if step.is_nan() || step <= 0.0 {
        return Err(corrupt(NAME, format!("a quantizer with steps of {step}")));
    }
    let (coefficients, rest) = speck::split(rest).ok_or_else(cut_off)?;
    let decoded = match shape.is_volume {
        true => Speck::volume(shape.sizes, coefficients),
        false => Speck::plane(shape.sizes, coefficients),
    }
    .and_then(Speck::decode)
    .ok_or_else(cut_off)?;
    let mut values: Vec<f64> = decoded.map(|(size, sign)| step * to_f64(size) * sign).collect();
    wavelet::invert(&mut values, shape);
    correct(&mut values, rest, step / 1.5)?;
    values.iter_mut().for_each(|value| *value += mean);
    Ok(values)
}

/// Adds the corrections of outliers, whose stream is ignored where it is not complete.
fn correct(values: &mut [f64], bytes: &[u8], tolerance: f64) -> Result<(), CodecFailure> {
    let Some((stream, [])) = speck::split(bytes).filter(|(stream, _)| stream.is_complete()) else {
        return Ok(());
    };
    let decoded = Speck::line(values.len(), stream).and_then(Speck::decode).ok_or_else(cut_off)?;
    for (value, (size, sign)) in values.iter_mut().zip(decoded) {
        let error = match size {
            0 => continue,
            1 => 1.1,
            size => to_f64(size) - 0.25,
        };
        *value += error * (tolerance * sign);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "rounded as C++ does it")]
fn to_f64(size: u64) -> f64 {
    size as f64
}

fn cut_off() -> CodecFailure {
    corrupt(NAME, "the chunk is truncated or damaged")
}
