//! The whole table, encoded and parsed in both formats.

use serde_json::Value;

use super::*;
use crate::Array;

/// Formats in which an array with the codec can be written.
#[derive(Debug, PartialEq)]
enum Written {
    InBoth,
    InV2,
    InV3,
    /// Chunks encoded with it are re-encoded.
    Nowhere,
}

fn expected(codec: &Codec) -> Written {
    match codec {
        Codec::Own(_) => Written::InBoth,
        Codec::Blosc2 | Codec::ComplexIntegers { .. } | Codec::Foreign { format: ZarrFormat::V2, .. } => {
            Written::InV2
        }
        Codec::ScaleOffset { .. } | Codec::CastValue { .. } | Codec::Foreign { .. } => Written::InV3,
        internal if internal.is_internal() => Written::Nowhere,
        _ => Written::InBoth,
    }
}

/// Returns the chain without parameters and codecs that only one of the formats encodes.
fn comparable(codecs: &[Codec]) -> Vec<Codec> {
    let replaces = codecs.iter().any(|codec| codec.replaces_bytes());
    let is_kept = |codec: &&Codec| !(replaces && matches!(codec, Codec::Bytes { .. }));
    let mut chain: Vec<Codec> = codecs.iter().filter(is_kept).cloned().collect();
    for codec in &mut chain {
        codec.complete_by(Some(""), &[]);
    }
    chain
}

#[test]
fn every_codec_that_is_written_is_parsed() {
    for codec in Codec::examples() {
        let array = codec.example_array();
        let in_v2 = array.to_zarray().ok();
        let in_v2 = in_v2.map(|zarray| Array::from_zarray(&zarray, &Value::Null).unwrap().array);
        let in_v3 = array.to_zarr_json("a").ok();
        let in_v3 = in_v3.map(|document| Array::from_zarr_json(&document).unwrap().array);
        for parsed in in_v2.iter().chain(&in_v3) {
            assert_eq!(comparable(&parsed.codecs), comparable(&array.codecs), "{codec:?}");
            assert_eq!(parsed.data_type, array.data_type, "{codec:?}");
        }
        let found = match (in_v2, in_v3) {
            (Some(_), Some(_)) => Written::InBoth,
            (Some(_), None) => Written::InV2,
            (None, Some(_)) => Written::InV3,
            (None, None) => Written::Nowhere,
        };
        assert_eq!(found, expected(&codec), "{codec:?}");
    }
}

#[test]
fn every_codec_has_an_example_of_each_name() {
    let examples = Codec::examples();
    assert!(examples.iter().all(|codec| !codec.describe().is_empty()));
    // serde lists the names of an enum in the error of an unknown one.
    let error = serde_json::from_value::<Codec>("unknown".into()).unwrap_err().to_string();
    let names: Vec<_> = error.split('`').skip(3).step_by(2).map(str::to_owned).collect();
    assert!(names.len() > 30 && names.iter().all(|name| !name.contains(' ')), "{error}");
    for name in names.iter().map(String::as_str).chain(entry::IMAGES).chain(entry::PACKAGE) {
        // The released name is that of the example.
        let is_omitted = name == "virtualize.jpegls";
        assert!(is_omitted || examples.iter().any(|codec| codec.name() == Some(name)), "{name}");
    }
    let package = names.iter().filter(|name| name.starts_with("virtualize.")).count();
    assert_eq!(package, entry::PACKAGE.len());
    let mut released = std::collections::BTreeMap::new();
    for codec in &examples {
        if let Some(name) = codec.properties().name {
            let variant = std::mem::discriminant(codec);
            // `astype` depends on the data type of the array.
            assert!(*released.entry(name).or_insert(variant) == variant || name == "astype", "{name}");
        }
    }
}

#[test]
fn images_that_are_not_in_the_list_are_not_written() {
    for name in ["imagecodecs_sz3", "imagecodecs_sperr", "imagecodecs_lzo"] {
        let codec = Codec::Image { name, configuration: Map::new() };
        assert!(codec.to_v2().is_err() && codec.to_v3().is_err(), "{codec:?}");
    }
}

