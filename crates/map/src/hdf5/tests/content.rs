//! Chunks that are made: what their content is, and what is refused. Expected values are h5py's.

use bytes::Bytes;
use virtualize_bytes::{Address, ByteRange};
use virtualize_hdf5::model::{ByteOrder, Dataset, Datatype, Element, Float, Layout, ReferenceKind};
use virtualize_zarr::{Codec, DataType, FillValue, ZarrFormat};

use super::{attribute, chunked, codes, dataset, filter, float32, one, refused};
use crate::{ChunkContent, ElementTransform, PieceBytes, ReferenceText, StoredChange};

/// Client data as hdf5plugin 7.1 writes them for chunks of 256 floats at 16 bits a value.
fn zfp(order: ByteOrder) -> Dataset {
    let mut data = dataset(float32(order), &[512]);
    data.filters = vec![filter(32013, &[0x1010_5111, 0x0570_667a, 0xff2, 0x03f0_0000])];
    data.layout = Layout::Chunked(chunked(&[256], &[2], Some(vec![1]), &[512]));
    data
}

#[test]
fn zfp_chunks_get_their_heads_back() {
    let (array, mapped) = one(zfp(ByteOrder::Little), ZarrFormat::V3);
    assert_eq!((array.codecs.len(), array.chunks.len()), (1, 0));
    let [task] = mapped.tasks.as_slice() else { panic!("one task") };
    let ChunkContent::Stored { range, change: StoredChange::Prefix { bytes, bits, .. }, .. } = &task.content
    else {
        panic!("no prefix")
    };
    assert_eq!((task.positions.as_slice(), *range), (&[1][..], ByteRange::new(1000, 512)));
    assert_eq!((bytes.as_ref(), *bits), (&b"zfp\x05\xf2\x0f\0\0\0\0\xf0\x03"[..], 96));
}

#[test]
fn zfp_chunks_that_clients_would_not_decode_alike_are_refused() {
    assert!(refused(zfp(ByteOrder::Big), ZarrFormat::V2).contains("byte order"));
    let mut other = zfp(ByteOrder::Little);
    other.filters[0].parameters[2] = 0xfe2;
    assert!(refused(other, ZarrFormat::V2).contains("[255] of float32, not [256]"));
    let mut mixed = zfp(ByteOrder::Little);
    mixed.filters.push(filter(3, &[]));
    assert!(refused(mixed, ZarrFormat::V2).contains("only as the only filter"));
}

#[test]
fn object_references_are_mapped_to_paths() {
    let reference = Datatype::Reference { size: 8, kind: ReferenceKind::Object };
    let (array, mapped) = one(dataset(reference, &[3]), ZarrFormat::V2);
    assert_eq!((array.data_type, array.codecs), (DataType::String, vec![Codec::VlenUtf8]));
    assert!(codes(&mapped).contains(&"reference-as-path"));
    let ChunkContent::Variable { pointers, pieces, .. } = &mapped.tasks[0].content else { panic!("text") };
    let objects = &pointers.objects;
    assert_eq!(
        (objects.path(Address(1)), objects.path(Address(0))),
        (Some("v".to_owned()), Some(String::new()))
    );
    assert_eq!(pieces[0].bytes, PieceBytes::At(ByteRange::new(4096, 24)));
}

#[test]
fn references_to_parts_make_two_arrays() {
    let region = Datatype::Reference { size: 12, kind: ReferenceKind::Region };
    let (array, mapped) = one(dataset(region, &[3]), ZarrFormat::V3);
    assert!(codes(&mapped).contains(&"reference-part"));
    assert_eq!(mapped.hierarchy.array("v_part").map(|part| &part.shape), Some(&array.shape));
    let contents = mapped.tasks.iter().map(|task| match &task.content {
        ChunkContent::Variable { references, pieces, .. } => {
            (task.array.as_str(), references.unwrap(), &pieces[0].bytes)
        }
        other => panic!("{other:?}"),
    });
    let bytes = PieceBytes::At(ByteRange::new(4096, 36));
    let expected = [("v", ReferenceText::Path, &bytes), ("v_part", ReferenceText::Part, &bytes)];
    assert_eq!(contents.collect::<Vec<_>>(), expected);
}

