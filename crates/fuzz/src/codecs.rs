//! Stored chunks.

use std::cell::RefCell;

use serde_json::Value;
use virtualize_codec::{CodecFailure, Decoder, Scratch, decode, jpeg, jpeg2000, lerc, png, webp};
use virtualize_zarr::{Codec, DataType, ZarrFormat};

/// Decodes a chunk, codec by codec and into memory of the caller. The input is a JSON array of codecs as the Python
/// package names them, a line feed, the decoded size in 2 bytes, and the chunk.
pub fn codecs(data: &[u8]) {
    let Some((chain, chunk)) = split(data) else { return };
    let Some((&[low, high], chunk)) = chunk.split_first_chunk() else { return };
    let length = usize::from(u16::from_le_bytes([low, high]));
    let expected = decode(&chain, chunk, length);
    thread_local!(static SCRATCH: RefCell<Scratch> = RefCell::default());
    let Ok(decoder) = Decoder::new(&DataType::UInt8, &chain) else { return };
    let mut out = vec![0xAA; length];
    let done = SCRATCH.with_borrow_mut(|scratch| decoder.decode(chunk, &mut out, scratch));
    match (done, expected) {
        (Ok(()), Ok(expected)) => assert_eq!(out, expected, "both ways of {chain:?}"),
        (done, expected) => assert_eq!(done.is_ok(), expected.is_ok(), "both ways of {chain:?}: {done:?}"),
    }
}

fn split(data: &[u8]) -> Option<(Vec<Codec>, &[u8])> {
    let end = data.iter().position(|byte| *byte == b'\n')?;
    let (head, rest) = data.split_at(end);
    let entries: Vec<Value> = serde_json::from_slice(head).ok()?;
    let chain = entries.iter().take(4).map(codec).collect::<Option<_>>()?;
    Some((chain, &rest[1..]))
}

/// Parses a codec under the name of the package, or the plain name of one that the package does not register.
fn codec(entry: &Value) -> Option<Codec> {
    Some(match entry.as_str() {
        Some("zlib") => Codec::Zlib { level: 1 },
        Some("gzip") => Codec::Gzip { level: 1 },
        Some("zstd") => Codec::Zstd { level: 1, checksum: false },
        Some("bz2") => Codec::Bz2 { level: 1 },
        Some("lzma") => Codec::Lzma { format: 1 },
        Some("lzma_alone") => Codec::Lzma { format: 2 },
        Some("fletcher32") => Codec::Fletcher32,
        Some("blosc") => Codec::Blosc { cname: "lz4", clevel: 1, shuffle: 1, typesize: 4, blocksize: 0 },
        Some(_) => return None,
        None => Codec::from_own(entry, ZarrFormat::V3)?,
    })
}

/// Completes a short strip, and reads the headers of images. The first bytes select format, width and rows.
pub fn images(data: &[u8]) {
    let Some((&[which, width, rows, height], image)) = data.split_first_chunk() else { return };
    let (width, rows, height) = (width.into(), rows.into(), height.into());
    let completed = match which % 5 {
        0 => jpeg::with_rows(image, width, rows, height),
        1 => jpeg2000::with_rows(image, width, rows, height),
        2 => png::with_rows(image, width, rows, height),
        3 => webp::with_rows(image, width, rows, height, 1 << 20),
        _ => return lerc_blobs(image, rows, width),
    };
    drop::<Result<Vec<u8>, CodecFailure>>(completed);
    drop(jpeg::Header::find(image));
    for codec in ["jpeg2k", "png", "webp", "jpegxl", "lerc"] {
        drop(virtualize_codec::image::Header::find(&format!("imagecodecs_{codec}"), image));
    }
}

/// Parses the header, the mask and the values of LERC blobs.
fn lerc_blobs(data: &[u8], rows: u64, columns: u64) {
    use virtualize_zarr::DataType::{Float32, Float64, Int16, UInt8};
    for (data_type, size) in [(UInt8, 1), (Int16, 2), (Float32, 4), (Float64, 8)] {
        let layout = lerc::Layout { rows, columns, samples: 2, has_alpha: true };
        if let Ok(values) = lerc::decode(data, &data_type, &layout) {
            assert_eq!(values.len() as u64, rows * columns * 2 * size, "the requested number of values");
        }
    }
}
