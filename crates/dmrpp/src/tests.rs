//! Documents as Hyrax writes them, documents that leave something open, and damaged ones.

use std::sync::Arc;

use bytes::Bytes;
use futures::executor::block_on;
use virtualize_bytes::{Budget, Budgeted, Limits, MemorySource, ReadErrorKind};
use virtualize_hdf5::model::{ChunkSizes, Dataset, File, FillValue, Layout, LinkTarget, Object};

use crate::{DataFile, Error, is_dmrpp, read};

const HEAD: &str = r#"<?xml version="1.0" encoding="ISO-8859-1"?>
<Dataset xmlns="http://xml.opendap.org/ns/DAP/4.0#" xmlns:dmrpp="http://xml.opendap.org/dap/dmrpp/1.0.0#" name="a.nc" dmrpp:version="3.21.0">
    <Dimension name="y" size="4"/>
    <Dimension name="x" size="6"/>
"#;

const SST: &str = r#"<Int16 name="sst">
    <Dim name="/y"/><Dim name="/x"/>
    <Attribute name="units" type="String"><Value>K &amp; &#176;C</Value></Attribute>
    <Map name="/x"/>
    <dmrpp:chunks compressionType="shuffle deflate" deflateLevel="4" fillValue="-1" byteOrder="BE">
        <dmrpp:chunkDimensionSizes>4 3</dmrpp:chunkDimensionSizes>
        <dmrpp:chunk offset="120" nBytes="9" chunkPositionInArray="[0, 3]" fm="2"/>
        <dmrpp:chunk offset="100" nBytes="20" chunkPositionInArray="[0,0]"/>
    </dmrpp:chunks>
</Int16>
"#;

const X: &str = r#"<Float32 name="x"><Dim name="/x"/>
    <dmrpp:chunks fillValue="9.96921e+36" byteOrder="LE"><dmrpp:chunk offset="0" nBytes="24"/></dmrpp:chunks></Float32>"#;

fn parse_with(text: &str, limits: &Limits) -> Result<File, Error> {
    let source = MemorySource(Bytes::copy_from_slice(text.as_bytes()));
    let budget = Budget::of_file(limits, text.len() as u64);
    block_on(read(&Budgeted::new(&source, &budget), DataFile { name: "a.nc", size: 1000 }, limits))
}

fn parse(content: &str) -> Result<File, Error> {
    parse_with(&format!("{HEAD}{content}</Dataset>"), &Limits::default())
}

fn dataset<'a>(file: &'a File, name: &str) -> &'a Dataset {
    let Some(Object::Group(root)) = file.objects.get(&file.root) else { panic!("no root") };
    let link = root.links.iter().find(|link| link.name == name).unwrap();
    let LinkTarget::Hard(address) = link.target else { panic!("no hard link") };
    match file.objects.get(&address) {
        Some(Object::Dataset(dataset)) => dataset,
        other => panic!("{other:?}"),
    }
}

/// Returns the message for content.
fn problem(content: &str) -> String {
    parse(content).unwrap_err().to_string()
}

/// Returns the message for `SST` after a replacement.
fn changed(from: &str, to: &str) -> String {
    assert!(SST.contains(from), "{from}");
    problem(&SST.replace(from, to))
}

#[test]
fn chunks_become_columns_in_row_major_order() {
    let file = parse(&format!("{SST}{X}")).unwrap();
    let sst = dataset(&file, "sst");
    let Layout::Chunked(layout) = &sst.layout else { panic!("{:?}", sst.layout) };
    assert_eq!(layout.chunk_shape, [4, 3]);
    assert_eq!((layout.chunks.grid.as_slice(), layout.chunks.positions.as_ref()), (&[1, 2][..], None));
    assert_eq!(*layout.chunks.addresses, [100, 120]);
    assert_eq!(layout.chunks.sizes, ChunkSizes::Each(Arc::new(vec![20, 9])));
    assert_eq!(layout.chunks.filter_masks.get(&1), Some(&2));
    let filters: Vec<_> =
        sst.filters.iter().map(|filter| (filter.id, filter.parameters.as_slice())).collect();
    assert_eq!(filters, [(2, &[2][..]), (1, &[4])], "shuffle of two bytes, then deflate");
    let names: Vec<_> = sst.attributes.iter().map(|attribute| attribute.name.as_str()).collect();
    assert_eq!(names, ["units", "DIMENSION_LIST"]);
    assert!(matches!(dataset(&file, "x").layout, Layout::Contiguous(Some(_))));
    let y = &dataset(&file, "y").attributes;
    assert!(y.iter().any(|attribute| attribute.name == "CLASS"), "a scale without a variable");
}

