//! Lengths, axes and types of codecs, and client data of HDF5 filters.

use serde_json::json;

use super::*;
use crate::{Endian, OutOfRange, Rounding, ScalarMap};

fn transpose(order: &[usize]) -> Codec {
    Codec::Transpose { order: order.to_vec() }
}

fn delta(axis: isize, dtype: &str, shape: &[u64]) -> Codec {
    Codec::Delta { axis, dtype: dtype.into(), shape: shape.to_vec() }
}

#[test]
fn leading_axes_move_the_others() {
    let with = |codec: &Codec, count| codec.with_leading_axes(count);
    // A reversal stays one, which Zarr v2 expresses.
    assert_eq!(with(&transpose(&[1, 0]), 2), Some(transpose(&[3, 2, 1, 0])));
    assert_eq!(with(&transpose(&[1, 2, 0]), 1), Some(transpose(&[0, 2, 3, 1])));
    assert_eq!(with(&delta(-2, "<i2", &[4, 3]), 2), Some(delta(-2, "<i2", &[1, 1, 4, 3])));
    assert_eq!(with(&delta(0, "<i2", &[4, 3]), 1), Some(delta(1, "<i2", &[1, 4, 3])));
    assert_eq!(with(&Codec::Lzw, 3), Some(Codec::Lzw));
    let foreign = |kind| Codec::Foreign { entry: json!({"id": "unknown"}), format: ZarrFormat::V2, kind };
    let [filter, compressor] = [foreign(CodecKind::ArrayToArray), foreign(CodecKind::BytesToBytes)];
    assert_eq!((with(&filter, 0), with(&filter, 1)), (Some(filter), None));
    assert_eq!(with(&compressor, 1), Some(compressor));
}

/// Rows of packed integers end with whole bytes; Fletcher-32 appends 4 bytes.
#[test]
fn lengths_that_do_not_depend_on_content_are_known() {
    let packed = |bits_per_sample, run_length, dtype: &str| Codec::PackBitsOfIntegers {
        bits_per_sample,
        run_length,
        dtype: dtype.into(),
    };
    let twelve = packed(12, 3, "<u2");
    assert_eq!(twelve.encoded_length(12), Some(10));
    assert_eq!(twelve.encoded_length(14), Some(12));
    assert_eq!(twelve.own().unwrap().encoded_length(12), Some(10));
    assert_eq!(packed(1, 10, "|u1").encoded_length(20), Some(4));
    assert_eq!(packed(1, 0, "|u1").encoded_length(20), None);
    assert_eq!(Codec::Shuffle { element_size: 2 }.encoded_length(10), Some(10));
    assert_eq!(Codec::Fletcher32.encoded_length(10), Some(14));
    assert_eq!(Codec::Zlib { level: 6 }.encoded_length(10), None);
}

#[test]
fn prefixes_and_parameters_of_encoders() {
    assert!(Codec::BitOrder.decodes_prefixes() && Codec::Bytes { endian: None }.decodes_prefixes());
    assert!(
        !Codec::Zlib { level: 6 }.decodes_prefixes()
            && !Codec::Shuffle { element_size: 2 }.decodes_prefixes()
    );
    assert!(
        Codec::Zlib { level: 6 }.is_self_describing()
            && !Codec::Shuffle { element_size: 2 }.is_self_describing()
    );
}

