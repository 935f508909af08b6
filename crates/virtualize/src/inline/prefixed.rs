/// Returns one stream of bits, the least significant bit of a byte first: `prefix_bits` of the prefix, the rest, and
/// zero bits up to a whole word of `word` bytes.
pub(super) fn join(prefix: &[u8], prefix_bits: u32, rest: &[u8], word: u32) -> Vec<u8> {
    let whole = usize::try_from(prefix_bits / 8).unwrap_or(usize::MAX);
    let shift = prefix_bits % 8;
    let mut joined: Vec<u8> = prefix.iter().copied().take(whole).collect();
    let mut carry = match shift {
        0 => 0,
        _ => prefix.get(whole).copied().unwrap_or(0) & !(u8::MAX << shift),
    };
    for byte in rest {
        let [low, high] = (u16::from(*byte) << shift).to_le_bytes();
        joined.push(carry | low);
        carry = high;
    }
    if shift > 0 {
        joined.push(carry);
    }
    let word = usize::try_from(word.max(1)).unwrap_or(1);
    joined.resize(joined.len().next_multiple_of(word), 0);
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_bytes_stand_side_by_side() {
        assert_eq!(
            join(&[1, 2], 16, &[3, 4, 5, 6, 7, 8, 9], 8),
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0, 0, 0, 0, 0]
        );
    }

    /// The 12 bits 0x321, followed by 0x54 and 0x76, are 0x7654321.
    #[test]
    fn bits_follow_bits() {
        assert_eq!(join(&[0x21, 0xf3], 12, &[0x54, 0x76], 8), [0x21, 0x43, 0x65, 0x07, 0, 0, 0, 0]);
    }
}
