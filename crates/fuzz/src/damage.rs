//! Damage without knowledge of a format. The tests of readers include this file.

use fastrand::Rng;

/// Overwrites a few places with values that counts, sizes and addresses do not expect; sometimes cuts off the end.
#[cfg(test)]
pub(crate) fn damage(bytes: &mut Vec<u8>, random: &mut Rng) {
    for _ in 0..=random.usize(..3) {
        overwrite(bytes, random);
    }
    if random.usize(..20) == 0 {
        bytes.truncate(random.usize(..bytes.len()));
    }
}

/// Overwrites a few bytes anywhere.
pub(crate) fn overwrite(bytes: &mut [u8], random: &mut Rng) {
    if bytes.is_empty() {
        return;
    }
    let at = random.usize(..bytes.len());
    let width = [1, 1, 2, 4, 8][random.usize(..5)].min(bytes.len() - at);
    let from = random.usize(..=bytes.len() - width);
    match random.u8(..6) {
        0 => bytes[at..at + width].fill(0xff),
        1 => bytes[at..at + width].fill(0),
        2 => bytes[at] ^= 1 << random.u32(..8),
        3 => bytes[at] = bytes[at].wrapping_add(1),
        4 => bytes.copy_within(from..from + width, at),
        _ => bytes[at] = random.u8(..),
    }
}
