//! Chunks written by libhdf5, its filter plugins, numcodecs, imagecodecs and Python (versions: head of the data files).
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests")]

use base64::{Engine, prelude::BASE64_STANDARD};
use virtualize_codec::{decode, encode};
use virtualize_zarr::Codec;
use zfp_rs::{ZfpBitStream, ZfpHeaderMask, ZfpScalarType};

struct Vector {
    name: String,
    client_data: Vec<u32>,
    decoded: Vec<u8>,
    stored: Vec<u8>,
}

fn vectors() -> Vec<Vector> {
    let files = [
        include_str!("../data/hdf5_chunks.txt"),
        include_str!("../data/other_chunks.txt"),
        include_str!("../data/blosc2_and_zfp.txt"),
        include_str!("../data/lossy_chunks.txt"),
        include_str!("../data/sz3_chunks.txt"),
    ];
    // `VECTORS=file` adds chunks, such as random ones.
    let more =
        std::env::var("VECTORS").map(|path| std::fs::read_to_string(path).unwrap()).unwrap_or_default();
    let lines = files.iter().flat_map(|file| file.lines()).chain(more.lines());
    lines.filter(|line| !line.starts_with('#')).map(parse).collect()
}

fn parse(line: &str) -> Vector {
    let fields: Vec<&str> = line.split('|').collect();
    let decoded = match fields[2].strip_prefix("ramp ") {
        Some(ramp) => {
            let (count, dtype) = ramp.split_once(' ').unwrap();
            (0..count.parse::<u32>().unwrap()).flat_map(|n| ramp_element(n % 97 * 3, dtype)).collect()
        }
        None => BASE64_STANDARD.decode(fields[2]).unwrap(),
    };
    Vector {
        name: fields[0].to_owned(),
        client_data: fields[1].split(',').filter(|n| !n.is_empty()).map(|n| n.parse().unwrap()).collect(),
        decoded,
        stored: BASE64_STANDARD.decode(fields[3]).unwrap(),
    }
}

fn ramp_element(value: u32, dtype: &str) -> Vec<u8> {
    match dtype {
        "u1" => vec![value.to_le_bytes()[0]],
        "<u2" => value.to_le_bytes()[..2].to_vec(),
        "<f8" => f64::from(value).to_le_bytes().to_vec(),
        other => panic!("{other}"),
    }
}

fn codecs(name: &str, client_data: &[u32]) -> Vec<Codec> {
    let data = client_data.to_vec();
    match name.split('_').next().unwrap() {
        "nbit" => vec![Codec::Hdf5Nbit(data)],
        "so" => vec![Codec::Hdf5ScaleOffset(data)],
        "bshuf" => vec![Codec::Hdf5Bitshuffle(data)],
        "lz4" => vec![Codec::Hdf5Lz4],
        "lzf" => vec![Codec::Lzf],
        "lzma" => vec![Codec::Lzma { format: data[0].to_le_bytes()[0] }],
        "lzw" | "lzwold" => vec![Codec::Lzw],
        "packbits" => vec![Codec::PackBits],
        "blosc" => {
            vec![Codec::Blosc {
                cname: "lz4",
                clevel: 5,
                shuffle: 1,
                typesize: data[0].clamp(1, 8),
                blocksize: 0,
            }]
        }
        "szip" => vec![Codec::Hdf5Szip(data)],
        "bz2" => vec![Codec::Bz2 { level: 9 }],
        "zstd" => vec![Codec::Zstd { level: 3, checksum: false }],
        "shuffle" => vec![Codec::Shuffle { element_size: 2 }, Codec::Zlib { level: 4 }, Codec::Fletcher32],
        "blosc2" => vec![Codec::Blosc2],
        "jpegls" => vec![Codec::JpegLs { by_pixel: false }],
        "zfp" => vec![zfp(client_data)],
        "sperr" => vec![Codec::sperr(client_data).unwrap_or(Codec::Lzw)],
        "sz" => {
            let shape = match *client_data {
                [1, _, _, size, ..] => vec![size],
                [axes, _, ref sizes @ ..] => sizes.iter().take(axes as usize).rev().copied().collect(),
                _ => Vec::new(),
            };
            let shape = shape.into_iter().map(u64::from).collect();
            vec![Codec::sz(data[1] as usize % 2, shape).unwrap()]
        }
        "sz3" => vec![Codec::sz3(data[1] as usize % 10).unwrap()],
        "fletcher" => vec![Codec::Fletcher32],
        other => panic!("{other}"),
    }
}