#[test]
fn what_a_sidecar_leaves_open_is_an_error() {
    for (from, to, expected) in [
        (" fillValue=\"-1\"", "", "no fillValue"),
        (" byteOrder=\"BE\"", "", "no byteOrder"),
        (" deflateLevel=\"4\"", "", "no deflateLevel"),
        ("shuffle deflate", "deflate szip", "filter szip"),
        ("<Dim name=\"/y\"/>", "<Dim size=\"4\"/>", "dimensions without names: the group has"),
        ("name=\"/y\"", "name=\"/z\"", "unknown dimension /z"),
        ("offset=\"100\"", "offset=\"990\"", "beyond the 1000 bytes of the data file"),
        ("nBytes=\"20\"", "nBytes=\"20\" href=\"b.nc\"", "chunk with the attribute href"),
        ("dmrpp:chunk offset=\"100\"", "dmrpp:block offset=\"100\"", "element dmrpp:block"),
        (
            "        <dmrpp:chunk offset=\"100\" nBytes=\"20\" chunkPositionInArray=\"[0,0]\"/>\n",
            "",
            "missing chunks",
        ),
        ("Int16", "Enum", "a variable of this type"),
        ("Int16", "String", "text without its length"),
        ("type=\"String\"", "type=\"Url\"", "type Url"),
        ("K &amp; &#176;C", "K ", "ends with a blank"),
        ("K &amp; &#176;C", "\\303\\260", "octal"),
        ("name=\"units\"", "name=\"fullnamepath\"", "renamed"),
        ("name=\"sst\"", "name=\"x\"", "name of a dimension"),
    ] {
        let message = changed(from, to);
        assert!(message.contains(expected), "{message}");
    }
    assert!(
        changed(
            "nBytes=\"9\" chunkPositionInArray=\"[0, 3]\" fm=\"2\"",
            "nBytes=\"24\" chunkPositionInArray=\"[0,3]\""
        )
        .contains("may not be compressed")
    );
    let root = HEAD.replace(" dmrpp:version=\"3.21.0\"", "");
    let message = parse_with(&format!("{root}</Dataset>"), &Limits::default()).unwrap_err().to_string();
    assert!(message.contains("no dmrpp:version"), "{message}");
    let root = HEAD.replace("a.nc", "b.nc");
    let message = parse_with(&format!("{root}</Dataset>"), &Limits::default()).unwrap_err().to_string();
    assert!(message.contains("made for a file named \"b.nc\""), "{message}");
}