/// Parameters that the model cannot hold must survive, so the entry is kept as it is.
#[test]
fn entries_with_unknown_parameters_stay_as_they_are() {
    let zarray = Codec::Zlib { level: 1 }.example_array().to_zarray().unwrap();
    for entry in [
        serde_json::json!({"id": "zlib", "level": 1, "dictionary": "x"}),
        serde_json::json!({"id": "imagecodecs_lzf"}),
        serde_json::json!({"id": "imagecodecs_sz3", "mode": "abs"}),
        serde_json::json!({"id": "blosc", "cname": "lz5", "clevel": 1, "shuffle": 1, "blocksize": 0}),
    ] {
        let mut zarray = zarray.clone();
        zarray["compressor"] = entry.clone();
        let codecs = Array::from_zarray(&zarray, &Value::Null).unwrap().array.codecs;
        let kind = CodecKind::BytesToBytes;
        assert_eq!(codecs[1], Codec::Foreign { entry, format: ZarrFormat::V2, kind });
    }
}

/// A codec that no released client knows has a name of its own, unless it is not decoded here.
#[test]
fn every_codec_without_a_released_name_has_an_own_one() {
    let mut names = std::collections::BTreeSet::new();
    for codec in Codec::examples() {
        if codec.is_internal() {
            let own = codec.own().unwrap();
            assert_eq!(own.to_v2().unwrap()["id"], own.to_v3().unwrap()["name"]);
            assert!(own.to_v2().unwrap()["id"].as_str().unwrap().starts_with("virtualize."));
            assert!(!own.is_internal() && own.own().is_none());
        }
        if let Codec::Own(inner) = &codec {
            assert!(names.insert((codec.name(), codec.to_v3().unwrap().to_string())));
            assert_eq!(inner.own().as_ref(), Some(&codec), "what the name cannot express is gone already");
            for format in [ZarrFormat::V2, ZarrFormat::V3] {
                let entry = match format {
                    ZarrFormat::V2 => codec.to_v2().unwrap(),
                    ZarrFormat::V3 => codec.to_v3().unwrap(),
                };
                assert_eq!(Codec::from_own(&entry, format).as_ref(), Some(&codec));
            }
        }
    }
    assert!(names.len() > 16);
}

#[test]
fn own_codecs_follow_bytes() {
    let predictor = Codec::FloatPredictor { axis: 1, dtype: "<f4".into(), shape: vec![1, 20, 30] };
    let chain = vec![
        Codec::Transpose { order: vec![1, 0, 2] },
        predictor,
        Codec::Bytes { endian: Some(Endian::Little) },
        Codec::Zlib { level: 6 },
        Codec::BitOrder,
    ];
    let own: Vec<_> = Codec::own_chain(chain).iter().map(|codec| codec.to_v3().unwrap()).collect();
    assert_eq!(own[1]["name"], "bytes");
    let expected = serde_json::json!({"dtype": "<f4", "length": 20, "stride": 30});
    assert_eq!(own[2], serde_json::json!({"name": "virtualize.floatpred", "configuration": expected}));
    assert_eq!((&own[3]["name"], &own[4]["name"]), (&"numcodecs.zlib".into(), &"virtualize.bitorder".into()));
}

/// `numcodecs.astype` does not work in Zarr v3.
#[test]
fn codecs_that_readers_decode_in_both_formats_keep_their_names() {
    let kept = vec![
        Codec::Bytes { endian: Some(Endian::Little) },
        Codec::Shuffle { element_size: 4 },
        Codec::Zlib { level: 6 },
    ];
    assert_eq!(Codec::own_chain(kept.clone()), kept);
    let astype = Codec::ComplexIntegers { dtype: "<i2" };
    assert_eq!(Codec::own_chain(vec![astype.clone()]), [astype.own().unwrap()]);
}