#[test]
fn compact_references_are_here_already() {
    let mut data = dataset(Datatype::Reference { size: 8, kind: ReferenceKind::Object }, &[1]);
    data.layout = Layout::Compact(Bytes::from_static(&[1, 0, 0, 0, 0, 0, 0, 0, 9]));
    let (_, mapped) = one(data, ZarrFormat::V3);
    let needed = PieceBytes::Here(Bytes::from_static(&[1, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(mapped.tasks[0].content.pieces()[0].bytes, needed, "no more than the extent needs");
}

/// h5py 3.16 shows bfloat16 as float32, and one with a wider exponent range as float64.
#[test]
fn odd_floats_are_inlined_by_value() {
    let Datatype::Float(float) = float32(ByteOrder::Little) else { panic!() };
    let bfloat = Float { size: 2, sign_location: 15, exponent_location: 7, mantissa_size: 7, ..float };
    for (bias, expected) in [(127, DataType::Float32), (100, DataType::Float64)] {
        let odd = Float { exponent_bias: bias, ..bfloat };
        let (array, mapped) = one(dataset(Datatype::Float(odd), &[4]), ZarrFormat::V2);
        assert_eq!(array.data_type, expected);
        let ChunkContent::Assemble { pieces, .. } = &mapped.tasks[0].content else { panic!("a chunk") };
        assert!(matches!(pieces[0].bytes, PieceBytes::At(ByteRange { length: 8, .. })));
        let ElementTransform::Float { data_type, .. } = &pieces[0].transform else { panic!("a float") };
        assert_eq!(*data_type, expected);
    }
}

#[test]
fn no_chunk_extends_past_the_end_of_the_file() {
    let mut data = dataset(float32(ByteOrder::Little), &[4]);
    let mut past = chunked(&[2], &[2], None, &[8, 8]);
    past.chunks.addresses = vec![1000, (1 << 20) - 4].into();
    data.layout = Layout::Chunked(past.clone());
    assert!(refused(data.clone(), ZarrFormat::V2).contains("past the end"));
    past.chunks.addresses = vec![1000, u64::MAX - 4].into();
    data.layout = Layout::Chunked(past.clone());
    assert!(refused(data.clone(), ZarrFormat::V3).contains("past the end"));
    past.chunks.addresses = vec![(1 << 20) - 8, (1 << 20) - 12].into();
    data.layout = Layout::Chunked(past);
    assert_eq!(one(data, ZarrFormat::V2).0.chunks.len(), 2, "chunks may overlap");
}

/// xarray 2026.9 masks by a `_FillValue` of infinity as it does by a `missing_value`, which JSON cannot say.
#[test]
fn infinite_missing_values_become_the_fill_value() {
    let with = |values: &[f64]| {
        let mut data = dataset(float32(ByteOrder::Little), &[4]);
        let elements = values.iter().map(|value| Element::Float(*value)).collect();
        data.attributes.push(attribute("missing_value", float32(ByteOrder::Little), elements));
        data
    };
    let (array, mapped) = one(with(&[5.0, f64::INFINITY, f64::NAN]), ZarrFormat::V2);
    assert_eq!(array.attributes["missing_value"], 5.0);
    assert_eq!(array.fill_value, Some(FillValue::Fixed(Bytes::from_static(&[0, 0, 0x80, 0x7f]))));
    assert!(codes(&mapped).contains(&"missing-value-as-fill-value"));
    let (array, mapped) = one(with(&[f64::INFINITY, f64::NEG_INFINITY]), ZarrFormat::V3);
    assert_eq!(array.attributes["_FillValue"], "AAAAAAAA8H8=");
    assert!(!array.attributes.contains_key("missing_value"));
    assert!(codes(&mapped).contains(&"missing-value-dropped"));
    let (array, _) = one(with(&[f64::NAN]), ZarrFormat::V3);
    assert_eq!(array.attributes["missing_value"], "NaN");
}
