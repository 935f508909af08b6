use virtualize_bytes::{ByteRange, ReadError, ReadRanges};

/// Signature of HDF5, at offset 0 or any power of two from 512 (superblock, Boot Block).
const HDF5: &[u8] = b"\x89HDF\r\n\x1a\n";
/// Bytes looked at first; the store has them anyway.
const HEAD: u64 = 64 << 10;

/// Which reader a file is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Hdf5,
    Tiff,
}

/// Tells the format by the bytes; else says in a few words what they look like.
pub(crate) async fn sniff(source: &dyn ReadRanges) -> Result<Result<Kind, String>, ReadError> {
    let head = source.read_ranges(&[ByteRange::new(0, HEAD)]).await?.pop().unwrap_or_default();
    if head.starts_with(HDF5) {
        return Ok(Ok(Kind::Hdf5));
    }
    if virtualize_tiff::is_tiff(&head) {
        return Ok(Ok(Kind::Tiff));
    }
    let places: Vec<_> = signature_places(source.size()).collect();
    let found = source.read_ranges(&places).await?;
    Ok(if found.iter().any(|bytes| bytes.as_ref() == HDF5) { Ok(Kind::Hdf5) } else { Err(looks_like(&head)) })
}

/// Where the signature may stand behind a user block.
fn signature_places(size: u64) -> impl Iterator<Item = ByteRange> {
    let starts = std::iter::successors(Some(512_u64), |start| start.checked_mul(2));
    starts.take_while(move |start| *start < size).map(|start| ByteRange::new(start, HDF5.len() as u64))
}

/// What a file that is neither looks like.
fn looks_like(head: &[u8]) -> String {
    const SIGNATURES: &[(&[u8], &str)] = &[
        (b"CDF\x01", "NetCDF-3 classic"),
        (b"CDF\x02", "NetCDF-3 with 64-bit offsets"),
        (b"CDF\x05", "NetCDF-3 CDF-5"),
        (b"GRIB", "GRIB"),
        (b"BUFR", "BUFR"),
        (b"\x0e\x03\x13\x01", "HDF4"),
        (b"\x89PNG", "PNG"),
        (b"\xff\xd8\xff", "JPEG"),
        (b"\0\0\0\x0cjP  ", "JPEG 2000"),
        (b"\x1f\x8b", "gzip"),
        (b"BZh", "bzip2"),
        (b"\x28\xb5\x2f\xfd", "Zstandard"),
        (b"\xfd7zXZ", "xz"),
        (b"PK\x03\x04", "zip archive"),
        (b"PAR1", "Parquet"),
        (b"\x93NUMPY", "NumPy array"),
        (b"SIMPLE  =", "FITS"),
        (b"%PDF", "PDF"),
        (b"version https://git-lfs", "Git LFS pointer"),
    ];
    if head.is_empty() {
        return "the file is empty".to_owned();
    }
    if let Some((_, name)) = SIGNATURES.iter().find(|(signature, _)| head.starts_with(signature)) {
        return format!("looks like {name}");
    }
    if head.get(257..262) == Some(b"ustar") {
        return "looks like a tar archive".to_owned();
    }
    text_like(head).unwrap_or_else(|| format!("it starts with {}", hex(head)))
}

/// What a text file looks like.
fn text_like(head: &[u8]) -> Option<String> {
    let start = head.get(..head.len().min(512))?.to_ascii_lowercase();
    let start = start.trim_ascii_start();
    let name = if start.starts_with(b"<!doctype html") || start.starts_with(b"<html") {
        "an HTML page"
    } else if start.starts_with(b"<") {
        "XML"
    } else if start.starts_with(b"{") && start.windows(11).any(|w| w == b"zarr_format") {
        "Zarr metadata"
    } else if start.starts_with(b"{") {
        "JSON"
    } else if start.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
        "text"
    } else {
        return None;
    };
    Some(format!("looks like {name}"))
}

fn hex(head: &[u8]) -> String {
    head.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::executor::block_on;
    use virtualize_bytes::MemorySource;

    use super::*;

    fn of(bytes: &[u8]) -> Result<Kind, String> {
        block_on(sniff(&MemorySource(Bytes::copy_from_slice(bytes)))).unwrap()
    }

    #[test]
    fn signatures_are_found_behind_user_blocks() {
        let mut file = vec![0; 4096];
        file.extend_from_slice(HDF5);
        assert_eq!(of(&file), Ok(Kind::Hdf5));
        file.insert(0, 0);
        assert!(of(&file).is_err(), "4097 is no power of two");
        assert_eq!(of(b"II*\0\x08\0\0\0"), Ok(Kind::Tiff));
        assert_eq!(of(b"MM\0\x2b\0\x08\0\0"), Ok(Kind::Tiff));
    }

    #[test]
    fn other_formats_are_named() {
        assert_eq!(of(b"CDF\x01\0\0\0\0"), Err("looks like NetCDF-3 classic".to_owned()));
        assert_eq!(of(b"\n<!DOCTYPE HTML><html>"), Err("looks like an HTML page".to_owned()));
        assert_eq!(of(b"{\"zarr_format\": 2}"), Err("looks like Zarr metadata".to_owned()));
        assert_eq!(of(b""), Err("the file is empty".to_owned()));
        assert_eq!(of(&[0, 1, 2]), Err("it starts with 00 01 02".to_owned()));
    }
}
