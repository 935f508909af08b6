//! Chunks of strips and tiles that need a decision: short, missing, large, cut off, or in an encoding that few readers know.

use serde_json::json;
use virtualize_remedy::Code;
use virtualize_tiff::model::{Cut, Ifd, Image, SampleFormat};
use virtualize_zarr::{ChunkGrid, ZarrFormat};

use super::{ifd, image, item, map_ifds};
use crate::{MapOptions, Mapped};

fn options(format: ZarrFormat) -> MapOptions {
    MapOptions { format, ..MapOptions::default() }
}

fn map(image: Image, options: &MapOptions) -> Mapped {
    map_ifds(vec![ifd(image)], options)
}

fn omitted(mapped: &Mapped) -> String {
    mapped.report.arrays["band_data"].omitted.clone().unwrap()
}

/// Returns the rows of a chunk, the chunks that are referenced, and the positions of those that are made.
fn chunks(mapped: &Mapped) -> (u64, u64, Vec<u64>) {
    let array = mapped.hierarchy.array("band_data").unwrap();
    let ChunkGrid::Regular(shape) = &array.chunk_grid else { panic!("{:?}", array.chunk_grid) };
    let made = mapped.tasks.iter().flat_map(|task| task.positions.clone()).collect();
    (shape[shape.len() - 2], array.chunks.len(), made)
}

#[test]
fn a_strip_that_is_not_listed_leaves_the_image_out() {
    let listed = |offsets: usize, counts: usize| {
        let mut image = image(4, 4, 1, 2);
        (image.offsets, image.byte_counts) = (vec![100; offsets], vec![50; counts]);
        map(image, &options(ZarrFormat::V2))
    };
    for (offsets, counts) in [(1, 2), (2, 1)] {
        let mapped = listed(offsets, counts);
        assert_eq!(omitted(&mapped), "strips: the file lists 1, the image needs 2");
        assert_eq!(mapped.report.diagnostics[0].code, Code::TiffMalformed);
    }
    assert_eq!(chunks(&listed(3, 3)), (2, 2, vec![]), "one more than it needs");
}

/// Rows of 1 MiB: blocks of 8 rows, or of as many as divide all strips if the rest were too large to be made.
#[test]
fn large_plain_strips_become_blocks() {
    let plain = |height, rows, inline_limit| {
        let mut image = image(1 << 19, height, 1, rows);
        image.compression = 1;
        image.offsets.fill(100);
        image.byte_counts.fill(rows << 20);
        let file = virtualize_tiff::model::File {
            endian: virtualize_bytes::Endian::Little,
            big: true,
            ifds: vec![ifd(image)],
            chain_error: None,
        };
        let source = virtualize_zarr::Source { size: 1 << 40, ..Default::default() };
        chunks(&crate::tiff::map_file(&file, source, &MapOptions { inline_limit, ..options(ZarrFormat::V2) }))
            .0
    };
    assert_eq!(plain(97, 97, 16 << 20), 8, "the last block is short");
    assert_eq!(plain(15, 9, (9 << 20) - 1), 3, "9 MiB are too much");
    assert_eq!(plain(15, 9, 9 << 20), 9);
}

/// NeXT is only decoded: a strip that is short cannot be encoded at full height.
#[test]
fn schemes_that_are_only_decoded_are_referenced_if_no_strip_is_short() {
    let next = |height| {
        let mut image = image(4, height, 1, 2);
        (image.compression, image.bits_per_sample) = (32766, vec![2]);
        chunks(&map(image, &MapOptions { own_codecs: true, ..options(ZarrFormat::V3) }))
    };
    assert_eq!(next(4), (2, 2, vec![]));
    assert_eq!(next(5), (2, 0, vec![0, 1, 2]));
}

