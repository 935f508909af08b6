//! The four variants of TIFF: images, tags, and the ranges that are requested.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support::{
    ALL_KINDS, Builder, Metered, ascii, doubles, entry, gray, image_with, long, only_ifd, read_source, short,
    without,
};
use virtualize_bytes::{Endian, Limits};
use virtualize_tiff::{
    Error,
    model::{Cut, GeoKey, Image, SampleFormat, Value},
};

#[test]
fn reads_an_image_in_each_kind_of_tiff() {
    for (endian, big) in ALL_KINDS {
        let mut builder = Builder::new(endian, big);
        let offset = builder.data(&[0; 6 * 5 * 3 * 2]);
        builder.directory(&[
            short(256, &[5]),
            long(257, &[6]),
            short(258, &[16, 16, 16]),
            short(262, &[2]),
            long(273, &[offset, offset + 120]),
            short(277, &[3]),
            short(278, &[4]),
            short(279, &[120, 60]),
            short(339, &[2, 2, 2]),
            ascii(305, "a program"),
        ]);
        let file = builder.read().unwrap();
        assert_eq!((file.endian, file.big, file.ifds.len()), (endian, big, 1));
        assert!(file.chain_error.is_none());
        let ifd = &file.ifds[0];
        assert_eq!(ifd.tags[&305], Value::Text(vec!["a program".into()]));
        assert!(!ifd.tags.contains_key(&273) && !ifd.tags.contains_key(&279), "tables are only in the image");
        let expected = Image {
            subfile_type: 0,
            width: 5,
            height: 6,
            depth: 1,
            bits_per_sample: vec![16; 3],
            sample_format: vec![SampleFormat::Signed; 3],
            samples_per_pixel: 3,
            extra_samples: vec![],
            photometric: Some(2),
            compression: 1,
            predictor: 1,
            reversed_bits: false,
            planar: false,
            cut: Cut::Strips { rows: 4 },
            offsets: vec![offset, offset + 120],
            byte_counts: vec![120, 60],
            derived_byte_counts: false,
            jpeg_tables: None,
            old_jpeg: None,
            ycbcr_subsampling: (2, 2),
            ycbcr_coefficients: None,
            reference_black_white: None,
            color_map: None,
            fax_options: 0,
            lerc_parameters: None,
        };
        assert_eq!(ifd.image.as_ref().unwrap(), &expected);
    }
}

#[test]
fn absent_tags_have_the_defaults_of_tiff_6() {
    let image = image_with(vec![without(258), without(279)]).unwrap();
    assert_eq!((image.samples_per_pixel, &image.bits_per_sample[..], image.compression), (1, &[1][..], 1));
    assert_eq!((image.cut, image.predictor, image.planar), (Cut::Strips { rows: 4 }, 1, false));
    assert_eq!(image.sample_format, [SampleFormat::Unsigned]);
    assert_eq!((&image.byte_counts[..], image.derived_byte_counts), (&[4][..], true), "4 rows of one byte");
}

#[test]
fn errors_name_missing_tags() {
    for (tag, name) in [(256, "ImageWidth"), (257, "ImageLength"), (273, "StripOffsets")] {
        let message = image_with(vec![without(tag)]).unwrap_err().to_string();
        assert!(message.starts_with(&format!("tag {tag} ({name}) at 0x")), "{message}");
        assert!(message.ends_with(": missing"), "{message}");
    }
}

#[test]
fn tiles_are_counted_in_three_dimensions_and_planes() {
    let offsets: Vec<u64> = (0..48).map(|tile| 8 + tile).collect();
    let image = image_with(vec![
        without(273),
        without(279),
        short(256, &[40]),
        short(257, &[20]),
        short(277, &[2]),
        short(284, &[2]),
        short(322, &[16]),
        short(323, &[16]),
        long(324, &offsets),
        long(325, &[1; 48]),
        short(32997, &[7]),
        short(32998, &[2]),
        short(259, &[8]),
    ])
    .unwrap();
    assert_eq!(image.cut, Cut::Tiles { width: 16, height: 16, depth: 2 });
    assert_eq!((image.depth, image.planar), (7, true));
    assert_eq!(image.offsets, offsets, "3 × 2 × 4 tiles in 2 planes");
}

