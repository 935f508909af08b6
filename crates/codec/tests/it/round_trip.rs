//! Encoders and decoders of the whole table. numcodecs 0.17.1 and imagecodecs 2026.10.10 were tested to decode the
//! encoded chunks as well.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use virtualize_codec::{CodecFailure, decode, decode_values, encode, encode_values};
use virtualize_zarr::{Codec, DataType, Endian, Implementation, Rounding, ScalarMap};

/// Smooth, noisy, constant, empty and tiny chunks.
fn samples() -> Vec<Vec<u8>> {
    let noise = |n: u32| (0..n).map(|i| i.wrapping_mul(2_654_435_761).rotate_left(i % 32).to_le_bytes()[1]);
    vec![
        vec![0; 4800],
        (0..1200u32).flat_map(|i| (i / 7).to_le_bytes()).collect(),
        noise(4800).collect(),
        vec![7; 24],
        noise(24).collect(),
        (0..200_000u32).map(|i| u8::try_from(i / 50 % 256).unwrap()).collect(),
        Vec::new(),
    ]
}

/// Returns the codec that another one is under a name of this project.
fn released(codec: &Codec) -> &Codec {
    match codec {
        Codec::Own(inner) => inner,
        other => other,
    }
}

/// Examples of the table that encode chunks of any size, and that have an encoder here and work on bytes.
fn bytes_to_bytes() -> Vec<Codec> {
    let is_tested = |codec: &Codec| {
        let codec = released(codec);
        codec.implementation() == Implementation::Complete
            && codec.is_bytes_to_bytes()
            && !matches!(codec, Codec::Optional { .. } | Codec::Integers { .. })
    };
    Codec::examples().into_iter().filter(is_tested).collect()
}

#[test]
fn every_encoder_and_its_decoder() {
    for codec in bytes_to_bytes() {
        for sample in samples() {
            let codecs = [codec.clone()];
            let encoded = encode(&codecs, &sample).unwrap();
            let decoded = decode(&codecs, &encoded, sample.len());
            assert!(decoded.as_ref() == Ok(&sample), "{codec:?}, {} bytes", sample.len());
        }
    }
}

#[test]
fn every_decoder_stops_at_the_expected_size() {
    let sample = vec![0; 1 << 20];
    for codec in bytes_to_bytes() {
        let codecs = [codec.clone()];
        let encoded = encode(&codecs, &sample).unwrap();
        match decode(&codecs, &encoded, 1000) {
            Ok(bytes) => assert_eq!(bytes.len(), 1000),
            Err(error) => assert!(
                matches!(error, CodecFailure::TooLong { .. } | CodecFailure::Corrupt { .. }),
                "{error}"
            ),
        }
        let short = decode(&codecs, &encoded, (1 << 20) + 8);
        assert!(short.is_err(), "{codec:?}");
    }
}

/// Chained compressors lengthen noise a little, which no decoder may reject.
#[test]
fn chains_of_one_codec_are_decoded() {
    let noise = samples().swap_remove(2);
    // LZW lengthens noise by half each time, and szip requires whole pixels.
    let chained = |codec: &Codec| !matches!(released(codec), Codec::Lzw | Codec::Hdf5Szip(_));
    for codec in bytes_to_bytes().into_iter().filter(chained) {
        let chain = vec![codec.clone(); 8];
        let encoded = encode(&chain, &noise).unwrap();
        assert!(decode(&chain, &encoded, noise.len()).as_ref() == Ok(&noise), "{codec:?}");
    }
}

