//! Whole images, built by hand.

mod attributes;
mod chunks;
mod georeference;
mod keys;
mod probes;
mod series;

use std::collections::BTreeMap;

use serde_json::json;
use virtualize_bytes::ByteRange;
use virtualize_remedy::Code;
use virtualize_tiff::model::{Cut, File, GdalItem, Geo, GeoKey, Ifd, Image, SampleFormat};
use virtualize_zarr::{Array, ChunkGrid, Codec, DataType, Endian, FillValue, Lengths, Source, ZarrFormat};

use super::map_file;
use crate::{ChunkContent, MapOptions, Mapped, PieceBytes, Severity, StoredChange};

pub(super) fn image(width: u64, height: u64, bands: u16, rows: u64) -> Image {
    let strips = usize::try_from(height.div_ceil(rows)).unwrap();
    Image {
        subfile_type: 0,
        width,
        height,
        depth: 1,
        bits_per_sample: vec![16; usize::from(bands)],
        sample_format: vec![SampleFormat::Unsigned; usize::from(bands)],
        samples_per_pixel: bands,
        extra_samples: Vec::new(),
        photometric: Some(1),
        compression: 8,
        predictor: 1,
        reversed_bits: false,
        planar: false,
        cut: Cut::Strips { rows },
        offsets: (0..strips).map(|strip| 100 + 50 * strip as u64).collect(),
        byte_counts: vec![50; strips],
        derived_byte_counts: false,
        jpeg_tables: None,
        old_jpeg: None,
        ycbcr_subsampling: (1, 1),
        ycbcr_coefficients: None,
        reference_black_white: None,
        color_map: None,
        fax_options: 0,
        lerc_parameters: None,
    }
}

pub(super) fn ifd(image: Image) -> Ifd {
    Ifd {
        path: vec![0],
        offset: 8,
        tags: BTreeMap::new(),
        unreadable_tags: Vec::new(),
        unreadable_sub_ifds: Vec::new(),
        image: Ok(image),
        second_description: None,
        gdal_nodata: None,
        declared_nodata: None,
        gdal_metadata: Vec::new(),
        geo: None,
        sub_ifds: Vec::new(),
    }
}

fn options(format: ZarrFormat) -> MapOptions {
    MapOptions { format, ..MapOptions::default() }
}

pub(super) fn map_ifds(ifds: Vec<Ifd>, options: &MapOptions) -> Mapped {
    let file = File { endian: virtualize_bytes::Endian::Big, big: false, ifds, chain_error: None };
    map_file(&file, Source { url: "file:///a.tif".into(), size: 10_000, ..Source::default() }, options)
}

fn map(ifd: Ifd, format: ZarrFormat) -> Mapped {
    map_ifds(vec![ifd], &options(format))
}

fn main_array(mapped: &Mapped) -> &Array {
    mapped.hierarchy.array("band_data").expect("the main image")
}

/// A budget of about 64 MiB has room for the coordinates of seven images 2^20 pixels wide, with 8 bytes each.
#[test]
fn small_directories_cannot_take_all_memory() {
    let wide = |n: usize| {
        let mut wide = ifd(image(1 << 20, 1, 1, 1));
        wide.path = vec![n];
        wide.geo = Some(Geo::default());
        wide
    };
    let mapped = map_ifds((0..20).map(wide).collect(), &options(ZarrFormat::V3));
    let last = mapped.report.diagnostics.last().unwrap();
    assert_eq!((last.code, last.severity), (Code::TooLarge, Severity::Error));
    assert!(
        mapped.hierarchy.array("6/band_data").is_some() && mapped.hierarchy.array("8/band_data").is_none()
    );
}

#[test]
fn chunky_bands_are_last_in_v2_and_transposed_in_v3() {
    let mut chunky = image(4, 6, 3, 2);
    chunky.predictor = 2;
    let v2 = map(ifd(chunky.clone()), ZarrFormat::V2);
    let array = main_array(&v2);
    assert_eq!(array.shape, [6, 4, 3]);
    assert_eq!(array.chunk_grid, ChunkGrid::Regular(vec![2, 4, 3]));
    let delta = Codec::Delta { axis: -2, dtype: ">u2".into(), shape: vec![2, 4, 3] };
    let stored = [delta, Codec::Bytes { endian: Some(Endian::Big) }, Codec::Zlib { level: 6 }];
    assert_eq!(array.codecs, stored);

    let v3 = map(ifd(chunky), ZarrFormat::V3);
    let array = main_array(&v3);
    assert_eq!(array.shape, [3, 6, 4]);
    assert_eq!(array.chunk_grid, ChunkGrid::Regular(vec![3, 2, 4]));
    assert_eq!(array.codecs[0], Codec::Transpose { order: vec![1, 2, 0] });
    assert_eq!(array.codecs[1..], stored);
    assert_eq!(array.chunks.len(), 3);
}