/// What Zarr v2 states in a codec, and v3 in the array.
#[test]
fn chains_are_completed_by_type_and_shape() {
    let completed = |mut chain: Vec<Codec>, data_type: DataType| {
        Codec::complete(&mut chain, &data_type, &[2, 3]);
        chain.into_iter().find(|codec| matches!(codec, Codec::Delta { .. })).unwrap()
    };
    let bytes = || Codec::Bytes { endian: Some(Endian::Big) };
    let found = completed(vec![transpose(&[1, 0]), delta(-1, "", &[]), bytes()], DataType::Int16);
    assert_eq!(found, delta(-1, ">i2", &[3, 2]));
    let cast = Codec::CastValue {
        data_type: DataType::UInt8,
        rounding: Rounding::NearestEven,
        out_of_range: None::<OutOfRange>,
        scalar_map: ScalarMap::default(),
    };
    assert_eq!(completed(vec![cast, delta(-1, "", &[])], DataType::Float64), delta(-1, "|u1", &[2, 3]));
    for (part, dtype) in [("<i2", "<u4"), ("<i4", "<u8")] {
        let complex = Codec::ComplexIntegers { dtype: part };
        assert_eq!(
            completed(vec![complex, delta(-1, "", &[])], DataType::Complex64),
            delta(-1, dtype, &[2, 3])
        );
    }
}

/// H5Z-SPERR: axes in bits 0 to 3 of the first word, single precision in bit 4, version in bits 10 to 15; bit 31 of the second tells that
/// axes are swapped.
#[test]
fn sperr_is_described_by_client_data() {
    let of =
        |description: u32, mode: u32, sizes: &[u32]| Codec::sperr(&[&[description, mode], sizes].concat());
    let sperr =
        |dtype, shape: &[u64], has_mode| Some(Codec::Sperr { dtype, shape: shape.to_vec(), has_mode });
    assert_eq!(of(2, 0, &[30, 20]), sperr("<f8", &[20, 30], false));
    assert_eq!(of(2 | 16, 1 << 31, &[30, 20]), sperr("<f4", &[30, 20], false));
    assert_eq!(of(3 | 1 << 10, 7, &[3, 10, 20]), sperr("<f8", &[20, 10, 3], true));
    for (description, sizes) in [
        (1, vec![30]),
        (4, vec![1; 4]),
        (6, vec![30, 20]),
        (2, vec![30]),
        (3, vec![30, 20]),
        (2 | 2 << 10, vec![30, 20]),
    ] {
        assert_eq!(of(description, 0, &sizes), None, "{description:#x} {sizes:?}");
    }
    assert_eq!(Codec::sperr(&[2]), None);
}

/// `SZ_FLOAT` and `SZ_DOUBLE` are 0 and 1, in SZ and in SZ3, where integers of 1 to 8 bytes follow, unsigned ones first.
#[test]
fn types_of_sz_have_codes() {
    assert_eq!(Codec::sz(1, vec![3]), Some(Codec::Sz { dtype: "<f8", shape: vec![3] }));
    assert_eq!(Codec::sz(2, vec![3]), None);
    assert_eq!(Codec::sz3(5), Some(Codec::Sz3 { dtype: "<i2" }));
    assert_eq!(Codec::sz3(10), None);
}

#[test]
fn names_of_the_package_are_those_that_it_registers() {
    let names = Codec::own_names();
    for codec in Codec::examples().into_iter().filter_map(|codec| codec.own()) {
        let entry = codec.to_v2().unwrap();
        assert!(names.contains(&entry["id"].as_str().unwrap()), "{entry}");
    }
    assert!(names.iter().all(|name| name.starts_with("virtualize.")));
}