/// No codec of a chain may decode to more than about twice the chunk, whatever its position.
#[test]
fn a_chain_of_compressors_is_bounded() {
    let chunk = 64 << 10;
    for codec in bytes_to_bytes() {
        let bomb = encode(std::slice::from_ref(&codec), &vec![0; 1 << 20]).unwrap();
        for before in [0, 1, 12] {
            let before = std::iter::repeat_n(Codec::Zlib { level: 1 }, before);
            let chain: Vec<_> = before.chain([codec.clone()]).collect();
            match decode(&chain, &bomb, chunk) {
                Err(CodecFailure::TooLong { limit, .. }) => assert!(limit <= 3 * chunk, "{chain:?}: {limit}"),
                Err(CodecFailure::Corrupt { .. }) => {}
                other => {
                    let keeps = !codec.is_compressor();
                    assert!(keeps || other.is_ok_and(|bytes| bytes.len() == chunk), "{chain:?}");
                }
            }
        }
    }
}

#[test]
fn chains_are_decoded_from_the_last_codec() {
    let chain = [Codec::Shuffle { element_size: 4 }, Codec::Zlib { level: 4 }, Codec::Fletcher32];
    for sample in samples() {
        let encoded = encode(&chain, &sample).unwrap();
        assert_eq!(decode(&chain, &encoded, sample.len()), Ok(sample));
    }
    let longer = encode(&chain, &[1; 48]).unwrap();
    assert!(matches!(decode(&chain, &longer, 40), Err(CodecFailure::TooLong { .. })));
}

#[test]
fn padded_strips_are_truncated_and_short_ones_rejected() {
    let encoded = encode(&[Codec::Lzw], &[9; 100]).unwrap();
    assert_eq!(decode(&[Codec::Lzw], &encoded, 90), Ok(vec![9; 90]));
    let error = decode(&[Codec::Lzw], &encoded, 110).unwrap_err();
    assert_eq!(error.to_string(), "chunk decodes to 100 bytes, expected 110");
}

fn delta(dtype: &str) -> Codec {
    Codec::Delta { axis: -2, dtype: dtype.into(), shape: vec![2, 3, 2] }
}

#[test]
fn differences_along_an_axis_in_both_byte_orders() {
    let little = [1u16, 10, 3, 20, 6, 40, 65535, 5, 1, 4, 0, 3];
    let expected = [1u16, 10, 2, 10, 3, 20, 65535, 5, 2, 65535, 65535, 65535];
    for (dtype, bytes) in [("<u2", u16::to_le_bytes as fn(u16) -> [u8; 2]), (">i2", u16::to_be_bytes)] {
        let plain: Vec<u8> = little.into_iter().flat_map(bytes).collect();
        let coded: Vec<u8> = expected.into_iter().flat_map(bytes).collect();
        assert_eq!(encode(&[delta(dtype)], &plain), Ok(coded.clone()));
        assert_eq!(decode(&[delta(dtype)], &coded, 24), Ok(plain));
    }
}

#[test]
fn floating_point_predictor_is_byte_planes_and_differences() {
    // 1.0 = 3f800000 and 2.0 = 40000000: planes 3f 40, 80 00, 00 00, 00 00, then byte differences.
    let codec = |dtype: &str| Codec::FloatPredictor { axis: 1, dtype: dtype.into(), shape: vec![1, 2] };
    let coded = [0x3f, 0x01, 0x40, 0x80, 0, 0, 0, 0];
    for (dtype, plain) in [
        ("<f4", [1f32.to_le_bytes(), 2f32.to_le_bytes()].concat()),
        (">f4", [1f32.to_be_bytes(), 2f32.to_be_bytes()].concat()),
    ] {
        assert_eq!(encode(&[codec(dtype)], &plain), Ok(coded.to_vec()));
        assert_eq!(decode(&[codec(dtype)], &coded, 8), Ok(plain));
    }
}