#[test]
fn tags_for_decoding_are_read() {
    let image = image_with(vec![
        short(255, &[2]),
        short(259, &[3]),
        short(266, &[2]),
        long(292, &[5]),
        short(317, &[2]),
        short(320, &[1, 2, 3, 4, 5, 6]),
        short(338, &[2]),
        entry(347, 7, 1, &[0xff, 0xd8, 0xff, 0xd9]),
        short(530, &[2, 1]),
        long(50674, &[4, 2]),
    ])
    .unwrap();
    assert_eq!((image.subfile_type, image.fax_options, image.predictor), (1, 5, 2));
    assert!(image.reversed_bits);
    assert_eq!(image.color_map, Some(vec![1, 2, 3, 4, 5, 6]));
    assert_eq!(image.jpeg_tables, Some(vec![0xff, 0xd8, 0xff, 0xd9]));
    assert_eq!((image.ycbcr_subsampling, image.extra_samples), ((2, 1), vec![2]));
    assert_eq!(image.lerc_parameters, Some(vec![4, 2]));
}

#[test]
fn implausible_byte_counts_are_derived() {
    let counts = |changes| {
        let image = image_with(changes).unwrap();
        (image.byte_counts, image.derived_byte_counts)
    };
    assert_eq!(counts(vec![without(279)]), (vec![16], true), "absent");
    assert_eq!(counts(vec![long(279, &[0])]), (vec![16], true), "zero");
    assert_eq!(counts(vec![long(279, &[5])]), (vec![16], true), "too small for one strip");
    assert_eq!(counts(vec![long(279, &[40])]), (vec![16], false), "more than the strip needs");
    assert_eq!(counts(vec![long(279, &[9000])]), (vec![16], true), "beyond the end of the file");
    let strips = |counts: &[u64]| vec![short(278, &[2]), long(273, &[8, 16]), long(279, counts)];
    assert_eq!(counts(strips(&[8])), (vec![8, 0], false), "missing count");
    assert_eq!(counts(strips(&[8, 5])), (vec![8, 5], false), "not derived for several strips");
    let compressed = |stored: &[u64]| {
        counts(vec![short(259, &[8]), short(278, &[2]), long(273, &[20, 8]), long(279, stored)])
    };
    assert!(image_with(vec![short(278, &[2]), long(273, &[8, 16]), without(279)]).is_err(), "as in libtiff");
    let planes =
        vec![short(277, &[2]), short(284, &[2]), short(259, &[8]), long(273, &[20, 8]), without(279)];
    assert_eq!(counts(planes).0[1], 12, "up to the next plane, or to the end");
    assert_eq!(compressed(&[3]), (vec![3, 0], false), "missing count");
    assert_eq!(compressed(&[3, 0]), (vec![3, 0], false), "empty strip");
}

#[test]
fn sparse_pieces_stay_zero() {
    let image = image_with(vec![short(278, &[2]), long(273, &[0, 8]), long(279, &[0, 8])]).unwrap();
    assert_eq!((&image.offsets[..], &image.byte_counts[..]), (&[0, 8][..], &[0, 8][..]));
    assert!(!image.derived_byte_counts);
}

#[test]
fn missing_offsets_are_sparse_and_recorded() {
    let ifd = only_ifd(vec![short(278, &[1]), long(273, &[8, 12]), long(279, &[4, 4])]);
    let image = ifd.image.unwrap();
    assert_eq!((&image.offsets[..], &image.byte_counts[..]), (&[8, 12, 0, 0][..], &[4, 4, 0, 0][..]));
    assert!(ifd.unreadable_tags[0].to_string().contains("2 values, expected 4"));
    assert!(matches!(ifd.unreadable_tags[0], Error::ShortTable { stored: 2, pieces: 4, .. }));
    assert_eq!(ifd.unreadable_tags[0].tag(), Some(273));
}

