//! Hexadecimal bytes in tests.

/// Decodes pairs of hexadecimal digits. White space is ignored.
pub(crate) fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}