#[test]
fn packed_integers_start_each_row_at_a_byte() {
    let codec = |dtype: &str, bits| Codec::PackBitsOfIntegers {
        bits_per_sample: bits,
        run_length: 3,
        dtype: dtype.into(),
    };
    let plain = [1u8, 0, 1, 0, 1, 1];
    assert_eq!(encode(&[codec("|u1", 1)], &plain), Ok(vec![0b1010_0000, 0b0110_0000]));
    assert_eq!(decode(&[codec("|u1", 1)], &[0b1010_0000, 0b0110_0000], 6), Ok(plain.to_vec()));
    let wide: Vec<u8> = [0xabcu16, 0x123, 0xfff].into_iter().flat_map(u16::to_le_bytes).collect();
    let packed = vec![0xab, 0xc1, 0x23, 0xff, 0xf0];
    assert_eq!(encode(&[codec("<u2", 12)], &wide), Ok(packed.clone()));
    assert_eq!(
        decode(
            &[codec("<u2", 12), Codec::Zlib { level: 1 }],
            &encode(&[Codec::Zlib { level: 1 }], &packed).unwrap(),
            6
        ),
        Ok(wide)
    );
    assert!(encode(&[codec("|u1", 1)], &[2, 0, 0]).is_err());
}

#[test]
fn invalid_parameters_are_errors() {
    let bad = [
        Codec::Delta { axis: 3, dtype: "<u2".into(), shape: vec![2, 3] },
        Codec::Delta { axis: 0, dtype: "é".into(), shape: vec![2] },
        Codec::Delta { axis: 0, dtype: "<u3".into(), shape: vec![2] },
        Codec::FloatPredictor { axis: 0, dtype: "<f4".into(), shape: vec![u64::MAX, u64::MAX] },
        Codec::FloatPredictor { axis: -3, dtype: "<f4".into(), shape: vec![2, 2] },
        Codec::PackBitsOfIntegers { bits_per_sample: 9, run_length: 3, dtype: "|u1".into() },
        Codec::PackBitsOfIntegers { bits_per_sample: 1, run_length: 0, dtype: "|u1".into() },
        Codec::PackBitsOfIntegers { bits_per_sample: 1, run_length: u64::MAX, dtype: "|u1".into() },
    ];
    for codec in bad {
        assert!(
            matches!(
                decode(std::slice::from_ref(&codec), &[0; 64], 64),
                Err(CodecFailure::Parameters { .. })
            ),
            "{codec:?}"
        );
        assert!(matches!(encode(&[codec], &[0; 64]), Err(CodecFailure::Parameters { .. })));
    }
}

#[test]
fn missing_decoders_and_encoders_are_named() {
    assert_eq!(
        encode(&[Codec::Hdf5Nbit(vec![])], &[]),
        Err(CodecFailure::NoEncoder("the HDF5 filter nbit".into()))
    );
    let jpegxl = Codec::Image { name: "imagecodecs_jpegxl", configuration: serde_json::Map::new() };
    assert_eq!(decode(&[jpegxl], &[], 0), Err(CodecFailure::NoDecoder("imagecodecs_jpegxl".into())));
}

/// Decodes random bytes by every decoder.
#[test]
fn garbage_gives_errors_or_bytes() {
    let mut state = 88_172_645_463_325_252u64;
    for round in 0..4000 {
        for codec in Codec::examples() {
            let bytes: Vec<u8> = (0..round % 61)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state.to_le_bytes()[3]
                })
                .collect();
            let _ = decode(&[codec], &bytes, 300);
        }
    }
}

