//! HDF5's szip filter (4): the decoded size of the chunk (4 bytes, little-endian), then a stream of extended Rice codes
//! (CCSDS 121.0-B-3). Client data: options, samples per block, bits per sample, samples per scanline.
//!
//! Samples of 32 and 64 bits are shuffled and coded as bytes. Scanlines are padded to whole blocks.

use virtualize_bytes::{BitReader, BitWriter};

use super::shuffle;
use crate::{CodecFailure, bounded, corrupt, parameters};

const NAME: &str = "szip";

/// Option: samples are most significant byte first.
const MSB: u32 = 16;
/// Option: samples are coded as differences to their predecessor.
const NEAREST_NEIGHBOUR: u32 = 32;
/// Blocks after which a run of zero blocks ends.
const SEGMENT: usize = 64;

struct Szip {
    /// Bytes per pixel.
    pixel: usize,
    /// Bits per coded sample, 8 or 16.
    bits: u32,
    /// Samples per block.
    block: usize,
    /// Samples per scanline.
    scanline: usize,
    big_endian: bool,
    differences: bool,
}

impl Szip {
    fn new(client_data: &[u32]) -> Result<Self, CodecFailure> {
        let wrong = || parameters(NAME, format!("client data {client_data:?}"));
        let [options, block, bits, scanline, ..] = *client_data else { return Err(wrong()) };
        let sensible = (2..=64).contains(&block) && scanline > 0 && scanline <= 1 << 24;
        if !sensible || block % 2 != 0 || !matches!(bits, 8 | 16 | 32 | 64) {
            return Err(wrong());
        }
        let size = |n: u32| usize::try_from(n).map_err(|_| wrong());
        Ok(Self {
            pixel: size(bits / 8)?,
            bits: if bits == 16 { 16 } else { 8 },
            block: size(block)?,
            scanline: size(scanline)?,
            big_endian: options & MSB != 0,
            differences: options & NEAREST_NEIGHBOUR != 0,
        })
    }

    /// Returns the blocks per scanline, the first of which starts with a reference sample.
    fn blocks(&self) -> usize {
        self.scanline.div_ceil(self.block)
    }

    fn sample_bytes(&self) -> usize {
        if self.bits == 16 { 2 } else { 1 }
    }

    fn pixel_bytes(&self) -> u32 {
        u32::try_from(self.pixel).unwrap_or(1)
    }

    fn is_shuffled(&self) -> bool {
        self.pixel > 2
    }

    fn largest(&self) -> u32 {
        (1 << self.bits) - 1
    }

    /// Returns the bits of the identifier of a block's coding option.
    fn id_bits(&self) -> u32 {
        if self.bits > 8 { 4 } else { 3 }
    }
}

/// Decodes a chunk of at most `limit` bytes.
pub(super) fn decode(bytes: &[u8], client_data: &[u32], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let szip = Szip::new(client_data)?;
    let (size, stream) = bytes.split_first_chunk::<4>().ok_or_else(cut_off)?;
    let size = bounded(NAME, Some(crate::size(u32::from_le_bytes(*size))), limit)?;
    let wanted = size / szip.sample_bytes();
    let mut reader = BitReader::new(stream);
    let mut out = Vec::with_capacity(size);
    let mut left = wanted;
    while left > 0 {
        let count = szip.scanline.min(left);
        let samples = scanline(&szip, &mut reader, count).ok_or_else(cut_off)?;
        for sample in samples.into_iter().take(count) {
            push(&szip, sample, &mut out);
        }
        left -= count;
    }
    match szip.is_shuffled() {
        true => shuffle::decode(&out, szip.pixel_bytes()),
        false => Ok(out),
    }
}

fn push(szip: &Szip, sample: u32, out: &mut Vec<u8>) {
    let [low, high, ..] = sample.to_le_bytes();
    match (szip.bits, szip.big_endian) {
        (16, true) => out.extend([high, low]),
        (16, false) => out.extend([low, high]),
        _ => out.push(low),
    }
}

/// Decodes at least `count` samples of a scanline.
fn scanline(szip: &Szip, reader: &mut BitReader<'_>, count: usize) -> Option<Vec<u32>> {
    let mut coded = Vec::with_capacity(szip.blocks() * szip.block);
    while coded.len() < count {
        block(szip, reader, &mut coded)?;
    }
    if szip.differences {
        let largest = szip.largest();
        let mut before: Option<u32> = None;
        for sample in &mut coded {
            if let Some(before) = before {
                let code = *sample & largest;
                let room = if before > largest / 2 { largest - before } else { before };
                let half = code.div_ceil(2);
                *sample = match (half <= room, code % 2, before > largest / 2) {
                    (true, 0, _) => before.wrapping_add(half),
                    (true, ..) => before.wrapping_sub(half),
                    (false, _, true) => largest - code,
                    (false, _, false) => code,
                };
            }
            before = Some(*sample);
        }
    }
    Some(coded)
}

