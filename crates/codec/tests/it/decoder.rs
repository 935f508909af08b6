//! Decoding into memory of the caller against decoding codec by codec, for whole and damaged chunks.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use virtualize_codec::{Decoder, Scratch, decode, encode};
use virtualize_zarr::{Codec, DataType};

/// A generator of pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (end.max(1) as u64)).unwrap()
    }
}

/// Chains of one and two compressors, with filters before and after.
fn chains() -> Vec<Vec<Codec>> {
    let bytes = || Codec::Bytes { endian: None };
    let shuffle = |element_size| Codec::Shuffle { element_size };
    let delta = |axis, dtype: &str| Codec::Delta { axis, dtype: dtype.to_owned(), shape: vec![10, 12, 4] };
    let float =
        |axis, dtype: &str| Codec::FloatPredictor { axis, dtype: dtype.to_owned(), shape: vec![10, 12, 4] };
    let zlib = || Codec::Zlib { level: 4 };
    vec![
        vec![bytes()],
        vec![bytes(), shuffle(4), zlib()],
        vec![bytes(), shuffle(4), zlib(), Codec::Fletcher32],
        vec![bytes(), Codec::Fletcher32, shuffle(8), zlib()],
        vec![bytes(), shuffle(2), Codec::Gzip { level: 1 }],
        vec![bytes(), shuffle(3), Codec::Zstd { level: 1, checksum: false }],
        vec![bytes(), shuffle(16), Codec::Hdf5Lz4],
        vec![bytes(), Codec::Hdf5Lz4, zlib()],
        vec![bytes(), Codec::Lzf, Codec::Fletcher32],
        vec![bytes(), Codec::BitOrder],
        vec![bytes(), Codec::PackBits],
        vec![bytes(), Codec::Lzw],
        vec![delta(1, "<u4"), bytes(), Codec::Lzw],
        vec![delta(-1, "|u1"), bytes(), zlib()],
        vec![delta(1, ">u2"), bytes(), zlib()],
        vec![delta(-2, "<u2"), bytes(), Codec::Zstd { level: 1, checksum: false }],
        vec![delta(0, "<u8"), bytes(), Codec::Lzma { format: 1 }],
        vec![float(-1, "<f4"), zlib()],
        vec![float(1, ">f4"), Codec::Lzw],
        vec![float(-1, "<f8"), Codec::Bz2 { level: 1 }],
        vec![float(-2, "<f2"), zlib()],
    ]
}

fn damaged(random: &mut Random, chunk: &[u8]) -> Vec<u8> {
    let mut bytes = chunk.to_vec();
    let at = random.below(bytes.len());
    match random.below(4) {
        0 => bytes.truncate(at),
        1 => bytes.extend_from_slice(chunk.get(..at).unwrap_or_default()),
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
    }
    bytes
}

#[test]
fn both_ways_decode_alike() {
    let random = &mut Random(7);
    // Used for all chunks, as by a thread.
    let mut scratch = Scratch::default();
    for codecs in chains() {
        let decoder = Decoder::new(&DataType::UInt8, &codecs).unwrap();
        for round in 0..12 {
            let length = 1920 * (1 + round % 3);
            let sample: Vec<u8> =
                (0..length).map(|n| u8::try_from((n / 16 + random.below(3)) % 256).unwrap()).collect();
            let chunk = encode(&codecs, &sample).unwrap();
            let mut out = vec![0xAA; length];
            decoder.decode(&chunk, &mut out, &mut scratch).unwrap();
            assert!(out == sample, "{codecs:?}");
            for _ in 0..10 {
                let chunk = damaged(random, &chunk);
                for length in [length, length - 1920 / 2, length + 1920] {
                    let mut out = vec![0xAA; length];
                    let done = decoder.decode(&chunk, &mut out, &mut scratch);
                    let expected = decode(&codecs, &chunk, length);
                    assert!(done.map(|()| out) == expected, "{codecs:?}, {length} bytes");
                }
            }
        }
    }
}

#[test]
fn frames_of_zstandard_in_a_row_are_one_chunk() {
    let codecs = [Codec::Zstd { level: 1, checksum: false }];
    let frames = [encode(&codecs, b"one").unwrap(), encode(&codecs, b"two").unwrap()].concat();
    let decoder = Decoder::new(&DataType::UInt8, &codecs).unwrap();
    let mut out = [0; 6];
    decoder.decode(&frames, &mut out, &mut Scratch::default()).unwrap();
    assert_eq!(&out, b"onetwo");
}