#[test]
fn refusals_name_sizes_and_reasons() {
    let of = |change: &dyn Fn(&mut Image), options: MapOptions| {
        let mut image = image(4, 5, 1, 2);
        change(&mut image);
        omitted(&map(image, &options))
    };
    let v2 = || options(ZarrFormat::V2);
    let v3 = || options(ZarrFormat::V3);
    let jpegxl = |image: &mut Image| (image.compression, image.bits_per_sample) = (50002, vec![8]);
    assert!(of(&jpegxl, v2()).contains("its last strip has 1 of 2 rows"));
    let float24 = |image: &mut Image| {
        (image.bits_per_sample, image.sample_format) = (vec![24], vec![SampleFormat::Float]);
        image.reversed_bits = true;
    };
    assert!(of(&float24, v3()).contains("no reader of this Zarr format decodes it"));
    let small = |options: MapOptions| MapOptions { inline_limit: 15, ..options };
    let usual =
        "readers do not decode its chunks as they are stored; inlining 16 bytes exceeds the limit of 15";
    assert!(of(&|_| (), small(v2())).contains(usual), "the short strip");
    let complex = |image: &mut Image| {
        (image.bits_per_sample, image.sample_format) = (vec![32], vec![SampleFormat::ComplexInteger])
    };
    let usual = "readers do not decode its chunks as they are stored; inlining 64 bytes";
    assert!(of(&complex, small(v2())).contains(usual), "the short strip alone");
    assert!(of(&complex, small(v3())).contains("no reader converts complex integers to complex numbers"));
    let packed = |image: &mut Image| (image.bits_per_sample, image.reversed_bits) = (vec![1], true);
    let usual = "readers do not decode its chunks as they are stored; inlining 24 bytes";
    assert!(of(&packed, small(v3())).contains(usual), "no complex numbers");
}

/// JPEG with chroma of half the rows, whose last strip has an even number of rows.
#[test]
fn jpeg_is_decoded_here_if_its_last_strip_needs_it() {
    let decoded = |height, tiled: bool, more: MapOptions| {
        let mut image = image(16, height, 3, 16);
        (image.compression, image.bits_per_sample, image.photometric) = (7, vec![8; 3], Some(6));
        image.ycbcr_subsampling = (2, 2);
        if tiled {
            image.cut = Cut::Tiles { width: 16, height: 16, depth: 1 };
        }
        let mapped = map(image, &more);
        mapped.hierarchy.array("band_data").is_some_and(|array| array.chunks.is_empty())
    };
    let v3 = || options(ZarrFormat::V3);
    assert!(decoded(18, false, v3()) && decoded(18, false, options(ZarrFormat::V2)));
    assert!(!decoded(17, false, v3()) && !decoded(32, false, v3()) && !decoded(18, true, v3()));
    let chunk_grid = crate::ChunkGridChoice::Rectilinear;
    assert!(!decoded(18, false, MapOptions { chunk_grid, ..v3() }));
    assert!(!decoded(18, false, MapOptions { own_codecs: true, ..v3() }));
    assert!(!decoded(18, false, MapOptions { inline_limit: 16 * 18 * 3 - 1, ..v3() }));
}

