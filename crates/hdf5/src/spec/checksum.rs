//! The checksum at the end of most structures (specification, appendix C): Bob Jenkins' lookup3 ("hashlittle") with
//! initial value 0.

use crate::Error;

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

/// Verifies the checksum in the last four bytes of a structure. Returns the bytes before it.
pub(crate) fn checked<'a>(structure: &'static str, address: u64, bytes: &'a [u8]) -> Result<&'a [u8], Error> {
    let Some((content, stored)) = bytes.split_last_chunk::<4>() else {
        return Err(Error::malformed(
            structure,
            address,
            format!("{} bytes, expected a checksum of 4", bytes.len()),
        ));
    };
    let (stored, computed) = (u32::from_le_bytes(*stored), lookup3(content));
    if stored != computed && !is_ignored() {
        let problem = format!("checksum {stored:#010x}, expected {computed:#010x}");
        return Err(Error::malformed(structure, address, problem));
    }
    Ok(content)
}

/// Whether checksums are ignored: only in tests of damaged files, so that the damage reaches the parsers.
#[cfg(not(test))]
fn is_ignored() -> bool {
    false
}

#[cfg(test)]
thread_local! {
    pub(crate) static IGNORED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

#[cfg(test)]
fn is_ignored() -> bool {
    IGNORED.get()
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

    #[test]
    fn errors_show_both_checksums() {
        let mut bytes = b"Four score and seven years ago".to_vec();
        bytes.extend(0x1777_0551_u32.to_le_bytes());
        assert_eq!(checked("text", 0, &bytes).unwrap().len(), 30);
        bytes[0] = b'f';
        let error = checked("text", 0x40, &bytes).unwrap_err().to_string();
        assert!(error.starts_with("text at 0x40: checksum 0x17770551, expected 0x"), "{error}");
        assert!(checked("text", 0, &[1, 2, 3]).is_err());
    }
}