#[test]
fn a_shorter_last_strip_is_made_at_full_height() {
    let mapped = map(ifd(image(4, 5, 1, 2)), ZarrFormat::V2);
    let array = main_array(&mapped);
    assert_eq!(array.shape, [1, 5, 4]);
    assert_eq!(array.chunks.len(), 2);
    let [task] = mapped.tasks.as_slice() else { panic!("{:?}", mapped.tasks) };
    assert_eq!(task.positions, [2]);
    let ChunkContent::Assemble { shape, background, pieces } = &task.content else { panic!() };
    assert_eq!((shape.as_slice(), background.len()), ([1, 2, 4].as_slice(), 2));
    assert_eq!(pieces[0].bytes, PieceBytes::At(ByteRange::new(200, 50)));
    assert_eq!(pieces[0].shape, [1, 1, 4]);
}

#[test]
fn fax_strips_are_padded_by_readers() {
    // imagecodecs.ccittfax4_decode(strip of 4 rows, 8, 40) yields 8 rows whose first four are right.
    let mut fax = image(40, 5, 1, 2);
    (fax.compression, fax.bits_per_sample) = (4, vec![1]);
    let mapped = map(ifd(fax), ZarrFormat::V2);
    assert_eq!(main_array(&mapped).chunks.len(), 3);
    assert!(mapped.tasks.is_empty());
}

#[test]
fn a_shorter_last_strip_of_jpeg_is_made_taller() {
    let mut jpeg = image(4, 5, 1, 2);
    (jpeg.compression, jpeg.bits_per_sample) = (7, vec![8]);
    let mapped = map(ifd(jpeg), ZarrFormat::V2);
    assert_eq!(main_array(&mapped).chunks.len(), 2);
    let [task] = mapped.tasks.as_slice() else { panic!("{:?}", mapped.tasks) };
    assert_eq!(task.positions, [2]);
    let ChunkContent::Stored { range, change, .. } = &task.content else { panic!() };
    let StoredChange::AddRows { width, rows, height } = change else { panic!() };
    assert_eq!((*range, *width, *rows, *height), (ByteRange::new(200, 50), 4, 1, 2));
}

/// libtiff refuses such files, or reads them otherwise than their streams say; tifffile shows zeros or other samples.
#[test]
fn images_that_contradict_their_streams_are_refused() {
    let omitted = |change: &dyn Fn(&mut Image)| {
        let mut changed = image(4, 4, 1, 2);
        (changed.compression, changed.bits_per_sample) = (7, vec![8]);
        change(&mut changed);
        map(ifd(changed), ZarrFormat::V2).report.arrays["band_data"].omitted.clone()
    };
    assert_eq!(omitted(&|_| {}), None);
    let colours = omitted(&|image| image.photometric = Some(6)).unwrap();
    assert!(colours.contains("JPEG of colours: SamplesPerPixel 1"), "{colours}");
    let bits = omitted(&|image| (image.compression, image.bits_per_sample) = (50002, vec![1])).unwrap();
    assert!(bits.contains("JPEG XL (50002): samples of 1 bits"), "{bits}");
    let predictor = omitted(&|image| (image.compression, image.predictor) = (8, 0)).unwrap();
    assert!(predictor.contains("predictor 0 with Deflate (8): unknown predictor"), "{predictor}");
    let counts = omitted(&|image| (image.compression, image.derived_byte_counts) = (8, true)).unwrap();
    assert!(counts.contains("byte counts: none for its 2 compressed pieces"), "{counts}");
}

#[test]
fn short_strips_without_an_encoder_and_unknown_compressions_are_refused_by_name() {
    let mut jpeg = image(4, 5, 1, 2);
    (jpeg.compression, jpeg.bits_per_sample) = (7, vec![8]);
    for (compression, word) in
        [(50002, "JPEG XL (50002)"), (34676, "SGI LogLuv (34676)"), (9999, "9999 (unknown)")]
    {
        let mapped = map(ifd(Image { compression, ..jpeg.clone() }), ZarrFormat::V2);
        let omitted = mapped.report.arrays["band_data"].omitted.clone().unwrap();
        assert!(omitted.contains(word), "{omitted}");
        assert_eq!(mapped.report.diagnostics[0].severity, Severity::Warning);
        assert!(mapped.hierarchy.array("band_data").is_none());
    }
}

#[test]
fn plain_strips_are_cut_to_what_their_samples_need() {
    let mut plain = image(4, 4, 1, 2);
    plain.compression = 1;
    let mapped = map(ifd(plain.clone()), ZarrFormat::V2);
    assert_eq!(main_array(&mapped).chunks.references[0].lengths, Lengths::Uniform(16));
    plain.byte_counts = vec![15; 2];
    let mapped = map(ifd(plain), ZarrFormat::V2);
    assert!(mapped.report.arrays["band_data"].omitted.clone().unwrap().contains("need 16"));
}

#[test]
fn one_huge_plain_strip_becomes_blocks_of_rows() {
    let mut plain = image(1 << 20, 100, 1, 100);
    plain.compression = 1;
    plain.byte_counts = vec![200 << 20];
    let file = File {
        endian: virtualize_bytes::Endian::Little,
        big: true,
        ifds: vec![ifd(plain)],
        chain_error: None,
    };
    let mapped = map_file(&file, Source { size: 300 << 20, ..Source::default() }, &MapOptions::default());
    let array = main_array(&mapped);
    assert_eq!(array.chunk_grid, ChunkGrid::Regular(vec![1, 4, 1 << 20]));
    assert_eq!(array.chunks.references[0].offsets[..2], [100, 100 + (8 << 20)]);
    assert_eq!(array.chunks.len(), 25);
    assert!(mapped.tasks.is_empty());
}