/// CF packing in either byte order, before a transposition and compression.
#[test]
fn chunks_of_arithmetic_codecs() {
    let scalar_map =
        ScalarMap { encode: vec![("NaN".into(), (-1).into())], decode: vec![((-1).into(), "NaN".into())] };
    let chain = |endian| {
        vec![
            Codec::ScaleOffset { offset: Some(10.into()), scale: Some(4.into()) },
            Codec::CastValue {
                data_type: DataType::Int16,
                rounding: Rounding::default(),
                out_of_range: None,
                scalar_map: scalar_map.clone(),
            },
            Codec::Transpose { order: vec![1, 0] },
            Codec::Bytes { endian: Some(endian) },
            Codec::Shuffle { element_size: 2 },
            Codec::Zlib { level: 1 },
        ]
    };
    let values = [10.25_f32, f32::NAN, -2.0, 1000.5];
    let stored = [1_i16, -1, -48, 3962];
    let little =
        encode_values(&DataType::Float32, &chain(Endian::Little), &values.map(f32::to_le_bytes).concat());
    let little = little.unwrap();
    assert_eq!(
        decode(&chain(Endian::Little)[4..], &little, 8).unwrap(),
        stored.map(i16::to_le_bytes).concat()
    );
    let big = encode_values(&DataType::Float32, &chain(Endian::Big), &values.map(f32::to_be_bytes).concat())
        .unwrap();
    let decoded = decode_values(&DataType::Float32, &chain(Endian::Big), &big, 4).unwrap();
    assert_eq!(decoded, values.map(f32::to_be_bytes).concat());
    let too_large =
        encode_values(&DataType::Float32, &chain(Endian::Big), &1e9_f32.to_be_bytes()).unwrap_err();
    assert_eq!(too_large.to_string(), "cast_value: 4000000000.0 is out of the range of int16");
    assert!(decode_values(&DataType::Float32, &chain(Endian::Big), &big, usize::MAX).is_err());
    assert!(matches!(encode(&chain(Endian::Big), &[0; 8]), Err(CodecFailure::NoEncoder(_))));
}

/// Verifies `Codec::implementation` and `Codec::encoded_length`.
#[test]
fn every_codec_is_implemented_as_its_definition_says() {
    for codec in Codec::examples() {
        let size = if let Codec::Optional { size, .. } = released(&codec) { *size } else { 2400 };
        // Floats of such bytes are not integers.
        let byte = if let Codec::ComplexIntegers { .. } = released(&codec) { 0 } else { 7 };
        let chunk = vec![byte; usize::try_from(size).unwrap()];
        let chain = std::slice::from_ref(&codec);
        let encoded = encode(chain, &chunk);
        let decoded = decode(chain, encoded.as_deref().unwrap_or(&chunk), chunk.len());
        match codec.implementation() {
            _ if codec.is_arithmetic() => assert!(matches!(encoded, Err(CodecFailure::NoEncoder(_)))),
            Implementation::Complete => {
                assert_eq!(decoded, Ok(chunk), "{codec:?}");
                let length = encoded.unwrap().len() as u64;
                assert!(codec.encoded_length(size).is_none_or(|expected| expected == length), "{codec:?}");
            }
            Implementation::DecoderOnly => {
                assert!(matches!(encoded, Err(CodecFailure::NoEncoder(_))), "{codec:?}");
                assert!(!matches!(decoded, Err(CodecFailure::NoDecoder(_))), "{codec:?}");
            }
            Implementation::None => {
                assert!(matches!(encoded, Err(CodecFailure::NoEncoder(_))), "{codec:?}");
                assert!(matches!(decoded, Err(CodecFailure::NoDecoder(_))), "{codec:?}");
            }
        }
    }
}

/// Chunks that no encoder changes in length are stored unchanged, as HDF5 does where an optional filter fails.
#[test]
fn chunks_that_skipped_codecs_are_known_by_their_length() {
    let chain = |codecs: Vec<Codec>| [Codec::Optional { size: 400, codecs }.own().unwrap()];
    let lzf = chain(vec![Codec::Shuffle { element_size: 4 }, Codec::Lzf.own().unwrap()]);
    for (sample, is_raw) in [
        (vec![7; 400], false),
        ((0..400u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0]).collect(), true),
    ] {
        let stored = if is_raw { sample.clone() } else { encode(&lzf, &sample).unwrap() };
        assert_eq!(stored.len() == 400, is_raw);
        assert_eq!(decode(&lzf, &stored, 400), Ok(sample));
    }
    let nbit = chain(vec![Codec::Hdf5Nbit(vec![8, 0, 100, 1, 4, 0, 10, 0]).own().unwrap()]);
    assert_eq!(encode(&nbit, &[1; 400]), Ok(vec![1; 400]));
    assert!(encode(&nbit, &[1; 399]).is_err());
    assert!(matches!(decode(&nbit, &[1; 400], 399), Err(CodecFailure::TooLong { .. })));
}
