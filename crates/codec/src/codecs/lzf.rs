//! LZF without a header (HDF5 filter 32000).

use crate::{CodecFailure, corrupt};

/// Most bytes of a literal.
const LITERAL: usize = 32;

/// Decodes to at most `limit + 1` bytes.
pub(super) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let cut_off = || corrupt("lzf", "the last instruction is cut off");
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

/// Appends `count` bytes from `start` on, which may run into those that it appends.
pub(super) fn copy(out: &mut Vec<u8>, start: usize, count: usize) {
    for at in start..start + count {
        let Some(byte) = out.get(at).copied() else { return };
        out.push(byte);
    }
}

/// Literals only: no smaller, but every reader has room for what it decodes to.
pub(super) fn encode(bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / LITERAL + 1);
    for literal in bytes.chunks(LITERAL) {
        out.push(u8::try_from(literal.len() - 1).unwrap_or(0));
        out.extend_from_slice(literal);
    }
    Ok(out)
}