#[test]
fn pieces_past_the_end_leave_the_array_out() {
    let mut cut_off = image(4, 4, 1, 2);
    cut_off.offsets[1] = 9_990;
    let mapped = map(ifd(cut_off), ZarrFormat::V2);
    assert_eq!(mapped.report.diagnostics[0].code, Code::TiffTruncated);
}

#[test]
fn sparse_tiles_read_as_nodata() {
    let mut tiled = image(4, 4, 1, 4);
    tiled.cut = Cut::Tiles { width: 2, height: 2, depth: 1 };
    tiled.offsets = vec![0, 100, 200, 300];
    tiled.byte_counts = vec![0, 9, 0, 9];
    let mut ifd = ifd(tiled);
    ifd.gdal_nodata = Some("7".into());
    let mapped = map(ifd, ZarrFormat::V2);
    let array = main_array(&mapped);
    assert_eq!(array.chunks.references[0].positions, Some(vec![1, 3].into()));
    assert_eq!(array.fill_value, Some(FillValue::Fixed(vec![7, 0].into())));
}

#[test]
fn sparse_tiles_do_not_read_as_an_item_that_gdal_does_not_know() {
    let mut tiled = image(4, 4, 1, 4);
    tiled.cut = Cut::Tiles { width: 2, height: 2, depth: 1 };
    (tiled.offsets, tiled.byte_counts) = (vec![0, 100, 200, 300], vec![0, 9, 0, 9]);
    let mut sparse = ifd(tiled);
    sparse.gdal_metadata = vec![item("_FillValue", "7")];
    let v2 = map(sparse.clone(), ZarrFormat::V2);
    assert!(v2.report.diagnostics.iter().any(|diagnostic| diagnostic.code == Code::TiffUnsupported));
    assert!(v2.hierarchy.array("band_data").is_none());
    let v3 = map(sparse.clone(), ZarrFormat::V3);
    assert_eq!(main_array(&v3).fill_value, Some(FillValue::Fixed(vec![0, 0].into())));
    assert_eq!(main_array(&v3).attributes["_FillValue"], json!(7));
    sparse.gdal_metadata = vec![item("_FillValue", "0")];
    assert_eq!(
        main_array(&map(sparse, ZarrFormat::V2)).fill_value,
        Some(FillValue::Fixed(vec![0, 0].into()))
    );
}

#[test]
fn packed_bits_with_reversed_order_are_inlined_where_v3_cannot_say_it() {
    let mut packed = image(10, 4, 1, 2);
    (packed.bits_per_sample, packed.reversed_bits) = (vec![1], true);
    let v2 = map(ifd(packed.clone()), ZarrFormat::V2);
    let pack = Codec::PackBitsOfIntegers { bits_per_sample: 1, run_length: 10, dtype: "|u1".into() };
    let stored = vec![pack, Codec::Bytes { endian: None }, Codec::Zlib { level: 6 }, Codec::BitOrder];
    assert_eq!(main_array(&v2).codecs, stored);
    let v3 = map(ifd(packed), ZarrFormat::V3);
    assert_eq!(main_array(&v3).codecs, [Codec::Bytes { endian: None }, Codec::Zlib { level: 6 }]);
    assert_eq!(v3.tasks.len(), 2);
    let ChunkContent::Assemble { pieces, .. } = &v3.tasks[0].content else { panic!() };
    assert_eq!(pieces[0].codecs, stored);
}

#[test]
fn tiles_of_any_size_are_mapped_or_refused() {
    for bits in [1, 2, 7, 12, 24, 32] {
        let mut tiled = image(18, 20, 2, 20);
        tiled.cut = Cut::Tiles { width: u64::MAX, height: 15, depth: 1 };
        tiled.bits_per_sample = vec![bits; 2];
        (tiled.offsets, tiled.byte_counts) = (vec![8, 99], vec![9, 9]);
        for format in [ZarrFormat::V2, ZarrFormat::V3] {
            map(ifd(tiled.clone()), format);
        }
    }
}

#[test]
fn fax_strips_with_reversed_bits_are_inlined_in_the_usual_order_where_v3_cannot_say_it() {
    let mut fax = image(16, 4, 1, 4);
    (fax.bits_per_sample, fax.compression, fax.reversed_bits) = (vec![1], 4, true);
    let v2 = map(ifd(fax.clone()), ZarrFormat::V2);
    assert_eq!(main_array(&v2).codecs.last(), Some(&Codec::BitOrder));
    let v3 = map(ifd(fax), ZarrFormat::V3);
    assert!(!main_array(&v3).codecs.contains(&Codec::BitOrder));
    assert!(main_array(&v3).chunks.is_empty());
    let is_reversed = |content: &ChunkContent| matches!(content, ChunkContent::Stored { change, .. } if *change == StoredChange::ReverseBits);
    assert!(is_reversed(&v3.tasks[0].content));
}

pub(super) fn item(name: &str, value: &str) -> GdalItem {
    GdalItem { domain: String::new(), name: name.into(), sample: None, role: None, value: value.into() }
}

