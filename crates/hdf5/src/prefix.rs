use virtualize_bytes::Cursor;

use crate::Error;

/// Reads a four-byte signature and a version byte and compares them with the expected ones.
pub(crate) fn expect_prefix(
    cursor: &mut Cursor<'_>,
    structure: &'static str,
    signature: [u8; 4],
    version: u8,
) -> Result<(), Error> {
    let address = cursor.address();
    let truncated = Error::truncated(structure, address);
    let found = cursor.array::<4>().map_err(&truncated)?;
    if found != signature {
        let (expected, found) = (signature.escape_ascii(), found.escape_ascii());
        return Err(Error::malformed(structure, address, format!("signature {found}, expected {expected}")));
    }
    let found = cursor.u8().map_err(truncated)?;
    if found != version {
        return Err(Error::unsupported(structure, address, format!("version {found}, expected {version}")));
    }
    Ok(())
}
