//! Texts that differ little from each other, stored as the difference from the first.

use zstd::bulk::{Compressor, Decompressor};

use super::varint::{Reader, put};

/// Compression level.
const LEVEL: i32 = 1;
/// Maximum number of bytes of the first text that others are compared with.
const MOST: usize = 64 << 10;
/// Maximum length of a text.
const LONGEST: u64 = 4 << 30;

/// The first of many texts, and what encodes and decodes the others.
pub(super) struct Dictionary {
    base: Vec<u8>,
    is_whole: bool,
    compressor: Option<Compressor<'static>>,
    decompressor: Option<Decompressor<'static>>,
}

impl Dictionary {
    pub(super) fn new(base: &[u8]) -> Self {
        let start = base.get(..MOST).unwrap_or(base);
        let is_whole = start.len() == base.len();
        Self { base: start.to_vec(), is_whole, compressor: None, decompressor: None }
    }

    /// Returns what must be stored for [`Self::new`].
    pub(super) fn base(&self) -> &[u8] {
        &self.base
    }

    /// Returns whether a text is the first one.
    pub(super) fn is_first(&self, text: &[u8]) -> bool {
        self.is_whole && text == self.base
    }

    /// Encodes a text: its length and one, then a Zstandard frame; a zero stands for the first text.
    pub(super) fn encode(&mut self, text: &[u8]) -> std::io::Result<Vec<u8>> {
        if text == self.base {
            return Ok(vec![0]);
        }
        let compressor = match &mut self.compressor {
            Some(compressor) => compressor,
            none => none.insert(Compressor::with_dictionary(LEVEL, &self.base)?),
        };
        let mut out = Vec::new();
        put(&mut out, text.len() as u64 + 1);
        out.extend(compressor.compress(text)?);
        Ok(out)
    }

    /// Decodes a text; `None` if it is damaged.
    pub(super) fn decode(&mut self, encoded: &[u8]) -> Option<Vec<u8>> {
        let mut reader = Reader(bytes::Bytes::copy_from_slice(encoded));
        let Some(length) = reader.number()?.checked_sub(1).filter(|length| *length < LONGEST) else {
            return (encoded == [0]).then(|| self.base.clone());
        };
        let length = usize::try_from(length).ok()?;
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            none => none.insert(Decompressor::with_dictionary(&self.base).ok()?),
        };
        let text = decompressor.decompress(&reader.0, length).ok()?;
        (text.len() == length).then_some(text)
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dictionary").field("base", &self.base.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_and_take_little_if_they_differ_little() {
        let mut state = 1_u64;
        let mut noise = |length| {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            };
            (0..length).map(|_| next()).collect::<Vec<u8>>()
        };
        let base = noise(3000);
        let mut other = base.clone();
        other.splice(1000..1010, noise(20));
        let mut dictionary = Dictionary::new(&base);
        for text in [base, other, Vec::new(), noise(5000)] {
            let encoded = dictionary.encode(&text).unwrap();
            assert!(text.len() > 4000 || encoded.len() < 80, "{}", encoded.len());
            assert_eq!(Dictionary::new(dictionary.base()).decode(&encoded), Some(text));
        }
        for damaged in [&[][..], &[9], &[0, 0], &[200, 1, 2, 3]] {
            assert_eq!(dictionary.decode(damaged), None);
        }
        assert_eq!(Dictionary::new(&[]).decode(&[0]), Some(Vec::new()));
    }
}
