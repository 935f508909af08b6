//! Images whose chunks have to be examined, and old-style JPEG.

use std::collections::BTreeMap;

use virtualize_bytes::ByteRange;
use virtualize_remedy::Code;
use virtualize_tiff::model::{Image, OldJpeg, SampleFormat};
use virtualize_zarr::{Codec, OldJpegStream, Reference, SourceId, TiffScheme};

use super::{ifd, image, map_ifds};
use crate::tiff::{lerc_to_examine, settle_lerc};
use crate::{
    ChunkContent, Finding, MapOptions, Mapped, PieceBytes, SampleLimits, StoredChange, sample, settle,
};

fn mapped(samples: u16, compression: u16, change: &dyn Fn(&mut Image)) -> Mapped {
    let bits_per_sample = vec![8; usize::from(samples)];
    let mut image = Image { bits_per_sample, compression, ..image(4, 4, samples, 2) };
    change(&mut image);
    map_ifds(vec![ifd(image)], &MapOptions::default())
}

/// Returns the code with which an image was omitted.
fn omitted(mapped: &Mapped) -> Option<Code> {
    mapped.hierarchy.array("band_data").is_none().then(|| mapped.report.diagnostics.last().unwrap().code)
}

fn strips(findings: &[Finding]) -> BTreeMap<String, Vec<(u64, Finding)>> {
    [("band_data".to_owned(), (0..).zip(findings.iter().cloned()).collect())].into()
}

fn settled(mut mapped: Mapped, findings: &[Finding], inline_limit: u64) -> Mapped {
    let options = MapOptions { inline_limit, ..MapOptions::default() };
    settle(&mut mapped, strips(findings), Code::TiffMalformed, &options);
    mapped
}

#[test]
fn first_and_last_chunks_that_need_a_decoder_are_sampled() {
    let limits = SampleLimits { chunks: 2, stored: 150, decoded: 64 };
    let offsets = |mapped: &Mapped, limits| {
        let chunks = sample(mapped, limits).into_values().flatten();
        chunks.map(|(position, chunk)| (position, chunk.offset)).collect::<Vec<_>>()
    };
    let strips = |image: &mut Image| {
        image.cut = virtualize_tiff::model::Cut::Strips { rows: 1 };
        (image.offsets, image.byte_counts) = (vec![100, 150, 200, 250], vec![50; 4]);
    };
    for compression in [5, 7, 8, 34887, 50001] {
        let samples = if compression == 50001 { 3 } else { 1 };
        assert_eq!(
            offsets(&mapped(samples, compression, &strips), limits),
            [(0, 100), (3, 250)],
            "{compression}"
        );
    }
    for compression in [1, 4] {
        let bits = if compression == 4 { 1 } else { 8 };
        let image = mapped(1, compression, &|image| {
            strips(image);
            image.bits_per_sample = vec![bits];
        });
        assert_eq!(offsets(&image, limits), [], "{compression}");
    }
    let lzw = mapped(1, 5, &strips);
    assert_eq!(offsets(&lzw, SampleLimits { chunks: 9, ..limits }), [(0, 100), (3, 250), (1, 150)]);
    assert_eq!(offsets(&lzw, SampleLimits { chunks: 1, stored: 49, ..limits }), []);
    // A strip has 4 bytes.
    assert_eq!(offsets(&lzw, SampleLimits { decoded: 7, ..limits }), [(0, 100)]);
}

#[test]
fn chunks_that_readers_refuse_are_encoded_again() {
    use Finding::{Damaged, Exact, Longer, Shorter};

    let lzw = || mapped(1, 5, &|_| ());
    let made = |findings: &[Finding], limit| {
        let mapped = settled(lzw(), findings, limit);
        let positions = mapped.tasks.iter().flat_map(|task| task.positions.clone()).collect::<Vec<_>>();
        (omitted(&mapped), positions)
    };
    // Two chunks of 2 × 4 bytes.
    assert_eq!(made(&[Exact, Longer], 16), (None, vec![0, 1]));
    assert_eq!(made(&[Exact, Longer], 15), (Some(Code::InlineLimit), vec![]));
    assert_eq!(made(&[Exact, Exact], 0), (None, vec![]));
    assert_eq!(made(&[Exact, Shorter(3)], 16), (None, vec![]), "no reader decodes it");
    assert_eq!(made(&[Shorter(3), Damaged("zlib".into())], 16), (Some(Code::TiffMalformed), vec![]));
    let tiles = |image: &mut Image| {
        image.cut = virtualize_tiff::model::Cut::Tiles { width: 4, height: 3, depth: 1 };
    };
    let mapped = settled(mapped(1, 5, &tiles), &[Exact, Shorter(4)], 12);
    let ChunkContent::Assemble { pieces, shape, .. } = &mapped.tasks[0].content else { panic!() };
    assert_eq!(
        (mapped.tasks.len(), shape.as_slice(), pieces[0].extent.as_slice()),
        (1, &[1, 3, 4][..], &[1, 1, 4][..])
    );
}