/// Sidecars do not contain shapes: a variable may be shorter than its dimensions.
#[test]
fn variables_that_may_be_short_are_refused() {
    let chunked = |size: u64, chunks: &str| {
        let table = format!("<dmrpp:chunkDimensionSizes>{size}</dmrpp:chunkDimensionSizes>{chunks}");
        parse(&format!(
            r#"<Byte name="v"><Dim name="/x"/><dmrpp:chunks fillValue="0">{table}</dmrpp:chunks></Byte>"#
        ))
    };
    let chunk = |at: u64, size: u64| {
        format!(r#"<dmrpp:chunk offset="{at}" nBytes="{size}" chunkPositionInArray="[{at}]"/>"#)
    };
    assert!(chunked(3, &(chunk(0, 3) + &chunk(3, 3))).is_ok());
    assert!(chunked(3, &chunk(3, 3)).is_ok(), "the first chunk is missing");
    for (size, chunks) in [(3, chunk(0, 3)), (3, String::new()), (8, chunk(0, 8))] {
        let message = chunked(size, &chunks).unwrap_err().to_string();
        assert!(message.contains("may be shorter than its dimensions"), "{message}");
    }
}

/// Floats are printed with six digits, so that several numbers have the same text.
#[test]
fn fill_values_that_may_be_rounded_are_refused() {
    let fill = |kind: &str, text: &str, declared: &str| {
        let attribute = match declared {
            "" => String::new(),
            value => {
                format!(r#"<Attribute name="_FillValue" type="{kind}"><Value>{value}</Value></Attribute>"#)
            }
        };
        let chunk = r#"<dmrpp:chunk offset="0" nBytes="48"/>"#;
        let chunk = if kind == "Float32" { chunk.replace("48", "24") } else { chunk.to_owned() };
        let file = parse(&format!(
            r#"<{kind} name="v"><Dim name="/x"/>{attribute}<dmrpp:chunks fillValue="{text}" byteOrder="LE">{chunk}</dmrpp:chunks></{kind}>"#
        ))?;
        Ok::<_, Error>(dataset(&file, "v").fill.value.clone())
    };
    let doubles = [
        ("1e+20", "1.0000000200408773e+20", f64::from(1e20_f32)),
        ("0.1", "0.10000000149011612", f64::from(0.1_f32)),
        ("-9999", "-9999.", -9999.0),
        ("-3.40282e+38", "-3.4028234663852886e+38", -f64::from(f32::MAX)),
        ("9.96921e+36", "", 9.969_209_968_386_869e36),
        ("inf", "", f64::INFINITY),
    ];
    for (text, declared, expected) in doubles {
        let expected = FillValue::User(Bytes::copy_from_slice(&expected.to_le_bytes()));
        assert_eq!(fill("Float64", text, declared).unwrap(), expected, "{text}");
    }
    let expected = FillValue::User(Bytes::copy_from_slice(&9.969_21e36_f32.to_le_bytes()));
    assert_eq!(fill("Float32", "9.96921e+36", "").unwrap(), expected);
    assert_eq!(fill("Float32", "0", "").unwrap(), FillValue::Default);
    for (kind, text, declared) in [
        ("Float64", "0.1", ""),
        ("Float64", "-9999", "-999"),
        ("Float32", "1e+20", ""),
        ("Float64", "1.23457", ""),
    ] {
        let message = fill(kind, text, declared).unwrap_err().to_string();
        assert!(message.contains("may be rounded to six digits"), "{message}");
    }
}

#[test]
fn anonymous_dimensions_are_used_unless_their_numbers_are_unknown() {
    let variable = |name: &str, sizes: &[u64]| {
        let dims: String = sizes.iter().map(|size| format!(r#"<Dim size="{size}"/>"#)).collect();
        let bytes: u64 = sizes.iter().product();
        format!(
            r#"<Byte name="{name}">{dims}<dmrpp:chunks fillValue="0"><dmrpp:chunk offset="0" nBytes="{bytes}"/></dmrpp:chunks></Byte>"#
        )
    };
    let file = parse(&(variable("a", &[3, 5]) + &variable("b", &[5]))).unwrap();
    assert_eq!(dataset(&file, "a").dataspace.shape(), Some(&[3, 5][..]));
    assert_eq!(dataset(&file, "a").attributes, []);
    for (content, expected) in [
        (variable("b", &[5]) + &variable("a", &[3]), "the order of the variables"),
        (variable("a", &[6]), "a dimension of the same size"),
        (r#"<Group name="HDFEOS"></Group>"#.to_owned(), "HDF-EOS5"),
    ] {
        let message = problem(&content);
        assert!(message.contains(expected), "{message}");
    }
    assert!(parse(&(variable("b", &[5]) + &variable("a", &[5]))).is_ok(), "one size has one number");
}

#[test]
fn errors_name_line_and_element() {
    let message = changed("[0, 3]", "[0,4]");
    let place =
        "line 11: Int16 \"/sst\": chunkPositionInArray \"[0,4]\", expected the first element of a chunk";
    assert_eq!(message, place);
    assert!(changed("[0, 3]", "[0,0]").contains("two chunks at one place"));
    assert!(changed("\"-1\"", "\"40000\"").contains("expected a number of the variable's type"));
    assert!(changed("4 3<", "4<").contains("expected 2 numbers"));
    assert!(problem(&format!("{SST}{SST}")).contains("two objects named \"sst\""));
    assert!(problem("</Dataset><Dataset>").contains("line"));
}

#[test]
fn bounds_are_kept() {
    let limits = Limits { objects: 4, chunks: 1, ..Limits::default() };
    let refused = |content: &str| match parse_with(&format!("{HEAD}{content}</Dataset>"), &limits) {
        Err(Error::Unusable { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    assert!(refused("<Group name='a'/><Group name='b'/><Group name='c'/>").contains("more than 4 groups"));
    assert!(refused(SST).contains("more than 1 chunks"));
    // The paths of nested groups take memory that is quadratic in their depth.
    let (open, close) = ("<Group name=\"g\">".repeat(20_000), "</Group>".repeat(20_000));
    let deep = parse_with(&format!("{HEAD}{open}{close}</Dataset>"), &Limits::default());
    assert!(matches!(deep, Err(Error::Read(error)) if error.kind == ReadErrorKind::Limit));
    let bomb = HEAD.replace("<Dataset", "<!DOCTYPE d [<!ENTITY a \"aaaa\">]><Dataset");
    assert!(
        parse_with(&format!("{bomb}</Dataset>"), &limits).unwrap_err().to_string().contains("document type")
    );
}

#[test]
fn documents_are_detected_by_content() {
    assert!(is_dmrpp(HEAD.as_bytes()) && is_dmrpp(HEAD.replace("http:", "https:").as_bytes()));
    assert!(!is_dmrpp(b"<html><Dataset"));
    assert!(!is_dmrpp(b"\x89HDF\r\n\x1a\n"));
}

#[test]
fn damaged_documents_are_read_without_a_panic() {
    let whole = format!("{HEAD}{SST}{X}<Group name=\"g\">{SST}</Group></Dataset>");
    let mut random = fastrand::Rng::with_seed(1);
    let mut next = |below| random.usize(..below);
    let parts = [
        "<",
        ">",
        "\"",
        "&",
        "/",
        "0",
        "18446744073709551615",
        "-",
        "[",
        "</Group>",
        "<Group name='q'>",
        "\0",
        "é",
    ];
    for _ in 0..3000 {
        let mut bytes = whole.clone().into_bytes();
        for _ in 0..=next(3) {
            let at = next(bytes.len());
            let end = (at + next(12)).min(bytes.len());
            let with = parts[next(parts.len())].as_bytes().to_vec();
            let removed = if next(2) == 0 { at..end } else { at..at };
            bytes.splice(removed, with);
        }
        let source = MemorySource(bytes.into());
        drop(block_on(read(&source, DataFile { name: "a.nc", size: 1000 }, &Limits::default())));
    }
}