#[test]
fn nodata_is_fill_value_and_sentinel_and_duplicates_go() {
    let mut ifd = ifd(image(4, 4, 1, 2));
    ifd.gdal_nodata = Some("65535".into());
    ifd.gdal_metadata = vec![
        item("_FillValue", "65535.0"),
        item("missing_value", "65535"),
        item("swe#_FillValue", "65535"),
        item("swe#missing_value", "1"),
    ];
    let mapped = map(ifd, ZarrFormat::V3);
    let array = main_array(&mapped);
    assert_eq!(array.fill_value, Some(FillValue::Fixed(vec![255, 255].into())));
    for (name, value) in [
        ("_FillValue", json!(65535)),
        ("missing_value", json!(65535)),
        ("gdal_no_data", json!("65535")),
        ("swe#missing_value", json!("1")),
    ] {
        assert_eq!(array.attributes.get(name), Some(&value), "{name}");
    }
    assert!(!array.attributes.contains_key("swe#_FillValue"));
    assert!(mapped.report.diagnostics.is_empty());
}

#[test]
fn nodata_out_of_range_is_dropped_with_a_warning() {
    let mut ifd = ifd(image(4, 4, 1, 2));
    ifd.gdal_nodata = Some("-32768".into());
    let codes = |mapped: &Mapped| -> Vec<Code> {
        mapped.report.diagnostics.iter().map(|diagnostic| diagnostic.code).collect()
    };
    let mapped = map(ifd.clone(), ZarrFormat::V2);
    assert_eq!((main_array(&mapped).fill_value.clone(), codes(&mapped)), (None, vec![Code::NodataDropped]));
    ifd.gdal_metadata = vec![item("missing_value", "5")];
    let mapped = map(ifd, ZarrFormat::V2);
    assert_eq!(main_array(&mapped).fill_value, Some(FillValue::Fixed(vec![5, 0].into())));
    assert_eq!(codes(&mapped), [Code::NodataDropped, Code::NodataDisagrees]);
}

#[test]
fn sources_that_disagree_are_reported_and_the_tag_wins() {
    let mut ifd = ifd(image(4, 4, 1, 2));
    ifd.gdal_nodata = Some("1".into());
    ifd.gdal_metadata = vec![item("missing_value", "2")];
    let mapped = map(ifd, ZarrFormat::V2);
    let array = main_array(&mapped);
    assert_eq!(array.fill_value, Some(FillValue::Fixed(vec![1, 0].into())));
    assert!(!array.attributes.contains_key("missing_value"));
    assert_eq!(mapped.report.diagnostics[0].code, Code::NodataDisagrees);
}

#[test]
fn without_nodata_v2_has_no_fill_value_and_v3_zero() {
    let v2 = map(ifd(image(4, 4, 1, 2)), ZarrFormat::V2);
    assert_eq!(main_array(&v2).fill_value, None);
    let v3 = map(ifd(image(4, 4, 1, 2)), ZarrFormat::V3);
    assert_eq!(main_array(&v3).fill_value, Some(FillValue::Fixed(vec![0, 0].into())));
    assert!(!main_array(&v3).attributes.contains_key("_FillValue"));
}

/// rasterio on a file so written: transform (10, 0, 500000, 0, -10, 5000000), CRS EPSG:32633; rioxarray: x from 500005.
#[test]
fn georeferenced_images_have_coordinates_and_a_grid_mapping() {
    let mut main = ifd(image(4, 4, 1, 2));
    main.geo = Some(Geo {
        pixel_scale: Some([10.0, 10.0, 0.0]),
        tie_points: vec![[0.0, 0.0, 0.0, 500_000.0, 5_000_000.0, 0.0]],
        keys: [(1024, 1), (1025, 1), (3072, 32633)].map(|(key, value)| (key, GeoKey::Short(value))).into(),
        ..Geo::default()
    });
    let mut overview = ifd(Image { subfile_type: 1, ..image(2, 2, 1, 2) });
    overview.path = vec![1];
    let mapped = map_ifds(vec![main, overview], &options(ZarrFormat::V3));
    let hierarchy = &mapped.hierarchy;
    let numbers = |path: &str| -> Vec<f64> {
        let bytes = &hierarchy.array(path).unwrap().chunks.inline[&0];
        bytes.chunks_exact(8).map(|number| f64::from_le_bytes(number.try_into().unwrap())).collect()
    };
    assert_eq!(numbers("x"), [500_005.0, 500_015.0, 500_025.0, 500_035.0]);
    assert_eq!(numbers("y")[0], 4_999_995.0);
    assert_eq!(numbers("1/x_1"), [500_010.0, 500_030.0]);
    let grid_mapping = &hierarchy.array("spatial_ref").unwrap().attributes;
    assert_eq!(grid_mapping["spatial_ref"], "EPSG:32633");
    assert_eq!(grid_mapping["GeoTransform"], "500000.0 10.0 0.0 5000000.0 0.0 -10.0");
    assert_eq!(hierarchy.root.attributes["proj:code"], "EPSG:32633");
    let layout = &hierarchy.root.attributes["multiscales"]["layout"];
    assert_eq!(layout[1]["asset"], "1/band_data");
    assert_eq!(layout[1]["transform"]["scale"], json!([2.0, 2.0]));
}

