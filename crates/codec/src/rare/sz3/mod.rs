//! SZ3 of version 3.1: HDF5 filter 32024 as hdf5plugin writes it. <https://github.com/szcompressor/SZ3>
//!
//! ```text
//! 8  decoded bytes of what follows    a frame of Zstandard    configuration    4  its length
//! ```
//!
//! The frame holds the parameters of the predictor, the quantizer with values that no prediction fits, and a Huffman code
//! of quantized errors. Numbers are little-endian. Values are restored with the operations of the C++ library in the same
//! order and width, so that they are those of the original decoder, bit by bit.

pub(super) mod blocks;
pub(super) mod huffman;
mod interpolation;
pub(super) mod number;

use self::{
    huffman::Reader,
    number::Number,
    number::{Algorithm, Config},
};

use crate::{CodecFailure, bounded, codecs::streams, corrupt, parameters, size, unsupported};

const NAME: &str = "sz3";

/// Maximum number of bytes of the frame for each decoded byte: a code of 8 bytes, two nodes of the code's tree, and the value.
const EXPANSION: usize = 64;
const SLACK: usize = 1 << 16;

/// Start of the chunks of later versions.
const LATER: [u8; 4] = [0x10, 0xf3, 0x42, 0xf3];

/// Decodes a chunk of numbers of the type `dtype`, a NumPy string, to at most `limit` bytes.
pub(super) fn decode(bytes: &[u8], dtype: &str, limit: usize) -> Result<Vec<u8>, CodecFailure> {
    match dtype {
        "<f4" => chunk::<f32>(bytes, limit),
        "<f8" => chunk::<f64>(bytes, limit),
        "|i1" => chunk::<i8>(bytes, limit),
        "|u1" => chunk::<u8>(bytes, limit),
        "<i2" => chunk::<i16>(bytes, limit),
        "<u2" => chunk::<u16>(bytes, limit),
        "<i4" => chunk::<i32>(bytes, limit),
        "<u4" => chunk::<u32>(bytes, limit),
        "<i8" => chunk::<i64>(bytes, limit),
        "<u8" => chunk::<u64>(bytes, limit),
        other => Err(parameters(NAME, format!("no numbers of type {other}"))),
    }
}

fn chunk<T: Number>(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let (config, frame) = open(bytes)?;
    let config = Config::parse(config)?;
    bounded(NAME, config.elements().and_then(|count| count.checked_mul(T::SIZE)), limit)?;
    let frame = streams::decode_zstd(frame, limit.saturating_mul(EXPANSION).saturating_add(SLACK))?;
    restore::<T>(&config, frame)
}

/// Returns the configuration of a chunk and its frame.
fn open(bytes: &[u8]) -> Result<(&[u8], &[u8]), CodecFailure> {
    if bytes.starts_with(&LATER) {
        return Err(unsupported(NAME, "version 3.2 and later"));
    }
    let (rest, length) = bytes.split_last_chunk::<4>().ok_or_else(cut_off)?;
    let length = size(u32::from_le_bytes(*length));
    let (rest, config) =
        rest.len().checked_sub(length).and_then(|at| rest.split_at_checked(at)).ok_or_else(cut_off)?;
    let (_, frame) = rest.split_first_chunk::<8>().ok_or_else(cut_off)?;
    Ok((config, frame))
}

/// Restores the values of a frame.
fn restore<T: Number>(config: &Config, frame: Vec<u8>) -> Result<Vec<u8>, CodecFailure> {
    if config.is_lossless {
        return Ok(frame);
    }
    let values = match config.algorithm {
        Algorithm::Interpolation => interpolation::decode::<T>(config, Reader::new(&frame)),
        Algorithm::Blocks => blocks::decode::<T>(config, Reader::new(&frame)),
    }?;
    let mut out = Vec::with_capacity(values.len() * T::SIZE);
    values.into_iter().for_each(|value| value.push_le_bytes(&mut out));
    Ok(out)
}

fn cut_off() -> CodecFailure {
    corrupt(NAME, "the chunk is truncated or damaged")
}

#[cfg(test)]
mod tests {
    use base64::{Engine, prelude::BASE64_STANDARD};

    use super::*;

    /// Whatever the frame and the configuration hold: no panic, and no more values than the configuration has.
    #[test]
    fn damage_in_the_frame_does_no_harm() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut random = |below| random.usize(..below);
        let lines =
            include_str!("../../../tests/data/sz3_chunks.txt").lines().filter(|line| line.starts_with("sz3"));
        for line in lines {
            let stored = BASE64_STANDARD.decode(line.rsplit('|').next().unwrap()).unwrap();
            let (config, frame) = open(&stored).unwrap();
            let frame = streams::decode_zstd(frame, 1 << 20).unwrap();
            for round in 0..300 {
                let (mut config, mut frame) = (config.to_vec(), frame.clone());
                for _ in 0..=random(3) {
                    // The parameters at the start matter most.
                    let within = if random(2) == 0 { frame.len().min(120) } else { frame.len() };
                    frame[random(within)] = u8::try_from(random(256)).unwrap();
                }
                if round % 4 == 0 {
                    let at = random(config.len());
                    config[at] ^= 1 << random(8);
                }
                let Ok(config) = Config::parse(&config) else { continue };
                if let Some(count) = config.elements().filter(|count| *count < 1 << 14) {
                    let values = if round % 2 == 0 {
                        restore::<f32>(&config, frame)
                    } else {
                        restore::<i16>(&config, frame)
                    };
                    let size = values.map_or(0, |values| values.len());
                    assert!(config.is_lossless || size <= 4 * count);
                }
            }
        }
    }
}
