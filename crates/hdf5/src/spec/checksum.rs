//! The checksum at the end of most structures since version 2: Bob Jenkins' lookup3 ("hashlittle") with initial value 0.

use crate::Error;

/// The checksum of `bytes` as the specification computes it.
pub(crate) fn lookup3(bytes: &[u8]) -> u32 {
    let start = u32::try_from(bytes.len()).unwrap_or(u32::MAX).wrapping_add(0xdead_beef);
    let mut state = [start; 3];
    // The last block holds 1 to 12 bytes and is mixed in another way.
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

/// Checks the last four bytes of a structure against the bytes before them, which are returned.
pub(crate) fn checked<'a>(structure: &'static str, address: u64, bytes: &'a [u8]) -> Result<&'a [u8], Error> {
    let Some((content, stored)) = bytes.split_last_chunk::<4>() else {
        return Err(Error::malformed(structure, address, format!("{} bytes, no checksum", bytes.len())));
    };
    let (stored, computed) = (u32::from_le_bytes(*stored), lookup3(content));
    if stored != computed && !is_ignored() {
        let problem = format!("checksum {stored:#010x}, expected {computed:#010x}");
        return Err(Error::malformed(structure, address, problem));
    }
    Ok(content)
}

/// Whether damage is to be let through: only in tests, which want it to reach the parsers behind the checksums.
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

/// Mixes one block that is not the last.
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

    /// The two values that lookup3's author publishes for initial value 0.
    #[test]
    fn agrees_with_the_published_values() {
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }

    #[test]
    fn a_block_that_is_full_is_still_the_last() {
        let zeros = [0_u8; 24];
        assert_eq!(lookup3(&zeros), lookup3_by_bytes(&zeros));
    }

    /// The algorithm again, a byte at a time, with the loop bound as it is published.
    fn lookup3_by_bytes(mut bytes: &[u8]) -> u32 {
        let mut state = [0xdead_beef_u32.wrapping_add(u32::try_from(bytes.len()).unwrap()); 3];
        while bytes.len() > 12 {
            state = mix(add(state, bytes[..12].try_into().unwrap()));
            bytes = &bytes[12..];
        }
        if bytes.is_empty() { state[2] } else { last(add(state, &padded(bytes))) }
    }

    #[test]
    fn a_wrong_checksum_names_both() {
        let mut bytes = b"Four score and seven years ago".to_vec();
        bytes.extend(0x1777_0551_u32.to_le_bytes());
        assert_eq!(checked("text", 0, &bytes).unwrap().len(), 30);
        bytes[0] = b'f';
        let error = checked("text", 0x40, &bytes).unwrap_err().to_string();
        assert!(error.starts_with("text at 0x40: checksum 0x17770551, expected 0x"), "{error}");
        assert!(checked("text", 0, &[1, 2, 3]).is_err());
    }
}
