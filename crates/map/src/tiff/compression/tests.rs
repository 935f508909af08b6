//! Codecs by the tags of an image. Numbers of compressions are those of libtiff's `tiff.h` and tifffile's `TIFF.COMPRESSION`, names of codecs
//! those of imagecodecs.

use virtualize_tiff::model::SampleFormat;
use virtualize_zarr::TiffScheme;

use super::*;
use crate::ComplexIntegers;
use crate::tiff::tests::image;

/// Byte order of the file, Zarr format, and whether codecs have our own names.
type Options = (Endian, ZarrFormat, bool);

const V2: Options = (Endian::Little, ZarrFormat::V2, false);
const V3: Options = (Endian::Little, ZarrFormat::V3, false);
const OWN: Options = (Endian::Little, ZarrFormat::V3, true);
const BIG: Options = (Endian::Big, ZarrFormat::V2, false);

/// An image of 4 × 4 pixels in one strip, with 8 bits a sample.
fn bands(count: u16, compression: u16, change: impl FnOnce(&mut Image)) -> Image {
    let bits_per_sample = vec![8; usize::from(count)];
    let mut image = Image { bits_per_sample, compression, ..image(4, 4, count, 4) };
    change(&mut image);
    image
}

fn bits(image: &mut Image, format: SampleFormat, bits: u16) {
    image.sample_format.fill(format);
    image.bits_per_sample.fill(bits);
}

