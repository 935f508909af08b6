//! Link message, 0x0006 (specification IV.A.2.g), in an object header or in a fractal heap.
//!
//! ```text
//! 1 | flags | (flag 3) type | (flag 2) creation order 8 | (flag 4) character set | name length 1, 2, 4 or 8 | name | target
//! target: hard: address O | soft: length 2, path | 64 external: length 2, version and flags, file NUL, path NUL
//! ```

use virtualize_bytes::Address;

use crate::{
    Error,
    context::Format,
    model::{Link, LinkTarget},
    reader::Reader,
};

/// Parses a link. Returns its name as stored, up to a NUL, its creation order, if the group tracks it, and the link. A link
/// whose target cannot be referenced keeps its name.
pub(crate) fn parse(bytes: &[u8], address: u64, format: Format) -> Result<(&[u8], Option<u64>, Link), Error> {
    let mut reader = Reader::new("link message", bytes, address, format);
    reader.version(1..=1)?;
    let flags = reader.u8()?;
    let class = if flags & 8 == 0 { 0 } else { reader.u8()? };
    let creation = if flags & 4 == 0 { None } else { Some(reader.u64()?) };
    let charset = if flags & 16 == 0 { 0 } else { reader.u8()? };
    let length = reader.uint(1 << (flags & 3))?;
    if flags > 0x1F || charset > 1 || length == 0 {
        let problem = format!("flags {flags:#04x}, character set {charset}, name of {length} bytes");
        return Err(reader.malformed(format!("{problem}; expected at most 0x1f, at most 1, and 1 or more")));
    }
    let name = until_nul(reader.take(length)?);
    Ok((name, creation, Link { name: text(name), target: target(&mut reader, class)? }))
}

fn target(reader: &mut Reader<'_>, class: u8) -> Result<LinkTarget, Error> {
    if class == 0 {
        let undefined = || reader.malformed("undefined address, expected a defined one");
        let address = reader.clone().address()?;
        return Ok(
            address.map_or_else(|| LinkTarget::Unreadable(undefined()), |at| LinkTarget::Hard(Address(at)))
        );
    }
    let length = u64::from(reader.u16()?);
    let value = reader.take(length)?;
    match class {
        1 if length > 0 => Ok(LinkTarget::Soft(text(value))),
        64 if length > 2 => Ok(external(reader, value).unwrap_or_else(LinkTarget::Unreadable)),
        65.. => Ok(LinkTarget::UserDefined(class)),
        _ => Err(reader
            .malformed(format!("link of type {class} with {length} bytes, expected 0, 1 or from 64 on"))),
    }
}

fn external(reader: &Reader<'_>, value: &[u8]) -> Result<LinkTarget, Error> {
    let mut parts = value.get(1..).unwrap_or_default().split(|&byte| byte == 0);
    match (value.first(), parts.next(), parts.next()) {
        (Some(0), Some(file), Some(path)) => Ok(LinkTarget::External { file: text(file), path: text(path) }),
        (Some(0), ..) => Err(reader.malformed("empty external link, expected a file and a path")),
        (version, ..) => {
            Err(reader.unsupported(format!("external link version and flags {version:?}, expected 0")))
        }
    }
}

/// Returns text up to its first NUL, where libhdf5 ends it too.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(until_nul(bytes)).into_owned()
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { base: 0x10, offset_size: 4, length_size: 8 };

    fn parse(bytes: &[u8], address: u64, format: Format) -> Result<(Option<u64>, Link), Error> {
        super::parse(bytes, address, format).map(|(_, creation, link)| (creation, link))
    }

    #[test]
    fn hard_soft_and_external() {
        let (creation, link) =
            parse(&[1, 4, 9, 0, 0, 0, 0, 0, 0, 0, 1, b'a', 0x20, 0, 0, 0], 0, FORMAT).unwrap();
        assert_eq!((creation, &*link.name), (Some(9), "a"));
        assert!(matches!(link.target, LinkTarget::Hard(Address(0x30))));
        let (_, link) = parse(&[1, 0x18, 1, 1, 1, b'b', 2, 0, b'/', b'x'], 0, FORMAT).unwrap();
        assert!(matches!(link.target, LinkTarget::Soft(path) if path == "/x"));
        let (_, link) =
            parse(b"\x01\x08\x40\x01c\x07\0\0f.h5\0/\0", 0, FORMAT).unwrap_or_else(|e| panic!("{e}"));
        assert!(matches!(link.target, LinkTarget::External { file, path } if file == "f.h5" && path == "/"));
    }

    #[test]
    fn names_end_at_a_nul() {
        let (_, link) = parse(b"\x01\0\x03a\0b\x20\0\0\0", 0, FORMAT).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(link.name, "a");
    }

    #[test]
    fn undefined_targets_keep_their_names() {
        let (_, link) = parse(&[1, 0, 1, b'a', 0xFF, 0xFF, 0xFF, 0xFF], 0, FORMAT).unwrap();
        assert!(link.name == "a" && matches!(link.target, LinkTarget::Unreadable(_)));
    }

    /// libhdf5 opens no link of a group after one of these.
    #[test]
    fn rejects_what_the_library_does_not_decode() {
        let invalid: [(&[u8], &str); 7] = [
            (&[1, 0, 2, b'a'], "truncated name"),
            (&[1, 0, 0, 0x20, 0, 0, 0], "no name"),
            (&[1, 0x20, 1, b'a', 0x20, 0, 0, 0], "flags"),
            (&[1, 0x10, 2, 1, b'a', 0x20, 0, 0, 0], "character set"),
            (&[1, 8, 2, 1, b'a', 0, 0], "type"),
            (&[1, 8, 1, 1, b'a', 0, 0], "empty soft link"),
            (&[1, 8, 64, 1, b'a', 2, 0, 0, 0], "short external link"),
        ];
        for (bytes, what) in invalid {
            assert!(parse(bytes, 0, FORMAT).is_err(), "{what}");
        }
    }
}
