//! Pages that become one array: OME-XML that fits the file or does not (specification version 6), and stacks.

use serde_json::json;
use virtualize_bytes::{Budget, Limits};
use virtualize_remedy::Code;
use virtualize_tiff::model::{File, Ifd, Value as Tag};
use virtualize_zarr::{Codec, Lengths, Source, ZarrFormat};

use super::{ifd, image, item, map_ifds};
use crate::tiff::{OtherTiff, OtherTiffs, map_file_among, ome_files};
use crate::{MapOptions, Mapped};

fn page(index: usize) -> Ifd {
    Ifd { path: vec![index], ..ifd(image(4, 7, 1, 7)) }
}

fn pages(count: usize) -> Vec<Ifd> {
    (0..count).map(page).collect()
}

fn tagged(mut ifd: Ifd, tag: u16, text: &str) -> Ifd {
    ifd.tags.insert(tag, Tag::Text(vec![text.to_owned()]));
    ifd
}

/// An image of 4 × 7 pixels with these sizes and elements.
fn ome_image(sizes: &str, elements: &str) -> String {
    let missing = |name: &str| if sizes.contains(name) { String::new() } else { format!(r#" {name}="1""#) };
    let usual = missing("SizeZ") + &missing("SizeC") + &missing("SizeT");
    let x = if sizes.contains("SizeX") { "" } else { r#" SizeX="4""# };
    format!(
        r#"<Image Name="one"><Pixels DimensionOrder="XYZCT"{x} SizeY="7"{usual} {sizes}>{elements}</Pixels></Image>"#
    )
}

fn described(images: &str, mut pages: Vec<Ifd>) -> Vec<Ifd> {
    pages[0] = tagged(pages[0].clone(), 270, &format!(r#"<OME UUID="urn:uuid:1">{images}</OME>"#));
    pages
}

fn series(images: &str, count: usize) -> Mapped {
    map_ifds(described(images, pages(count)), &MapOptions::default())
}

#[test]
fn planes_that_the_file_does_not_have_are_refused() {
    let first = r#"<TiffData IFD="0" PlaneCount="1"/>"#;
    let cases = [
        (r#"SizeT="3""#, r#"<TiffData IFD="9"/>"#, "a page that it names does not exist"),
        (
            r#"SizeT="3""#,
            r#"<TiffData IFD="0" PlaneCount="4"/>"#,
            "planes 0 to 4 from page 0 on, of 3 planes and 6 pages",
        ),
        (
            r#"SizeT="9""#,
            r#"<TiffData IFD="1" PlaneCount="6"/>"#,
            "planes 0 to 6 from page 1 on, of 9 planes and 6 pages",
        ),
        (r#"SizeT="3""#, r#"<TiffData IFD="0" FirstT="2" PlaneCount="2"/>"#, "planes 2 to 4 from page 0 on"),
        (r#"SizeT="3""#, r#"<TiffData IFD="0" FirstT="3"/>"#, "FirstT is 3, of 3"),
        (
            r#"SizeT="3""#,
            r#"<TiffData IFD="0" PlaneCount="1"/><TiffData IFD="1" PlaneCount="1"/>"#,
            "plane 0 is named twice",
        ),
        (
            r#"SizeT="3""#,
            r#"<TiffData IFD="0" PlaneCount="1"/><TiffData IFD="0" FirstT="1" PlaneCount="1"/>"#,
            "page 0 is a plane more than once",
        ),
        (r#"SizeX="5""#, first, "planes have (4, 7, 1) columns, rows and samples, expected (5, 7, 1)"),
        (r#"SizeT="1048577""#, first, "SizeT is 1048577"),
        (r#"SizeT="1048576" SizeC="2""#, first, "more than 1048576 planes in an OME-TIFF"),
    ];
    for (sizes, elements, problem) in cases {
        let mapped = series(&ome_image(sizes, elements), 6);
        let found = &mapped.report.diagnostics[0];
        assert_eq!(found.code, Code::OmeSeries);
        assert!(found.message.contains(problem), "{sizes} {elements}: {}", found.message);
        assert!(!mapped.hierarchy.root.attributes.contains_key("ome_series"));
        assert_eq!(mapped.hierarchy.array("band_data").unwrap().shape.len(), 3, "one page");
    }
    let same = r#"<TiffData IFD="0" PlaneCount="1"/><TiffData IFD="0" PlaneCount="2"/>"#;
    assert!(series(&ome_image(r#"SizeT="2""#, same), 6).report.diagnostics.is_empty());
    let both = [r#"<TiffData IFD="0" PlaneCount="1"/>"#, r#"<TiffData IFD="1" PlaneCount="1"/>"#];
    let both = both.map(|data| ome_image(r#"SizeT="600000""#, data)).concat();
    let omitted = |one: &crate::Diagnostic| one.message.contains("SizeT is 600000");
    assert_eq!(series(&both, 6).report.diagnostics.iter().filter(|one| omitted(one)).count(), 1);
}

#[test]
fn planes_have_their_positions() {
    // Page 0 is the plane of T 1, Z 2; Z runs faster than T.
    let at = r#"<Channel ID="Channel:0"/><TiffData IFD="0" FirstT="1" FirstZ="2" PlaneCount="1"/>"#;
    let mapped = series(&ome_image(r#"SizeT="2" SizeZ="3" PhysicalSizeY="0.5""#, at), 2);
    let array = mapped.hierarchy.array("band_data").unwrap();
    assert_eq!(array.shape, [2, 3, 1, 7, 4]);
    assert_eq!(array.chunks.references[0].positions, Some(vec![5].into()));
    assert_eq!(array.attributes["ome_name"], "one");
    assert!(array.attributes.contains_key("TIFFTAG_IMAGEDESCRIPTION"));
    assert_eq!(
        mapped.hierarchy.root.attributes["ome_series"],
        json!([{"name": "one", "asset": "band_data"}])
    );
    assert_eq!(mapped.report.diagnostics[0].message, "5 planes are missing and read as the fill value");
    assert!(mapped.hierarchy.array("1/band_data").is_some(), "no plane");
    let whole = r#"<TiffData IFD="0" PlaneCount="2"/>"#;
    let mapped = series(&ome_image(r#"SizeT="2""#, whole), 3);
    assert!(mapped.report.diagnostics.is_empty() && mapped.hierarchy.array("1/band_data").is_none());
    let array = mapped.hierarchy.array("band_data").unwrap();
    assert!(array.attributes.contains_key("TIFFTAG_IMAGEDESCRIPTION"), "of the document");
    // Without an IFD, a run has all pages.
    for (run, path, positions, axis) in [
        (r#"<TiffData FirstT="1"/>"#, "band_data", vec![1, 2, 3], "t"),
        (r#"<TiffData IFD="1" FirstT="1" PlaneCount="2"/>"#, "1/band_data", vec![1, 2], "t_1"),
        (r#"<TiffData IFD="1" FirstT="1"/>"#, "1/band_data", vec![1], "t_1"),
    ] {
        let mapped = series(&ome_image(r#"SizeT="4""#, run), 3);
        let array = mapped.hierarchy.array(path).unwrap();
        assert_eq!(array.chunks.references[0].positions, Some(positions.into()));
        assert_eq!(array.dimension_names[0].as_deref(), Some(axis));
    }
}

#[test]
fn channels_are_samples_or_planes_with_names() {
    let rgb = |size: u64| {
        let three: Vec<Ifd> =
            (0..2).map(|index| Ifd { path: vec![index], ..ifd(image(4, 7, 3, 7)) }).collect();
        let sizes = format!(r#"SizeC="{size}""#);
        map_ifds(described(&ome_image(&sizes, r#"<TiffData/>"#), three), &MapOptions::default())
    };
    assert_eq!(rgb(6).hierarchy.array("band_data").unwrap().shape, [2, 7, 4, 3]);
    assert_eq!(rgb(3).hierarchy.array("band_data").unwrap().shape, [7, 4, 3]);
    assert!(rgb(4).report.diagnostics[0].message.contains("SizeC 4 is not a multiple of 3 samples a pixel"));
    let named = |names: &[&str]| {
        let channels: String = names.iter().map(|name| format!(r#"<Channel Name="{name}"/>"#)).collect();
        let mapped = series(&ome_image(r#"SizeC="2""#, &(channels + "<TiffData/>")), 2);
        mapped.hierarchy.array("channel_name").map(|names| names.dimension_names[0].clone().unwrap())
    };
    assert_eq!(named(&["a", "b"]).as_deref(), Some("c"));
    assert_eq!(named(&["a"]), None, "of two channels");
}

#[test]
fn planes_in_other_files_are_found_by_name() {
    let data = |uuid: &str| {
        format!(
            r#"<TiffData FirstT="1" IFD="0" PlaneCount="1">{uuid}</TiffData><TiffData IFD="0" PlaneCount="1"/>"#
        )
    };
    let file = |uuid: &str| File {
        endian: virtualize_bytes::Endian::Big,
        big: false,
        ifds: described(&ome_image(r#"SizeT="2""#, &data(uuid)), pages(1)),
        chain_error: None,
    };
    let own = "file:///d/a.tif";
    let files = |uuid: &str| ome_files(&file(uuid), own).into_iter().collect::<Vec<_>>();
    assert_eq!(files(r#"<UUID FileName="b.tif">urn:uuid:2</UUID>"#), ["file:///d/b.tif"]);
    assert_eq!(files(r#"<UUID FileName="b.tif">URN:UUID:1</UUID>"#), [""; 0], "the file's own UUID");
    assert_eq!(files(r#"<UUID FileName="a.tif">urn:uuid:2</UUID>"#), [""; 0], "its own name");
    assert_eq!(files(r#"<UUID FileName="">urn:uuid:2</UUID>"#), [""; 0]);
    let other = r#"<UUID FileName="b.tif">urn:uuid:2</UUID>"#;
    let mapped = |url: &str, other_file: OtherTiff| {
        let others = OtherTiffs { files: [(url.to_owned(), other_file)].into() };
        let source = Source { url: own.to_owned(), size: 10_000, ..Source::default() };
        let budget = Budget::of_file(&Limits::default(), 10_000);
        map_file_among(&file(other), source, &others, &MapOptions::default(), &budget)
    };
    let place = Source { url: "file:///d/b.tif".to_owned(), size: 10_000, ..Source::default() };
    let read = || File { ifds: pages(1), ..file(other) };
    let found = mapped("file:///d/b.tif", OtherTiff::Read(Box::new(read()), place.clone()));
    let array = found.hierarchy.array("band_data").unwrap();
    let columns: Vec<_> =
        array.chunks.references.iter().map(|one| (one.source.0, one.iter().next().unwrap().0)).collect();
    assert_eq!(columns, [(0, 0), (1, 1)]);
    for (url, content, problem) in [
        ("file:///d/b.tif", OtherTiff::Missing, "does not exist"),
        ("file:///d/c.tif", OtherTiff::Missing, "was not read"),
        ("file:///d/b.tif", OtherTiff::Refused("no TIFF".to_owned()), "no TIFF"),
    ] {
        let message = mapped(url, content).report.diagnostics[0].message.clone();
        assert!(message.contains(problem), "{message}");
    }
    let mut short = read();
    short.ifds[0].image = Ok(image(4, 7, 1, 4));
    let changed = mapped("file:///d/b.tif", OtherTiff::Read(Box::new(short), place));
    assert!(changed.report.diagnostics[0].message.contains("is unlike the first"));
}

#[test]
fn what_differs_between_stacked_pages_is_omitted() {
    let stacked =
        |pages: Vec<Ifd>| map_ifds(pages, &MapOptions { stack_pages: true, ..MapOptions::default() });
    let messages = |mapped: &Mapped| -> Vec<String> {
        mapped.report.diagnostics.iter().map(|one| one.message.clone()).collect()
    };
    let equal = stacked(pages(2));
    assert!(messages(&equal).is_empty() && !equal.hierarchy.root.children.contains_key("1"));
    let array = equal.hierarchy.array("band_data").unwrap();
    assert_eq!(array.chunks.references[0].lengths, Lengths::Uniform(50));
    assert_eq!(
        messages(&stacked(pages(1))),
        ["nothing to stack: the other pages differ from the first in shape, data type, chunks or codecs"]
    );
    let named = |index, name: &str| {
        let mut description = item("description", name);
        (description.sample, description.role) = (Some(0), Some("description".to_owned()));
        let one = tagged(tagged(page(index), 305, name), 315, "same");
        Ifd { gdal_metadata: vec![description], ..one }
    };
    let mut second = named(1, "b");
    second.sub_ifds = vec![Ifd { path: vec![1, 0], ..page(0) }];
    second.image.as_mut().unwrap().byte_counts = vec![40];
    let mut unlike = page(2);
    unlike.image = Ok(image(4, 9, 1, 9));
    let mapped = stacked(vec![named(0, "a"), second, unlike]);
    assert_eq!(
        messages(&mapped),
        [
            "attributes that differ between pages are omitted: TIFFTAG_SOFTWARE, long_name",
            "1 pages that are unlike the first are not stacked"
        ]
    );
    let array = mapped.hierarchy.array("band_data").unwrap();
    assert_eq!(array.attributes["TIFFTAG_ARTIST"], "same");
    assert!(
        !array.attributes.contains_key("TIFFTAG_SOFTWARE") && !array.attributes.contains_key("long_name")
    );
    assert_eq!(array.attributes["coordinates"], "");
    assert!(mapped.hierarchy.array("band_name").is_none());
    assert_eq!(array.chunks.references[0].lengths, Lengths::Each(vec![50, 40].into()));
    assert!(
        mapped.hierarchy.array("1/0/band_data").is_some() && mapped.hierarchy.array("1/band_data").is_none()
    );
    let described = stacked([0, 1].map(|index| named(index, "ab")).into());
    assert!(described.hierarchy.array("band_name").is_some(), "one name for both");
    let predicted = |index| {
        let mut one = page(index);
        one.image.as_mut().unwrap().predictor = 2;
        one
    };
    let mapped = stacked(vec![predicted(0), predicted(1)]);
    let delta = Codec::Delta { axis: -1, dtype: ">u2".into(), shape: vec![1, 1, 7, 4] };
    assert_eq!(mapped.hierarchy.array("band_data").unwrap().codecs[0], delta);
    assert_eq!(MapOptions::default().format, ZarrFormat::V2);
}