#[test]
fn images_that_the_array_does_not_describe_are_omitted() {
    let jpeg = || mapped(1, 7, &|image| (image.photometric, image.bits_per_sample) = (Some(32803), vec![16]));
    let keys = |mapped: &Mapped| {
        let array = mapped.hierarchy.array("band_data").unwrap();
        let Some(Codec::Image { configuration, .. }) = array.codecs.last() else { panic!() };
        configuration.len()
    };
    assert_eq!(keys(&jpeg()), 1);
    assert_eq!(keys(&settled(jpeg(), &[Finding::OtherShape, Finding::OtherShape], 0)), 0);
    assert_eq!(omitted(&settled(jpeg(), &[Finding::OtherShape, Finding::Exact], 0)), Some(Code::TiffJpeg));
    let other = [Finding::Exact, Finding::OtherImage("it has 3 samples".into())];
    assert_eq!(omitted(&settled(jpeg(), &other, 0)), Some(Code::TiffJpeg));
    assert_eq!(omitted(&settled(mapped(3, 50001, &|_| ()), &other, 0)), Some(Code::TiffMalformed));
}

/// libtiff stores NaN and alpha of 8 bits as LERC's mask.
#[test]
fn lerc_that_may_have_masks_is_examined() {
    let float = |image: &mut Image| {
        (image.sample_format, image.bits_per_sample) = (vec![SampleFormat::Float], vec![32]);
    };
    let examined = |mapped: &Mapped| lerc_to_examine(mapped).values().map(Vec::len).sum::<usize>();
    assert_eq!(examined(&mapped(1, 34887, &float)), 2);
    assert_eq!(examined(&mapped(2, 34887, &|image| image.extra_samples = vec![2])), 2);
    assert_eq!(examined(&mapped(2, 34887, &|image| image.extra_samples = vec![1])), 0);
    assert_eq!(examined(&mapped(1, 34887, &|_| ())), 0);
    assert_eq!(examined(&mapped(1, 8, &float)), 0);
    let sixteen = |image: &mut Image| {
        (image.extra_samples, image.bits_per_sample) = (vec![2], vec![16; 2]);
    };
    assert_eq!(examined(&mapped(2, 34887, &sixteen)), 0);
    let chunk = Reference { source: SourceId(0), offset: 150, length: 50 };
    let decided = |inline_limit, answer| {
        let mut mapped = mapped(1, 34887, &float);
        let answers = [("band_data".to_owned(), answer)].into();
        settle_lerc(&mut mapped, answers, &MapOptions { inline_limit, ..MapOptions::default() });
        mapped
    };
    // A chunk of 2 × 4 numbers of 4 bytes.
    let made = decided(32, Ok(vec![(1, chunk)]));
    assert_eq!((omitted(&made), made.tasks[0].positions.as_slice()), (None, &[1][..]));
    let ChunkContent::Stored { range, change, .. } = &made.tasks[0].content else { panic!() };
    let StoredChange::Lerc { layout, height } = change else { panic!() };
    assert_eq!((*range, *height), (ByteRange::new(150, 50), 2));
    assert_eq!((layout.rows, layout.columns, layout.samples, layout.has_alpha), (2, 4, 1, false));
    assert_eq!(omitted(&decided(31, Ok(vec![(1, chunk)]))), Some(Code::InlineLimit));
    assert_eq!(omitted(&decided(32, Err("damaged".to_owned()))), Some(Code::TiffLerc));
    let unexamined = |samples, change: &dyn Fn(&mut Image)| {
        let mut mapped = mapped(samples, 34887, change);
        settle_lerc(&mut mapped, BTreeMap::new(), &MapOptions::default());
        (omitted(&mapped), mapped.report.diagnostics.len())
    };
    assert_eq!(unexamined(1, &float), (None, 1));
    assert_eq!(unexamined(1, &|_| ()), (None, 0));
    assert_eq!(unexamined(2, &|image| image.extra_samples = vec![2]).0, Some(Code::TiffLercMask));
}

fn tables() -> OldJpeg {
    OldJpeg {
        process: Some(1),
        interchange_format: None,
        interchange_length: None,
        restart_interval: 3,
        quantization: vec![1000; 3],
        dc: vec![1100; 3],
        ac: vec![1200; 3],
    }
}

/// Returns the bytes that hold the only strip with its tables, and their codec; `None` if the image is omitted.
fn old_jpeg(change: &dyn Fn(&mut Image)) -> Option<(ByteRange, virtualize_zarr::OldJpeg)> {
    let mapped = mapped(3, 6, &|image| {
        (image.photometric, image.ycbcr_subsampling) = (Some(6), (2, 1));
        (image.offsets, image.byte_counts) = (vec![2000], vec![50]);
        image.cut = virtualize_tiff::model::Cut::Strips { rows: 4 };
        image.old_jpeg = Some(tables());
        change(image);
    });
    let ChunkContent::Assemble { pieces, .. } = &mapped.tasks.first()?.content else { panic!() };
    let (PieceBytes::At(range), Some(Codec::Tiff(TiffScheme::OldJpeg(codec)))) =
        (&pieces[0].bytes, pieces[0].codecs.last())
    else {
        panic!("{pieces:?}")
    };
    Some((*range, *codec))
}

