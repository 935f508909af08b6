//! Files of unsupported formats.

/// Describes the apparent content of a file, as a clause.
pub(super) fn describe(head: &[u8]) -> String {
    const SIGNATURES: &[(&[u8], &str)] = &[
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

/// Describes a text file; `None` for any other.
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
    use super::describe;

    #[test]
    fn other_formats_are_named() {
        for (head, expected) in [
            (&b"GRIB\0\0\0\x02"[..], "looks like GRIB"),
            (b"\n<!DOCTYPE HTML><html>", "looks like an HTML page"),
            (b"{\"zarr_format\": 2}", "looks like Zarr metadata"),
            (b"", "the file is empty"),
            (&[0, 1, 2], "it starts with 00 01 02"),
        ] {
            assert_eq!(describe(head), expected);
        }
    }
}
