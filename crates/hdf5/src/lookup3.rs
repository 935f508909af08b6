//! Bob Jenkins' lookup3 ("hashlittle") with initial value 0: the checksum of HDF5 (specification, appendix C).

/// Returns the checksum of `bytes`.
pub(crate) fn lookup3(bytes: &[u8]) -> u32 {
    let start = u32::try_from(bytes.len()).unwrap_or(u32::MAX).wrapping_add(0xdead_beef);
    let mut state = [start; 3];
    // The last block has 1 to 12 bytes and a mixing function of its own.
    let before_last = bytes.len().saturating_sub(1);
    let body = before_last.saturating_sub(before_last % 12);
    let (body, tail) = bytes.split_at_checked(body).unwrap_or((bytes, &[]));
    let (blocks, _) = body.as_chunks::<12>();
    for block in blocks {
        state = mix(add(state, block));
    }
    match tail {
        [] => state[2],
        _ => last(add(state, &padded(tail))),
    }
}

fn padded(tail: &[u8]) -> [u8; 12] {
    let mut block = [0; 12];
    block.iter_mut().zip(tail).for_each(|(to, from)| *to = *from);
    block
}

fn add([a, b, c]: [u32; 3], block: &[u8; 12]) -> [u32; 3] {
    let &[a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3] = block;
    [
        a.wrapping_add(u32::from_le_bytes([a0, a1, a2, a3])),
        b.wrapping_add(u32::from_le_bytes([b0, b1, b2, b3])),
        c.wrapping_add(u32::from_le_bytes([c0, c1, c2, c3])),
    ]
}

/// Mixes a block other than the last one.
fn mix([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    [a, b, c]
}

/// Mixes the last block.
fn last([mut a, mut b, mut c]: [u32; 3]) -> u32 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values: those that the author of lookup3 publishes for initial value 0.
    #[test]
    fn agrees_with_the_published_values() {
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }

    #[test]
    fn the_last_block_can_be_full() {
        let zeros = [0_u8; 24];
        assert_eq!(lookup3(&zeros), lookup3_by_bytes(&zeros));
    }

    /// A second implementation, byte by byte, with the published loop bound.
    fn lookup3_by_bytes(mut bytes: &[u8]) -> u32 {
        let mut state = [0xdead_beef_u32.wrapping_add(u32::try_from(bytes.len()).unwrap()); 3];
        while bytes.len() > 12 {
            state = mix(add(state, bytes[..12].try_into().unwrap()));
            bytes = &bytes[12..];
        }
        if bytes.is_empty() { state[2] } else { last(add(state, &padded(bytes))) }
    }
}
