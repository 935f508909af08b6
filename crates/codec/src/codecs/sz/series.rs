//! A row of values, each predicted as the one before it (`szd_float.c`, `TightDataPointStorageF.c`).
//!
//! ```text
//! 4  bins, unused   4  bins   number: median   1  bits of exact values   8  error bound
//! sizes of codes, number of exact values, size of their bytes
//! codes: 4 nodes, 4 unused, tree, bits    exact values: 2 bits each, bytes, remaining bits
//! ```
//!
//! An exact value is stored without the median. Two bits tell how many of its leading bytes are those of the exact value
//! before it. Its other bytes and the bits of its last, partial byte are apart.

use super::{Real, cut_off, size};
use crate::{
    CodecFailure,
    bits::BitReader,
    codecs::sz3::{huffman::Tree, reader::Reader},
};

pub(super) fn decode<T: Real>(
    mut reader: Reader<'_>,
    flags: u8,
    count: usize,
) -> Result<Vec<T>, CodecFailure> {
    let _most_bins = reader.big_endian()?;
    let radius = reader.i32_be()? / 2;
    let median = T::read(&mut reader)?;
    let [bits] = reader.array()?;
    let bound = f64::read(&mut reader)?;
    let (codes, exact, bytes) =
        (size(&mut reader, flags)?, size(&mut reader, flags)?, size(&mut reader, flags)?);
    let mut codes = Reader::new(reader.bytes(codes)?);
    let (nodes, _numbers) = (codes.big_endian()?, codes.big_endian()?);
    let codes = Tree::parse(&mut codes, nodes)?.decode(codes.rest(), count, 0)?;
    let mut exact = Exact {
        median,
        bits: bits.into(),
        leading: BitReader::new(reader.bytes(exact.div_ceil(4))?),
        bytes: reader.bytes(bytes)?.iter(),
        rest: BitReader::new(reader.rest()),
        before: vec![0; T::SIZE],
    };
    let interval = T::from_f64(bound * 2.0);
    let mut values: Vec<T> = Vec::with_capacity(count);
    for code in codes {
        let value = match (code, values.last()) {
            (0, _) => exact.next().ok_or_else(cut_off)?,
            (code, Some(before)) => *before + T::from_i32(code.wrapping_sub(radius)) * interval,
            (_, None) => return Err(cut_off()),
        };
        values.push(value);
    }
    Ok(values)
}

/// Values that no prediction fits.
struct Exact<'a, T> {
    median: T,
    /// Bits that are stored of each.
    bits: usize,
    leading: BitReader<'a>,
    bytes: std::slice::Iter<'a, u8>,
    rest: BitReader<'a>,
    /// The one before, most significant byte first.
    before: Vec<u8>,
}

impl<T: Real> Exact<'_, T> {
    fn next(&mut self) -> Option<T> {
        let (whole, partial) = (self.bits / 8, u32::try_from(self.bits % 8).ok()?);
        let rest = self.rest.read(partial)? << (8 - partial) & 0xff;
        let same = usize::try_from(self.leading.read(2)?).ok()?;
        for (at, byte) in self.before.iter_mut().enumerate().skip(same) {
            *byte = match at {
                _ if at < whole => *self.bytes.next()?,
                _ if at == whole && partial > 0 => u8::try_from(rest).ok()?,
                _ => 0,
            };
        }
        if partial > 0 && same > whole {
            *self.before.get_mut(whole)? = u8::try_from(rest).ok()?;
        }
        Some(T::from_be_slice(&self.before)? + self.median)
    }
}
