//! LZF without a header (HDF5 filter 32000): instructions, each with a control byte.
//! <https://github.com/h5py/h5py/blob/master/lzf/lzf_filter.c>
//!
//! ```text
//! 000lllll                      l + 1 literal bytes follow
//! lllddddd dddddddd             copy l + 2 bytes from d + 1 bytes before, d being 13 bits
//! 111ddddd llllllll dddddddd    copy l + 9 bytes
//! ```

use crate::{CodecFailure, corrupt};

/// Greatest number of literal bytes of an instruction.
const LITERAL: usize = 32;

/// Decodes to at most `limit + 1` bytes.
pub(super) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let cut_off = || corrupt("lzf", "the last instruction is truncated");
    let mut out: Vec<u8> = Vec::with_capacity(limit.min(bytes.len().saturating_mul(8)));
    let mut rest = bytes;
    while let Some((&control, after)) = rest.split_first()
        && out.len() <= limit
    {
        let control = usize::from(control);
        if control < LITERAL {
            let (literal, after) = after.split_at_checked(control + 1).ok_or_else(cut_off)?;
            out.extend_from_slice(literal);
            rest = after;
            continue;
        }
        let (more, after) = match control >> 5 {
            7 => after.split_first().map(|(more, after)| (usize::from(*more), after)).ok_or_else(cut_off)?,
            _ => (0, after),
        };
        let (low, after) = after.split_first().ok_or_else(cut_off)?;
        rest = after;
        let distance = ((control & 0x1f) << 8) + usize::from(*low) + 1;
        let start = out.len().checked_sub(distance);
        let start = start.ok_or_else(|| corrupt("lzf", "a copy from before the start"))?;
        copy(&mut out, start, (control >> 5) + more + 2);
    }
    out.truncate(limit.saturating_add(1));
    Ok(out)
}

/// Appends `count` bytes from `start` on, which may overlap with the appended ones.
pub(super) fn copy(out: &mut Vec<u8>, start: usize, count: usize) {
    for at in start..start + count {
        let Some(byte) = out.get(at).copied() else { return };
        out.push(byte);
    }
}

/// Encodes literals only. The chunk does not shrink, but every reader allocates enough for it.
pub(super) fn encode(bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / LITERAL + 1);
    for literal in bytes.chunks(LITERAL) {
        out.push(u8::try_from(literal.len() - 1).unwrap_or(0));
        out.extend_from_slice(literal);
    }
    Ok(out)
}