/// GDAL reads such a piece as samples in the file header, tifffile as missing.
#[test]
fn rejects_pieces_at_offset_0() {
    let message = only_ifd(vec![long(273, &[0]), long(279, &[0x20])]).image.unwrap_err().to_string();
    assert!(message.contains("tag 273 (StripOffsets)"), "{message}");
    assert!(message.contains("0 for piece 0 of 32 bytes"), "{message}");
    assert!(only_ifd(vec![long(273, &[0]), long(279, &[0])]).image.is_ok());
    assert!(only_ifd(vec![long(273, &[0])]).image.is_err(), "no byte counts");
    let strips = |counts: &[u64]| only_ifd(vec![short(278, &[1]), long(273, &[8, 12]), long(279, counts)]);
    assert!(strips(&[4, 4, 0, 0]).image.is_ok());
    assert!(strips(&[4, 4, 4, 0]).image.is_err(), "an offset that the table lacks");
}

/// libtiff reads the last one of two tables, tifffile that of tiles.
#[test]
fn rejects_tables_of_tiles_and_strips_that_differ() {
    let tiles = |strips: &[u64]| {
        let tables = [without(273), long(279, strips), long(324, &[8]), long(325, &[16])];
        image_with([short(322, &[4]), short(323, &[4])].into_iter().chain(tables).collect())
    };
    assert!(tiles(&[16]).is_ok());
    let message = tiles(&[8]).unwrap_err().to_string();
    assert!(message.contains("tag 279") && message.contains("contradicts tag 325"), "{message}");
}

/// libtiff ignores such a tag, and tifffile applies it.
#[test]
fn rejects_numbers_with_the_type_of_directories() {
    let predictor = |kind| image_with(vec![short(259, &[8]), entry(317, kind, 4, &[2])]);
    assert_eq!(predictor(4).unwrap().predictor, 2);
    assert!(predictor(13).unwrap_err().to_string().contains("values of type IFD, expected SHORT"));
    assert!(only_ifd(vec![entry(34_665, 13, 4, &[8])]).unreadable_tags.is_empty(), "of Exif");
}

/// libtiff reads text of bytes of any kind, and ignores that of wider numbers.
#[test]
fn nodata_is_text_of_bytes() {
    let nodata = |kind, width| {
        let ifd = only_ifd(vec![entry(42_113, kind, width, &[50, 0])]);
        (ifd.gdal_nodata, ifd.unreadable_tags.len())
    };
    for kind in [1, 2, 6, 7] {
        assert_eq!(nodata(kind, 1), (Some("2".to_owned()), 0), "{kind}");
    }
    for (kind, width) in [(3, 2), (4, 4), (13, 4)] {
        assert_eq!(nodata(kind, width), (None, 1), "{kind}");
    }
}

/// LONG8 does not fit into an entry of classic TIFF.
#[test]
fn numbers_outside_the_directory_determine_the_length_of_tables() {
    let rows = entry(278, 16, 8, &[2]);
    let image = image_with(vec![rows, long(273, &[8, 16]), long(279, &[8, 8])]).unwrap();
    assert_eq!((image.offsets, image.byte_counts), (vec![8, 16], vec![8, 8]));
}

/// libtiff checks these tags in every image.
#[test]
fn rejects_malformed_tags_of_layout_that_the_image_does_not_need() {
    assert!(image_with(vec![short(284, &[3])]).is_err(), "PlanarConfiguration of one sample");
    assert!(image_with(vec![short(284, &[1, 1])]).is_err());
    assert!(image_with(vec![ascii(32998, "1")]).is_err(), "TileDepth of strips");
    let tiles = |rows| {
        vec![short(278, &[rows]), short(322, &[4]), short(323, &[4]), long(324, &[8]), long(325, &[16])]
    };
    assert!(image_with(tiles(1)).is_ok());
    assert!(image_with(tiles(0)).is_err(), "RowsPerStrip of tiles");
}

