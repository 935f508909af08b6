//! HDF5's nbit filter (5): the significant bits of each number, most significant first.
//! <https://github.com/HDFGroup/hdf5/blob/develop/src/H5Znbit.c>
//!
//! Client data: number of values; whether all bits are significant (chunks are then stored unchanged); elements per
//! chunk; the type: 1 atomic (size, byte order, precision, bit offset), 2 array (size, base type), 3 compound (size,
//! number of members, then offset and type of each), 4 any other (size), stored unchanged.

use virtualize_bytes::BitReader;

use crate::{CodecFailure, corrupt, parameters};

const NAME: &str = "nbit";

/// Greatest depth of nested types.
const DEPTH: usize = 32;

enum Type {
    Atomic { size: usize, big_endian: bool, precision: u32, offset: u32 },
    Array { size: usize, base: Box<Type> },
    Compound { size: usize, members: Vec<(usize, Type)> },
    Opaque { size: usize },
}

/// Decodes a chunk of at most `limit` bytes.
pub(super) fn decode(bytes: &[u8], client_data: &[u32], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let [_, as_is, elements, description @ ..] = client_data else {
        return Err(parameters(NAME, "fewer than 3 values of client data"));
    };
    if *as_is != 0 {
        return Ok(bytes.get(..limit.saturating_add(1).min(bytes.len())).unwrap_or_default().to_vec());
    }
    let element = parse(&mut description.iter().copied(), DEPTH)
        .ok_or_else(|| parameters(NAME, "client data that describe no type"))?;
    let elements = usize::try_from(*elements).unwrap_or(usize::MAX);
    let total = elements.checked_mul(element.size()).filter(|total| *total <= limit);
    let total = total.ok_or_else(|| CodecFailure::TooLong { codec: NAME.to_owned(), limit })?;
    let mut out = vec![0; total];
    let mut reader = BitReader::new(bytes);
    for target in out.chunks_exact_mut(element.size()) {
        element.read(&mut reader, target).ok_or_else(|| corrupt(NAME, "the chunk is truncated"))?;
    }
    Ok(out)
}

fn parse(values: &mut dyn Iterator<Item = u32>, depth: usize) -> Option<Type> {
    let depth = depth.checked_sub(1)?;
    let class = values.next()?;
    let size = usize::try_from(values.next()?).ok().filter(|size| *size > 0)?;
    Some(match class {
        1 => {
            let (order, precision, offset) = (values.next()?, values.next()?, values.next()?);
            let bits = u32::try_from(size.checked_mul(8)?).ok()?;
            if order > 1 || precision == 0 || precision.checked_add(offset)? > bits || size > 8 {
                return None;
            }
            Type::Atomic { size, big_endian: order == 1, precision, offset }
        }
        2 => {
            let base = parse(values, depth).map(Box::new)?;
            size.is_multiple_of(base.size()).then_some(Type::Array { size, base })?
        }
        3 => {
            let count = values.next()?;
            let mut members = Vec::new();
            for _ in 0..count {
                let offset = usize::try_from(values.next()?).ok()?;
                let member = parse(values, depth)?;
                if offset.checked_add(member.size())? > size {
                    return None;
                }
                members.push((offset, member));
            }
            Type::Compound { size, members }
        }
        4 => Type::Opaque { size },
        _ => return None,
    })
}

impl Type {
    fn size(&self) -> usize {
        match self {
            Self::Atomic { size, .. }
            | Self::Array { size, .. }
            | Self::Compound { size, .. }
            | Self::Opaque { size } => *size,
        }
    }

    fn read(&self, reader: &mut BitReader<'_>, target: &mut [u8]) -> Option<()> {
        match self {
            Self::Atomic { big_endian, precision, offset, .. } => {
                let value = reader.read(*precision)?.checked_shl(*offset)?;
                let bytes = value.to_le_bytes();
                if *big_endian {
                    target.iter_mut().rev().zip(bytes).for_each(|(byte, new)| *byte = new);
                } else {
                    target.iter_mut().zip(bytes).for_each(|(byte, new)| *byte = new);
                }
            }
            Self::Array { base, .. } => {
                for part in target.chunks_exact_mut(base.size()) {
                    base.read(reader, part)?;
                }
            }
            Self::Compound { members, .. } => {
                for (offset, member) in members {
                    member.read(reader, target.get_mut(*offset..offset.checked_add(member.size())?)?)?;
                }
            }
            Self::Opaque { .. } => {
                for byte in target {
                    *byte = u8::try_from(reader.read(8)?).ok()?;
                }
            }
        }
        Some(())
    }
}
