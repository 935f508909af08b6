//! The checksum at the end of most structures.

use crate::Error;
pub(crate) use crate::lookup3::lookup3;

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

#[cfg(test)]
mod tests {
    use super::*;

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