#[test]
fn reports_name_filters_and_errors_have_codes() {
    let code = |change: &dyn Fn(&mut Ifd)| {
        let mut one = ifd(image(4, 4, 1, 2));
        change(&mut one);
        let options = MapOptions { inline_limit: 10, ..options(ZarrFormat::V2) };
        map_ifds(vec![one], &options).report.diagnostics.first().map(|one| one.code)
    };
    let of_image = |change: fn(&mut Image)| code(&move |ifd| change(ifd.image.as_mut().unwrap()));
    let damaged = || virtualize_tiff::Error::Malformed {
        structure: virtualize_tiff::Structure::Tag(256),
        offset: 8,
        problem: "zero".into(),
    };
    assert_eq!(code(&|ifd| ifd.image = Err(damaged())), Some(Code::TiffImage));
    assert_eq!(code(&|ifd| ifd.unreadable_tags = vec![damaged()]), Some(Code::TiffMalformed));
    assert_eq!(of_image(|image| image.height = 3), Some(Code::InlineLimit));
    assert_eq!(of_image(|image| image.offsets = vec![1 << 40; 2]), Some(Code::TiffTruncated));
    assert_eq!(of_image(|image| (image.compression, image.width) = (1, u64::MAX)), Some(Code::TiffMalformed));
    assert_eq!(of_image(|image| image.compression = 9), Some(Code::TiffUnsupported));
    let complex = |image: &mut Image| {
        (image.bits_per_sample, image.sample_format) = (vec![32], vec![SampleFormat::ComplexInteger]);
    };
    let mut image = image(4, 4, 1, 2);
    complex(&mut image);
    let mapped = map(image.clone(), &MapOptions { inline_limit: 10, ..options(ZarrFormat::V3) });
    assert_eq!(mapped.report.diagnostics[0].code, Code::InlineLimit);
    image.predictor = 2;
    let mapped = map(image, &options(ZarrFormat::V2));
    assert_eq!(mapped.report.arrays["band_data"].source_filters, ["predictor 2", "Deflate (8)"]);
}

/// Items take at least the memory of their text, palettes that of 768 numbers, and coordinates 8 bytes for each row and column.
#[test]
fn images_take_memory() {
    use virtualize_bytes::{Budget, Limits};
    use virtualize_tiff::model::{File, Geo};
    let taken = |change: &dyn Fn(&mut Ifd), inline_limit| {
        let mut one = ifd(image(1000, 1000, 1, 1000));
        change(&mut one);
        let overview = Ifd { path: vec![1], ..ifd(Image { subfile_type: 1, ..image(500, 500, 1, 500) }) };
        let endian = virtualize_bytes::Endian::Big;
        let file = File { endian, big: false, ifds: vec![one, overview], chain_error: None };
        let budget = Budget::of_file(&Limits::default(), 10_000);
        let before = budget.left();
        let source = virtualize_zarr::Source { size: 10_000, ..Default::default() };
        let options = MapOptions { inline_limit, ..options(ZarrFormat::V2) };
        crate::tiff::map_file_among(&file, source, &crate::tiff::OtherTiffs::default(), &options, &budget);
        before - budget.left()
    };
    let plain = taken(&|_| (), 1 << 20);
    assert!((2 << 10..16 << 10).contains(&plain), "{plain}");
    let items =
        taken(&|ifd| ifd.gdal_metadata = vec![item(&"n".repeat(1000), &"v".repeat(2000)); 2], 1 << 20);
    assert!((6000..8000).contains(&(items - plain)), "{items}");
    let colors = taken(&|ifd| ifd.image.as_mut().unwrap().color_map = Some(vec![0; 768]), 1 << 20);
    assert!((16 << 10..64 << 10).contains(&(colors - plain)), "{colors}");
    let geo = |inline_limit| taken(&|ifd| ifd.geo = Some(Geo::default()), inline_limit) - plain;
    assert_eq!(geo(16_000), 24_000);
    assert_eq!(geo(15_999), 8000, "those of the overview alone");
}

#[test]
fn roles_are_not_items() {
    let mut one = ifd(image(4, 4, 2, 4));
    let role = |role: &str, sample, value| {
        let mut role_item = item(role, value);
        (role_item.sample, role_item.role) = (Some(sample), Some(role.to_owned()));
        role_item
    };
    one.gdal_metadata = vec![role("scale", 0, "2"), role("unittype", 1, "m"), role("A", 2, "past the bands")];
    let mapped = map_ifds(vec![one], &options(ZarrFormat::V2));
    let attributes = &mapped.hierarchy.array("band_data").unwrap().attributes;
    assert_eq!((&attributes["scales"], &attributes["units"]), (&json!([2.0, 1.0]), &json!(["", "m"])));
    for name in ["scale", "unittype", "A"] {
        assert!(!attributes.contains_key(name), "{name}");
    }
}
