//! Names of dimensions, attributes and variables.
//!
//! ```text
//! name       = nelems namestring
//! namestring = ID1 [IDN ...] padding
//! ```

use super::reader::{Reader, Result};

/// Reads a name. Like netCDF-C, which returns C strings, takes what precedes the first NUL. Names that are not UTF-8 are
/// taken as Latin-1, as scipy does.
pub(crate) fn name(reader: &mut Reader<'_>) -> Result<String> {
    let length = reader.count()?;
    let bytes = reader.padded(length)?;
    let shown = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(match std::str::from_utf8(shown) {
        Ok(name) => name.to_owned(),
        Err(_) => shown.iter().map(|byte| char::from(*byte)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::model::Version;

    /// What netCDF4-python 1.7 and scipy 1.18 (for Latin-1) show.
    #[test]
    fn names_are_utf_8_or_latin_1() {
        for (bytes, expected) in [
            (&b"\0\0\0\x01tpad"[..], "t"),
            (b"\0\0\0\x02\xc3\xa9pp", "\u{e9}"),
            (b"\0\0\0\x01\xe9ppp", "\u{e9}"),
            (b"\0\0\0\x03n\0m\0", "n"),
            (b"\0\0\0\0", ""),
        ] {
            let bytes = Bytes::copy_from_slice(bytes);
            assert_eq!(name(&mut Reader::new(&bytes, Version::Classic)).unwrap(), expected);
        }
    }
}