/// libtiff swaps the bytes of complex numbers in big-endian files by the tags in their order.
#[test]
fn rejects_complex_numbers_declared_before_their_bits() {
    let read = |endian, format: u64, is_before: bool| {
        let mut builder = Builder::new(endian, false);
        let offset = builder.data(&[7; 64]);
        let mut tags = vec![short(258, &[64]), short(339, &[format])];
        if is_before {
            tags.reverse();
        }
        tags.extend([short(256, &[1]), short(257, &[1]), long(273, &[offset]), long(279, &[8])]);
        builder.directory(&tags);
        builder.read().unwrap().ifds.remove(0).image
    };
    for format in [5, 6] {
        assert!(read(Endian::Big, format, true).is_err());
        assert!(read(Endian::Big, format, false).is_ok());
        assert!(read(Endian::Little, format, true).is_ok());
    }
    assert!(read(Endian::Big, 3, true).is_ok());
}

#[test]
fn nodata_ends_at_a_nul() {
    let nodata = |text: &str| only_ifd(vec![ascii(42113, text)]).gdal_nodata;
    assert_eq!(nodata("7\0"), Some("7".to_owned()));
    assert_eq!(nodata("7\x008\0"), Some("7".to_owned()));
    assert_eq!(nodata("\x007\0"), None);
}

/// GDAL takes offsets of the type IFD for 0, and reads the header of the file as samples.
#[test]
fn rejects_tables_of_other_types() {
    const BYTE: u16 = 1;
    const IFD: u16 = 13;
    let message = only_ifd(vec![entry(273, IFD, 4, &[8])]).image.unwrap_err().to_string();
    assert!(message.contains("tag 273 (StripOffsets)"), "{message}");
    assert!(message.contains("values of type IFD, expected SHORT, LONG or LONG8"), "{message}");
    assert!(only_ifd(vec![entry(273, BYTE, 1, &[8])]).image.is_ok(), "GDAL reads one of them");
    assert!(only_ifd(vec![short(278, &[2]), entry(273, BYTE, 1, &[8, 9])]).image.is_err());
    let ifd = only_ifd(vec![short(330, &[8])]);
    assert!(ifd.unreadable_sub_ifds[0].to_string().contains("expected LONG, LONG8, IFD or IFD8"));
}

/// libtiff reads such a table as if it were shorter, tifffile ignores it, and their values differ.
#[test]
fn rejects_tables_beyond_the_end_of_the_file() {
    let ifd = only_ifd(vec![long(279, &[0x20; 2]).claiming(0x0100_0001)]);
    let message = ifd.image.unwrap_err().to_string();
    assert!(message.contains("tag 279 (StripByteCounts)"), "{message}");
    assert!(message.contains("16777217 values, expected 1, beyond the end of the file"), "{message}");
    let strips =
        vec![long(257, &[999]), long(278, &[1]), long(273, &[8; 999]), long(279, &[1, 1]).claiming(999)];
    let message = only_ifd(strips).image.unwrap_err().to_string();
    assert!(message.contains("999 values beyond the end of the file"), "{message}");
}

#[test]
fn uncompressed_ycbcr_is_stored_in_blocks() {
    let changes = vec![
        short(256, &[5]),
        short(257, &[3]),
        short(262, &[6]),
        short(277, &[3]),
        short(530, &[2, 2]),
        without(279),
    ];
    assert_eq!(image_with(changes).unwrap().byte_counts, [3 * 2 * 6], "3 × 2 blocks of 4 + 2 bytes");
}

