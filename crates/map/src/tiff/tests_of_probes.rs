//! Images whose chunks have to be examined, and old-style JPEG.

use virtualize_bytes::ByteRange;
use virtualize_remedy::Code;
use virtualize_tiff::model::{Image, OldJpeg, SampleFormat};
use virtualize_zarr::{Codec, OldJpegStream, Reference, SourceId, TiffScheme};

use super::tests::{ifd, image, map_ifds};
use super::{ProbeAnswers, decide, probes};
use crate::{ChunkContent, MapOptions, Mapped, PieceBytes};

fn mapped(samples: u16, compression: u16, change: &dyn Fn(&mut Image)) -> Mapped {
    let bits_per_sample = vec![8; usize::from(samples)];
    let mut image = Image { bits_per_sample, compression, ..image(4, 4, samples, 2) };
    change(&mut image);
    map_ifds(vec![ifd(image)], &MapOptions::default())
}

/// Returns the code with which an image was left out.
fn left_out(mapped: &Mapped) -> Option<Code> {
    mapped.hierarchy.array("band_data").is_none().then(|| mapped.report.diagnostics.last().unwrap().code)
}

/// JPEG of several samples that are not YCbCr: libtiff refuses subsampled streams.
#[test]
fn jpeg_of_other_colors_is_examined() {
    let jpeg = |samples, photometric, planar| {
        mapped(samples, 7, &|image| (image.photometric, image.planar) = (Some(photometric), planar))
    };
    let strips = vec![(SourceId(0), ByteRange::new(100, 50)), (SourceId(0), ByteRange::new(150, 50))];
    assert_eq!(probes(&jpeg(3, 2, false)).jpeg_sampling, [("band_data".to_owned(), strips)].into());
    for other in [jpeg(3, 6, false), jpeg(1, 1, false), mapped(3, 8, &|_| ())] {
        assert!(probes(&other).jpeg_sampling.is_empty());
    }
    let decided = |answer: Result<Option<u64>, String>| {
        let mut mapped = jpeg(3, 2, false);
        let jpeg_sampling = [("band_data".to_owned(), answer)].into();
        decide(
            &mut mapped,
            ProbeAnswers { jpeg_sampling, ..ProbeAnswers::default() },
            &MapOptions::default(),
        );
        left_out(&mapped)
    };
    assert_eq!(decided(Ok(None)), None);
    assert_eq!(decided(Ok(Some(100))), Some(Code::TiffJpeg));
    assert_eq!(decided(Err("damaged".to_owned())), Some(Code::TiffJpeg));
}

/// libtiff stores NaN and alpha of 8 bits as LERC's mask.
#[test]
fn lerc_that_may_have_masks_is_examined() {
    let float = |image: &mut Image| {
        (image.sample_format, image.bits_per_sample) = (vec![SampleFormat::Float], vec![32]);
    };
    let examined = |mapped: &Mapped| probes(mapped).lerc_masks.values().map(Vec::len).sum::<usize>();
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
        let lerc_masks = [("band_data".to_owned(), answer)].into();
        let options = MapOptions { inline_limit, ..MapOptions::default() };
        decide(&mut mapped, ProbeAnswers { lerc_masks, ..ProbeAnswers::default() }, &options);
        mapped
    };
    // A chunk of 2 × 4 numbers of 4 bytes.
    let made = decided(32, Ok(vec![(1, chunk)]));
    assert_eq!((left_out(&made), made.tasks[0].positions.as_slice()), (None, &[1][..]));
    let ChunkContent::Lerc { range, layout, height, .. } = &made.tasks[0].content else { panic!() };
    assert_eq!((*range, *height), (ByteRange::new(150, 50), 2));
    assert_eq!((layout.rows, layout.columns, layout.samples, layout.has_alpha), (2, 4, 1, false));
    assert_eq!(left_out(&decided(31, Ok(vec![(1, chunk)]))), Some(Code::InlineLimit));
    assert_eq!(left_out(&decided(32, Err("damaged".to_owned()))), Some(Code::TiffLerc));
    let unexamined = |samples, change: &dyn Fn(&mut Image)| {
        let mut mapped = mapped(samples, 34887, change);
        decide(&mut mapped, ProbeAnswers::default(), &MapOptions::default());
        (left_out(&mapped), mapped.report.diagnostics.len())
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

/// Returns the bytes that hold the only strip with its tables, and their codec; `None` if the image is left out.
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
    let (_, codec) = old_jpeg(&|image| image.photometric = None).unwrap();
    assert_eq!((codec.horizontal, codec.vertical, codec.restart_interval), (2, 1, 3));
    let refused: [fn(&mut Image); 12] = [
        |image| image.photometric = Some(2),
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
    assert_eq!(super::lerc_outer_codecs(&chain), Some(&[zlib][..]));
    assert_eq!(super::lerc_outer_codecs(&chain[2..]), None);
    let tiles = mapped(1, 34887, &|image| {
        image.cut = virtualize_tiff::model::Cut::Tiles { width: 4, height: 3, depth: 1 };
    });
    let array = tiles.hierarchy.array("band_data").unwrap();
    let [whole, cut] = [0, 1].map(|position| super::LercChunk::of(array, position).unwrap());
    assert!(!whole.sticks_out() && cut.sticks_out());
    assert_eq!((whole.inside, cut.inside), ((3, 4), (1, 4)));
}