#[test]
fn scale_and_offset_become_attributes_where_all_bands_agree() {
    let role = |sample, role: &str, value: &str| GdalItem {
        sample: Some(sample),
        role: Some(role.into()),
        ..item(role, value)
    };
    let mut ifd = ifd(image(4, 4, 2, 2));
    ifd.gdal_metadata = vec![role(0, "scale", "0.1"), role(1, "scale", "0.1"), role(1, "description", "nir")];
    let mapped = map(ifd.clone(), ZarrFormat::V2);
    let attributes = &main_array(&mapped).attributes;
    assert_eq!(attributes["scale_factor"], json!(0.1));
    assert_eq!(attributes["add_offset"], json!(0.0));
    assert_eq!(attributes["long_name"], json!(["", "nir"]));
    ifd.gdal_metadata.push(role(1, "offset", "5"));
    let mapped = map(ifd, ZarrFormat::V2);
    let attributes = &main_array(&mapped).attributes;
    assert_eq!(attributes["offsets"], json!([0.0, 5.0]));
    assert!(!attributes.contains_key("scale_factor"));
}

#[test]
fn further_images_and_sub_ifds_are_groups_named_by_their_place() {
    let mut main = ifd(image(4, 4, 1, 2));
    main.sub_ifds = vec![Ifd { path: vec![0, 0], ..ifd(image(2, 2, 1, 2)) }];
    let page = Ifd { path: vec![1], ..ifd(image(8, 8, 1, 8)) };
    let mapped = map_ifds(vec![main, page], &options(ZarrFormat::V2));
    assert!(mapped.hierarchy.array("0/0/band_data").is_some());
    assert_eq!(mapped.hierarchy.array("1/band_data").unwrap().data_type, DataType::UInt16);
    assert_eq!(mapped.hierarchy.sources.len(), 1);
}

#[test]
fn an_unreadable_tag_of_the_structure_leaves_the_image_out_and_others_do_not() {
    let unreadable = |tag| {
        let mut ifd = ifd(image(4, 4, 1, 2));
        ifd.unreadable_tags = vec![virtualize_tiff::Error::Malformed {
            structure: virtualize_tiff::Structure::Tag(tag),
            offset: 8,
            problem: "unknown field type 0".into(),
        }];
        map(ifd, ZarrFormat::V2)
    };
    let mapped = unreadable(259);
    assert!(mapped.hierarchy.array("band_data").is_none());
    let mapped = unreadable(305);
    assert!(mapped.hierarchy.array("band_data").is_some());
    assert_eq!(mapped.report.diagnostics[0].severity, Severity::Info);
}

/// Also those of an omitted image.
#[test]
fn unreadable_sub_images_are_reported() {
    let mut ifd = ifd(image(4, 4, 1, 2));
    let error = virtualize_tiff::Error::Malformed {
        structure: virtualize_tiff::Structure::Named("directory".into()),
        offset: 8,
        problem: "no entries".into(),
    };
    ifd.unreadable_sub_ifds = vec![error.clone()];
    ifd.image = Err(error);
    let diagnostics = map(ifd, ZarrFormat::V2).report.diagnostics;
    let found = diagnostics.iter().find(|diagnostic| diagnostic.code == Code::TiffChain).unwrap();
    assert_eq!((found.severity, found.path.as_str()), (Severity::Warning, "/"));
    assert!(
        found.message.starts_with("further images may be missing: directory at 0x8"),
        "{}",
        found.message
    );
}

#[test]
fn items_of_one_band_among_several_have_its_number() {
    let mut ifd = ifd(image(4, 4, 2, 2));
    let mean = |sample, value: &str| GdalItem { sample: Some(sample), ..item("STATISTICS_MEAN", value) };
    ifd.gdal_metadata = vec![mean(0, "1.5"), mean(1, "2"), item("units", "days since 1970-01-01")];
    ifd.gdal_metadata.push(GdalItem { domain: "DERIVED".into(), ..item("key", "text") });
    let mapped = map(ifd, ZarrFormat::V2);
    let attributes = &main_array(&mapped).attributes;
    assert_eq!(attributes["STATISTICS_MEAN"], json!({ "1": 1.5, "2": 2.0 }));
    assert_eq!(
        attributes["gdal_units"], "days since 1970-01-01",
        "free text must not make xarray decode times"
    );
    assert_eq!(attributes["DERIVED"], json!({ "key": "text" }));
}

/// Blocks of 4 rows (8 MiB) divide both strips, so no block is short.
#[test]
fn plain_strips_are_cut_so_that_nothing_large_is_inlined() {
    let mut plain = image(1 << 20, 200, 1, 128);
    plain.compression = 1;
    (plain.offsets, plain.byte_counts) = (vec![100, 100 + (256 << 20)], vec![256 << 20, 144 << 20]);
    let file = File {
        endian: virtualize_bytes::Endian::Little,
        big: true,
        ifds: vec![ifd(plain)],
        chain_error: None,
    };
    let mapped = map_file(&file, Source { size: 500 << 20, ..Source::default() }, &MapOptions::default());
    let array = main_array(&mapped);
    assert_eq!(array.chunk_grid, ChunkGrid::Regular(vec![1, 4, 1 << 20]));
    assert_eq!(array.chunks.len(), 50);
    assert!(mapped.tasks.is_empty());
}