/// TIFF 6.0, section 22: quantization tables have 64 bytes, Huffman tables 16 and up to 256 more.
#[test]
fn old_jpeg_is_read_with_its_tables() {
    let stream = |change: fn(&mut OldJpeg)| {
        let found = old_jpeg(&|image| change(image.old_jpeg.as_mut().unwrap()));
        found.map(|(range, codec)| (range.start, range.end(), codec.stream))
    };
    let of_tables = |scan| OldJpegStream::Tables { quantization: [0; 3], dc: [100; 3], ac: [200; 3], scan };
    assert_eq!(stream(|_| ()), Some((1000, 2050, of_tables((1000, 1050)))));
    assert_eq!(stream(|tags| tags.process = None), Some((1000, 2050, of_tables((1000, 1050)))));
    let last = stream(|tags| tags.ac = vec![1900; 3]).unwrap();
    assert_eq!((last.0, last.1), (1000, 1900 + 272), "the Huffman table is the last");
    assert_eq!(stream(|tags| tags.ac = vec![9900; 3]).unwrap().1, 10_000, "to the end of the file");
    let interchange = |stream| OldJpegStream::Interchange { stream, strip: (500, 550) };
    let at =
        |tags: &mut OldJpeg| (tags.interchange_format, tags.interchange_length) = (Some(1500), Some(100));
    assert_eq!(stream(at), Some((1500, 2050, interchange((0, 100)))));
    assert_eq!(stream(|tags| tags.interchange_format = Some(1500)).unwrap().1, 10_000);
    assert_eq!(stream(|tags| tags.interchange_format = Some(10_000)), None);
    let past =
        |tags: &mut OldJpeg| (tags.interchange_format, tags.interchange_length) = (Some(1500), Some(8501));
    assert_eq!(stream(past).unwrap().1, 10_000);
    let whole =
        |tags: &mut OldJpeg| (tags.interchange_format, tags.interchange_length) = (Some(1500), Some(8500));
    assert_eq!(stream(whole).unwrap().1, 10_000);
    assert_eq!(stream(|tags| tags.interchange_format = Some(0)), stream(|_| ()));
}

#[test]
fn old_jpeg_that_libtiff_does_not_read_is_refused() {
    assert!(old_jpeg(&|image| image.photometric = Some(2)).is_some(), "RGB is YCbCr");
    let (_, codec) = old_jpeg(&|image| image.photometric = None).unwrap();
    assert_eq!((codec.horizontal, codec.vertical, codec.restart_interval), (2, 1, 3));
    let refused: [fn(&mut Image); 13] = [
        |image| image.photometric = Some(5),
        |image| (image.samples_per_pixel, image.photometric, image.bits_per_sample) = (1, Some(1), vec![8]),
        |image| image.planar = true,
        |image| image.depth = 2,
        |image| image.bits_per_sample = vec![16; 3],
        |image| image.ycbcr_subsampling = (3, 1),
        |image| image.old_jpeg = None,
        |image| image.old_jpeg.as_mut().unwrap().process = Some(14),
        |image| image.old_jpeg.as_mut().unwrap().dc = vec![1100],
        |image| image.sample_format = vec![SampleFormat::Signed; 3],
        |image| image.byte_counts = vec![0],
        |image| image.derived_byte_counts = true,
        |image| {
            (image.offsets, image.byte_counts) = (vec![2000, 3000], vec![50; 2]);
            image.cut = virtualize_tiff::model::Cut::Strips { rows: 2 };
        },
    ];
    for (number, change) in refused.iter().enumerate() {
        assert!(old_jpeg(change).is_none(), "{number}");
    }
}

#[test]
fn codecs_around_lerc_and_chunks_past_the_edge() {
    let lerc = Codec::Image { name: "imagecodecs_lerc", configuration: serde_json::Map::new() };
    let zlib = Codec::Zlib { level: 6 };
    let chain = [Codec::ReversedBytes { dtype: ">u2".into() }, lerc, zlib.clone()];
    assert_eq!(crate::tiff::lerc_outer_codecs(&chain), Some(&[zlib][..]));
    assert_eq!(crate::tiff::lerc_outer_codecs(&chain[2..]), None);
    let tiles = mapped(1, 34887, &|image| {
        image.cut = virtualize_tiff::model::Cut::Tiles { width: 4, height: 3, depth: 1 };
    });
    let array = tiles.hierarchy.array("band_data").unwrap();
    let [whole, cut] = [0, 1].map(|position| crate::tiff::LercChunk::of(array, position).unwrap());
    assert!(!whole.sticks_out() && cut.sticks_out());
    assert_eq!((whole.inside, cut.inside), ((3, 4), (1, 4)));
}