#[test]
fn entries_that_make_no_sense_stay_as_they_are() {
    let parsed = |entry: Value, data_type: DataType| {
        let entries = json!([{"name": "bytes", "configuration": {"endian": "little"}}, entry]);
        from_v3(&entries, &data_type).unwrap().pop().unwrap()
    };
    let blosc = |typesize: u32| {
        let configuration =
            json!({"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": typesize, "blocksize": 0});
        parsed(json!({"name": "blosc", "configuration": configuration}), DataType::Int16)
    };
    assert!(
        matches!(blosc(2), Codec::Blosc { typesize: 2, .. }) && matches!(blosc(0), Codec::Foreign { .. })
    );
    let zstd = |name: &str| {
        parsed(json!({"name": name, "configuration": {"level": 1, "checksum": false}}), DataType::Int16)
    };
    assert_eq!(zstd("zstd"), Codec::Zstd { level: 1, checksum: false });
    assert_eq!(zstd("numcodecs.zstd"), zstd("zstd"));
    assert!(matches!(zstd("numcodecs.zlib"), Codec::Foreign { .. }));
    let optional = |codecs| Codec::Optional { size: 24, codecs }.own().unwrap();
    let inner = optional(vec![Codec::Zlib { level: 6 }]);
    assert_eq!(Codec::from_own(&inner.to_v3().unwrap(), ZarrFormat::V3), Some(inner.clone()));
    assert_eq!(Codec::Optional { size: 24, codecs: vec![inner] }.own(), None);
    let log = |endian| Codec::Tiff(TiffScheme::SgiLog16 { width: 4, endian }).own().unwrap();
    for endian in [Endian::Big, Endian::Little] {
        assert_eq!(Codec::from_own(&log(endian).to_v3().unwrap(), ZarrFormat::V3), Some(log(endian)));
    }
    assert_eq!(log(Endian::Big).to_v3().unwrap()["configuration"]["byte_order"], "big");
    let unit = |dist: u8| {
        let entry = json!({"name": "imagecodecs_delta", "configuration": {"axis": -1, "dist": dist}});
        from_v3(&json!([entry, "bytes"]), &DataType::UInt8).unwrap().remove(0)
    };
    assert!(matches!(unit(2), Codec::Foreign { .. }));
    let rows = delta(0, "<i2", &[4, 3]).own().unwrap().to_v3().unwrap();
    assert_eq!(rows["configuration"], json!({"dtype": "<i2", "length": 4, "stride": 3}));
}

/// Fax codecs of Zarr v3 take the size from the chunk, as that of ZFP does with the type.
#[test]
fn images_of_zarr_v3_have_no_size_of_their_own() {
    let written = |name, member: &str| {
        let configuration = Map::from_iter([(member.to_owned(), 4.into())]);
        Codec::Image { name, configuration }
            .to_v3()
            .unwrap()
            .get("configuration")
            .cloned()
            .unwrap_or(json!({}))
    };
    for member in ["height", "width"] {
        assert_eq!(written("imagecodecs_ccittfax4", member), json!({}));
        assert_eq!(written("imagecodecs_jpeg", member), json!({ member: 4 }));
    }
    for member in ["shape", "dtype", "strides"] {
        assert_eq!(written("imagecodecs_zfp", member), json!({}));
    }
}

/// Zarr v2 writes -1 for the usual shuffle of Blosc: of bits for elements of one byte, of bytes for all others.
#[test]
fn the_usual_shuffle_of_blosc_depends_on_the_type() {
    for (dtype, data_type, expected) in [("|u1", DataType::UInt8, 2), ("<i2", DataType::Int16, 1)] {
        let compressor = json!({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": -1, "blocksize": 0});
        let zarray = json!({"dtype": dtype, "filters": null, "compressor": compressor});
        let found = from_v2(&zarray, &data_type, Endian::Little, 1).unwrap().pop().unwrap();
        assert!(matches!(found, Codec::Blosc { shuffle, .. } if shuffle == expected), "{found:?}");
    }
}

#[test]
fn members_of_own_codecs_are_those_of_the_model() {
    let jpeg = Codec::examples().into_iter().find_map(|codec| match codec {
        Codec::Tiff(TiffScheme::OldJpeg(_)) => codec.own(),
        _ => None,
    });
    let written = jpeg.unwrap().to_v3().unwrap()["configuration"].clone();
    assert_eq!((&written["subsampling"], &written["stream"]), (&json!([2, 2]), &json!([0, 90])));
    assert_eq!(written["coefficients"].as_array().unwrap().len(), 3);
    assert!(written["coefficients"][1] != written["coefficients"][0]);
    let reversed = [Codec::Bytes { endian: Some(Endian::Little) }, Codec::BitOrder];
    assert!(to_v3(&reversed, &DataType::Int16).is_ok() && to_v3(&reversed, &DataType::Float32).is_err());
}
