//! TIFF's PackBits (TIFF 6.0, section 9): runs, each with a control byte n.
//!
//! ```text
//! 0 to 127      n + 1 literal bytes follow
//! 128           nothing
//! 129 to 255    repeat the next byte 257 - n times
//! ```

use crate::CodecFailure;

/// Decodes to at most `limit + 1` bytes. A run that the end of the input truncates is decoded as far as possible. Behind
/// `limit` bytes, it counts as one byte too many: readers refuse it.
pub(super) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let mut out = Vec::with_capacity(limit.min(bytes.len().saturating_mul(4)));
    let mut rest = bytes;
    while let Some((&control, after)) = rest.split_first()
        && out.len() <= limit
    {
        rest = match control {
            0..=127 => {
                let (literal, after) = after.split_at((usize::from(control) + 1).min(after.len()));
                out.extend_from_slice(literal);
                after
            }
            128 => after,
            129..=255 => {
                let Some((&value, after)) = after.split_first() else {
                    out.extend((out.len() == limit).then_some(0));
                    break;
                };
                out.resize(out.len() + 257 - usize::from(control), value);
                after
            }
        };
    }
    out.truncate(limit.saturating_add(1));
    Ok(out)
}

/// Encodes runs of 3 equal bytes and more as repetitions.
pub(super) fn encode(bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    let mut out = Vec::with_capacity(bytes.len() / 2);
    let mut literal: Vec<u8> = Vec::with_capacity(128);
    for run in bytes.chunk_by(|a, b| a == b) {
        for part in run.chunks(128) {
            match (part.len(), part.first()) {
                (length @ 3.., Some(value)) => {
                    flush(&mut literal, &mut out);
                    out.extend([u8::try_from(257 - length).unwrap_or(0), *value]);
                }
                _ => {
                    if literal.len() + part.len() > 128 {
                        flush(&mut literal, &mut out);
                    }
                    literal.extend_from_slice(part);
                }
            }
        }
    }
    flush(&mut literal, &mut out);
    Ok(out)
}

fn flush(literal: &mut Vec<u8>, out: &mut Vec<u8>) {
    if !literal.is_empty() {
        out.push(u8::try_from(literal.len() - 1).unwrap_or(0));
        out.append(literal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_technical_note() {
        let packed = [0xfe, 0xaa, 2, 0x80, 0, 0x2a, 0xfd, 0xaa, 3, 0x80, 0, 0x2a, 0x22, 0xf7, 0xaa];
        let mut plain = vec![0xaa, 0xaa, 0xaa, 0x80, 0, 0x2a, 0xaa, 0xaa, 0xaa, 0xaa, 0x80, 0, 0x2a, 0x22];
        plain.extend([0xaa; 10]);
        assert_eq!(decode(&packed, 24).unwrap(), plain);
        assert_eq!(encode(&plain).unwrap(), packed);
        assert_eq!(decode(&packed, 5).unwrap().len(), 6);
    }
    #[test]
    fn a_run_behind_the_end_is_a_byte_too_many() {
        let packed = [1, 7, 8, 0xff];
        assert_eq!(decode(&packed, 2).unwrap(), [7, 8, 0]);
        assert_eq!(decode(&packed, 3).unwrap(), [7, 8]);
        assert_eq!(decode(&[1, 7, 8, 0x80], 2).unwrap(), [7, 8]);
    }
}