/// Returns the codec of H5Z-ZFP: a word of versions, then the header of the stream, which `zfp-rs` reads. Damaged
/// headers give another codec.
fn zfp(client_data: &[u32]) -> Codec {
    let half = |pair: &[u32], at| pair.get(at).copied().map_or(0, u64::from);
    let words = client_data[1..].chunks(2).map(|pair| half(pair, 0) | half(pair, 1) << 32).collect();
    let mut stream = ZfpBitStream::from_words(words);
    let Ok(header) = stream.read_header(ZfpHeaderMask::FULL) else { return Codec::Blosc2 };
    let (metadata, config) = (header.metadata.unwrap(), header.config.unwrap());
    let dtype = match metadata.scalar_type {
        ZfpScalarType::I32 => "<i4",
        ZfpScalarType::I64 => "<i8",
        ZfpScalarType::F32 => "<f4",
        ZfpScalarType::F64 => "<f8",
    };
    let sizes = metadata.dims.iter().take_while(|size| **size > 0).map(|size| *size as u64);
    let mut shape: Vec<u64> = sizes.collect();
    shape.reverse();
    Codec::Zfp {
        dtype,
        shape,
        min_bits: config.min_bits(),
        max_bits: config.max_bits(),
        max_precision: config.max_prec(),
        min_exponent: config.min_exp(),
    }
}

#[test]
fn chunks_decode_to_what_their_writers_read() {
    let vectors = vectors();
    assert!(vectors.len() > 200);
    let wrong = vectors.iter().filter(|vector| {
        let codecs = codecs(&vector.name, &vector.client_data);
        decode(&codecs, &vector.stored, vector.decoded.len()).as_ref() != Ok(&vector.decoded)
    });
    assert_eq!(wrong.map(|vector| &vector.name).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn lzma_in_the_other_container_is_refused() {
    let stored = encode(&[Codec::Lzma { format: 2 }], &[7; 100]).unwrap();
    assert_eq!(decode(&[Codec::Lzma { format: 0 }], &stored, 100), Ok(vec![7; 100]));
    assert!(decode(&[Codec::Lzma { format: 1 }], &stored, 100).is_err());
    let stored = encode(&[Codec::Lzma { format: 1 }], &[7; 100]).unwrap();
    assert!(decode(&[Codec::Lzma { format: 2 }], &stored, 100).is_err());
}

#[test]
fn a_wrong_checksum_is_found() {
    let vector = vectors().into_iter().find(|vector| vector.name == "fletcher_odd").unwrap();
    for at in [0, vector.stored.len() / 2, vector.stored.len() - 5, vector.stored.len() - 1] {
        let mut stored = vector.stored.clone();
        stored[at] ^= 0x10;
        assert!(decode(&[Codec::Fletcher32], &stored, vector.decoded.len()).is_err(), "byte {at}");
    }
}

/// Changes bytes, truncates chunks and asks for other sizes. Any error is acceptable; panics and endless loops are not.
#[test]
fn damaged_chunks_give_errors_or_bytes() {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap()
    };
    for vector in vectors() {
        for round in 0..60 {
            let mut stored = vector.stored.clone();
            for _ in 0..=round % 4 {
                let at = random() % stored.len();
                stored[at] = random().to_le_bytes()[0];
            }
            stored.truncate(if round % 3 == 0 { random() % stored.len() } else { stored.len() });
            let mut client_data = vector.client_data.clone();
            if round % 5 == 0 && !client_data.is_empty() {
                let at = random() % client_data.len();
                client_data[at] = u32::try_from(random()).unwrap();
            }
            let length = if round % 7 == 0 { random() % 5000 } else { vector.decoded.len() };
            if let Ok(bytes) = decode(&codecs(&vector.name, &client_data), &stored, length) {
                assert_eq!(bytes.len(), length);
            }
        }
    }
}

/// Offsets and bytes by which h5py fails to read a chunk of `fixtures/hdf5/filters.h5`, and one (194) by which it reads other
/// numbers, with a filter that is not implemented.
#[test]
fn damaged_frames_of_blosc2_are_refused() {
    let text = include_str!("../data/blosc2_frame.txt").replace('\n', "");
    let frame = BASE64_STANDARD.decode(text).unwrap();
    assert_eq!(decode(&[Codec::Blosc2], &frame, 240).unwrap().len(), 240);
    let header = [(16, 1), (23, 0x60), (26, 0x80), (58, 0x80), (70, 7), (71, 0x80), (76, 0x81)];
    let layers =
        [(91, 0), (92, 1), (93, 0x81), (94, 0), (99, 0), (107, 0), (108, 1), (111, 0), (157, 0), (158, 1)];
    let chunks = [(168, 0), (194, 1), (281, 9), (290, 0x29), (309, 1)];
    let trailer = [(324, 0), (325, 1), (326, 1), (330, 0), (334, 0x22)];
    for (at, byte) in [&header[..], &layers, &chunks, &trailer].concat() {
        let mut damaged = frame.clone();
        damaged[at] = byte;
        assert!(decode(&[Codec::Blosc2], &damaged, 240).is_err(), "{byte:#x} at {at}");
    }
}
