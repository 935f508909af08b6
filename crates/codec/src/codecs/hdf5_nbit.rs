//! HDF5's nbit filter (5): the significant bits of each number, most significant first.
//! <https://github.com/HDFGroup/hdf5/blob/develop/src/H5Znbit.c>

use virtualize_bytes::BitReader;
use virtualize_zarr::{Endian, FilterParameters, Nbit, NbitType};

use crate::{CodecFailure, bounded, corrupt, parameters};

const NAME: &str = "nbit";

/// Decodes a chunk of at most `limit` bytes.
pub(super) fn decode(bytes: &[u8], client_data: &[u32], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    // All bits are significant: chunks are stored unchanged.
    if client_data.get(1).is_some_and(|is_unchanged| *is_unchanged != 0) {
        return Ok(bytes.get(..limit.saturating_add(1).min(bytes.len())).unwrap_or_default().to_vec());
    }
    let Nbit { elements, r#type } = Nbit::from_client_data(client_data)
        .ok_or_else(|| parameters(NAME, "client data that describe no type"))?;
    let size = size_of(&r#type);
    let mut out = vec![0; bounded(NAME, crate::size(elements).checked_mul(size), limit)?];
    let mut reader = BitReader::new(bytes);
    for target in out.chunks_exact_mut(size) {
        read(&r#type, &mut reader, target).ok_or_else(|| corrupt(NAME, "the chunk is truncated"))?;
    }
    Ok(out)
}

fn size_of(r#type: &NbitType) -> usize {
    crate::size(r#type.size())
}

fn read(r#type: &NbitType, reader: &mut BitReader<'_>, target: &mut [u8]) -> Option<()> {
    match r#type {
        NbitType::Atomic { byte_order, precision, offset, .. } => {
            let bytes = reader.read(*precision)?.checked_shl(*offset)?.to_le_bytes();
            match byte_order {
                Endian::Big => target.iter_mut().rev().zip(bytes).for_each(|(byte, new)| *byte = new),
                Endian::Little => target.iter_mut().zip(bytes).for_each(|(byte, new)| *byte = new),
            }
        }
        NbitType::Array { base, .. } => {
            for part in target.chunks_exact_mut(size_of(base)) {
                read(base, reader, part)?;
            }
        }
        NbitType::Compound { members, .. } => {
            for member in members {
                let at = usize::try_from(member.at).ok()?;
                read(&member.r#type, reader, target.get_mut(at..at + size_of(&member.r#type))?)?;
            }
        }
        NbitType::Unchanged { .. } => {
            for byte in target {
                *byte = u8::try_from(reader.read(8)?).ok()?;
            }
        }
    }
    Some(())
}
