use super::*;
use virtualize_zarr::OldJpegStream;

/// Codes of T.81, table K.3 (DC of luminance), which has 12 values.
const DC: [u8; 28] = [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
/// One code of one bit: the end of a block.
const AC: [u8; 17] = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Steps of 8, the tables, and the data, for an image of 8 × 8 without subsampling.
fn parts(data: &[u8]) -> (Vec<u8>, OldJpeg) {
    let bytes = [&[8; 64][..], &DC, &AC, data].concat();
    let end = bytes.len() as u64;
    let image = OldJpeg {
        width: 8,
        height: 8,
        luma: [0.299, 0.587, 0.114],
        reference: [0.0, 255.0, 128.0, 255.0, 128.0, 255.0],
        horizontal: 1,
        vertical: 1,
        restart_interval: 0,
        stream: OldJpegStream::Tables { quantization: [0; 3], dc: [64; 3], ac: [92; 3], scan: (109, end) },
    };
    (bytes, image)
}

/// A DC difference of 5 (code 100, bits 101) times a step of 8 is 40 / 8 more than 128 throughout; chroma is zero (code 00).
#[test]
fn a_constant_block() {
    let (bytes, image) = parts(&[0b1001_0100, 0b0000_0111]);
    assert_eq!(decode(&bytes, &image, 192).unwrap(), [133; 192]);
    assert!(decode(&bytes, &image, 191).is_err());
    for cut in 0..bytes.len() {
        assert!(decode(&bytes[..cut], &image, 192).is_err(), "{cut} bytes");
    }
}

#[test]
fn what_libraries_read_differently_is_refused() {
    // A difference of -2047 times 8 (code 111111110), then chroma.
    let (bytes, image) = parts(&[0xff, 0, 0, 0, 0, 0, 0]);
    assert!(decode(&bytes, &image, 192).unwrap_err().to_string().contains("out of range"));
    let (bytes, image) = parts(&[0b1001_0100]);
    assert!(decode(&bytes, &image, 192).unwrap_err().to_string().contains("end before"));
    let three = OldJpeg { horizontal: 3, ..image };
    assert!(decode(&bytes, &three, 192).is_err());
}