#[test]
fn georeferencing_and_gdal_tags_are_resolved() {
    let xml = "<GDALMetadata><Item name=\"OFFSET\" sample=\"0\" role=\"offset\">2</Item></GDALMetadata>";
    let ifd = only_ifd(vec![
        doubles(33550, &[10.0, 20.0, 0.0]),
        doubles(33922, &[0.0, 0.0, 0.0, 300.0, 400.0, 0.0, 1.0]),
        doubles(34264, &[1.0; 16]),
        short(34735, &[1, 1, 0, 3, 3072, 0, 1, 32633, 1026, 34737, 5, 0, 2057, 34736, 1, 0]),
        doubles(34736, &[6_378_137.0]),
        ascii(34737, "name|"),
        ascii(42112, xml),
        ascii(42113, " -9999 "),
        doubles(50844, &[0.5; 92]),
    ]);
    let geo = ifd.geo.unwrap();
    assert_eq!(geo.pixel_scale, Some([10.0, 20.0, 0.0]));
    assert_eq!(geo.tie_points, [[0.0, 0.0, 0.0, 300.0, 400.0, 0.0]]);
    assert_eq!((geo.transformation, geo.rpc), (Some([1.0; 16]), Some(vec![0.5; 92])));
    let keys: Vec<_> = geo.keys.into_iter().collect();
    let expected = [
        (1026, GeoKey::Text("name".into())),
        (2057, GeoKey::Double(vec![6_378_137.0])),
        (3072, GeoKey::Short(32633)),
    ];
    assert_eq!(keys, expected);
    assert_eq!(ifd.gdal_nodata.as_deref(), Some(" -9999 "), "as stored");
    assert_eq!((ifd.gdal_metadata[0].name.as_str(), ifd.gdal_metadata[0].sample), ("OFFSET", Some(0)));
    assert!(only_ifd(vec![]).geo.is_none());
}

#[test]
fn pages_and_sub_ifds_have_paths() {
    for (endian, big) in ALL_KINDS {
        let mut builder = Builder::new(endian, big);
        let inner = builder.detached(&gray(1, 1, 8));
        let mut with_inner = gray(2, 2, 8);
        with_inner.push(entry(330, 13, 4, &[inner]));
        let (first, second) = (builder.detached(&with_inner), builder.detached(&gray(3, 3, 8)));
        let mut page = gray(4, 4, 8);
        page.push(long(330, &[first, second]));
        builder.directory(&gray(5, 5, 8));
        builder.directory(&page);
        let ifds = builder.read().unwrap().ifds;
        let width = |ifd: &virtualize_tiff::model::Ifd| ifd.image.as_ref().unwrap().width;
        assert_eq!((width(&ifds[0]), width(&ifds[1])), (5, 4));
        let subs = &ifds[1].sub_ifds;
        assert_eq!((width(&subs[0]), width(&subs[1]), width(&subs[0].sub_ifds[0])), (2, 3, 1));
        assert_eq!((&ifds[1].path[..], &subs[1].path[..]), (&[1][..], &[1, 1][..]));
        assert_eq!(subs[0].sub_ifds[0].path, [1, 0, 0]);
    }
}

#[test]
fn metadata_in_the_first_block_takes_one_request() {
    let mut builder = Builder::new(Endian::Little, true);
    for _ in 0..5 {
        let mut page = gray(4, 4, 8);
        page.push(ascii(270, "text that does not fit into an entry"));
        builder.directory(&page);
    }
    builder.data(&[0; 200_000]);
    assert_eq!(batches(builder).len(), 1);
}

#[test]
fn values_of_all_pages_are_fetched_in_one_batch() {
    let mut builder = Builder::new(Endian::Little, false);
    builder.data(&[0; 100_000]);
    for _ in 0..3 {
        builder.directory(&[
            short(256, &[1]),
            short(257, &[50]),
            short(278, &[1]),
            long(273, &[8; 50]),
            long(279, &[1; 50]),
        ]);
        builder.data(&[0; 100_000]);
    }
    let batches = batches(builder);
    let sizes: Vec<usize> = batches.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1, 1, 1, 1, 6], "the first block, a directory at a time, then two tables of each");
    assert_eq!(batches[4][0].length, 200);
}

#[test]
fn only_the_needed_part_of_a_table_is_fetched() {
    let mut builder = Builder::new(Endian::Little, false);
    builder.data(&[1; 200_000]);
    let strips = [short(256, &[1]), short(257, &[3]), short(278, &[1]), long(273, &[8; 3]).claiming(40_000)];
    builder.directory(&strips);
    builder.data(&[0; 200_000]);
    let batches = batches(builder);
    assert_eq!(batches.last().unwrap().iter().map(|range| range.length).collect::<Vec<_>>(), [12]);
}

fn batches(builder: Builder) -> Vec<Vec<virtualize_bytes::ByteRange>> {
    let source = Metered::new(builder.bytes);
    read_source(&source, &Limits::default()).unwrap();
    source.batches.into_inner().unwrap()
}