#[test]
fn packbits_and_next_of_unknown_length_are_refused() {
    for (compression, bits) in [(32773, 8), (32766, 2)] {
        let is_shown = |derived_byte_counts| {
            let mut image = Image { compression, derived_byte_counts, ..image(4, 4, 1, 4) };
            image.bits_per_sample = vec![bits];
            map(ifd(image), ZarrFormat::V2).hierarchy.array("band_data").is_some()
        };
        assert_eq!((is_shown(false), is_shown(true)), (true, false), "{compression}");
    }
}

/// EPSG:2853 is in metres; GDAL shows this file as a system of its own, in US survey feet.
#[test]
fn a_code_that_other_keys_change_is_omitted() {
    let code = |unit: u16| {
        let mut ifd = ifd(image(4, 4, 1, 2));
        let keys = [(1024, 1), (3072, 2853), (3076, unit)].map(|(id, value)| (id, GeoKey::Short(value)));
        ifd.geo = Some(Geo { keys: keys.into(), ..Geo::default() });
        let mapped = map(ifd, ZarrFormat::V2);
        let warned = mapped.report.diagnostics.iter().any(|diagnostic| diagnostic.code == Code::TiffCrs);
        (mapped.hierarchy.root.attributes.get("proj:code").cloned(), warned)
    };
    assert_eq!(code(9001), (Some(json!("EPSG:2853")), false));
    assert_eq!(code(9003), (None, true));
}

#[test]
fn images_are_chosen_by_their_place() {
    let options = |ifds: Vec<Vec<usize>>| MapOptions { ifds, ..MapOptions::default() };
    let pages = || {
        let first = ifd(image(4, 4, 1, 2));
        let sub = Ifd { path: vec![0, 0], ..ifd(image(2, 2, 1, 2)) };
        vec![Ifd { sub_ifds: vec![sub], ..first }, Ifd { path: vec![1], ..ifd(image(4, 4, 1, 2)) }]
    };
    let paths = |mapped: &Mapped| -> Vec<String> {
        let arrays = mapped.hierarchy.arrays().into_iter().map(|(path, _)| path);
        arrays.filter(|path| path.ends_with("band_data")).collect()
    };
    assert_eq!(paths(&map_ifds(pages(), &options(vec![]))), ["0/0/band_data", "1/band_data", "band_data"]);
    assert_eq!(paths(&map_ifds(pages(), &options(vec![vec![1]]))), ["1/band_data"]);
    assert_eq!(paths(&map_ifds(pages(), &options(vec![vec![0, 0]]))), ["0/0/band_data"]);
    let mapped = map_ifds(pages(), &options(vec![vec![7]]));
    assert!(
        mapped.report.diagnostics[0].message.starts_with("the file has no image 7; existing images: 0, ")
    );
    assert_eq!(mapped.report.diagnostics[0].severity, Severity::Error);
}

#[test]
fn rectilinear_grids_end_with_a_short_strip() {
    let rectilinear =
        |format| MapOptions { chunk_grid: crate::ChunkGridChoice::Rectilinear, ..options(format) };
    let mapped = map_ifds(vec![ifd(image(4, 7, 2, 3))], &rectilinear(ZarrFormat::V3));
    let array = main_array(&mapped);
    assert_eq!(array.chunk_grid, ChunkGrid::Rectilinear(vec![vec![2], vec![3, 3, 1], vec![4]]));
    assert_eq!(*array.chunks.references[0].offsets, [100, 150, 200]);
    assert!(mapped.tasks.is_empty());
    let mapped = map_ifds(vec![ifd(image(4, 6, 1, 3))], &rectilinear(ZarrFormat::V3));
    assert_eq!(main_array(&mapped).chunk_grid, ChunkGrid::Regular(vec![1, 3, 4]), "all strips are whole");
    let mapped = map_ifds(vec![ifd(image(4, 7, 1, 3))], &rectilinear(ZarrFormat::V2));
    assert_eq!(main_array(&mapped).chunk_grid, ChunkGrid::Regular(vec![1, 3, 4]));
    assert_eq!(mapped.report.diagnostics[0].code, Code::ChunkGrid);
}

/// A large strip of plain rows is cut; the blocks end with the image.
#[test]
fn rectilinear_grids_cut_plain_strips() {
    let mut image = image(1 << 20, 11, 1, 8);
    image.compression = 1;
    image.offsets = vec![100, 100 + (16 << 20)];
    image.byte_counts = vec![16 << 20, 6 << 20];
    let options = MapOptions { chunk_grid: crate::ChunkGridChoice::Rectilinear, ..options(ZarrFormat::V3) };
    let file =
        File { endian: virtualize_bytes::Endian::Big, big: false, ifds: vec![ifd(image)], chain_error: None };
    let source = Source { url: "file:///a.tif".into(), size: 1 << 30, ..Source::default() };
    let mapped = map_file(&file, source, &options);
    let array = main_array(&mapped);
    assert_eq!(array.chunk_grid, ChunkGrid::Rectilinear(vec![vec![1], vec![8, 3], vec![1 << 20]]));
    assert_eq!(array.chunks.references[0].lengths, Lengths::Each(vec![16 << 20, 6 << 20].into()));
}