fn ask<T>(
    image: &Image,
    (endian, format, own_codecs): Options,
    question: impl FnOnce(&Encoding<'_>) -> T,
) -> T {
    let sample = Sample::of(image, endian, ComplexIntegers::Complex).unwrap();
    question(&Encoding { image, sample: &sample, endian, format, own_codecs, decodes_jpeg: false })
}

fn codecs(image: &Image, options: Options) -> Result<Vec<Codec>> {
    let samples = u64::from(image.samples_per_pixel);
    let shape = if image.planar || samples == 1 { vec![1, 4, 4] } else { vec![4, 4, samples] };
    ask(image, options, |encoding| encoding.codecs(&shape))
}

fn refused(image: &Image, options: Options, why: &str) {
    let error = codecs(image, options).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

/// Returns name and configuration of an image codec.
fn image_of(image: &Image, options: Options) -> (&'static str, Value) {
    match codecs(image, options).unwrap().as_slice() {
        [Codec::Image { name, configuration }] => (name, configuration.clone().into()),
        other => panic!("{other:?}"),
    }
}

const NAMES: [(&str, &[u16]); 24] = [
    ("none", &[1]),
    ("CCITT RLE", &[2]),
    ("CCITT Group 3", &[3]),
    ("CCITT Group 4", &[4]),
    ("LZW", &[5]),
    ("old-style JPEG", &[6]),
    ("JPEG", &[7]),
    ("Deflate", &[8, 32946, 50013]),
    ("JPEG XR", &[22610, 34934]),
    ("NeXT", &[32766]),
    ("CCITT RLE, word-aligned", &[32771]),
    ("PackBits", &[32773]),
    ("ThunderScan", &[32809]),
    ("Pixar", &[32908, 32909]),
    ("JPEG 2000", &[33003, 33004, 33005, 34712]),
    ("JBIG", &[34661]),
    ("SGI LogLuv", &[34676, 34677]),
    ("LERC", &[34887]),
    ("lossy JPEG (DNG)", &[34892]),
    ("LZMA", &[34925]),
    ("ZSTD", &[34926, 50000]),
    ("WebP", &[34927, 50001]),
    ("PNG", &[34933]),
    ("JPEG XL", &[50002, 52546]),
];

#[test]
fn compressions_have_their_names_and_numbers() {
    for (expected, codes) in NAMES {
        for code in codes {
            assert_eq!(name(*code), format!("{expected} ({code})"));
        }
    }
    assert_eq!(name(9999), "9999 (unknown)");
    let described = |predictor, compression, reversed_bits| {
        words(&Image { predictor, reversed_bits, ..bands(1, compression, |_| ()) })
    };
    assert_eq!(described(2, 5, true), ["predictor 2", "LZW (5)", "reversed bits (FillOrder 2)"]);
    assert!(described(1, 1, false).is_empty() && described(0, 1, false).is_empty());
}

#[test]
fn schemes_have_their_codecs() {
    let streams = [
        (5, Codec::Lzw),
        (8, Codec::Zlib { level: 6 }),
        (32946, Codec::Zlib { level: 6 }),
        (50013, Codec::Zlib { level: 6 }),
        (32773, Codec::PackBits),
        (34925, Codec::Lzma { format: 1 }),
        (34926, Codec::Zstd { level: 0, checksum: false }),
        (50000, Codec::Zstd { level: 0, checksum: false }),
    ];
    for (compression, codec) in streams {
        let found = codecs(&bands(1, compression, |_| ()), V2).unwrap();
        assert_eq!(found, [Codec::Bytes { endian: None }, codec]);
    }
    let images: [(&str, &[u16]); 6] = [
        ("imagecodecs_jpeg", &[7, 33007, 34892]),
        ("imagecodecs_jpegxr", &[22610, 34934]),
        ("imagecodecs_jpeg2k", &[33003, 33004, 33005, 34712]),
        ("imagecodecs_png", &[34933]),
        ("imagecodecs_webp", &[34927, 50001]),
        ("imagecodecs_jpegxl", &[50002, 52546]),
    ];
    for (name, codes) in images {
        for code in codes {
            assert_eq!(image_of(&bands(1, *code, |_| ()), V2).0, name);
        }
    }
    assert_eq!(codecs(&bands(1, 1, |_| ()), V2).unwrap(), [Codec::Bytes { endian: None }]);
    assert_eq!(codecs(&bands(1, 6, |_| ()), V2).unwrap(), [Codec::Bytes { endian: None }]);
    for unknown in [9, 32771, 32809, 34661, 34677] {
        refused(&bands(1, unknown, |_| ()), V2, "no released Zarr reader has a codec for it");
    }
}

/// CCITT codes lines of black and white; their codecs need the size where the metadata do not have it.
#[test]
fn fax_needs_sizes_in_zarr_v2_and_options_in_group_3() {
    let fax = |compression, fax_options| {
        bands(1, compression, |image| {
            bits(image, SampleFormat::Unsigned, 1);
            image.fax_options = fax_options;
        })
    };
    let sizes = json!({ "height": 4, "width": 4 });
    assert_eq!(image_of(&fax(2, 1), V2), ("imagecodecs_ccittrle", sizes.clone()));
    assert_eq!(image_of(&fax(3, 0), V2), ("imagecodecs_ccittfax3", sizes.clone()));
    assert_eq!(image_of(&fax(3, 1), V3), ("imagecodecs_ccittfax3", json!({ "t4options": 5 })));
    assert_eq!(image_of(&fax(4, 1), V3), ("imagecodecs_ccittfax4", json!({})));
    refused(&bands(1, 4, |_| ()), V2, "more than one bit a pixel");
    let three = |planar| {
        bands(3, 4, |image| {
            bits(image, SampleFormat::Unsigned, 1);
            image.planar = planar;
        })
    };
    refused(&three(false), V2, "more than one bit a pixel");
    assert_eq!(image_of(&three(true), V2), ("imagecodecs_ccittfax4", sizes));
}

/// libjpeg's numbers of color spaces: 1 gray, 2 RGB, 3 YCbCr, 4 CMYK. libtiff converts YCbCr to RGB, and nothing else.
#[test]
fn jpeg_has_the_colors_of_its_tags() {
    let colors = |samples, photometric, planar| {
        let jpeg = bands(samples, 7, |image| (image.photometric, image.planar) = (Some(photometric), planar));
        image_of(&jpeg, V2).1
    };
    assert_eq!(colors(3, 6, false), json!({ "colorspace_jpeg": 3, "colorspace_data": 2 }));
    assert_eq!(colors(3, 2, false), json!({ "colorspace_jpeg": 2, "colorspace_data": 2 }));
    assert_eq!(colors(3, 1, false), json!({ "colorspace_jpeg": 2, "colorspace_data": 2 }));
    assert_eq!(colors(4, 5, false), json!({ "colorspace_data": 4 }));
    assert_eq!(colors(4, 2, false), json!({}));
    assert_eq!(colors(3, 6, true), json!({ "colorspace_data": 1 }));
    assert_eq!(colors(1, 1, false), json!({ "colorspace_data": 1 }));
    let tables = bands(1, 7, |image| image.jpeg_tables = Some(vec![0xff, 0xd8]));
    assert_eq!(image_of(&tables, V2).1["tables"], "/9g=");
    for depth in [8, 12, 16] {
        image_of(&bands(1, 7, |image| bits(image, SampleFormat::Unsigned, depth)), V2);
    }
    refused(&bands(1, 7, |image| bits(image, SampleFormat::Unsigned, 10)), V2, "samples of 10 bits");
    refused(&bands(1, 7, |image| bits(image, SampleFormat::Float, 16)), V2, "samples of 16 bits");
}

#[test]
fn image_formats_have_bytes_and_webp_has_alpha() {
    assert_eq!(image_of(&bands(4, 50001, |_| ()), V2).1, json!({ "hasalpha": true }));
    assert_eq!(image_of(&bands(3, 50001, |_| ()), V2).1, json!({}));
    assert_eq!(image_of(&bands(4, 34933, |_| ()), V2).1, json!({}));
    refused(&bands(1, 34933, |image| bits(image, SampleFormat::Unsigned, 4)), V2, "samples of 4 bits");
}

/// LercParameters (50674): the version, then the additional compression: 0 none, 1 Deflate, 2 Zstandard.
#[test]
fn lerc_is_compressed_again_and_its_bytes_are_reversed() {
    let lerc = |depth, parameters: Option<[u32; 2]>| {
        bands(1, 34887, |image| {
            bits(image, SampleFormat::Unsigned, depth);
            image.lerc_parameters = parameters.map(Into::into);
        })
    };
    let plain = image_codec("imagecodecs_lerc", []);
    let reversed = Codec::ReversedBytes { dtype: ">u2".into() };
    assert!(codecs(&lerc(12, None), V2).is_err(), "LERC has no such samples");
    assert_eq!(codecs(&lerc(16, None), V2).unwrap(), vec![plain.clone()]);
    assert_eq!(codecs(&lerc(16, Some([4, 0])), BIG).unwrap(), [reversed, plain.clone()]);
    assert_eq!(codecs(&lerc(8, Some([4, 1])), BIG).unwrap(), [plain.clone(), Codec::Zlib { level: 6 }]);
    let zstd = Codec::Zstd { level: 0, checksum: false };
    assert_eq!(codecs(&lerc(8, Some([4, 2])), V2).unwrap(), [plain, zstd]);
    refused(&lerc(8, Some([4, 3])), V2, "additional compression 3 is unknown");
}

#[test]
fn our_lerc_has_sizes_type_and_alpha() {
    use SampleFormat::{Float, Signed, Unsigned};
    let own = |dtype, samples, has_alpha| {
        Codec::Lerc { dtype, rows: 4, columns: 4, samples, has_alpha }.own().unwrap()
    };
    for (format, depth, dtype) in [
        (Signed, 8, "|i1"),
        (Unsigned, 8, "|u1"),
        (Signed, 16, "<i2"),
        (Unsigned, 16, "<u2"),
        (Signed, 32, "<i4"),
        (Unsigned, 32, "<u4"),
        (Float, 32, "<f4"),
        (Float, 64, "<f8"),
    ] {
        let found = codecs(&bands(1, 34887, |image| bits(image, format, depth)), OWN).unwrap();
        assert_eq!(found.last(), Some(&own(dtype, 1, false)), "{dtype}");
        assert!(matches!(found[0], Codec::Bytes { .. }) && found.len() == 2, "{found:?}");
    }
    refused(&bands(1, 34887, |image| bits(image, Signed, 64)), OWN, "of numbers of another type");
    let volume = |encoding: &Encoding<'_>| encoding.codecs(&[1, 2, 4, 4]).is_err();
    assert!(ask(&bands(1, 34887, |_| ()), OWN, volume));
    // ExtraSamples: 2 is unassociated alpha, which libtiff stores as a mask if it is of 8 bits.
    let alpha = |depth, extra: u16, planar| {
        let image = bands(2, 34887, |image| {
            bits(image, Unsigned, depth);
            (image.extra_samples, image.planar) = (vec![extra], planar);
        });
        codecs(&image, OWN).unwrap().pop()
    };
    assert_eq!(alpha(8, 2, false), Some(own("|u1", 2, true)));
    assert_eq!(alpha(8, 1, false), Some(own("|u1", 2, false)));
    assert_eq!(alpha(16, 2, false), Some(own("<u2", 2, false)));
    assert_eq!(alpha(8, 2, true), Some(own("|u1", 1, false)));
}

/// YCbCrSubSampling changes the layout only where no image format contains it.
#[test]
fn subsampled_colors_are_blocks() {
    let ycbcr = |compression, photometric, ycbcr_subsampling| {
        let photometric = Some(photometric);
        Image { photometric, ycbcr_subsampling, ..bands(3, compression, |_| ()) }
    };
    let blocks = |image: &Image| {
        ask(image, V2, |encoding| (encoding.has_blocks().unwrap(), encoding.has_plain_rows()))
    };
    assert_eq!(blocks(&ycbcr(1, 6, (2, 2))), (true, false));
    assert_eq!(blocks(&ycbcr(1, 6, (2, 1))), (true, false));
    assert_eq!(blocks(&ycbcr(5, 6, (2, 2))), (true, false));
    assert_eq!(blocks(&ycbcr(1, 6, (1, 1))), (false, true));
    assert_eq!(blocks(&ycbcr(1, 2, (2, 2))), (false, true));
    for other in [4, 6, 7, 34887, 34933] {
        assert_eq!(blocks(&ycbcr(other, 6, (2, 2))), (false, false), "{other}");
    }
    assert!(!ask(&ycbcr(5, 6, (2, 2)), V2, |encoding| encoding.is_declarable().unwrap()));
    assert!(ask(&ycbcr(5, 6, (1, 1)), V2, |encoding| encoding.is_declarable().unwrap()));
}

/// With chroma of half the rows, decoders interpolate the last row of an even number from the one that follows.
#[test]
fn strips_of_interpolated_chroma_depend_on_further_rows() {
    type Change = fn(&mut Image);
    let depends = |change: Change, rows| {
        let jpeg = bands(3, 7, |image| (image.photometric, image.ycbcr_subsampling) = (Some(6), (2, 2)));
        let mut jpeg = jpeg;
        change(&mut jpeg);
        ask(&jpeg, V2, |encoding| encoding.depends_on_further_rows(rows))
    };
    assert!(depends(|_| (), 2) && depends(|_| (), 6));
    assert!(!depends(|_| (), 0) && !depends(|_| (), 3));
    let others: [Change; 7] = [
        |image| image.compression = 8,
        |image| image.photometric = Some(2),
        |image| image.ycbcr_subsampling = (2, 1),
        |image| image.planar = true,
        |image| image.predictor = 2,
        |image| image.samples_per_pixel = 4,
        |image| image.bits_per_sample.fill(16),
    ];
    for (number, change) in others.into_iter().enumerate() {
        assert!(!depends(change, 2), "{number}");
    }
}

/// FillOrder 2 reverses the bits of each byte, but not in formats that define their own order.
#[test]
fn reversed_bits_are_a_codec_where_they_matter() {
    let reversed = |compression, format, depth| {
        bands(1, compression, |image| {
            bits(image, format, depth);
            image.reversed_bits = true;
        })
    };
    let has = |image: &Image| codecs(image, V2).unwrap().contains(&Codec::BitOrder);
    for (compression, depth, expected) in
        [(1, 8, true), (8, 8, true), (4, 1, true), (7, 8, false), (34887, 8, true), (34933, 8, false)]
    {
        assert_eq!(has(&reversed(compression, SampleFormat::Unsigned, depth)), expected, "{compression}");
    }
    let declared = |compression, format, depth, options| {
        ask(&reversed(compression, format, depth), options, |encoding| encoding.is_declarable().unwrap())
    };
    use SampleFormat::{Float, Signed, Unsigned};
    assert!(declared(8, Unsigned, 8, V2) && declared(8, Unsigned, 8, OWN) && declared(7, Unsigned, 8, V3));
    assert!(declared(1, Unsigned, 8, V3) && declared(1, Signed, 16, V3), "of plain integers");
    for (compression, format, depth) in [(8, Unsigned, 8), (1, Float, 32), (1, Unsigned, 12)] {
        assert!(!declared(compression, format, depth, V3), "{compression} {depth}");
    }
}

#[test]
fn predictors_apply_to_numbers_of_some_schemes() {
    use SampleFormat::{ComplexFloat, ComplexInteger, Float, Signed, Unsigned};
    let predicted = |predictor, compression, format, depth| {
        bands(1, compression, |image| {
            bits(image, format, depth);
            image.predictor = predictor;
        })
    };
    let first = |image: &Image, options| codecs(image, options).unwrap().remove(0);
    let delta = |dtype: &str| Codec::Delta { axis: -1, dtype: dtype.into(), shape: vec![1, 4, 4] };
    assert_eq!(first(&predicted(2, 5, Signed, 16), V2), delta("<i2"));
    assert_eq!(first(&predicted(2, 8, Float, 32), BIG), delta(">f4"));
    let complex = |depth| codecs(&predicted(2, 5, ComplexInteger, depth), V2).unwrap();
    assert_eq!(complex(32)[..2], [Codec::ComplexIntegers { dtype: "<i2" }, delta("<u4")]);
    assert_eq!(complex(64)[..2], [Codec::ComplexIntegers { dtype: "<i4" }, delta("<u8")]);
    let bytes = Codec::FloatPredictor { axis: -1, dtype: "<f4".into(), shape: vec![1, 4, 4] };
    let found = codecs(&predicted(3, 34925, Float, 32), BIG).unwrap();
    assert_eq!(found[..2], [bytes, Codec::Bytes { endian: Some(Endian::Little) }]);
    let why = "it does not apply";
    refused(&predicted(2, 5, ComplexFloat, 64), V2, why);
    refused(&predicted(2, 5, ComplexInteger, 32), BIG, why);
    refused(&predicted(2, 5, Unsigned, 12), V2, why);
    refused(&predicted(3, 5, Unsigned, 32), V2, why);
    refused(&predicted(3, 5, Float, 24), V2, why);
    refused(&predicted(4, 5, Unsigned, 8), V2, "unknown predictor");
    refused(&predicted(0, 5, Unsigned, 8), V2, "unknown predictor");
    for scheme in [1, 32773, 6] {
        refused(&predicted(2, scheme, Unsigned, 8), V2, "readers differ");
        assert_eq!(first(&predicted(0, scheme, Unsigned, 8), V2), Codec::Bytes { endian: None });
    }
}

#[test]
fn odd_numbers_are_declared_or_made() {
    use SampleFormat::{ComplexInteger, Float, Unsigned};
    let made = |format, depth, options| {
        ask(&bands(1, 8, |image| bits(image, format, depth)), options, |encoding| {
            !encoding.is_declarable().unwrap()
        })
    };
    assert!(made(Unsigned, 24, BIG) && !made(Unsigned, 24, V2));
    assert!(!made(Float, 24, BIG));
    assert!(!made(ComplexInteger, 32, V2) && made(ComplexInteger, 32, V3) && !made(ComplexInteger, 32, OWN));
    let float24 = |order: &str| image_codec("imagecodecs_float24", [("byteorder", json!(order))]);
    for (options, order) in [(V2, "<"), (BIG, ">")] {
        let float = bands(1, 1, |image| bits(image, Float, 24));
        assert_eq!(codecs(&float, options).unwrap(), [float24(order)]);
    }
    // A structure of two integers is stored as it is, unless a predictor needs their type.
    let structure = |predictor, compression, (endian, format, own_codecs): Options| {
        let image = bands(1, compression, |image| {
            bits(image, ComplexInteger, 32);
            image.predictor = predictor;
        });
        let sample = Sample::of(&image, endian, ComplexIntegers::Structure).unwrap();
        let encoding =
            Encoding { image: &image, sample: &sample, endian, format, own_codecs, decodes_jpeg: false };
        encoding.is_declarable().unwrap()
    };
    assert!(structure(1, 8, V3) && structure(2, 8, V2) && structure(2, 8, OWN));
    assert!(!structure(2, 8, V3) && !structure(1, 34933, V3));
}

#[test]
fn last_strips_and_tiles_end_as_their_scheme_allows() {
    let of = |compression, options| {
        let image = bands(1, compression, |image| {
            if matches!(compression, 2..=4) {
                bits(image, SampleFormat::Unsigned, 1);
            }
        });
        ask(&image, options, |encoding| encoding.short_strip().unwrap())
    };
    for (compression, expected) in [
        (1, ShortStrip::Reencode),
        (8, ShortStrip::Reencode),
        (4, ShortStrip::AsItIs),
        (7, ShortStrip::Taller),
        (33003, ShortStrip::Taller),
        (34933, ShortStrip::Taller),
        (50001, ShortStrip::Taller),
        (34887, ShortStrip::Lerc),
        (50002, ShortStrip::Unreadable),
    ] {
        assert_eq!(of(compression, V2), expected, "{compression}");
    }
    assert_eq!(of(34887, OWN), ShortStrip::AsItIs);
    assert_eq!(of(32773, V2), ShortStrip::Reencode);
    let fax = bands(1, 3, |image| {
        bits(image, SampleFormat::Unsigned, 1);
        image.fax_options = 1;
    });
    assert_eq!(ask(&fax, V2, |encoding| encoding.short_strip().unwrap()), ShortStrip::Taller);
    let derived = |strips: usize| {
        let mut image = bands(1, 8, |image| image.derived_byte_counts = true);
        image.offsets = vec![100; strips];
        codecs(&image, V2).is_ok()
    };
    assert!(derived(1) && !derived(2), "a single strip ends with its stream");
}

#[test]
fn decoded_schemes_need_their_samples() {
    let next = |depth, samples| {
        codecs(&bands(samples, 32766, |image| bits(image, SampleFormat::Unsigned, depth)), V2)
    };
    assert_eq!(next(2, 1).unwrap().pop(), Some(Codec::Tiff(TiffScheme::Next { width: 4 })));
    assert!(next(8, 1).is_err() && next(2, 3).is_err());
    let tiles = |width| {
        let image = bands(1, 32766, |image| {
            bits(image, SampleFormat::Unsigned, 2);
            image.width = width;
        });
        codecs(&image, V2).is_ok()
    };
    assert!(tiles(3) && !tiles(5), "libtiff divides tiles into rows of the image");
    let log = |format, depth, samples, photometric| {
        let image = bands(samples, 34676, |image| {
            bits(image, format, depth);
            image.photometric = Some(photometric);
        });
        codecs(&image, BIG)
    };
    use SampleFormat::{Float, Signed, Unsigned};
    let scheme = Codec::Tiff(TiffScheme::SgiLog16 { width: 4, endian: Endian::Big });
    assert_eq!(log(Signed, 16, 1, 32844).unwrap().pop(), Some(scheme.clone()));
    assert_eq!(log(Unsigned, 16, 1, 32844).unwrap().pop(), Some(scheme));
    for (format, depth, samples, photometric) in
        [(Float, 16, 1, 32844), (Unsigned, 12, 1, 32844), (Signed, 16, 3, 32844), (Signed, 16, 1, 32845)]
    {
        assert!(
            log(format, depth, samples, photometric).is_err(),
            "{format:?} {depth} {samples} {photometric}"
        );
    }
}