/// Decodes one block, or a run of zero blocks.
fn block(szip: &Szip, reader: &mut BitReader<'_>, coded: &mut Vec<u32>) -> Option<()> {
    let id = reader.read(szip.id_bits())?;
    let number = coded.len() / szip.block;
    let end = coded.len() + szip.block;
    if id == (1 << szip.id_bits()) - 1 {
        while coded.len() < end {
            coded.push(u32::try_from(reader.read(szip.bits)?).ok()?);
        }
        return Some(());
    }
    let low_entropy = (id == 0).then(|| reader.read(1)).map_or(Some(None), |bit| bit.map(Some))?;
    if szip.differences && number == 0 {
        coded.push(u32::try_from(reader.read(szip.bits)?).ok()?);
    }
    match low_entropy {
        Some(0) => {
            // The code of the number of zero blocks: 4 means "to the end of the segment".
            let left = szip.blocks().checked_sub(number)?;
            let count = match usize::try_from(unary(reader)?).ok()? {
                4 => left.min(SEGMENT - number % SEGMENT),
                fewer @ 0..4 => fewer + 1,
                more => more,
            };
            if count > left {
                return None;
            }
            coded.resize(coded.len() - coded.len() % szip.block + count.checked_mul(szip.block)?, 0);
        }
        Some(_) => pairs(reader, end, coded)?,
        None => split(reader, u32::try_from(id).ok()? - 1, end, coded)?,
    }
    Some(())
}

/// Decodes the second-extension option: two samples in one number, the triangular number of their sum plus the second.
fn pairs(reader: &mut BitReader<'_>, end: usize, coded: &mut Vec<u32>) -> Option<()> {
    while coded.len() < end {
        let code = unary(reader)?;
        let sum = (0u32..).take_while(|sum| sum * (sum + 1) / 2 <= code).take(64).last()?;
        let second = code - sum * (sum + 1) / 2;
        if coded.len().is_multiple_of(2) {
            coded.push(sum.checked_sub(second)?);
        }
        coded.push(second);
    }
    Some(())
}

/// Decodes the sample-splitting option: high parts in unary, then low parts of `low` bits.
fn split(reader: &mut BitReader<'_>, low: u32, end: usize, coded: &mut Vec<u32>) -> Option<()> {
    let start = coded.len();
    while coded.len() < end {
        coded.push(unary(reader)?.checked_shl(low)?);
    }
    for sample in coded.get_mut(start..)? {
        *sample |= u32::try_from(reader.read(low)?).ok()?;
    }
    Some(())
}

/// Reads a unary number: zeros before a one.
fn unary(reader: &mut BitReader<'_>) -> Option<u32> {
    let mut zeros = 0u32;
    while reader.read(1)? == 0 {
        zeros = zeros.checked_add(1)?;
    }
    Some(zeros)
}

/// Maps the difference of two neighbours to a non-negative number.
fn difference(sample: u32, before: u32, largest: u32) -> u32 {
    let room = before.min(largest - before);
    let distance = sample.abs_diff(before);
    match (distance <= room, sample >= before) {
        (true, true) => 2 * distance,
        (true, false) => 2 * distance - 1,
        (false, _) => room + distance,
    }
}

/// Encodes blocks without compression, after the differences. The chunk does not shrink, but every reader decodes it.
pub(super) fn encode(bytes: &[u8], client_data: &[u32]) -> Result<Vec<u8>, CodecFailure> {
    let szip = Szip::new(client_data)?;
    let too_large = |_| CodecFailure::NoEncoder("a szip chunk over 4 GiB".to_owned());
    let mut out = u32::try_from(bytes.len()).map_err(too_large)?.to_le_bytes().to_vec();
    if !bytes.len().is_multiple_of(szip.pixel) {
        return Err(parameters(NAME, format!("{} bytes are not whole pixels", bytes.len())));
    }
    let planes = szip.is_shuffled().then(|| shuffle::encode(bytes, szip.pixel_bytes())).transpose()?;
    let samples: Vec<u32> = planes
        .as_deref()
        .unwrap_or(bytes)
        .chunks_exact(szip.sample_bytes())
        .map(|sample| {
            let add = |value: u32, byte: &u8| (value << 8) | u32::from(*byte);
            if szip.big_endian { sample.iter().fold(0, add) } else { sample.iter().rev().fold(0, add) }
        })
        .collect();
    let mut writer = BitWriter::default();
    for line in samples.chunks(szip.scanline) {
        let mut before: Option<u32> = None;
        let padded = line.len().next_multiple_of(szip.block);
        let padding = line.last().copied().unwrap_or(0);
        let line = line.iter().copied().chain(std::iter::repeat(padding)).take(padded);
        for (index, sample) in line.enumerate() {
            if index % szip.block == 0 {
                writer.write(u64::MAX >> (64 - szip.id_bits()), szip.id_bits());
            }
            let coded = match before {
                Some(before) if szip.differences => difference(sample, before, szip.largest()),
                _ => sample,
            };
            writer.write(u64::from(coded), szip.bits);
            before = Some(sample);
        }
    }
    out.extend(writer.finish());
    Ok(out)
}

fn cut_off() -> CodecFailure {
    corrupt(NAME, "the chunk is truncated or damaged")
}