#[test]
fn pages_that_are_alike_are_stacked() {
    let page = |index: usize, height: u64| Ifd { path: vec![index], ..ifd(image(4, height, 2, 3)) };
    let mut overview = page(3, 7);
    overview.image.as_mut().unwrap().subfile_type = 1;
    for (format, shape) in [(ZarrFormat::V2, vec![2, 7, 4, 2]), (ZarrFormat::V3, vec![2, 2, 7, 4])] {
        let options = MapOptions { stack_pages: true, ..options(format) };
        let pages = vec![page(0, 7), page(1, 9), page(2, 7), overview.clone()];
        let mapped = map_ifds(pages, &options);
        let array = main_array(&mapped);
        assert_eq!(array.shape, shape);
        assert_eq!(array.dimension_names[0].as_deref(), Some("page"));
        assert_eq!(
            array.chunks.references[0].positions,
            Some(vec![0, 1, 3, 4].into()),
            "the third chunks are made"
        );
        let made: Vec<&[u64]> = mapped
            .tasks
            .iter()
            .filter(|task| task.array == "band_data")
            .map(|task| &task.positions[..])
            .collect();
        assert_eq!(made, [[2], [5]]);
        let numbers = mapped.hierarchy.array("page").unwrap();
        assert_eq!(numbers.chunks.inline[&0][..], [0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert!(mapped.hierarchy.array("1/band_data").is_some(), "unlike the first");
        assert!(mapped.hierarchy.array("2/band_data").is_none());
        assert!(mapped.hierarchy.array("3/band_data").is_some(), "an overview is not a page");
    }
}

/// `rasterio.open(…).gcps` of a file with PixelIsPoint: half a pixel more than the tie points say; the form is that of
/// `rioxarray.open_rasterio(…).spatial_ref.attrs["gcps"]`.
#[test]
fn control_points_are_geojson() {
    let mut ifd = ifd(image(4, 4, 1, 2));
    let tie_points = vec![[0.5, 0.5, 0.0, 10.0, 50.0, 0.0], [63.5, 0.5, 0.0, 11.0, 50.0, 5.0]];
    let keys = [(1024, GeoKey::Short(2)), (1025, GeoKey::Short(2)), (2048, GeoKey::Short(4326))];
    ifd.geo = Some(Geo { keys: keys.into(), tie_points, ..Geo::default() });
    let mapped = map(ifd, ZarrFormat::V2);
    let text = mapped.hierarchy.array("spatial_ref").unwrap().attributes["gcps"].as_str().unwrap();
    let points: serde_json::Value = serde_json::from_str(text).unwrap();
    let last = &points["features"][1];
    assert_eq!(last["properties"], json!({ "id": "2", "info": "", "row": 1.0, "col": 64.0 }));
    assert_eq!(last["geometry"]["coordinates"], json!([11.0, 50.0, 5.0]));
}

#[test]
fn extra_samples_and_masks_are_named() {
    let mut image = image(4, 4, 2, 2);
    image.extra_samples = vec![2];
    image.subfile_type = 4;
    let mapped = map(ifd(image), ZarrFormat::V2);
    let attributes = &main_array(&mapped).attributes;
    assert_eq!(attributes["extra_samples"], json!(["unassociated alpha"]));
    assert_eq!(attributes["subfile_type"], "transparency mask");
}

/// The order in which GDAL writes overviews and masks into a file.
#[test]
fn masks_are_tied_to_the_image_of_their_size() {
    let page = |index: usize, size: u64, subfile_type: u32| {
        let mut image = image(size, size, 1, size);
        image.subfile_type = subfile_type;
        if subfile_type & 4 != 0 {
            image.bits_per_sample = vec![1];
        }
        Ifd { path: vec![index], ..ifd(image) }
    };
    let ifds = vec![page(0, 8, 0), page(1, 8, 4), page(2, 4, 1), page(3, 2, 1), page(4, 4, 5), page(5, 2, 5)];
    let mapped = map_ifds(ifds, &MapOptions::default());
    let attribute =
        |path: &str, name: &str| mapped.hierarchy.array(path).unwrap().attributes.get(name).cloned();
    for (image, mask) in [("", "1/"), ("2/", "4/"), ("3/", "5/")] {
        let (image, mask) = (format!("{image}band_data"), format!("{mask}band_data"));
        assert_eq!(attribute(&image, "mask"), Some(json!(mask)));
        assert_eq!(attribute(&mask, "mask_of"), Some(json!(image)));
        assert_eq!(attribute(&mask, "flag_values"), Some(json!([0, 1])));
        assert_eq!(attribute(&mask, "mask"), None);
    }
    let two = vec![page(0, 8, 0), page(1, 8, 0), page(2, 8, 4), page(3, 6, 4)];
    let mapped = map_ifds(two, &MapOptions::default());
    let mask = |path: &str| mapped.hierarchy.array(path).unwrap().attributes.get("mask").cloned();
    assert_eq!((mask("band_data"), mask("1/band_data")), (None, Some(json!("2/band_data"))));
    assert_eq!(
        mapped.hierarchy.array("3/band_data").unwrap().attributes.get("mask_of"),
        None,
        "no such size"
    );
}

#[test]
fn masks_of_stacked_pages_name_no_image() {
    let page = |index: usize, subfile_type: u32| Ifd {
        path: vec![index],
        ..ifd(Image { subfile_type, ..image(8, 8, 1, 8) })
    };
    let options = MapOptions { stack_pages: true, ..MapOptions::default() };
    let mapped = map_ifds(vec![page(0, 0), page(1, 4), page(2, 0), page(3, 4)], &options);
    assert_eq!(main_array(&mapped).shape[0], 2);
    let attribute = |path: &str, name: &str| mapped.hierarchy.array(path).unwrap().attributes.get(name);
    assert_eq!(attribute("band_data", "mask"), None);
    for mask in ["1/band_data", "3/band_data"] {
        assert_eq!(attribute(mask, "mask_of"), None);
        let mut reported = mapped.report.diagnostics.iter();
        assert!(reported.any(|diagnostic| diagnostic.path == format!("/{mask}")));
    }
}

/// tifffile's `series[0].axes` of such a file is `TCYX`.
#[test]
fn planes_of_ome_tiff_are_along_their_axes() {
    let mut pages: Vec<Ifd> =
        (0..6).map(|index| Ifd { path: vec![index], ..ifd(image(4, 7, 1, 3)) }).collect();
    let text = r#"<OME><Image><Pixels DimensionOrder="XYCTZ" SizeX="4" SizeY="7" SizeZ="1" SizeC="2" SizeT="3">
        <TiffData IFD="0" PlaneCount="6"/></Pixels></Image></OME>"#;
    pages[0].tags.insert(270, virtualize_tiff::model::Value::Text(vec![text.into()]));
    let options = MapOptions { stack_pages: true, ..MapOptions::default() };
    let mapped = map_ifds(pages, &options);
    let array = main_array(&mapped);
    assert_eq!(array.shape, [3, 2, 1, 7, 4]);
    assert_eq!(array.chunk_grid, ChunkGrid::Regular(vec![1, 1, 1, 3, 4]));
    let names: Vec<_> = array.dimension_names.iter().flatten().map(String::as_str).collect();
    assert_eq!(names, ["t", "c", "band", "y", "x"]);
    let ChunkContent::Assemble { shape, .. } = &mapped.tasks[5].content else { panic!("a made chunk") };
    assert_eq!((shape, &mapped.tasks[5].positions), (&vec![1, 1, 1, 3, 4], &vec![17]));
    assert!(mapped.hierarchy.array("page").is_none());
}

/// GDAL shows scale 0.1, offset 6.8 and metres; with GeoTIFF 1.0 metres alone; of two bands no scale.
#[test]
fn heights_give_a_scale_an_offset_and_a_unit() {
    let attributes = |minor_revision: u16, vertical: u16, bands: u16| {
        let keys = [(1024, 1), (3072, 32633), (4096, vertical)];
        let geo = Geo {
            pixel_scale: Some([30.0, 30.0, 0.1]),
            tie_points: vec![[0.0, 0.0, 2.0, 5e5, 5e6, 7.0]],
            minor_revision,
            keys: keys.into_iter().map(|(key, value)| (key, GeoKey::Short(value))).collect(),
            ..Geo::default()
        };
        let scale = virtualize_tiff::model::Value::Float(vec![30.0, 30.0, 0.1]);
        let ifd = Ifd { geo: Some(geo), tags: [(33550, scale)].into(), ..ifd(image(4, 4, bands, 4)) };
        let mapped = map(ifd, ZarrFormat::V2);
        let found = &main_array(&mapped).attributes;
        ["scale_factor", "add_offset", "units"].map(|name| found.get(name).cloned())
    };
    assert_eq!(attributes(1, 5773, 1), [Some(json!(0.1)), Some(json!(6.8)), Some(json!("metre"))]);
    assert_eq!(attributes(1, 6360, 1)[2], Some(json!("US survey foot")));
    assert_eq!(attributes(1, 5754, 1)[2], Some(json!("British foot (1936)")));
    assert_eq!(attributes(0, 5773, 1), [None, None, Some(json!("metre"))]);
    assert_eq!(attributes(1, 5773, 2), [None, None, Some(json!(["metre", "metre"]))]);
    assert_eq!(attributes(1, 5030, 1), [None, None, None]);
}

/// GDAL keeps items of the dataset and of bands apart, and takes the last of several scales.
#[test]
fn items_of_bands_do_not_replace_those_of_the_dataset() {
    let item = |name: &str, sample: Option<u32>, role: Option<&str>, value: &str| GdalItem {
        domain: String::new(),
        name: name.into(),
        sample,
        role: role.map(str::to_owned),
        value: value.into(),
    };
    let gdal_metadata = vec![
        item("A", Some(1), None, "of band 2"),
        item("A", None, None, "of all"),
        item("A", Some(7), None, "of no band"),
        item("SCALE", Some(0), Some("scale"), "2"),
        item("SCALE", Some(0), Some("Scale"), "3"),
        item("SCALE", Some(1), Some("scale"), "3"),
    ];
    let mapped = map(Ifd { gdal_metadata, ..ifd(image(4, 4, 2, 4)) }, ZarrFormat::V2);
    let attributes = &main_array(&mapped).attributes;
    assert_eq!(attributes["A"], json!("of all"));
    assert_eq!(attributes["A_by_band"], json!({"2": "of band 2"}));
    assert_eq!(attributes["scale_factor"], json!(3.0));
}
